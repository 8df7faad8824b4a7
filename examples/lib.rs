//! Setup shared by the examples: a TAP device, a stack on it, and a thread.
//!
//! The kernel's end is 10.77.0.1, ours 10.77.0.2, so any client of this machine can connect:
//! `curl http://10.77.0.2/`. Needs root; ends at ctrl-C.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::Read;
use std::sync::Arc;

use classify::TransportClassifier;
use drivers::Tap;
use host::Monotonic;
use host::signal_page::SharedPage;
use runtime::task::{self, Config, Quantum, TaskShard, WorkerOptions};
use runtime::threads::ThreadSettings;

pub mod classifiers;
pub mod text;

/// Runs the tasks of `start` on a device of its own, until ctrl-C; `classifier` gives each packet
/// its level.
///
/// # Errors
/// No permission to make a device, or no random bytes.
pub fn run(
    classifier: TransportClassifier,
    start: impl FnOnce(&TaskShard<Tap>),
) -> Result<(), Box<dyn Error>> {
    let mut secret = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    let tap = Tap::create("greenwave")?;
    tap.up([10, 77, 0, 1], 24)?;
    let mac = [2, secret[0], secret[1], secret[2], secret[3], secret[4]];
    let mut tcp = net::stack::Config::new(mac, [10, 77, 0, 2].into(), 24, secret);
    tcp.classifier = Some(classifier);
    let shard = TaskShard::new(Config::shared(tcp));
    start(&shard);
    println!("listening on 10.77.0.2");
    let mut options = WorkerOptions::new(ThreadSettings::SPIN);
    options.quantum =
        Some(Quantum { thread: host::thread::number, demote: host::thread::demote, ..Quantum::default() });
    // Signal page for `greenwave sched`, if it runs.
    options.signal_page = Some(Arc::new(SharedPage::create(1)?));
    options.current_core = Some(host::affinity::current_core);
    let counted = task::run(vec![(shard, tap)], Arc::new(Monotonic), host::signals::flag(), &options);
    println!("{} tasks, {} turns", counted[0].started, counted[0].polls);
    Ok(())
}
