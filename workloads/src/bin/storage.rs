//! `storage`: a server of compressed and encrypted blocks in a file.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use netlab::TempDir;
use runtime::task::Handle;
use workloads::serve::{self, ListenArgs};
use workloads::storage::{BlockStore, Io, Preload, StoreError, disk};

/// Reads and writes blocks on our own stack; a request's kind is 1 to 16, that
/// many blocks of 4 KiB to read, or 129 to 143, 1 to 15 blocks to write.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    listen: ListenArgs,
    /// Blocks, in MiB of their content
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    mib: u32,
    /// Where the file is made; in the folder of temporary files if not given
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// A text that blocks are preloaded with; a licence's if not given
    #[arg(long, value_name = "PATH")]
    text: Option<PathBuf>,
    /// Interface for reading and writing the file; default: io_uring where it is available
    #[arg(long, value_name = "HOW")]
    io: Option<Io>,
    /// Replays which piece of it is where
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Number of blocks, a MiB in total.
const BLOCKS: u32 = 256;

fn main() -> ExitCode {
    host::signals::restore_sigpipe();
    let args = Args::parse();
    // Removed at the end; with the file, unless that has a path of its own.
    let folder = match TempDir::new("storage") {
        Ok(folder) => folder,
        Err(e) => return serve::failed(&e),
    };
    let (files, how) = match disk(args.io, |why| eprintln!("note: files by system calls: {why}")) {
        Ok(disk) => disk,
        Err(e) => return serve::failed(&*e),
    };
    let make = |handle: &Handle| -> Result<BlockStore, Box<dyn Error>> {
        let text = match &args.text {
            Some(path) => std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?,
            None => include_bytes!("../../../LICENSE").to_vec(),
        };
        if text.is_empty() {
            return Err("there is nothing in the text\n  try: --text /usr/share/common-licenses/GPL-3".into());
        }
        let path = args.file.clone().unwrap_or_else(|| folder.path().join("blocks"));
        let preload = Preload { blocks: args.mib * BLOCKS, text: &text, seed: args.seed };
        match BlockStore::create(handle, how, &path, true, preload) {
            Err(StoreError::File(e)) if e.kind() == ErrorKind::Unsupported => {
                eprintln!("note: through the page cache: {e}");
                Ok(BlockStore::create(handle, how, &path, false, preload)?)
            }
            store => Ok(store?),
        }
    };
    serve::main("storage", &args.listen, Some(files), make)
}
