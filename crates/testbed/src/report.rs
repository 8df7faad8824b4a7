//! What a runner says, written by a thread of its own.
//!
//! Whoever serves hands a line over and goes on; the thread flushes after
//! each batch. Once nobody reads any more there is nobody to run for: the
//! process ends, so that a runner never outlives what started it.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::protocol::Line;

/// Where lines go; clones share one stdout.
#[derive(Clone, Debug)]
pub struct Report(Sender<Line>);

impl Report {
    /// A report to stdout, and the thread to wait for once all clones of it
    /// are gone. What waits to be written is bounded by what the plan can
    /// bring about.
    #[must_use]
    pub fn to_stdout() -> (Self, JoinHandle<()>) {
        let (lines, said) = channel();
        (Self(lines), std::thread::spawn(move || write(&said)))
    }

    /// Says `line`.
    pub fn say(&self, line: Line) {
        // The thread is gone only when the process is about to be.
        let _ = self.0.send(line);
    }
}

/// Writes what is said, [`Line::Late`] last of all: what is dropped with the run, after it, is not told of.
fn write(said: &Receiver<Line>) {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while let Ok(line) = said.recv() {
        let mut is_over = false;
        let mut written = Ok(());
        for line in std::iter::once(line).chain(said.try_iter()) {
            is_over = matches!(line, Line::Late(_));
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
