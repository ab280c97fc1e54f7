//! Bugle, broken on purpose: one safety taken out of the SQL of a test's own place, and the race that it is there for goes wrong. The product has no
//! switch for this: the functions are read back from the database, changed and replaced.
use crate::fixture::Place;
use crate::races;
use bugle::broker::Settlement::Acked;

impl Place {
    /// Replaces a piece of a function; fails when it is not there so often: then this tests nothing.
    pub(crate) async fn break_function(&self, function: &str, times: usize, find: &str, put: &str) {
        let schema = self.db.schema_name().unwrap();
        let definition =
            self.one::<String>(&format!("SELECT pg_get_functiondef('bugle.{function}'::regproc)")).await;
        let (find, put) = (schema.place_in(find), schema.place_in(put));
        assert_eq!(definition.matches(&find).count(), times, "in {function}: {find}");
        self.execute(&definition.replace(&find, &put)).await;
    }
}

#[tokio::test]
async fn a_release_that_is_news_only_when_it_sees_more_strands_a_message() {
    let place = Place::new().await;
    let only = "WHERE NOT w.held AND EXISTS (SELECT FROM bugle.message l WHERE l.part = w.part AND l.seq > c.hi) GROUP BY";
    place.break_function("settle_messages", 1, "WHERE NOT w.held GROUP BY", only).await;
    assert_eq!(races::push_during_release(&place).await, None);
}

#[tokio::test]
async fn news_read_without_the_transactions_that_were_open_is_missed() {
    let place = Place::new().await;
    place
        .break_function("look_messages", 1, "h.xid = ANY (ARRAY(SELECT pg_snapshot_xip(snapshot)))", "false")
        .await;
    assert_eq!(races::news_out_of_order(&place).await, None);
}

#[tokio::test]
async fn an_ack_that_does_not_show_its_token_ends_somebody_elses_claim() {
    let place = Place::new().await;
    place
        .break_function(
            "settle_messages",
            1,
            "i.token IS NOT NULL AND i.token IS DISTINCT FROM c.token",
            "false",
        )
        .await;
    let (settled, cursor) = races::late_ack(&place).await;
    assert_eq!(settled, [Acked]);
    assert!(cursor > 0);
}

#[tokio::test]
async fn a_tail_numbered_without_the_transactions_that_were_open_loses_one() {
    let place = Place::new().await;
    let open_then = "t.xid = ANY (ARRAY(SELECT pg_snapshot_xip(p_mark)))";
    place.break_function("tail_since", 1, open_then, "false").await;
    assert_eq!(races::user_stays_open(&place).await, [0, 2, 3, 4]);
}

#[tokio::test]
async fn a_tail_numbered_without_a_new_mark_comes_twice() {
    let place = Place::new().await;
    place
        .break_function("number_tail", 1, "INSERT INTO bugle.tail_mark (seen) VALUES (next_mark);", "")
        .await;
    let got = races::user_stays_open(&place).await;
    assert!(got.len() > 5, "{got:?}");
}
