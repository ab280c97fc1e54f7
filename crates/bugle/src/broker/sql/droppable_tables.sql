-- The statements that drop the oldest table that nobody can see anything of. No row: there is none.
SELECT bugle.droppable_tables();
