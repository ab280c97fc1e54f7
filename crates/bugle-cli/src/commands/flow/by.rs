//! Who does it, and why: it stands in the log of the run.

use bugle::flow::By;

/// Who does it, and why.
#[derive(Debug, clap::Args)]
pub(super) struct ByArgs {
    /// Why, for whoever reads the log of the run
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who does it, for the log [default: the name of the user who types this]
    #[arg(long, value_name = "NAME", default_value_t = user_name(), hide_default_value = true)]
    actor: String,
}

impl ByArgs {
    pub(super) fn by(&self) -> By<'_> {
        By { actor: Some(&self.actor), reason: self.reason.as_deref() }
    }
}

/// As the system calls whoever types this.
pub(super) fn user_name() -> String {
    let named = |name: &str| std::env::var(name).ok().filter(|user| !user.trim().is_empty());
    named("USER")
        .or_else(|| named("LOGNAME"))
        .unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()))
}
