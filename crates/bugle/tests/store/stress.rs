//! Everything at once: producers whose transactions stay open, roll back, use savepoints or old snapshots; claimers that ack whole, in
//! part, shuffled or late, fail, release, die, abort the claim; somebody who cancels. Then the books must balance.
use crate::fixture::{Fixture, raw};
use bugle::jobs::{Failure, Look, Queue};
use bugle::{Bugle, Error, JobId, Priority};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use sqlx::{Connection as _, PgConnection, Row as _};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Claimers that die leave a lease of this length.
const LEASE: Duration = Duration::from_millis(400);
const CLAIM_SIZES: [u32; 5] = [1, 5, 7, 20, 100];

#[derive(Default)]
struct Seen {
    committed: HashSet<JobId>,
    rolled_back: HashSet<JobId>,
    cancelled: HashSet<JobId>,
    /// How often each row was handed out.
    handed_out: HashMap<(JobId, i64), usize>,
}

type Shared = Arc<Mutex<Seen>>;

fn seconds() -> u64 {
    std::env::var("BUGLE_STRESS_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(5)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_is_handed_out_twice() {
    let f = Fixture::new().await;
    let seed =
        std::env::var("BUGLE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(rand::random::<u64>);
    eprintln!("BUGLE_SEED={seed}");
    let book = Shared::default();
    let (stop, drained) = (CancellationToken::new(), CancellationToken::new());
    let mut producers = JoinSet::new();
    for i in 0..5 {
        let session = f.session().await;
        producers.spawn(produce(
            f.bugle.clone(),
            session,
            StdRng::seed_from_u64(seed + i),
            book.clone(),
            stop.clone(),
        ));
    }
    let table = f.db.sql("CREATE TABLE bugle.unrelated (a int)").unwrap();
    sqlx::raw_sql(table).execute(f.db.pool()).await.unwrap();
    let insert = f.db.sql("INSERT INTO bugle.unrelated VALUES (1)").unwrap().0;
    producers.spawn(write_elsewhere(
        f.session().await,
        insert,
        StdRng::seed_from_u64(seed + 50),
        stop.clone(),
    ));
    let pick = f.db.sql("SELECT id FROM bugle.job ORDER BY random() LIMIT 1").unwrap().0;
    producers.spawn(cancel(f.bugle.clone(), f.session().await, pick, book.clone(), stop.clone()));
    let mut claimers = JoinSet::new();
    for i in 0..4 {
        let session = f.session().await;
        let abort =
            f.db.sql("SELECT bugle.look('{1}', '{1}', '{w}', '{20}', '{1 minute}', '{f}', '{-infinity}', '{-infinity}')").unwrap().0;
        let rng = StdRng::seed_from_u64(seed + 100 + i);
        claimers.spawn(consume(f.queue.clone(), session, abort, rng, book.clone(), drained.clone()));
    }

    tokio::time::sleep(Duration::from_secs(seconds())).await;
    stop.cancel();
    producers.join_all().await;
    drained.cancel();
    claimers.join_all().await;
    let book = std::mem::take(&mut *book.lock().unwrap());
    judge(&f, &book).await;
}

async fn judge(f: &Fixture, seen: &Seen) {
    let sql = f.db.sql("SELECT id, state FROM bugle.job_view").unwrap();
    let rows = sqlx::query(sql).fetch_all(f.db.pool()).await.unwrap();
    let mut ends: HashMap<JobId, Vec<String>> = HashMap::new();
    for row in rows {
        ends.entry(JobId(row.get("id"))).or_default().push(row.get("state"));
    }
    let hand_outs: usize = seen.handed_out.values().sum();
    eprintln!(
        "{} committed, {} rolled back, {} cancelled, {hand_outs} hand-outs",
        seen.committed.len(),
        seen.rolled_back.len(),
        seen.cancelled.len()
    );
    let lost: Vec<_> = seen.committed.iter().filter(|id| !ends.contains_key(id)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let ghosts: Vec<_> = ends.keys().filter(|id| !seen.committed.contains(id)).collect();
    assert!(ghosts.is_empty(), "of rolled back transactions: {ghosts:?}");
    let odd: Vec<_> =
        ends.iter().filter(|(_, states)| states[..] != ["done"] && states[..] != ["cancelled"]).collect();
    assert!(odd.is_empty(), "not ended exactly once: {odd:?}");
    let twice: Vec<_> = seen.handed_out.iter().filter(|(_, n)| **n > 1).collect();
    assert!(twice.is_empty(), "rows handed out twice: {twice:?}");
    for id in &seen.cancelled {
        assert_eq!(ends[id], ["cancelled"]);
    }
    let claimed: i64 = f.one("SELECT sum(claimed)::bigint FROM bugle.newest_cursor").await;
    // A row cancelled between its claim and the look at its body was claimed but never seen.
    assert!(usize::try_from(claimed).unwrap() - hand_outs <= seen.cancelled.len());
    assert_eq!(f.one::<i64>("SELECT count(*) FROM bugle.lease WHERE until > clock_timestamp()").await, 0);
    assert_eq!(
        f.counts().await,
        format!("done {}, cancelled {}", seen.committed.len() - seen.cancelled.len(), seen.cancelled.len())
    );
    assert!(
        seen.committed.len() > 500 && seen.rolled_back.len() > 50,
        "too little happened to prove anything"
    );
}

async fn produce(
    bugle: Bugle,
    mut session: PgConnection,
    mut rng: StdRng,
    seen: Shared,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let begin = if rng.random_bool(0.8) { "BEGIN" } else { "BEGIN ISOLATION LEVEL REPEATABLE READ" };
        let mut tx = session.begin_with(begin).await.unwrap();
        let (mut kept, mut undone) = (Vec::new(), Vec::new());
        for _ in 0..rng.random_range(1..=4) {
            let n = [1, 2, 30][rng.random_range(0..3)];
            kept.extend(enqueue(&bugle, &mut tx, n, &mut rng).await);
            if rng.random_bool(0.2) {
                tokio::time::sleep(Duration::from_millis(rng.random_range(0..20))).await;
            }
            if rng.random_bool(0.2) {
                let mut savepoint = tx.begin().await.unwrap();
                let ids = enqueue(&bugle, &mut savepoint, 1, &mut rng).await;
                if rng.random_bool(0.5) {
                    savepoint.rollback().await.unwrap();
                    undone.extend(ids);
                } else {
                    savepoint.commit().await.unwrap();
                    kept.extend(ids);
                }
            }
        }
        if rng.random_bool(0.02) {
            tokio::time::sleep(Duration::from_millis(rng.random_range(500..2000))).await;
        }
        let commits = rng.random_bool(0.9);
        // Noted before the commit: a claimer may be quicker than this task.
        {
            let mut seen = seen.lock().unwrap();
            seen.rolled_back.extend(undone);
            if commits { seen.committed.extend(kept) } else { seen.rolled_back.extend(kept) }
        }
        if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }
}

async fn enqueue(bugle: &Bugle, on: &mut PgConnection, n: usize, rng: &mut StdRng) -> Vec<JobId> {
    let priority =
        [Priority::Urgent, Priority::High, Priority::Normal, Priority::Low][rng.random_range(0..4)];
    let jobs = bugle.enqueue_many_raw("q", "k", vec![raw("1"); n]).priority(priority).max_attempts(1000);
    let jobs =
        if rng.random_bool(0.1) { jobs.delay(Duration::from_millis(rng.random_range(1..50))) } else { jobs };
    jobs.on(on).await.unwrap()
}

/// Transactions that have nothing to do with jobs, but are open when cursors pass.
async fn write_elsewhere(
    mut session: PgConnection,
    insert: String,
    mut rng: StdRng,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let mut tx = session.begin().await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(insert.as_str())).execute(&mut *tx).await.unwrap();
        tokio::time::sleep(Duration::from_millis(rng.random_range(100..1500))).await;
        tx.rollback().await.unwrap();
    }
}

async fn cancel(
    bugle: Bugle,
    mut session: PgConnection,
    pick: String,
    seen: Shared,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let id: Option<i64> = sqlx::query_scalar(sqlx::AssertSqlSafe(pick.as_str()))
            .fetch_optional(&mut session)
            .await
            .unwrap();
        if let Some(id) = id.map(JobId) {
            match bugle.cancel_job(id).await {
                Ok(None) => {}
                Ok(Some(_)) => drop(seen.lock().unwrap().cancelled.insert(id)),
                // Somebody was settling it all the time.
                Err(Error::Refused { code, .. }) if code == "55P03" => {}
                Err(error) => panic!("{error}"),
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn consume(
    queue: Queue,
    mut session: PgConnection,
    abort: String,
    mut rng: StdRng,
    seen: Shared,
    drained: CancellationToken,
) {
    let mut empty_since: Option<Instant> = None;
    loop {
        if rng.random_bool(0.03) {
            let mut tx = session.begin().await.unwrap();
            sqlx::raw_sql(sqlx::AssertSqlSafe(abort.as_str())).execute(&mut *tx).await.unwrap();
            tx.rollback().await.unwrap();
        }
        let look = queue.claim("w", CLAIM_SIZES[rng.random_range(0..5)], LEASE).await.unwrap();
        if look.jobs.is_empty() {
            let since = *empty_since.get_or_insert_with(Instant::now);
            if drained.is_cancelled() && since.elapsed() > LEASE * 5 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        empty_since = None;
        for job in &look.jobs {
            *seen.lock().unwrap().handed_out.entry((job.id, job.receipt.row())).or_default() += 1;
        }
        settle(&queue, look, &mut rng, drained.is_cancelled()).await;
    }
}

/// One of the ways in which a worker ends a claim, or does not.
async fn settle(queue: &Queue, look: Look, rng: &mut StdRng, gently: bool) {
    let mut receipts: Vec<_> = look.jobs.iter().map(|j| j.receipt).collect();
    let way = if gently { 0 } else { rng.random_range(0..10) };
    match way {
        0..=3 => {
            if way == 3 {
                tokio::time::sleep(LEASE + LEASE / 2).await; // too late, or nearly
            }
            queue.ack(&receipts, &[look.token]).await.unwrap();
        }
        4..=5 => {
            receipts.shuffle(rng);
            let (some, rest) = receipts.split_at(receipts.len() / 2);
            queue.ack(some, &[]).await.unwrap();
            queue.ack(rest, &[look.token]).await.unwrap();
        }
        6 => {
            receipts.shuffle(rng);
            queue.ack(&receipts[..receipts.len() / 2], &[]).await.unwrap(); // then it dies
        }
        7 => {
            let retry_in = Some(Duration::from_millis(1));
            let failures: Vec<_> = receipts
                .iter()
                .map(|r| Failure { receipt: *r, code: "boom".into(), message: "boom".into(), retry_in })
                .collect();
            queue.fail(&failures, &[look.token]).await.unwrap();
        }
        8 => {
            queue.release(&receipts, &[look.token]).await.unwrap();
        }
        _ => {} // dies at once
    }
}
