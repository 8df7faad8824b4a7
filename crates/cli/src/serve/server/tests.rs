//! Death of a server's thread: the whole server ends with an error line, and its devices are
//! closed.

use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use clap::Parser;
use net::device::{Full, ReceivedFrame};
use queueing::Time;

use super::*;
use crate::serve::policies;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// A device without frames; it may panic in the thread that drives it.
struct Breaks {
    breaks: bool,
    /// The number of devices still open.
    there: Arc<AtomicUsize>,
}

impl Device for Breaks {
    type Frame = Vec<u8>;

    fn receive(&mut self, _: Time) -> Option<ReceivedFrame<Vec<u8>>> {
        assert!(!self.breaks, "this device breaks");
        None
    }

    fn recycle(&mut self, _: Vec<u8>) {}

    fn transmit(&mut self, _: Time, _: usize, _: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        Err(Full)
    }
}

impl Drop for Breaks {
    fn drop(&mut self) {
        self.there.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);

/// The dying shard drives the device of all, or has a queue of its own.
fn check(queues: usize, more: &[&str]) {
    let words = ["serve", "--device", "pcap:x", "--addr", "10.77.0.2/24", "--app", "echo", "--shards", "3"];
    let args = Line::parse_from([&words[..], more].concat()).args;
    let (_, addresses) = args.link.plan().expect("valid arguments");
    let stack = addresses.stack([2, 0, 0, 0, 0, 1], [7; 16]);
    let (policies, observed) = policies(&args, 3).expect("valid arguments");
    let (over, there) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(queues)));
    let setup = Server {
        args: &args,
        arguments: &Arguments::default(),
        sandbox: Sandbox::none(),
        header: None,
        addresses,
        claimant: None,
        interface: LinkMonitor::default(),
        stack,
        policies,
        observed,
        held: None,
        over: over.clone(),
        how: String::new(),
        end: "kernel side has no address".to_owned(),
        ui: None,
        control: None,
    };
    let devices = (1..=queues).map(|queue| Breaks { breaks: queue == queues, there: there.clone() });
    let devices: Vec<_> = devices.collect();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| setup.serve_on(devices));
        let end = Instant::now() + LIMIT;
        while !server.is_finished() && Instant::now() < end {
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
        let error = server.join().expect("it does not panic").expect_err("a shard died").to_string();
        assert!(error.starts_with("error: the server panicked"), "{error}");
        assert!(error.ends_with(": this device breaks") && error.lines().count() == 1, "{error}");
        assert!(Instant::now() < end, "the others went on");
    });
    assert_eq!(there.load(Ordering::Relaxed), 0, "every device is gone");
}

#[test]
fn a_failed_shard_ends_the_server_with_one_line_and_closes_the_devices() {
    check(1, &[]);
    check(3, &[]);
    check(3, &["--workers", "1"]);
}
