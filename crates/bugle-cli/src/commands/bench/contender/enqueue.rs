//! Phase a: enqueueing one by one, and many at once.

use super::super::callers::{Enough, saturate};
use super::super::figure::{rate, rounded};
use super::super::fill::fill;
use super::super::wire::Saturated;
use super::super::writer::Writer;
use super::settings::Settings;
use crate::failure::Failure;
use bugle::Bugle;
use serde::Serialize;

const QUEUE: &str = "contender_a";

#[derive(Serialize)]
pub(super) struct Answer {
    single_per_s: f64,
    own_tx_per_s: f64,
    bulk_per_s: f64,
    bulk_api: String,
}

pub(super) async fn measure(bugle: &Bugle, settings: &Settings) -> Result<Answer, Failure> {
    let enough = Enough::Written(settings.jobs);
    let per_s = |saturated: Saturated| rounded(rate(saturated.commits, saturated.took), 1);
    let pooled = (0..settings.callers).map(|_| Writer::node(bugle, QUEUE)).collect();
    let single_per_s = per_s(saturate(pooled, enough).await?);
    let mut own = Vec::new();
    for _ in 0..settings.callers {
        own.push(Writer::own(bugle, QUEUE).await?);
    }
    let own_tx_per_s = per_s(saturate(own, enough).await?);
    let took = fill(bugle, QUEUE, settings.jobs, settings.bulk).await?;
    Ok(Answer {
        single_per_s,
        own_tx_per_s,
        bulk_per_s: rounded(rate(settings.jobs, took), 1),
        bulk_api: format!("enqueue_many, {} a call, one caller", settings.bulk),
    })
}
