//! Progress of a run on stderr: a bar on a terminal, a line a minute in a file.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};

/// Interval of lines where no bar can be drawn.
const MINUTE: Duration = Duration::from_secs(60);

/// A bar of `steps` steps; a line a minute when stderr is no terminal.
#[must_use]
pub fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{msg:24} [{bar:32}] {elapsed} of about {duration}");
    bar.set_style(style.expect("the template is well formed").progress_chars("=> "));
    bar.enable_steady_tick(Duration::from_millis(200));
    if !std::io::stderr().is_terminal() {
        let weak = bar.downgrade();
        // Ends with the bar, or the process; without a thread there are no lines.
        let _ = std::thread::Builder::new().name("progress".to_owned()).spawn(move || print(&weak));
    }
    bar
}

fn print(bar: &WeakProgressBar) {
    loop {
        std::thread::sleep(MINUTE);
        let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) else { return };
        let line = line(&bar.message(), bar.position(), bar.length().unwrap_or(0), bar.elapsed());
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// Progress line: `done` of `all` steps of `what` took `elapsed`; the estimate assumes equal steps.
fn line(what: &str, done: u64, all: u64, elapsed: Duration) -> String {
    let what = if what.is_empty() { "so far" } else { what };
    let minutes = |time: f64| (time / 60.0).ceil();
    let so_far = format!("{what}: {done} of {all} after {} min", minutes(elapsed.as_secs_f64()));
    if done == 0 {
        return so_far;
    }
    let left = elapsed.as_secs_f64() / done as f64 * all.saturating_sub(done) as f64;
    format!("{so_far}, about {} more", minutes(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ demo: without a terminal a line per minute reports progress and remaining time
    #[test]
    fn a_line_shows_progress_and_remaining_time() {
        let after = |seconds, done| line("fish/fig8", done, 400, Duration::from_secs(seconds));
        assert_eq!(after(60, 0), "fish/fig8: 0 of 400 after 1 min");
        assert_eq!(after(600, 100), "fish/fig8: 100 of 400 after 10 min, about 30 more");
        assert_eq!(line("", 1, 2, MINUTE), "so far: 1 of 2 after 1 min, about 1 more");
        assert_eq!(after(600, 400), "fish/fig8: 400 of 400 after 10 min, about 0 more");
    }
}
