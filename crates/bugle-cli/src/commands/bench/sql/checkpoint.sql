-- Whoever is measured next does not pay for writing out what came before. Refused to all but superusers and their like.
CHECKPOINT;
