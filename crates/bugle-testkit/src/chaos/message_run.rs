//! A run of the broker: set up, drained, judged.

use super::messages::{GROUPS, Messenger};
use super::run::{QUEUE, Run};
use crate::chaos::Node;
use crate::checker::Report;
use crate::checker::messages::{Books, Logged, check};
use crate::history::History;
use bugle::Bugle;
use bugle::broker::operate::{QueueOptions, Seek};
use sqlx::{AssertSqlSafe, Row as _};
use std::time::{Duration, Instant};

impl Run {
    /// Makes the queue and its groups: nobody is to begin later than the first message, and nothing is to die of its tries.
    pub async fn prepare_messages(&self) -> anyhow::Result<()> {
        let options = QueueOptions { retry_limit: Some(1_000_000), ..QueueOptions::default() };
        self.bugle.broker().configure(QUEUE, &options).await?;
        for group in GROUPS {
            self.bugle.broker().seek(QUEUE, group, Seek::Beginning).await?;
        }
        Ok(())
    }

    /// A client in this process, on `bugle`.
    #[must_use]
    pub fn messenger(&self, bugle: &Bugle, who: &str) -> Messenger {
        Messenger::new(bugle, QUEUE, self.recorder.client(), who, self.limits.lease)
    }

    /// Ends the producers, lets the consumers and one of our own finish what is there, reads the books and judges.
    pub async fn finish_messages(self, producers: Vec<Node>, consumers: Vec<Node>) -> anyhow::Result<Report> {
        self.finish_completed(producers, consumers, async |history, _| Ok(history)).await
    }

    /// The same, for a history that its clients could not record whole: `complete` adds what the books tell.
    pub async fn finish_completed(
        self,
        producers: Vec<Node>,
        consumers: Vec<Node>,
        complete: impl AsyncFnOnce(History, &Books) -> anyhow::Result<History>,
    ) -> anyhow::Result<Report> {
        for node in producers {
            node.stop().await?;
        }
        self.nemesis().heal()?;
        let drainer = self.messenger(&self.bugle, "drainer");
        let begun = Instant::now();
        while drainer.lag().await.is_none_or(|lag| lag > 0) && begun.elapsed() < self.drain_max {
            for group in GROUPS {
                if let Some(popped) = drainer.pop(group, 1_000, 10).await? {
                    drainer.ack_all(&popped).await?;
                }
            }
        }
        for node in consumers {
            node.stop().await?;
        }
        let history = self.recorder.finish(Duration::from_secs(10))?;
        let books = read_books(&self.bugle).await?;
        let history = complete(history, &books).await?;
        let report = check(&history, &books, &self.limits);
        self.tell(&history, &report)?;
        Ok(report)
    }
}

/// The log and the cursors, in one snapshot of the database.
async fn read_books(bugle: &Bugle) -> anyhow::Result<Books> {
    let mut tx = bugle.pool().begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    let place = |sql| AssertSqlSafe(bugle.schema().place_in(sql));
    let mut books = Books::default();
    for row in sqlx::query(place(include_str!("message_log.sql"))).fetch_all(&mut *tx).await? {
        let mark = row.try_get::<String, _>("payload")?.parse()?;
        let logged = Logged { seq: row.try_get("seq")?, n: row.try_get("n")?, mark };
        books.log.entry(row.try_get("partition")?).or_default().push(logged);
    }
    for row in sqlx::query(place(include_str!("message_cursors.sql"))).fetch_all(&mut *tx).await? {
        books.cursors.insert((row.try_get("grp")?, row.try_get("partition")?), row.try_get("cur")?);
    }
    tx.rollback().await?;
    Ok(books)
}
