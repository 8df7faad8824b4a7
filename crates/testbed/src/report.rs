//! Output of a runner, written by its own thread.
//!
//! Callers hand a line over without blocking; the thread flushes after each batch. If stdout is
//! closed the process exits, so that a runner never outlives its parent.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::protocol::OutputLine;

/// Handle to the output; clones share one stdout.
#[derive(Clone, Debug)]
pub struct OutputHandle(Sender<OutputLine>);

impl OutputHandle {
    /// Report to stdout, and the thread to join after all clones are dropped. The queue is
    /// bounded by the number of lines that the plan can cause.
    #[must_use]
    pub fn to_stdout() -> (Self, JoinHandle<()>) {
        let (lines, received) = channel();
        (Self(lines), std::thread::spawn(move || write(&received)))
    }

    /// Writes `line`.
    pub fn send(&self, line: OutputLine) {
        // The receiver is gone only when the process is about to exit.
        let _ = self.0.send(line);
    }
}

/// Writes lines up to [`OutputLine::Late`]; lines of parts dropped after the run are discarded.
fn write(received: &Receiver<OutputLine>) {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while let Ok(line) = received.recv() {
        let mut is_over = false;
        let mut written = Ok(());
        for line in std::iter::once(line).chain(received.try_iter()) {
            is_over = matches!(line, OutputLine::Late(_));
            written = written.and_then(|()| writeln!(out, "{line}"));
            if is_over {
                break;
            }
        }
        if written.and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
        if is_over {
            return;
        }
    }
}
