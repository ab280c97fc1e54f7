-- Maintenance: switches for the whole installation that every server of messages obeys. While one is on, pushes or pops are refused for a while.
ALTER TABLE bugle.meta
  ADD COLUMN push_maintenance boolean NOT NULL DEFAULT false,
  ADD COLUMN pop_maintenance boolean NOT NULL DEFAULT false;

-- Sets the switches; NULL leaves one as it is. Every node is told.
CREATE FUNCTION bugle.set_maintenance(p_push boolean, p_pop boolean, OUT push boolean, OUT pop boolean) LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bugle.meta
  SET push_maintenance = coalesce(p_push, push_maintenance), pop_maintenance = coalesce(p_pop, pop_maintenance)
  RETURNING push_maintenance, pop_maintenance INTO push, pop;
  PERFORM bugle.ring_control();
END $$;
