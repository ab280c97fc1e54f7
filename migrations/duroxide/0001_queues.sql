-- The two kinds of work of a duroxide runtime, as the wake engine numbers them.
-- Every file of this folder is written for the schema `bugle`; another schema's name is put in its place when it is applied. The next file is
-- core/0008_wake.sql, the bell, word for word: it finds a table `queue` here, and `find_queue`, as it does in the core set.

CREATE TABLE bugle.queue (
  id int PRIMARY KEY,
  name text NOT NULL UNIQUE
);
INSERT INTO bugle.queue (id, name) VALUES (1, 'turns'), (2, 'work');

-- The number of a queue; NULL when there is none of that name. There is one namespace only.
CREATE FUNCTION bugle.find_queue(p_namespace text, p_queue text) RETURNS int LANGUAGE sql STABLE
RETURN (SELECT q.id FROM bugle.queue q WHERE q.name = p_queue AND p_namespace = 'default');
