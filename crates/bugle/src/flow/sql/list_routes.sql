-- The rules that choose worker sets, in their order.
SELECT r.pattern AS namespace, r.priority, r.queue FROM bugle.flow_route r ORDER BY r.place;
