//! `--traces FILE`: slow requests as OpenTelemetry traces, for any collector.
//!
//! The stacks select the requests; [`otlp`] formats the lines. This module writes the file: a
//! thread of its own behind a bounded queue, so that a slow disk blocks no other thread. The file
//! is bounded too. A write error costs only the traces; missing ones are counted and reported at
//! the end.

mod otlp;

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

use queueing::{PrioritySet, Span, Time};
use runtime::shard::{Slow, SlowRequestLimits};

use crate::error::plain;
use crate::ui::window::SLOW_SHOWN;
use crate::{Error, failure, options};
use otlp::Format;

/// Threshold and file of slow-request traces.
// clap groups arguments by type name, and the command's own arguments have the same one.
#[derive(clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Write traces of slow requests, a span for each stage, to this file
    /// as OpenTelemetry JSON lines; at most 64 MiB.
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    traces: Option<PathBuf>,
    /// Trace requests slower than this; at most 1000 per second.
    #[arg(long, value_name = "SPAN", requires = "traces")]
    slower_than: Option<Span>,
    /// Trace the N slowest requests of each second [default: 10, or all slower
    /// than --slower-than].
    #[arg(long, value_name = "N", requires = "traces", value_parser = clap::value_parser!(u16).range(1..=MOST))]
    slowest: Option<u16>,
    /// Trace only requests of these levels: high (0 to 3), low, 2, 0-1.
    #[arg(
        long,
        value_name = "LEVELS",
        requires = "traces",
        default_value = "0-7",
        hide_default_value = true
    )]
    slow_levels: PrioritySet,
}

/// Maximum of requests per second.
const MOST: i64 = 1000;
/// Default number of requests per second, without threshold and number.
const FEW: usize = 10;
/// Default maximum size of a file in bytes.
const FILE_MAX: u64 = 64 << 20;
/// Capacity of the queue, in seconds of requests.
const QUEUE: usize = 16;

impl Flags {
    /// Limits on the requests to write; `None` if none are written.
    fn given_limits(&self) -> Option<SlowRequestLimits> {
        self.traces.as_ref()?;
        let few = if self.slower_than.is_some() { MOST as usize } else { FEW };
        let most = self.slowest.map_or(few, usize::from);
        Some(SlowRequestLimits { over: self.slower_than.unwrap_or_default(), most, levels: self.slow_levels })
    }

    /// Limits on the requests to keep: those to write, or else a few to show if `is_shown`.
    pub fn limits(&self, is_shown: bool) -> SlowRequestLimits {
        let shown =
            is_shown.then_some(SlowRequestLimits { most: SLOW_SHOWN, ..SlowRequestLimits::default() });
        self.given_limits().or(shown).unwrap_or_default()
    }

    /// Checks that the file can be written, before anything else is opened.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn check(&self) -> Result<(), Error> {
        self.traces.as_deref().map_or(Ok(()), Error::unless_writable)
    }

    /// Creates or truncates the file, for subcommand `command`. [`Writer::start`] must follow.
    ///
    /// # Errors
    /// The file cannot be created, or there is no seed.
    pub fn open(&self, command: &str) -> Result<Option<Writer>, Error> {
        let Some(path) = &self.traces else { return Ok(None) };
        let drawn = options::secret()?;
        let seed = u64::from_be_bytes(drawn[..8].try_into().expect("8 of 16 bytes"));
        let file = host::files::create(path).map_err(|e| Error::unwritable(path, &e))?;
        let format = Format::new(&format!("greenwave {command}"), std::process::id(), seed);
        Ok(Some(Writer { path: path.clone(), file, format, size_max: FILE_MAX, done: Done::default() }))
    }
}

/// An open file of traces; ended by [`Traces::end`].
pub struct Traces {
    queue: SyncSender<Batch>,
    writer: JoinHandle<Done>,
    /// Requests dropped because the queue was full.
    dropped: u64,
    path: PathBuf,
}

/// Requests of one poll, each with the number of its shard.
struct Batch {
    slow: Vec<(usize, Slow)>,
    /// Unix time in nanoseconds at the start of the shards' clock.
    epoch_ns: u64,
}

/// Counts of written and missing requests.
#[derive(Debug, Default)]
struct Done {
    written: u64,
    not_written: u64,
    bytes: u64,
    /// The error that ended writing.
    why: Option<String>,
}

impl Traces {
    /// Queues the requests for writing; `now` is the shards' time.
    pub fn write(&mut self, now: Time, slow: Vec<(usize, Slow)>) {
        if slow.is_empty() {
            return;
        }
        let count = slow.len() as u64;
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let epoch_ns = (wall.as_nanos() as u64).saturating_sub(now.as_nanos());
        if self.queue.try_send(Batch { slow, epoch_ns }).is_err() {
            self.dropped += count;
        }
    }

    /// Waits until all are written; returns a line of summary. `left_out` is the number of slow
    /// requests beyond the limit.
    pub fn end(self, left_out: u64) -> String {
        let Self { queue, writer, dropped, path } = self;
        drop(queue);
        let done = writer
            .join()
            .unwrap_or_else(|_| Done { why: Some("the writer panicked".to_owned()), ..Done::default() });
        summary(&path, &done, dropped, left_out)
    }
}

/// Summary `traces: 12 slow requests in FILE`, with the missing ones.
fn summary(path: &Path, done: &Done, dropped: u64, left_out: u64) -> String {
    let Done { written, not_written, bytes, why } = done;
    let mut line = format!("traces: {written} slow requests in {}, {bytes} bytes", path.display());
    if *not_written > 0 {
        line += &format!("; {not_written} not written: {}", why.as_deref().unwrap_or("unknown"));
    }
    if dropped > 0 {
        line += &format!("; {dropped} dropped because the writer could not keep up");
    }
    if left_out > 0 {
        line += &format!(
            "; {left_out} left out because more than the allowed number of slower requests came in the same second"
        );
    }
    line
}

/// The writing thread's side.
pub struct Writer {
    path: PathBuf,
    file: File,
    format: Format,
    size_max: u64,
    done: Done,
}

impl Writer {
    /// Starts to write, in its own thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self) -> Result<Traces, Error> {
        let (queue, batches) = sync_channel(QUEUE);
        let path = self.path.clone();
        let run = move || self.run(&batches);
        let thread = std::thread::Builder::new().name("greenwave-traces".to_owned()).spawn(run);
        let writer = thread.map_err(|e| Error::file(&path, &e))?;
        Ok(Traces { queue, writer, dropped: 0, path })
    }

    fn run(mut self, batches: &Receiver<Batch>) -> Done {
        // A thousand lines take milliseconds, which must not delay the serving threads.
        host::thread::step_back();
        for Batch { slow, epoch_ns } in batches {
            for (shard, slow) in slow {
                self.write(shard, &slow, epoch_ns);
            }
        }
        self.done
    }

    /// Writes a line, complete or not at all.
    fn write(&mut self, shard: usize, slow: &Slow, epoch_ns: u64) {
        if self.done.why.is_some() {
            self.done.not_written += 1;
            return;
        }
        let line = self.format.line(shard, slow, epoch_ns);
        if self.done.bytes + line.len() as u64 > self.size_max {
            let why = format!("the limit of {} bytes is reached", self.size_max);
            errln!("note: {}: {why}; tracing has stopped, the server continues", self.path.display());
            return self.give_up(&why);
        }
        match self.file.write_all(line.as_bytes()) {
            Ok(()) => {
                self.done.written += 1;
                self.done.bytes += line.len() as u64;
            }
            Err(e) => {
                // Removes a partial line; pipes and devices have no length.
                let _ = self.file.set_len(self.done.bytes);
                let _ = self.file.seek(std::io::SeekFrom::End(0));
                let why = plain(&e.to_string()).to_owned();
                failure::note(format!(
                    "{}: {why}; tracing has stopped, the server continues",
                    self.path.display()
                ));
                self.give_up(&why);
            }
        }
    }

    fn give_up(&mut self, why: &str) {
        self.done.why = Some(why.to_owned());
        self.done.not_written += 1;
    }
}

#[cfg(test)]
mod tests;
