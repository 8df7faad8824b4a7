//! `tpcc`: server of an in-memory store that runs TPC-C's transactions.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Mutex;

use clap::Parser;
use workloads::serve::{self, ListenArgs};
use workloads::tpcc::{Database, TableSizes};

/// Runs TPC-C's transactions on our own stack; a request's kind is 0 to 4:
/// New-Order, Payment, Order-Status, Delivery, Stock-Level.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    listen: ListenArgs,
    /// Warehouses, of about 100 MB each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    warehouses: u32,
    /// Replays what transactions are about
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    host::signals::restore_sigpipe();
    let args = Args::parse();
    let scale = TableSizes { warehouses: args.warehouses, ..TableSizes::default() };
    serve::main("tpcc", &args.listen, None, |_| Ok(Mutex::new(Database::new(scale, args.seed))))
}
