//! Output and end of a child process that runs beside an experiment.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use netlab::Child;
use rustix::process::{Pid, Signal, kill_process};

/// Interval between checks for the exit of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Lines of `output`, read to its end by a thread, so that the process never blocks on a write.
pub fn drained_lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The receiver is gone once its owner has what it needs.
            let _ = sender.send(line);
        }
    });
    receiver
}

/// Sends SIGTERM to `child` and waits until it exits, for at most `timeout`.
pub fn terminate(child: &mut Child, timeout: Duration) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process(pid, Signal::TERM);
    }
    let end = Instant::now() + timeout;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        thread::sleep(POLL_INTERVAL);
    }
}
