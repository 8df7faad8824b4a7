//! File I/O backend of the store.

use std::error::Error;

use host::disk::{BlockingDisk, Ring};

use super::BlockStore;
use crate::serve::Files;

/// File I/O interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Io {
    /// io_uring: other requests are answered meanwhile
    Ring,
    /// System calls, for which everything waits
    Plain,
}

/// Number of operations in flight, and of buffers.
const DEPTH: usize = 32;
const BUFFERS: usize = 32;

/// The backend `io` and its name; by default `Ring`, or `Plain` where that is unavailable: `note`
/// gets the reason.
///
/// # Errors
/// The backend is unavailable.
pub fn disk(io: Option<Io>, note: impl FnOnce(&str)) -> Result<(Files, &'static str), Box<dyn Error>> {
    if io != Some(Io::Plain) {
        match Ring::new(DEPTH, BUFFERS, BlockStore::BUFFER) {
            Ok(mut ring) => {
                let readiness = Some(ring.readiness()?);
                return Ok((Files { disk: Box::new(ring), readiness }, "io_uring"));
            }
            Err(e) if io.is_some() => return Err(format!("{e}\n  try: --io plain").into()),
            Err(e) => note(&e.to_string()),
        }
    }
    let plain = BlockingDisk::new(DEPTH, BUFFERS, BlockStore::BUFFER)?;
    Ok((Files { disk: Box::new(plain), readiness: None }, "system calls"))
}
