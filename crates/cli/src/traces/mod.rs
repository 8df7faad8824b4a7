//! `--traces FILE`: slow requests as OpenTelemetry traces, for any collector.
//!
//! Which requests those are, the stacks decide; what a line says is [`otlp`]'s.
//! Here is the way into the file: a thread of its own behind a bounded queue, so
//! that a slow disk keeps nobody waiting. The file is bounded too, and one that
//! cannot be written any more costs its traces and nothing else; what is not in
//! it is counted and said at the end.

mod otlp;

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

use queueing::{PrioritySet, Span, Time};
use runtime::shard::{Limits, Slow};

use crate::error::plain;
use crate::ui::window::SLOW_SHOWN;
use crate::{Error, failure, options};
use otlp::Format;

/// Which slow requests are written, and where.
// Its name is that of the command's own arguments, which clap takes for one group.
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

/// Requests of a second, at the most.
const MOST: i64 = 1000;
/// Requests of a second where nobody says how slow or how many.
const FEW: usize = 10;
/// Bytes of a file, at the most.
const FILE_MAX: u64 = 64 << 20;
/// Seconds whose requests may wait to be written.
const QUEUE: usize = 16;

impl Flags {
    /// Which requests are to be written, if any.
    fn limits(&self) -> Option<Limits> {
        self.traces.as_ref()?;
        let few = if self.slower_than.is_some() { MOST as usize } else { FEW };
        let most = self.slowest.map_or(few, usize::from);
        Some(Limits { over: self.slower_than.unwrap_or_default(), most, levels: self.slow_levels })
    }

    /// Which requests are to be kept whole: those that are to be written, or a
    /// few to be looked at where that `is_shown`.
    pub fn kept(&self, is_shown: bool) -> Limits {
        let shown = is_shown.then_some(Limits { most: SLOW_SHOWN, ..Limits::default() });
        self.limits().or(shown).unwrap_or_default()
    }

    /// Before anything else is opened: whether the file can be written.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self) -> Result<(), Error> {
        self.traces.as_deref().map_or(Ok(()), Error::unless_writable)
    }

    /// Makes the file, of subcommand `command`; what was in it is replaced. [`Writer::start`] is to follow.
    ///
    /// # Errors
    /// It cannot be made, or there is no seed.
    pub fn open(&self, command: &str) -> Result<Option<Writer>, Error> {
        let Some(path) = &self.traces else { return Ok(None) };
        let drawn = options::secret()?;
        let seed = u64::from_be_bytes(drawn[..8].try_into().expect("8 of 16 bytes"));
        let file = host::files::create(path).map_err(|e| Error::unwritable(path, &e))?;
        let format = Format::new(&format!("greenwave {command}"), std::process::id(), seed);
        Ok(Some(Writer { path: path.clone(), file, format, size_max: FILE_MAX, done: Done::default() }))
    }
}

/// A file of traces that is open; ended by [`Traces::end`].
pub struct Traces {
    queue: SyncSender<Batch>,
    writer: JoinHandle<Done>,
    /// Found the queue full.
    dropped: u64,
    path: PathBuf,
}

/// Requests of one look, each with the number of its shard.
struct Batch {
    slow: Vec<(usize, Slow)>,
    /// What the wall's clock says at the beginning of ours, in nanoseconds.
    epoch_ns: u64,
}

/// What became of the requests.
#[derive(Debug, Default)]
struct Done {
    written: u64,
    not_written: u64,
    bytes: u64,
    /// Why no more are written.
    why: Option<String>,
}

impl Traces {
    /// Has these written, by and by; `now` is the time of their shards.
    pub fn tell(&mut self, now: Time, slow: Vec<(usize, Slow)>) {
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

    /// Waits until all is written; what became of it, in a line. `left_out` were
    /// slow and too many.
    pub fn end(self, left_out: u64) -> String {
        let Self { queue, writer, dropped, path } = self;
        drop(queue);
        let done = writer
            .join()
            .unwrap_or_else(|_| Done { why: Some("the writer panicked".to_owned()), ..Done::default() });
        said(&path, &done, dropped, left_out)
    }
}

/// `traces: 12 slow requests in FILE`, and what is not there.
fn said(path: &Path, done: &Done, dropped: u64, left_out: u64) -> String {
    let Done { written, not_written, bytes, why } = done;
    let mut line = format!("traces: {written} slow requests in {}, {bytes} bytes", path.display());
    if *not_written > 0 {
        line += &format!("; {not_written} not written: {}", why.as_deref().unwrap_or("unknown"));
    }
    if dropped > 0 {
        line += &format!("; {dropped} dropped because the writer could not keep up");
    }
    if left_out > 0 {
        line += &format!("; {left_out} left out because others of their second were slower");
    }
    line
}

/// The thread's side.
pub struct Writer {
    path: PathBuf,
    file: File,
    format: Format,
    size_max: u64,
    done: Done,
}

impl Writer {
    /// Begins to write, in a thread of its own.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(self) -> Result<Traces, Error> {
        let (queue, batches) = sync_channel(QUEUE);
        let path = self.path.clone();
        let run = move || self.run(&batches);
        let thread = std::thread::Builder::new().name("greenwave-traces".to_owned()).spawn(run);
        let writer = thread.map_err(|e| Error::file(&path, &e))?;
        Ok(Traces { queue, writer, dropped: 0, path })
    }

    fn run(mut self, batches: &Receiver<Batch>) -> Done {
        // A thousand lines take milliseconds, which those may not wait for who are served.
        host::thread::step_back();
        for Batch { slow, epoch_ns } in batches {
            for (shard, slow) in slow {
                self.write(shard, &slow, epoch_ns);
            }
        }
        self.done
    }

    /// A line, whole or not at all.
    fn write(&mut self, shard: usize, slow: &Slow, epoch_ns: u64) {
        if self.done.why.is_some() {
            self.done.not_written += 1;
            return;
        }
        let line = self.format.line(shard, slow, epoch_ns);
        if self.done.bytes + line.len() as u64 > self.size_max {
            let why = format!("the limit of {} bytes is reached", self.size_max);
            eprintln!("note: {}: {why}; tracing has stopped, the server continues", self.path.display());
            return self.give_up(&why);
        }
        match self.file.write_all(line.as_bytes()) {
            Ok(()) => {
                self.done.written += 1;
                self.done.bytes += line.len() as u64;
            }
            Err(e) => {
                // Half a line is no line; what is no file has no length.
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
