-- The channel that this schema's producers ring on.
SELECT bugle.bell_channel();
