-- Has namespace $1 workflows?
SELECT EXISTS (SELECT FROM bugle.flow f JOIN bugle.namespace n ON n.id = f.namespace WHERE n.name = $1);
