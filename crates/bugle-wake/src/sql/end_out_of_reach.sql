-- A session whose client is out of reach must end soon: until then it holds its bells, and every commit rings for it.
SET tcp_keepalives_idle = 15;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = 30000;
