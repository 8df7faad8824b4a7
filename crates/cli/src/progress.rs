//! How far a run is, on stderr, where somebody looks.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of `steps` steps; draws nothing when stderr is no terminal.
#[must_use]
pub fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{msg:24} [{bar:32}] {elapsed} of about {duration}");
    bar.set_style(style.expect("the template is well formed").progress_chars("=> "));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
