//! Arguments of `greenwave sim fabric`, common to its planning, runs and output.

use std::path::PathBuf;

use queueing::Span;

use super::workload::{Seeds, Spacing, Workload, load};

/// Simulate flows in a network and report their completion times.
///
/// Times are virtual; the same seed gives the same numbers. A flow is
/// complete when its last byte is acknowledged; its slowdown is the
/// completion time divided by that in an idle network. Flows are small up to
/// 100 KB, medium up to 10 MB, large above.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, next_line_help = true)]
pub struct Args {
    /// Topology: two-hosts, leaf-spine (default: 4 leaves, 4 spines, 16
    /// hosts), or a TOML file with the keys of [settings.topology] of an
    /// experiment.
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "NAME|FILE",
        hide_default_value = true,
        default_value = "leaf-spine"
    )]
    pub topology: String,
    /// Scheduler of every port, hosts included [default: fish]; several are
    /// compared.
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "NAME,…",
        hide_default_value = true,
        default_value = "fish",
        value_delimiter = ','
    )]
    pub scheduler: Vec<String>,
    /// Flow sizes: websearch (default), datamining, or "list BYTES*TIMES
    /// …", used in turn. Or rounds: in "incast N [BYTES]" N random hosts
    /// start a flow to the same random host at once; in "all-to-all
    /// [BYTES]" every host starts one to each other host; 20000 bytes by
    /// default. Sizes are rounded up to whole segments of 1460 bytes.
    // Brackets are literal text of the help, not links.
    #[allow(rustdoc::broken_intra_doc_links)]
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "NAME",
        hide_default_value = true,
        default_value = "websearch"
    )]
    pub workload: Workload,
    /// Load: mean share of a sending host's link (of every host in rounds),
    /// with 1500 bytes on the wire per segment, without acknowledgements
    /// and retransmissions. Default 0.8; 1 and more only with --duration.
    #[arg(verbatim_doc_comment, long, value_name = "SHARE", value_parser = load, allow_negative_numbers = true)]
    pub load: Option<f64>,
    /// Arrival process of flows: poisson (default), uniform or "burst SIZE"
    /// at the rate of --load; or instead of --load, "poisson RATE",
    /// "uniform RATE" (per second and sender, or rounds per second) or
    /// "burst SIZE PERIOD SPACING".
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "LAW",
        hide_default_value = true,
        default_value = "poisson"
    )]
    pub arrivals: Spacing,
    /// Senders: first (the first host to the second), or all (each flow to
    /// a random other host). Default all, with two hosts first.
    #[arg(verbatim_doc_comment, long, value_name = "WHO")]
    pub senders: Option<String>,
    /// Flows per run [default: 1000; with --duration, all that start].
    #[arg(long, value_name = "FLOWS", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub count: Option<u32>,
    /// End of the run, in virtual time; later completions count as
    /// unfinished.
    #[arg(verbatim_doc_comment, long, value_name = "SPAN")]
    pub duration: Option<Span>,
    /// File with flows, one per line: start_s src_host dst_host bytes;
    /// hosts count from 0.
    #[arg(verbatim_doc_comment, long, value_name = "FILE", conflicts_with_all = ["workload", "load", "arrivals", "senders", "count"])]
    pub flow_trace: Option<PathBuf>,
    /// Seed, or seeds FIRST..LAST inclusive.
    #[arg(long, value_name = "SEEDS", default_value = "1")]
    pub seeds: Seeds,
    /// Segments after which a flow is demoted a level, at most seven
    /// [default: those of `greenwave sim thresholds` for the workload and
    /// load].
    #[arg(verbatim_doc_comment, long, value_name = "SEGMENTS,…", value_delimiter = ',')]
    pub thresholds: Option<Vec<u64>>,
    /// Buffer of a port over all its queues, in packets.
    #[arg(long, value_name = "PACKETS", default_value = "240")]
    pub buffer_packets: String,
    /// ECN marking threshold of a port, in waiting packets; 0: never
    /// mark.
    #[arg(verbatim_doc_comment, long, value_name = "PACKETS", default_value = "65")]
    pub ecn_threshold: String,
    /// Path selection.
    #[arg(long, value_enum, default_value = "spray")]
    pub multipath: MultipathArg,
    /// Other setting of an experiment, such as transport.window=10.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Threads per run, at most the number of cores [default: 1]. Runs are
    /// parallel on the remaining cores. The results do not depend on this
    /// number.
    #[arg(verbatim_doc_comment, long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Write every flow of every run to this CSV file.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write every flow of every run to this Parquet file.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
    /// Write an HTML page with plots to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Path selection of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MultipathArg {
    /// Per packet, round-robin over the shortest paths.
    Spray,
    /// Per flow: all packets of a flow take one of the shortest paths.
    #[value(alias = "flow")]
    Ecmp,
}

impl MultipathArg {
    /// Value of the setting `multipath` in an experiment's file.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Spray => "spray",
            Self::Ecmp => "ecmp",
        }
    }
}
