//! A service that accepts at once and queues internally, guarded by its queue report.

//~ xdp-guard: `--queue-report` sheds SYNs by the service's queue; half a second of silence admits everything

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use guard::app_queue::QueueReport;
use queueing::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::overload::SERVICE;
use super::{Rig, ended, number, signal};

/// Longest interval between reports.
const TELL: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// A service that accepts every connection at once, queues it internally, serves one every [`SERVICE`],
/// and reports its queue.
struct Service {
    listener: TcpListener,
    path: PathBuf,
    waiting: Mutex<VecDeque<(Instant, TcpStream)>>,
    report: Mutex<QueueReport>,
    /// True while it reports and runs.
    tells: AtomicBool,
    runs: AtomicBool,
}

impl Service {
    fn new(listener: TcpListener) -> Self {
        listener.set_nonblocking(true).unwrap();
        let path = std::env::temp_dir().join(format!("greenwave-guard-{}", std::process::id()));
        let service = Self {
            listener,
            path,
            waiting: Mutex::default(),
            report: Mutex::default(),
            tells: AtomicBool::new(true),
            runs: AtomicBool::new(true),
        };
        service.tell();
        service
    }

    fn run(&self) {
        let mut served = Instant::now();
        while self.runs.load(Ordering::Relaxed) {
            while let Ok((stream, _)) = self.listener.accept() {
                self.report.lock().unwrap().arrived += 1;
                self.waiting.lock().unwrap().push_back((Instant::now(), stream));
            }
            if self.tells.load(Ordering::Relaxed) {
                self.tell();
            }
            if served.elapsed() >= SERVICE {
                served = Instant::now();
                let first = self.waiting.lock().unwrap().pop_front();
                self.report.lock().unwrap().served += u64::from(first.is_some());
            }
            // Until a connection arrives, or a report is due.
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&TELL));
        }
    }

    fn tell(&self) {
        let waiting = self.waiting.lock().unwrap();
        let delay = waiting.front().map_or(Duration::ZERO, |(since, _)| since.elapsed());
        let mut report = self.report.lock().unwrap();
        report.sequence += 1;
        report.waiting = waiting.len() as u64;
        report.delay = Span::from_nanos(delay.as_nanos() as u64);
        std::fs::write(&self.path, report.line()).unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Ends a service's thread on drop, also after a failure.
struct Ends<'a>(&'a Service);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.runs.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_service_that_queues_by_itself_is_guarded_by_what_it_tells_while_it_tells() {
    let test = "a_service_that_queues_by_itself_is_guarded_by_what_it_tells_while_it_tells";
    let Some(rig) = Rig::new(test) else { return };
    let service = Service::new(rig.listener.try_clone().unwrap());
    let _neighbour = rig.neighbour();
    let report = format!("80={}", service.path.display());
    let controller = rig.attach(&["--port", "81", "--queue-report", &report]);
    std::thread::scope(|scope| {
        scope.spawn(|| service.run());
        let _ends = Ends(&service);
        let overload = rig.overload_of();
        let status = rig.until("its queue is long, and not the kernel's", |status| {
            number(&status["requests"]["delay_ns"]) > 20_000_000 && number(&status["waiting"]) == 0
        });
        assert_eq!(status["requests"]["telling"], 1, "{status}");
        assert!((0..64).all(|_| rig.connect_to_neighbour().is_some()), "the report is of port 80");
        let text = String::from_utf8(rig.guard(&["status", "eth0"]).stdout).unwrap();
        assert!(text.contains("1 of 1 services reporting"), "{text}");
        drop(overload);
        rig.until("all are served", |status| status["limit"]["kind"] == "open");
        let again = rig.overload_of();
        service.tells.store(false, Ordering::Relaxed);
        let status = rig.until("it fell silent", |status| number(&status["requests"]["telling"]) == 0);
        assert_eq!(status["limit"]["kind"], "open", "what it told is over: {status}");
        let more: Vec<_> = (0..8).map(|_| rig.connect().expect("admitted")).collect();
        service.tells.store(true, Ordering::Relaxed);
        rig.until("it is heard again", |status| status["limit"]["kind"] == "rate");
        drop((again, more));
    });
    signal(&controller, Signal::INT);
    ended(controller);
    rig.refused(
        &["attach", "eth0", "--port", "80", "--queue-report", "/no/such/file"],
        "/no/such/file: no service reports its queue in this file: No such file or directory",
    );
}
