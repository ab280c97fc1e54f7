//! A node: a runtime whose orchestrations and activities only look at the clock.

use super::stamps::Stamps;
use super::wire::{FAN_OUT, Kind, Order, TIMER};
use super::{Fault, MISDIRECTED, Orders, answer};
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use std::sync::Arc;

const ACTIVITY: &str = "Note";
const SHUT_DOWN_MS: u64 = 500;

pub(super) async fn run(
    provider: Arc<dyn Provider>,
    dispatchers: usize,
    mut orders: Orders,
) -> Result<(), Fault> {
    let stamps = Stamps::default();
    let options = RuntimeOptions {
        orchestration_concurrency: dispatchers,
        worker_concurrency: dispatchers,
        ..RuntimeOptions::default()
    };
    let runtime =
        Runtime::start_with_options(provider, activities(&stamps), orchestrations(&stamps), options).await;
    answer(&())?;
    while let Some(order) = orders.next().await? {
        match order {
            Order::Report => answer(&stamps.report())?,
            _ => return Err(MISDIRECTED.into()),
        }
    }
    runtime.shutdown(Some(SHUT_DOWN_MS)).await;
    Ok(())
}

fn activities(stamps: &Stamps) -> ActivityRegistry {
    let stamps = stamps.clone();
    ActivityRegistry::builder()
        .register(ACTIVITY, move |_: ActivityContext, instance: String| {
            stamps.work(&instance);
            async { Ok(String::new()) }
        })
        .build()
}

/// Each is given its instance's name.
fn orchestrations(stamps: &Stamps) -> OrchestrationRegistry {
    Kind::ALL
        .into_iter()
        .fold(OrchestrationRegistry::builder(), |builder, kind| {
            let stamps = stamps.clone();
            builder.register(kind.name(), move |ctx: OrchestrationContext, instance: String| {
                let stamps = stamps.clone();
                async move {
                    stamps.turn(&instance);
                    act(kind, &ctx, &instance).await?;
                    stamps.end(&instance);
                    Ok(instance)
                }
            })
        })
        .build()
}

async fn act(kind: Kind, ctx: &OrchestrationContext, instance: &str) -> Result<(), String> {
    match kind {
        Kind::NoOp => {}
        Kind::One => {
            ctx.schedule_activity(ACTIVITY, instance).await?;
        }
        Kind::FanOut => {
            let all = (0..FAN_OUT).map(|_| ctx.schedule_activity(ACTIVITY, instance)).collect::<Vec<_>>();
            for done in ctx.join(all).await {
                done?;
            }
        }
        Kind::Timer => ctx.schedule_timer(TIMER).await,
    }
    Ok(())
}
