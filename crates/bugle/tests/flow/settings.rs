//! How workflows are run, as it is set and as it is read.
use crate::fixture::Place;
use bugle::flow::inspect::{SettingRow, SettingValues};
use bugle::flow::{For, Settings};
use bugle::name::NamespaceName;
use bugle_wake::Mode;
use std::time::Duration;

/// What `bugle.flow_effective` has, by which nodes go: name, slots, milliseconds, mode, microseconds, paused.
type Effective = (String, Option<i32>, Option<i32>, Option<i64>, String, Option<i64>, bool);

async fn in_force(place: &Place) -> Vec<Effective> {
    let sql = "SELECT name, slots_least, slots_most, (extract(epoch FROM stale_after) * 1000)::bigint, mode,
            (extract(epoch FROM poll_interval) * 1000000)::bigint, paused
        FROM bugle.flow_effective ORDER BY name COLLATE \"C\"";
    sqlx::query_as(place.db.sql(sql).unwrap()).fetch_all(place.db.pool()).await.unwrap()
}

fn as_in_force(row: &SettingRow) -> Effective {
    let SettingValues { slots_least, slots_most, stale_after, mode, poll_interval, paused, .. } =
        row.effective.clone();
    let number = |n: u32| i32::try_from(n).unwrap();
    (
        row.namespace.clone().unwrap(),
        slots_least.map(number),
        slots_most.map(number),
        stale_after.map(|time| i64::try_from(time.as_millis()).unwrap()),
        mode.unwrap().to_string(),
        poll_interval.map(|time| i64::try_from(time.as_micros()).unwrap()),
        paused.unwrap(),
    )
}

#[tokio::test]
async fn settings_are_read_as_nodes_go_by_them() {
    let place = Place::new().await;
    let (one, two) = (place.space("one", &["a"]).await, place.space("two", &["a"]).await);
    let all = place.bugle.flow();
    let set = |slots_most, stale_after| Settings { slots_most, stale_after, ..Settings::default() };
    all.set(&set(Some(Some(9)), Some(Some(Duration::from_secs(7)))), For::All).await.unwrap();
    all.set_mode(Some(Mode::PollingOnly), Some(Duration::from_millis(300)), For::All).await.unwrap();
    all.pause_steps(For::All).await.unwrap();
    two.flow().set(&set(Some(Some(3)), None), For::Namespace).await.unwrap();
    two.flow().set_mode(Some(Mode::Hybrid), None, For::Namespace).await.unwrap();
    two.flow().resume_steps(For::Namespace).await.unwrap();

    let rows = all.list_settings().await.unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.namespace.as_deref()).collect();
    assert_eq!(names, [None, Some("one"), Some("two")], "one without workflows and settings is not there");
    let effective: Vec<_> = rows[1..].iter().map(as_in_force).collect();
    assert_eq!(effective, in_force(&place).await);
    assert_eq!(rows[1].own, SettingValues::default());
    assert_eq!((rows[1].effective.mode, rows[1].effective.slots_most), (Some(Mode::PollingOnly), Some(9)));
    assert_eq!(rows[2].effective.poll_interval, None, "it goes with the mode");
    assert_eq!((rows[2].own.paused, rows[2].own.stale_after), (Some(false), None));
    assert_eq!(one.flow().show_settings(For::Namespace).await.unwrap(), rows[1]);
    assert_eq!(one.flow().show_settings(For::All).await.unwrap(), rows[0]);

    two.flow().set_mode(None, None, For::Namespace).await.unwrap();
    two.flow().inherit_pause().await.unwrap();
    two.flow().set(&set(Some(None), None), For::Namespace).await.unwrap();
    let two = two.flow().show_settings(For::Namespace).await.unwrap();
    assert_eq!((&two.own, &two.effective), (&SettingValues::default(), &rows[1].effective));
}

#[tokio::test]
async fn a_namespace_may_be_set_before_it_has_workflows() {
    let place = Place::new().await;
    let name = NamespaceName::parse("early").unwrap();
    place.bugle.create_namespace(&name).await.unwrap();
    let flow = place.bugle.in_namespace(&name).await.unwrap().flow();
    let before = flow.show_settings(For::Namespace).await.unwrap();
    assert_eq!(before.own, SettingValues::default());
    assert_eq!((before.effective.mode, before.effective.paused), (Some(Mode::Hybrid), Some(false)));
    flow.set_mode(Some(Mode::Shadow), None, For::Namespace).await.unwrap();
    flow.pause_steps(For::Namespace).await.unwrap();
    place.space("early", &["a"]).await;
    assert_eq!(as_in_force(&flow.show_settings(For::Namespace).await.unwrap()), in_force(&place).await[0]);
    let queue = place.bugle.in_namespace(&name).await.unwrap().find_queue("steps").await.unwrap().unwrap();
    assert_eq!((queue.mode.as_str(), queue.paused), ("shadow", true), "it came into being as was said");
}
