//! Waiting, as all routes of workflows do it: in the query, with `wait` and `timeoutMillis`.

use crate::error::Error;
use crate::limits::FLOW_WAIT_MILLISECONDS_MAX;
use crate::params::{switch, within};
use serde::Deserialize;
use std::time::Duration;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WaitQuery {
    /// Wait?
    #[serde(deserialize_with = "switch")]
    #[param(required = false, example = true)]
    wait: bool,
    /// How long, in milliseconds.
    #[param(maximum = 86_400_000, default = 30_000, example = 30_000)]
    timeout_millis: u64,
}

impl Default for WaitQuery {
    fn default() -> Self {
        Self { wait: false, timeout_millis: 30_000 }
    }
}

impl WaitQuery {
    /// How long to wait; `None`: not at all.
    pub(super) fn time(&self) -> Result<Option<Duration>, Error> {
        let millis = within("timeoutMillis", self.timeout_millis, 0, FLOW_WAIT_MILLISECONDS_MAX)?;
        Ok(self.wait.then_some(Duration::from_millis(millis)))
    }
}
