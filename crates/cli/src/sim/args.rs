//! What `greenwave sim fabric` is asked for: read by who plans the runs, who
//! runs them and who shows what they found.

use std::path::PathBuf;

use queueing::Span;

use super::workload::{Seeds, Spacing, Workload, load};

/// Send flows through a network and see how long each takes.
///
/// Times are virtual and replay from the seed. A flow is done when its last
/// byte was acknowledged; its slowdown is that time over what it takes with
/// the network to itself. Flows are small up to 100 KB, medium up to 10 MB,
/// large above.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, next_line_help = true)]
pub struct Args {
    /// two-hosts, leaf-spine (4 leaves, 4 spines, 16 hosts; unless given),
    /// or a TOML file that says the same as [settings.topology] of an
    /// experiment.
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "NAME|FILE",
        hide_default_value = true,
        default_value = "leaf-spine"
    )]
    pub topology: String,
    /// Who goes next at every port, hosts' own included: fish unless given;
    /// several are compared.
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "NAME,…",
        hide_default_value = true,
        default_value = "fish",
        value_delimiter = ','
    )]
    pub scheduler: Vec<String>,
    /// How long flows are: websearch (unless given), datamining, or "list
    /// BYTES*TIMES …", gone through in turn. Or rounds: in "incast N
    /// [BYTES]" N hosts begin at once a flow to the same one, all drawn anew
    /// each time; in "all-to-all [BYTES]" every host one to each of the
    /// others, 20000 bytes unless given. Sizes are rounded up to whole
    /// segments of 1460 bytes.
    // The brackets are what is shown, and no links.
    #[allow(rustdoc::broken_intra_doc_links)]
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "NAME",
        hide_default_value = true,
        default_value = "websearch"
    )]
    pub workload: Workload,
    /// The share of a host's line that flows' segments take, each counted
    /// once as 1500 bytes on the wire, in the mean over the hosts that send
    /// (every host in rounds); acknowledgements and what is sent again come
    /// on top. 0.8 unless given; 1 and more only with --for.
    #[arg(verbatim_doc_comment, long, value_name = "SHARE", value_parser = load, allow_negative_numbers = true)]
    pub load: Option<f64>,
    /// How beginnings are spaced: poisson (unless given), uniform or "burst
    /// SIZE" at the rate of the load; or instead of a load, "poisson RATE",
    /// "uniform RATE" (per second and sender, or of rounds) or "burst SIZE
    /// PERIOD SPACING".
    #[arg(
        verbatim_doc_comment,
        long,
        value_name = "LAW",
        hide_default_value = true,
        default_value = "poisson"
    )]
    pub arrivals: Spacing,
    /// Who sends: first (the first host to the second), or all (each flow to
    /// any other host). All unless there are only two hosts.
    #[arg(verbatim_doc_comment, long, value_name = "WHO")]
    pub senders: Option<String>,
    /// Flows of a run; 1000 unless given, or with --for as many as begin.
    #[arg(long, value_name = "FLOWS", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub count: Option<u32>,
    /// The run ends then; flows that are not done by then count as
    /// unfinished.
    #[arg(verbatim_doc_comment, long = "for", value_name = "SPAN")]
    pub duration: Option<Span>,
    /// Flows from a file instead, one a line: start_s src_host dst_host
    /// bytes; hosts count from 0.
    #[arg(verbatim_doc_comment, long, value_name = "FILE", conflicts_with_all = ["workload", "load", "arrivals", "senders", "count"])]
    pub flows: Option<PathBuf>,
    /// One seed, or FIRST..LAST with both ends.
    #[arg(long, value_name = "SEEDS", default_value = "1")]
    pub seeds: Seeds,
    /// Segments after which a flow sinks a level, at most seven; those that
    /// `greenwave sim thresholds` finds for the workload and load unless
    /// given.
    #[arg(verbatim_doc_comment, long, value_name = "SEGMENTS,…", value_delimiter = ',')]
    pub thresholds: Option<Vec<u64>>,
    /// Packets that wait at one port, over all its queues.
    #[arg(long, value_name = "PACKETS", default_value = "240")]
    pub room: String,
    /// More waiting packets than this at a port, and they are marked; 0:
    /// never.
    #[arg(verbatim_doc_comment, long, value_name = "PACKETS", default_value = "65")]
    pub mark: String,
    /// Of several ways packets take: spray (the next one each), or flow (all
    /// of a flow the same).
    #[arg(verbatim_doc_comment, long, default_value = "spray")]
    pub ways: String,
    /// Any other setting of an experiment, such as transport.window=10.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Threads that share one run; 1 unless given. Runs go side by side on
    /// the cores that are left. The outcome is the same for any number; no
    /// more are used than there are cores.
    #[arg(verbatim_doc_comment, long, value_name = "N", default_value_t = 1, hide_default_value = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// One JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Every flow of every run, as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The same as Parquet; what is not there is null.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
    /// A page with plots.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}
