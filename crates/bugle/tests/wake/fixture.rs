//! What most tests begin with: a place, sessions that produce, sleepers made of SQL, and an ear that proves silence.
use bugle::Bugle;
use bugle::jobs::{Claimed, Queue};
use bugle_testkit::postgres::TestDb;
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, Connection as _, FromRow, PgConnection, SqlSafeStr as _, SqlStr};
use std::time::Duration;

pub(crate) use bugle_testkit::{SOON, until};

pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// Both matter to a producer: one decides by what is true now, one has a snapshot from before.
pub(crate) const LEVELS: [&str; 2] = ["READ COMMITTED", "REPEATABLE READ"];

/// A schema of its own, a Bugle in it that runs no node, and a queue `q`.
pub(crate) struct Place {
    pub(crate) db: TestDb,
    pub(crate) bugle: Bugle,
    pub(crate) queue: Queue,
    pub(crate) number: i32,
    pub(crate) bucket: i32,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let db = TestDb::schema().await.unwrap();
        let bugle = db.bugle().await.unwrap();
        let queue = bugle.queue("q").await.unwrap();
        let mut place = Self { db, bugle, queue, number: 0, bucket: 0 };
        place.number = place.one("SELECT bugle.find_queue('default', 'q')").await;
        place.bucket = place.one(&format!("SELECT bugle.bucket_of({})", place.number)).await;
        place
    }

    pub(crate) fn sql(&self, sql: &str) -> AssertSqlSafe<String> {
        self.db.sql(sql).unwrap()
    }

    /// Another session.
    pub(crate) async fn session(&self) -> PgConnection {
        PgConnection::connect_with(self.db.connect_options()).await.unwrap()
    }

    /// A session whose transaction is open and has its snapshot.
    pub(crate) async fn transaction(&self, level: &str) -> PgConnection {
        let mut session = self.session().await;
        self.run(&mut session, &format!("BEGIN ISOLATION LEVEL {level}; SELECT 1")).await;
        session
    }

    /// Runs SQL written for the schema `bugle`.
    pub(crate) async fn run(&self, session: &mut PgConnection, sql: &str) {
        sqlx::raw_sql(self.sql(sql)).execute(session).await.unwrap();
    }

    pub(crate) async fn execute(&self, sql: &str) {
        sqlx::raw_sql(self.sql(sql)).execute(self.db.pool()).await.unwrap();
    }

    /// One value.
    pub(crate) async fn one<T>(&self, sql: &str) -> T
    where
        (T,): for<'r> FromRow<'r, sqlx::postgres::PgRow>,
        T: Send + Unpin,
    {
        sqlx::query_scalar(self.sql(sql)).fetch_one(self.db.pool()).await.unwrap()
    }

    /// Enqueues a job into `q` from a session that belongs to no node.
    pub(crate) async fn push(&self) -> i64 {
        self.push_to("q").await
    }

    pub(crate) async fn push_to(&self, queue: &str) -> i64 {
        self.one(&format!("SELECT bugle.enqueue('{queue}', 'k')")).await
    }

    /// Enqueues a job that nobody is told of.
    pub(crate) async fn push_silently(&self) -> i64 {
        let mut session = self.session().await;
        self.run(&mut session, "BEGIN; SET LOCAL bugle.ring = 'off'").await;
        let enqueue = self.sql("SELECT bugle.enqueue('q', 'k')");
        let id = sqlx::query_scalar(enqueue).fetch_one(&mut session).await.unwrap();
        self.run(&mut session, "COMMIT").await;
        id
    }

    pub(crate) async fn claim(&self) -> Claimed {
        self.queue.claim("w", 1, LEASE).await.unwrap().jobs.pop().unwrap()
    }

    /// Who holds what, as people see it: `sentinel` and `reserve`, sorted.
    pub(crate) async fn seats(&self) -> Vec<String> {
        let sql = self.sql("SELECT seat FROM bugle.seat WHERE bucket = $1 ORDER BY seat DESC");
        sqlx::query_scalar(sql).bind(self.bucket).fetch_all(self.db.pool()).await.unwrap()
    }

    pub(crate) async fn ear(&self) -> Ear {
        let channel: String = self.one("SELECT bugle.bell_channel()").await;
        let end = format!("end_{channel}");
        let mut listener = PgListener::connect_with(self.db.pool()).await.unwrap();
        listener.listen_all([channel.as_str(), end.as_str()]).await.unwrap();
        Ear { listener, talker: self.session().await, end, marks: 0 }
    }

    pub(crate) async fn sleeper(&self) -> Sleeper {
        let mut session = self.session().await;
        let pid = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut session).await.unwrap();
        Sleeper {
            session,
            pid,
            sit: self.sql("SELECT (bugle.sit($1, $2))[1]").into_sql_str(),
            leave: self.sql("SELECT bugle.leave($1, $2)").into_sql_str(),
            bucket: self.bucket,
        }
    }

    /// A session that the server makes wait for an advisory lock.
    pub(crate) async fn until_it_waits(&self, pid: i32) {
        until("the session waits", async || {
            self.one(&format!("SELECT count(*) > 0 FROM pg_locks WHERE pid = {pid} AND NOT granted")).await
        })
        .await;
    }
}

/// Hears every notification of a place.
pub(crate) struct Ear {
    listener: PgListener,
    talker: PgConnection,
    end: String,
    marks: u32,
}

impl Ear {
    /// Everything since the last call. Notifications come in the order of commits: whatever was committed before is heard before the mark
    /// that this sends itself, so silence is proven and not waited for.
    pub(crate) async fn heard(&mut self) -> Vec<String> {
        self.marks += 1;
        let mark = format!("mark {}", self.marks);
        sqlx::query("SELECT pg_notify($1, $2)")
            .bind(&self.end)
            .bind(&mark)
            .execute(&mut self.talker)
            .await
            .unwrap();
        let mut heard = Vec::new();
        loop {
            let call = tokio::time::timeout(SOON, self.listener.recv()).await.unwrap().unwrap();
            if call.channel() != self.end {
                heard.push(call.payload().to_owned());
            } else if call.payload() == mark {
                return heard;
            }
        }
    }
}

/// A sleeping node, made of nothing but the statements of its listener.
pub(crate) struct Sleeper {
    pub(crate) session: PgConnection,
    pub(crate) pid: i32,
    sit: SqlStr,
    leave: SqlStr,
    bucket: i32,
}

impl Sleeper {
    pub(crate) async fn sit(&mut self, marked: bool) -> String {
        let sit = sqlx::query_scalar(self.sit.clone()).bind([self.bucket]).bind([marked]);
        sit.fetch_one(&mut self.session).await.unwrap()
    }

    /// Lets go of the bell; returns how many handovers were rung.
    pub(crate) async fn leave(&mut self) -> i32 {
        self.leave_both(&[self.bucket], &[]).await
    }

    pub(crate) async fn unmark(&mut self) -> i32 {
        self.leave_both(&[], &[self.bucket]).await
    }

    async fn leave_both(&mut self, bells: &[i32], marks: &[i32]) -> i32 {
        let leave = sqlx::query_scalar(self.leave.clone()).bind(bells).bind(marks);
        leave.fetch_one(&mut self.session).await.unwrap()
    }
}

/// The outcome of what must end soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("in vain: until {what}"))
}
