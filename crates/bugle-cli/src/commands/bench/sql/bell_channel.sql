-- Where producers ring.
SELECT bugle.bell_channel();
