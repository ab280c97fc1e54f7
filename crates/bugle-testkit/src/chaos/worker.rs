//! A worker: claims and settles in every way there is, also badly.

use super::calls::Recorded;
use bugle::jobs::Look;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often a waiting claim looks again.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// Works until told to stop.
pub(super) async fn run(
    client: Recorded,
    lease: Duration,
    seed: u64,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let mut rng = StdRng::seed_from_u64(seed);
    while !stop.is_cancelled() {
        let most = [1, 3, 10, 40][rng.random_range(0..4)];
        // Mostly by the wake engine; now and then by hand, so that the history has claims whose answer is unknown.
        let look = if rng.random_range(0..4) > 0 {
            client.claim_within(most, lease, Duration::from_millis(500)).await?
        } else {
            client.claim(most, lease, POLL, Duration::from_millis(500)).await?
        };
        match look {
            Some(look) if !look.jobs.is_empty() => settle(&client, &look, lease, &mut rng).await?,
            Some(_) => {}
            None => tokio::time::sleep(POLL).await,
        }
    }
    Ok(())
}

/// Consumers of one crowd.
const CROWD: usize = 1_000;

/// Each of the crowd waits for one job, works on it for a moment and acks it, until told to stop.
pub(super) async fn run_crowd(
    client: Recorded,
    lease: Duration,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..CROWD {
        let (client, stop) = (client.clone(), stop.clone());
        crowd.spawn(async move {
            while !stop.is_cancelled() {
                let Some(look) = client.claim_within(1, lease, Duration::from_secs(2)).await? else {
                    continue;
                };
                tokio::time::sleep(Duration::from_millis(rand::random_range(0..200))).await;
                let receipts: Vec<_> = look.jobs.iter().map(|j| j.receipt).collect();
                while client.ack(&receipts, &[look.token]).await?.is_none() {
                    tokio::time::sleep(POLL).await; // the same call until it is answered
                }
            }
            anyhow::Ok(())
        });
    }
    crowd.join_all().await.into_iter().collect()
}

/// The mark of a job that no brittle worker survives has this bit.
pub const POISON: u64 = 1 << 63;

/// Works a few jobs at a time, and aborts when one of them is poison.
pub(super) async fn run_brittle(
    client: Recorded,
    lease: Duration,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let Some(look) = client.claim_within(3, lease, Duration::from_millis(500)).await? else { continue };
        let is_poison = |mark: &str| mark.parse().is_ok_and(|mark: u64| mark & POISON != 0);
        if look.jobs.iter().any(|job| is_poison(job.payload.get())) {
            std::process::abort();
        }
        let receipts: Vec<_> = look.jobs.iter().map(|j| j.receipt).collect();
        until_answered(async || client.ack(&receipts, &[look.token]).await).await?;
    }
    Ok(())
}

async fn settle(client: &Recorded, look: &Look, lease: Duration, rng: &mut StdRng) -> anyhow::Result<()> {
    let mut receipts: Vec<_> = look.jobs.iter().map(|j| j.receipt).collect();
    receipts.shuffle(rng);
    let closed = [look.token];
    tokio::time::sleep(Duration::from_millis(rng.random_range(0..10))).await;
    match rng.random_range(0..20) {
        0..=11 => until_answered(async || client.ack(&receipts, &closed).await).await?,
        12 => {
            client.renew(look.token).await?;
            until_answered(async || client.ack(&receipts, &closed).await).await?;
        }
        13 => {
            let (some, rest) = receipts.split_at(receipts.len() / 2);
            client.ack(some, &[]).await?;
            client.fail(rest, &[]).await?;
        }
        14..=15 => drop(client.fail(&receipts, &[]).await?),
        16 => drop(client.release(&receipts, &[]).await?),
        17 => {
            // Too late: whatever was redelivered must be refused.
            tokio::time::sleep(lease + lease / 4).await;
            client.ack(&receipts, &[]).await?;
        }
        18 => {
            // Twice: the second time nothing is left of it.
            client.ack(&receipts, &[]).await?;
            client.ack(&receipts, &[]).await?;
        }
        _ => {} // forgotten: the lease has to end by itself
    }
    Ok(())
}

/// What a careful worker does: the same call until it is answered. A receipt works once, so that is safe.
async fn until_answered(call: impl AsyncFn() -> anyhow::Result<Option<usize>>) -> anyhow::Result<()> {
    for _ in 0..20 {
        if call().await?.is_some() {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
