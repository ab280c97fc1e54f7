-- The number of queue $2 of the namespace with number $1. No row: there is none that holds messages.
SELECT id FROM bugle.queue WHERE namespace = $1 AND name = $2::text AND holds = 'messages';
