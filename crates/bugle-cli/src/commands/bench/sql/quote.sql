-- The name $1, fit to be put into SQL.
SELECT quote_ident($1);
