//! Frame of a latency-critical program: tasks on greenwave's stack that answer requests.
//!
//! One shard, one thread, on a TAP device that is removed at the end. The signal page shows its
//! queueing delay to `greenwave sched` (`signal_page = true`), and the thread yields its core on request.
//! A [`Service`] answers the requests of a connection in order; while one waits for a file it
//! answers those of other connections. Requests and answers use `load`'s synthetic protocol; an
//! answer carries its payload after the header. Bytes that are no request, and invalid requests,
//! end their connection and are counted.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drivers::Tap;
use host::signal_page::SharedPage;
use host::{Monotonic, affinity};
use load::protocol::Decoded;
use load::protocol::synthetic::{REQUEST_LEN_MIN, RESPONSE_LEN, RequestHeader, TimedResponse};
use queueing::{Clock, Span};
use runtime::task::{self, Config, Disk, Handle, TaskShard, TcpListener, TcpStream, WorkerOptions, spawn};
use runtime::threads::ThreadSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::progress::{Check, ProgressArgs, ProgressReporter, report_check};

/// Error of an invalid request, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// A service that answers requests.
pub trait Service: Send + Sync + 'static {
    /// Executes `request`; `body` is the data after its header. Appends the result to `answer`.
    ///
    /// # Errors
    /// An invalid request, or one that cannot be executed.
    fn serve(
        &self,
        request: &RequestHeader,
        body: &[u8],
        answer: &mut Vec<u8>,
    ) -> impl Future<Output = Result<(), Refused>> + Send;

    /// Check of the state after all requests.
    fn check(&self) -> Check;
}

/// A service's file I/O, and the descriptor that its thread polls while it sleeps, if required.
pub struct Files {
    /// Performs the tasks' file operations.
    pub disk: Box<dyn Disk>,
    /// Readable once an operation is complete.
    pub readiness: Option<OwnedFd>,
}

/// Listening arguments, common to all servers.
#[derive(Clone, Debug, clap::Args)]
pub struct ListenArgs {
    /// The TAP device it makes; the kernel's end is 10.77.0.1/24, its own 10.77.0.2
    #[arg(long, value_name = "NAME", default_value = "greenwave")]
    pub device: String,
    /// TCP port
    #[arg(long, default_value_t = 7000)]
    pub port: u16,
    /// Busy-polling of an idle thread before it sleeps
    #[arg(long, alias = "spin", value_name = "SPAN", default_value_t = ThreadSettings::SPIN)]
    pub busy_poll: Span,
    /// Interval between progress lines
    #[arg(long, value_name = "SPAN", default_value = "1s")]
    pub every: Span,
}

/// The kernel's end of the device.
const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of servers.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PREFIX: u8 = 24;
/// Number of shards, each with its own thread.
const SHARDS: usize = 1;
/// Bytes read at once.
const PIECE: usize = 16 * 1024;

/// A service, and its progress.
pub struct Served<S> {
    service: S,
    tally: Mutex<Tally>,
}

struct Tally {
    /// `None` where progress is not reported.
    progress: Option<ProgressReporter>,
    refused: u64,
}

/// A service that tasks share.
pub type SharedService<S> = Arc<Served<S>>;

/// Serves the result of `make` as `workload` until ctrl-C or SIGTERM, then checks it. With `files`
/// it may open files through the handle.
pub fn main<S: Service>(
    workload: &'static str,
    args: &ListenArgs,
    files: Option<Files>,
    make: impl FnOnce(&Handle) -> Result<S, Box<dyn Error>>,
) -> ExitCode {
    match run(workload, args, files, make) {
        Ok(code) => code,
        Err(e) => failed(&*e),
    }
}

/// Reports the reason a program cannot run; returns its exit status.
pub fn failed(e: &dyn Error) -> ExitCode {
    eprintln!("error: {e}");
    ExitCode::from(2)
}

fn run<S: Service>(
    workload: &'static str,
    args: &ListenArgs,
    files: Option<Files>,
    make: impl FnOnce(&Handle) -> Result<S, Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let stop = host::signals::flag();
    let mut secret = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    // Before it reports that it listens: a reader may open the page at once.
    let signal_page = Arc::new(SharedPage::create(SHARDS)?);
    let mac = [2, secret[0], secret[1], secret[2], secret[3], secret[4]];
    let tcp = net::stack::Config::new(mac, ADDRESS, PREFIX, secret);
    let (disk, readiness) = files.map_or((None, None), |files| (Some(files.disk), files.readiness));
    let shard = TaskShard::new(Config { disk, ..Config::shared(tcp) });
    let service = make(&shard.handle())?;
    let mut tap = Tap::create(&args.device)?;
    tap.up(KERNEL, PREFIX)?;
    if let Some(readiness) = readiness {
        tap.watch(readiness);
    }
    let pace = ProgressArgs { lasts: None, every: args.every, seed: 0 };
    let served = shared(service, Some(ProgressReporter::new(workload, "requests", pace, stop)));
    let listener = shard.handle().listen(args.port, net::stack::ListenOptions::default())?;
    shard.spawn(listen(listener, served.clone()));
    let at = SocketAddr::from((ADDRESS, args.port));
    writeln!(io::stdout(), "{}", serde_json::json!({ "workload": workload, "listens": at }))?;
    // One request at a time: a second thread would only wait for a long request.
    let options = WorkerOptions {
        quantum: None,
        signal_page: Some(signal_page),
        current_core: Some(affinity::current_core),
        ..WorkerOptions::new(args.busy_poll)
    };
    task::run(vec![(shard, tap)], Arc::new(Monotonic::new()), stop, &options);
    let refused = served.tally().refused;
    let Check { holds, says } = served.service.check();
    Ok(report_check(workload, &Check { holds, says: format!("{says}; {refused} refused") }))
}

/// `service`, for tasks; `progress` counts its requests.
pub fn shared<S: Service>(service: S, progress: Option<ProgressReporter>) -> SharedService<S> {
    Arc::new(Served { service, tally: Mutex::new(Tally { progress, refused: 0 }) })
}

/// Serves the connections to `listener`, each in its own task.
pub async fn listen<S: Service>(mut listener: TcpListener, served: SharedService<S>) {
    loop {
        let (stream, _) = listener.accept().await;
        // A connection that ends or is ended needs nothing more.
        drop(spawn(talk(stream, served.clone())));
    }
}

/// Serves one connection, in the order of its requests.
async fn talk<S: Service>(mut stream: TcpStream, served: SharedService<S>) -> io::Result<()> {
    // At most an incomplete request and one read.
    let mut received = Vec::new();
    let mut piece = vec![0; PIECE].into_boxed_slice();
    let mut answer = Vec::new();
    loop {
        let mut taken = 0;
        loop {
            let (request, len) = match RequestHeader::decode(&received[taken..]) {
                Decoded::Complete { value, len } => (value, len),
                Decoded::Incomplete => break,
                Decoded::Invalid => return Err(served.refuse("bytes that are no request")),
            };
            let body = &received[taken + REQUEST_LEN_MIN..taken + len];
            served.answer(&request, body, &mut answer).await?;
            taken += len;
            stream.write_all(&answer).await?;
        }
        received.drain(..taken);
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            len => received.extend_from_slice(&piece[..len]),
        }
    }
}

impl<S: Service> Served<S> {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces `answer` by that to `request`.
    async fn answer(&self, request: &RequestHeader, body: &[u8], answer: &mut Vec<u8>) -> io::Result<()> {
        let clock = Monotonic::new();
        let start = clock.now();
        answer.clear();
        answer.resize(RESPONSE_LEN, 0);
        if let Err(Refused(why)) = self.service.serve(request, body, answer).await {
            return Err(self.refuse(&why));
        }
        let RequestHeader { id, kind, priority, .. } = *request;
        let (nic, tcp, event) = (Span::ZERO, Span::ZERO, Span::ZERO);
        let head = TimedResponse { id, kind, priority, nic, tcp, event, service: clock.now().since(start) };
        let body = answer.len() - RESPONSE_LEN;
        answer[..RESPONSE_LEN].copy_from_slice(&head.header(body));
        if let Some(progress) = &mut self.tally().progress {
            // It ends by a signal, not by its own count.
            progress.add(1);
        }
        Ok(())
    }

    /// Counts a refused request, and reports the reason of the first.
    fn refuse(&self, why: &str) -> io::Error {
        let mut tally = self.tally();
        tally.refused += 1;
        if tally.refused == 1 {
            eprintln!("refused: {why}; others are counted only");
        }
        io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
    }
}

#[cfg(test)]
mod tests;
