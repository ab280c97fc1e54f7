-- Is there a ledger at all?
SELECT to_regclass('bugle.migration') IS NOT NULL;
