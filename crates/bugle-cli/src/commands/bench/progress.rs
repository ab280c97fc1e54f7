//! How far a benchmark has come, on standard error.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many rounds or parts of rounds.
pub(super) fn bar(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(0));
    bar.set_style(
        ProgressStyle::with_template("{wide_bar} {pos} of {len}, {eta} left  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar
}
