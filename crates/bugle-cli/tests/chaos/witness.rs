//! What the wire does not tell: where a message stands in the log, and when a lease ends. A trigger in the test's own schema sees every claim.
use bugle_testkit::chaos::message_token;
use bugle_testkit::checker::messages::Books;
use bugle_testkit::history::{History, Item};
use bugle_testkit::postgres::TestDb;
use chrono::{DateTime, Utc};
use sqlx::Row as _;
use std::collections::HashMap;
use uuid::Uuid;

const WATCH: &str = "
CREATE TABLE bugle.witness (token uuid, part int, until timestamptz);
CREATE FUNCTION bugle.see_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO bugle.witness VALUES (NEW.token, NEW.part, NEW.until);
  RETURN NULL;
END $$;
CREATE TRIGGER see_claim AFTER INSERT ON bugle.group_cursor FOR EACH ROW WHEN (NEW.held) EXECUTE FUNCTION bugle.see_claim();";

const SEEN: &str = "
SELECT w.token, p.name, min(w.until) AS until FROM bugle.witness w JOIN bugle.partition p ON p.id = w.part GROUP BY w.token, p.name";

/// From here on every claim is seen.
pub(crate) async fn watch(db: &TestDb) {
    sqlx::raw_sql(db.sql(WATCH).unwrap()).execute(db.pool()).await.unwrap();
}

/// Adds to every message that was handed out or settled where it stands and when its lease ends.
pub(crate) async fn complete(db: &TestDb, history: History, books: &Books) -> History {
    let mut leases: HashMap<(i64, String), DateTime<Utc>> = HashMap::new();
    for row in sqlx::query(db.sql(SEEN).unwrap()).fetch_all(db.pool()).await.unwrap() {
        let token = message_token(row.get::<Uuid, _>("token"));
        leases.insert((token, row.get("name")), row.get("until"));
    }
    let places: HashMap<u64, i64> = books.log.values().flatten().map(|it| (it.mark, it.seq)).collect();
    let mut events = history.into_events();
    for item in events.iter_mut().flat_map(|event| &mut event.items) {
        complete_item(item, &leases, &places);
    }
    History::new(events)
}

fn complete_item(
    item: &mut Item,
    leases: &HashMap<(i64, String), DateTime<Utc>>,
    places: &HashMap<u64, i64>,
) {
    // What is pushed has no lease, and what its producer was not told is not put into its mouth.
    let (Some(token), Some(partition)) = (item.token, item.partition.as_deref()) else { return };
    item.seq = item.seq.or_else(|| places.get(&item.mark?).copied());
    item.lease_until = item.lease_until.or_else(|| leases.get(&(token, partition.to_owned())).copied());
}
