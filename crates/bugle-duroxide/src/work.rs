//! Work: activities, claimed one by one; and the sessions that tie some of them to a worker.

use crate::cache::Stand;
use crate::items::{Activities, Message};
use crate::store::{Store, Tail, interval, run, run_leased};
use crate::together::{Ack, Acks, gone};
use crate::token::{self, Token};
use duroxide::providers::{ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use std::sync::Arc;
use std::time::Duration;

/// What one who asks for work wants. Those who want the same, but for their owner, are served by one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) rules: Rules,
    /// Whose sessions; `None`: without sessions.
    pub(crate) owner: Option<String>,
}

/// What several who ask may have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    lease: Duration,
    session_lease: Option<Duration>,
    untagged: bool,
    /// `None`: with any.
    tags: Option<Vec<String>>,
}

impl Want {
    /// `None`: a worker that takes nothing.
    pub(crate) fn new(
        lease: Duration,
        session: Option<&SessionFetchConfig>,
        filter: &TagFilter,
    ) -> Option<Self> {
        let sorted = |tags: &std::collections::HashSet<String>| {
            let mut tags: Vec<String> = tags.iter().cloned().collect();
            tags.sort();
            Some(tags)
        };
        let (untagged, tags) = match filter {
            TagFilter::DefaultOnly => (true, Some(Vec::new())),
            TagFilter::Tags(tags) => (false, sorted(tags)),
            TagFilter::DefaultAnd(tags) => (true, sorted(tags)),
            TagFilter::Any => (true, None),
            TagFilter::None => return None,
        };
        let session_lease = session.map(|s| s.lock_timeout);
        let rules = Rules { lease, session_lease, untagged, tags };
        Some(Self { rules, owner: session.map(|s| s.owner_id.clone()) })
    }
}

/// Claimed work.
pub(crate) struct Claimed {
    /// Which of those who asked it is for.
    pub(crate) asked: usize,
    pub(crate) item: String,
    pub(crate) token: String,
    pub(crate) attempt: u32,
    /// Its instance, and how far the history of that went.
    pub(crate) history: Option<(String, Stand)>,
}

impl Claimed {
    /// What the runtime gets. Work that cannot be decoded stays leased: it comes back for somebody who can, at the lease's pace.
    pub(crate) fn decoded(self) -> Result<(WorkItem, String, u32), ProviderError> {
        let item = serde_json::from_str(&self.item).map_err(|error| {
            ProviderError::permanent("fetch_work_item", format!("work item cannot be decoded: {error}"))
        })?;
        Ok((item, self.token, self.attempt))
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Option<i64>,
    asked: Option<i32>,
    token: Option<String>,
    attempt: Option<i32>,
    item: Option<String>,
    instance: Option<String>,
    incarnation: Option<i64>,
    execution: Option<i64>,
    last_event: Option<i64>,
    again_us: Option<i64>,
    passed_over: Option<bool>,
    is_dry: Option<bool>,
    late_us: Option<i64>,
}

impl Row {
    fn history(&self) -> Option<(String, Stand)> {
        let (incarnation, execution, last_event) = (self.incarnation?, self.execution?, self.last_event?);
        Some((self.instance.clone()?, Stand { incarnation, execution, last_event }))
    }
}

impl Store {
    /// One look: at most one for each owner.
    pub(crate) async fn claim_work(
        &self,
        owners: &[Option<&str>],
        rules: &Rules,
    ) -> Result<(Vec<Claimed>, Tail), sqlx::Error> {
        let rows: Vec<Row> = sqlx::query_as(self.sql.claim_work())
            .bind(owners)
            .bind(interval(rules.lease))
            .bind(interval(rules.session_lease.unwrap_or_default()))
            .bind(rules.untagged)
            .bind(&rules.tags)
            .fetch_all(&self.pool)
            .await?;
        let (mut claimed, mut tail) = (Vec::new(), Tail::default());
        for row in rows {
            let Some(id) = row.id else {
                tail = Tail::new(row.again_us, row.passed_over, row.is_dry);
                continue;
            };
            self.counters.work.claimed(row.late_us);
            let history = row.history();
            let nth = row.asked.and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
            claimed.push(Claimed {
                asked: nth.saturating_sub(1),
                item: row.item.unwrap_or_default(),
                token: token::write(id, row.token.as_deref().unwrap_or_default()),
                attempt: row.attempt.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
                history,
            });
        }
        Ok((claimed, tail))
    }

    pub(crate) async fn enqueue_work(&self, item: &WorkItem) -> Result<(), ProviderError> {
        const OPERATION: &str = "enqueue_for_worker";
        let work = Activities::new(OPERATION, std::slice::from_ref(item))?;
        run(OPERATION, || {
            let query = sqlx::query(self.sql.enqueue_work())
                .bind(&work.instance)
                .bind(&work.execution)
                .bind(&work.activity)
                .bind(&work.session)
                .bind(&work.tag)
                .bind(&work.item);
            Box::pin(async { query.execute(&self.pool).await.map(drop) })
        })
        .await
    }

    /// Work is done; its instance is told.
    pub(crate) async fn ack_work(
        self: &Arc<Self>,
        lock_token: &str,
        completion: Option<&WorkItem>,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "ack_work_item";
        let token = Token::work(OPERATION, lock_token)?;
        if let Some(item) = completion
            && !matches!(item, WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. })
        {
            return Err(ProviderError::permanent(OPERATION, "this work item does not complete an activity"));
        }
        let completion = completion.map(|item| Message::new(OPERATION, item)).transpose()?;
        let ack = Ack { id: token.name, fence: token.fence.to_owned(), completion };
        self.acks.call(&Acks(self.clone()), (), ack).await.ok_or_else(|| gone(OPERATION))?
    }

    /// Holds work for longer, from now on. Tried for as long as the lease can last: duroxide takes the first failure for a stolen lease, and
    /// throws the activity away.
    pub(crate) async fn renew_work(
        &self,
        lock_token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_work_item_lock";
        let token = Token::work(OPERATION, lock_token)?;
        run_leased(&self.counters.work.leases_lost, OPERATION, extend_for, || {
            let query = sqlx::query(self.sql.renew_work()).bind(token.name).bind(token.fence);
            let query = query.bind(interval(extend_for));
            Box::pin(async { query.execute(&self.pool).await.map(drop) })
        })
        .await
    }

    /// Gives work back. `uncounted`: the attempt does not count.
    pub(crate) async fn release_work(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        uncounted: bool,
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "abandon_work_item";
        let token = Token::work(OPERATION, lock_token)?;
        run_leased(&self.counters.work.leases_lost, OPERATION, Duration::ZERO, || {
            let query = sqlx::query(self.sql.release_work()).bind(token.name).bind(token.fence);
            let query = query.bind(interval(delay.unwrap_or_default())).bind(uncounted);
            Box::pin(async { query.execute(&self.pool).await.map(drop) })
        })
        .await
    }

    /// Holds the sessions of these owners for longer; how many.
    pub(crate) async fn renew_sessions(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        if owners.is_empty() {
            return Ok(0);
        }
        let renewed: i64 = run("renew_session_lock", || {
            let query = sqlx::query_scalar(self.sql.renew_sessions()).bind(owners);
            let query = query.bind(interval(extend_for)).bind(interval(idle_timeout));
            Box::pin(query.fetch_one(&self.pool))
        })
        .await?;
        Ok(usize::try_from(renewed).unwrap_or(0))
    }

    /// Removes sessions that have ended and that no work waits for; how many.
    pub(crate) async fn sweep_sessions(&self) -> Result<usize, ProviderError> {
        let swept: i64 = run("cleanup_orphaned_sessions", || {
            Box::pin(sqlx::query_scalar(self.sql.sweep_sessions()).fetch_one(&self.pool))
        })
        .await?;
        Ok(usize::try_from(swept).unwrap_or(0))
    }
}
