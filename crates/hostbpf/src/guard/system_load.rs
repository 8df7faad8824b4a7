//! System load from `/proc`: input of some policies, and the kernel's drops, which are shown.
//!
//! Read ten times a second and not at every control step: the kernel counts CPU time in ticks, one or two
//! per step. If no policy needs it, only the drops are read, once a second.
//!
//! Source: proc_stat(5), proc_meminfo(5); `/proc/net/sockstat`, `/proc/net/netstat`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use queueing::{Span, Time};

use host::netstat::counter;

/// A sample of the system load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SystemLoad {
    /// Share of kernel time of the busiest processor, 0 to 1: an overload by packets hits one
    /// processor.
    pub kernel_share: f64,
    /// TCP sockets of this network namespace.
    pub sockets: u64,
    /// Share of memory in use, 0 to 1.
    pub memory_share: f64,
    /// `ListenOverflows` and `ListenDrops` of this network namespace since the reader was created.
    pub overflows: u64,
    pub drops: u64,
}

/// Reader of the system load.
#[derive(Debug)]
pub(super) struct SystemLoadReader {
    stat: ProcFile,
    meminfo: ProcFile,
    /// `netstat` of the network namespace where this was created.
    netstat: ProcFile,
    /// `sockstat` of IPv4, and of IPv6 if the kernel has it.
    sockstats: Vec<ProcFile>,
    /// True if everything is read.
    reads_all: bool,
    read: Option<Time>,
    /// `ListenOverflows` and `ListenDrops` at the start.
    before: [u64; 2],
    /// Ticks of each processor: in the kernel, and in total.
    ticks: Vec<[u64; 2]>,
    load: SystemLoad,
}

const PERIOD: Span = Span::from_millis(100);
const PERIOD_DROPS: Span = Span::from_secs(1);

impl SystemLoadReader {
    /// Reads everything if `reads_all`, else only the drops.
    pub fn new(reads_all: bool) -> io::Result<Self> {
        // Files of the thread: tests enter namespaces by thread.
        let net = |name: &str| ProcFile::open(&format!("/proc/thread-self/net/{name}"));
        let sockstats = [Some(net("sockstat")?), net("sockstat6").ok()];
        let mut netstat = net("netstat")?;
        let before = listen_drops(&netstat.read()?);
        Ok(Self {
            stat: ProcFile::open("/proc/stat")?,
            meminfo: ProcFile::open("/proc/meminfo")?,
            netstat,
            sockstats: sockstats.into_iter().flatten().collect(),
            reads_all,
            read: None,
            before,
            ticks: Vec::new(),
            load: SystemLoad::default(),
        })
    }

    /// The load, at most a tenth of a second old; drops, at most a second.
    pub fn sample(&mut self, now: Time) -> io::Result<SystemLoad> {
        let period = if self.reads_all { PERIOD } else { PERIOD_DROPS };
        if self.read.is_none_or(|read| now.since(read) >= period) {
            self.read = Some(now);
            let [overflows, drops] = listen_drops(&self.netstat.read()?);
            self.load.overflows = overflows.saturating_sub(self.before[0]);
            self.load.drops = drops.saturating_sub(self.before[1]);
            if self.reads_all {
                self.read_all()?;
            }
        }
        Ok(self.load)
    }

    fn read_all(&mut self) -> io::Result<()> {
        let ticks = ticks(&self.stat.read()?);
        self.load.kernel_share = share_max(&self.ticks, &ticks);
        self.ticks = ticks;
        self.load.sockets = 0;
        for sockstat in &mut self.sockstats {
            self.load.sockets += sockets(&sockstat.read()?);
        }
        self.load.memory_share = memory_share(&self.meminfo.read()?);
        Ok(())
    }
}

/// `ListenOverflows` and `ListenDrops`.
fn listen_drops(netstat: &str) -> [u64; 2] {
    ["ListenOverflows", "ListenDrops"].map(|name| counter(netstat, name))
}

/// A file of `/proc`, which the kernel regenerates for each read from its start.
#[derive(Debug)]
struct ProcFile {
    file: File,
    bytes: Vec<u8>,
}

impl ProcFile {
    fn open(path: &str) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, bytes: vec![0; 16 * 1024] })
    }

    fn read(&mut self) -> io::Result<std::borrow::Cow<'_, str>> {
        let mut len = 0;
        loop {
            match self.file.read_at(&mut self.bytes[len..], len as u64)? {
                0 => return Ok(String::from_utf8_lossy(&self.bytes[..len])),
                more => len += more,
            }
            if len == self.bytes.len() {
                self.bytes.resize(2 * len, 0);
            }
        }
    }
}

/// Per processor: ticks in the kernel (system, irq, softirq), and in total.
pub(super) fn ticks(stat: &str) -> Vec<[u64; 2]> {
    let lines = stat.lines().filter(|line| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    lines
        .map(|line| {
            let fields: Vec<u64> = line.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
            let at = |at: usize| fields.get(at).copied().unwrap_or_default();
            // The last two, guest time, are included in the first two.
            let sum = |ticks: &[u64]| ticks.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
            [sum(&[at(2), at(5), at(6)]), sum(&fields[..fields.len().min(8)])]
        })
        .collect()
}

/// Largest share of kernel time of any processor since `before`.
pub(super) fn share_max(before: &[[u64; 2]], now: &[[u64; 2]]) -> f64 {
    let pairs = before.iter().zip(now).filter(|(before, now)| now[1] > before[1]);
    // Idle time may go backwards (proc_stat(5)); the total then grows by less than a part.
    let share = |(before, now): (&[u64; 2], &[u64; 2])| {
        (now[0].saturating_sub(before[0]) as f64 / (now[1] - before[1]) as f64).min(1.0)
    };
    pairs.map(share).fold(0.0, f64::max)
}

/// The count in `TCP: inuse 7 …` or `TCP6: …`.
pub(super) fn sockets(sockstat: &str) -> u64 {
    let line =
        sockstat.lines().find_map(|line| line.strip_prefix("TCP").map(|rest| rest.trim_start_matches('6')));
    let in_use = line.and_then(|line| line.strip_prefix(": inuse ")?.split_whitespace().next()?.parse().ok());
    in_use.unwrap_or_default()
}

pub(super) fn memory_share(meminfo: &str) -> f64 {
    let kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    match (kib("MemTotal"), kib("MemAvailable")) {
        (Some(total), Some(available)) if total > 0 => {
            (1.0 - available as f64 / total as f64).clamp(0.0, 1.0)
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_share_is_that_of_its_busiest_processor() {
        let before = ticks("cpu  9 9 9\ncpu0 10 0 10 100 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 1\n");
        assert_eq!(before, [[10, 120], [0, 0]]);
        let now = ticks("cpu0 10 0 10 110 0 0 0 0 0 0\ncpu1 2 0 3 1 0 1 3 0 0 0\n");
        assert_eq!(share_max(&before, &now), 0.7);
        assert_eq!(share_max(&now, &now), 0.0, "no time passed");
        assert_eq!(share_max(&[], &now), 0.0);
    }

    #[test]
    fn counts_are_found_and_invalid_text_gives_zero() {
        assert_eq!(sockets("sockets: used 9\nTCP: inuse 7 orphan 0\nUDP: inuse 1\n"), 7);
        assert_eq!(sockets("TCP6: inuse 3\n"), 3);
        assert_eq!(memory_share("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"), 0.75);
        for text in ["", "x", "TCP: x", "TcpExt: ListenDrops\n"] {
            assert_eq!((sockets(text), counter(text, "ListenDrops")), (0, 0));
            assert!(memory_share(text) == 0.0 && ticks(text).is_empty());
        }
    }

    #[test]
    fn a_share_is_within_0_and_1_for_any_text_of_the_kernel() {
        let (before, now) = (ticks("cpu0 0 0 10 90 9\n"), ticks("cpu0 0 0 20 90 0\n"));
        assert_eq!(share_max(&before, &now), 1.0, "iowait went back by nine of ten");
        let most = format!("cpu0 {0} {0} {0} {0} {0} {0} {0} {0}\n", u64::MAX);
        assert_eq!(ticks(&most), [[u64::MAX; 2]]);
        for odd in ["nan", "inf", "-1", "1e400"] {
            let share = memory_share(&format!("MemTotal: {odd} kB\nMemAvailable: {odd} kB\n"));
            assert_eq!(share, 0.0, "{odd}");
        }
    }

    #[test]
    fn the_load_of_this_machine_is_read() {
        let mut reader = SystemLoadReader::new(true).unwrap();
        let now = Time::from_nanos(1);
        let load = reader.sample(now).unwrap();
        assert!((0.01..1.0).contains(&load.memory_share), "{load:?}");
        assert_eq!(reader.sample(now).unwrap(), load, "not read again at once");
        let load = SystemLoadReader::new(false).unwrap().sample(now).unwrap();
        assert_eq!((load.memory_share, load.sockets), (0.0, 0), "no policy needs it");
    }
}
