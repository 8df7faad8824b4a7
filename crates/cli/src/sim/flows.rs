//! Every flow of every run, a line each.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use queueing::{Span, Time};
use sim::fabric::Flow;

use crate::error::Error;

const HEADER: &str = "scheduler,seed,id,src,dst,bytes,start_s,fct_s,slowdown,retransmitted,timeouts";

/// A CSV file in the making.
pub struct Csv {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Csv {
    /// Makes the file, with its header.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|e| Error::file(path, &e))?;
        let mut csv = Self { path: path.to_owned(), file: BufWriter::new(file) };
        let header = writeln!(csv.file, "{HEADER}");
        csv.told(header)?;
        Ok(csv)
    }

    /// Adds a run's flows, in the order of their beginnings; a flow that was
    /// not done has neither time nor slowdown.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn run(&mut self, scheduler: &str, seed: u64, flows: &[Flow]) -> Result<(), Error> {
        let written = flows.iter().enumerate().try_for_each(|(id, flow)| {
            let line = line(flow);
            writeln!(self.file, "{scheduler},{seed},{id},{line}")
        });
        self.told(written)
    }

    /// Sees to it that all is written.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn end(mut self) -> Result<(), Error> {
        let flushed = self.file.flush();
        self.told(flushed)
    }

    fn told(&self, result: io::Result<()>) -> Result<(), Error> {
        result.map_err(|e| Error::file(&self.path, &e))
    }
}

fn line(flow: &Flow) -> String {
    let seconds = |span: Span| format!("{:.9}", span.as_secs_f64());
    format!(
        "{},{},{},{},{},{},{},{}",
        flow.from,
        flow.to,
        flow.bytes(),
        seconds(flow.began.since(Time::ZERO)),
        flow.took.map(seconds).unwrap_or_default(),
        flow.slowdown().map(|slowdown| format!("{slowdown:.6}")).unwrap_or_default(),
        flow.retransmitted,
        flow.timeouts,
    )
}
