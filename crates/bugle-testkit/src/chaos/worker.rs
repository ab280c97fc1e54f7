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
