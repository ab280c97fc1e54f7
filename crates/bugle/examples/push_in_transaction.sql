-- An order and the message about it, both or neither: bugle.push writes into the transaction that it is called in.
BEGIN;
INSERT INTO shop_order (id, customer, total) VALUES (42, 7, 1999);
SELECT bugle.push('orders', 'customer-7', '{"order": 42, "total": 1999}', key => 'order-42');
COMMIT;

-- From a trigger it works as well: every order that comes into the table is told, whoever writes it.
CREATE FUNCTION tell_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM bugle.push('orders', 'customer-' || NEW.customer, jsonb_build_object('order', NEW.id, 'total', NEW.total), key => 'order-' || NEW.id);
  RETURN NULL;
END $$;
CREATE TRIGGER tell_order AFTER INSERT ON shop_order FOR EACH ROW EXECUTE FUNCTION tell_order();
INSERT INTO shop_order (id, customer, total) VALUES (43, 7, 500);
