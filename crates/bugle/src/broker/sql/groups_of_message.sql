-- What the message at $2 of partition $1 is to each group.
SELECT group_name, is_done, until, tries, error FROM bugle.groups_of_message($1, $2);
