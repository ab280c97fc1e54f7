//! Workflows: definitions, runs, what people do with them, and workers in any language.

mod claim;
mod dead;
mod definitions;
mod lists;
mod operate;
mod runs;
mod settings;
mod settle;
mod signals;
mod view;
mod wait;
mod why;

use super::{Missing, Refusals, scoped};
use crate::app::App;
use utoipa_axum::router::OpenApiRouter;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(definitions::routes())
        .merge(runs::routes())
        .merge(lists::routes())
        .merge(why::routes())
        .merge(dead::routes())
        .merge(operate::routes())
        .merge(signals::routes())
        .merge(claim::routes())
        .merge(settle::routes())
        .merge(settings::routes())
}
