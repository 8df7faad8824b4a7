//! Values of socket options for getsockopt(2), as [`TcpSockopt`] is for setsockopt(2).
//!
//! Source: tcp(7), ip(7), `struct tcp_info` of Linux (include/uapi/linux/tcp.h).

use libc::{IP_TOS, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPV6_TCLASS};
use net::stack::{HopLimits, Info, KeepAlive, RecoveryKind, State};
use queueing::{Bytes, Span};

use super::tcp_sockopt::{self, TcpSockopt};

/// Option values of one socket.
#[derive(Clone, Copy)]
pub struct SocketInfo {
    what: What,
    keep_alive: KeepAlive,
    user_timeout: Option<Span>,
    dscp: u8,
    /// Hop limits for IPv4 and for IPv6.
    hops: [HopLimits; 2],
    congestion: Option<&'static str>,
}

/// Kind and state of the socket.
#[derive(Clone, Copy)]
enum What {
    Connection(Info),
    /// A listener with this backlog.
    Listener(u32),
    /// Another socket, with Linux's number of its state.
    Other(u8),
}

/// Default MSS (RFC 9293 §3.7.1).
const MSS_DEFAULT: u16 = 536;
/// Slow-start threshold of Linux that means infinite.
const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

impl SocketInfo {
    /// Values of a connection with state `info` and `keep_alive` settings.
    #[must_use]
    pub fn of(info: &Info, keep_alive: KeepAlive) -> Self {
        let Info { user_timeout, dscp, congestion, hops, .. } = *info;
        Self { what: What::Connection(*info), keep_alive, user_timeout, dscp, hops: [hops; 2], congestion }
    }

    /// Values of an ended connection.
    #[must_use]
    pub fn gone() -> Self {
        Self::nothing(What::Other(CLOSE))
    }

    /// Values of a connection between two programs, without TCP.
    pub(super) fn between() -> Self {
        Self::nothing(What::Other(ESTABLISHED))
    }

    /// Values of a listener with `backlog`, or of a bound socket if 0; `settings` are its options.
    pub(super) fn of_listener(backlog: usize, settings: &[TcpSockopt]) -> Self {
        let what = match backlog {
            0 => What::Other(CLOSE),
            room => What::Listener(u32::try_from(room).unwrap_or(u32::MAX)),
        };
        let mut figures = Self { hops: tcp_sockopt::hop_limits(settings), ..Self::nothing(what) };
        for setting in settings {
            match *setting {
                TcpSockopt::KeepIdle(idle) => figures.keep_alive.idle = idle,
                TcpSockopt::KeepInterval(interval) => figures.keep_alive.interval = interval,
                TcpSockopt::KeepCount(count) => figures.keep_alive.count = count,
                TcpSockopt::UserTimeout(timeout) => figures.user_timeout = timeout,
                TcpSockopt::Dscp(dscp) => figures.dscp = dscp,
                _ => {}
            }
        }
        figures
    }

    fn nothing(what: What) -> Self {
        let hops = [HopLimits::default(); 2];
        Self { what, keep_alive: KeepAlive::LINUX, user_timeout: None, dscp: 0, hops, congestion: None }
    }

    fn mss(&self) -> u16 {
        match &self.what {
            What::Connection(info) => info.mss,
            What::Listener(_) | What::Other(_) => MSS_DEFAULT,
        }
    }

    /// Value of option `name` at `level`, as getsockopt(2) returns it; `None` if it is not here.
    #[must_use]
    pub fn value(&self, level: i32, name: i32) -> Option<Vec<u8>> {
        let KeepAlive { idle, interval, count } = self.keep_alive;
        let seconds = |span: Span| span.as_nanos().div_ceil(1_000_000_000);
        let number = match (level, name) {
            (IPPROTO_TCP, libc::TCP_INFO) => return Some(self.tcp_info()),
            (IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let mut name = self.congestion?.as_bytes().to_vec();
                name.resize(TCP_CA_NAME_MAX, 0);
                return Some(name);
            }
            (IPPROTO_TCP, libc::TCP_KEEPIDLE) => seconds(idle),
            (IPPROTO_TCP, libc::TCP_KEEPINTVL) => seconds(interval),
            (IPPROTO_TCP, libc::TCP_KEEPCNT) => u64::from(count),
            (IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
                self.user_timeout.map_or(0, |timeout| timeout.as_nanos() / 1_000_000)
            }
            (IPPROTO_TCP, libc::TCP_MAXSEG) => u64::from(self.mss()),
            (IPPROTO_IP, libc::IP_TTL) => self.hops[0].sent.into(),
            (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => self.hops[1].sent.into(),
            (IPPROTO_IP, libc::IP_MINTTL) => self.hops[0].received_min.into(),
            (IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT) => self.hops[1].received_min.into(),
            (IPPROTO_IP, IP_TOS) | (IPPROTO_IPV6, IPV6_TCLASS) => u64::from(self.dscp) << 2,
            _ => return None,
        };
        Some(i32::try_from(number).unwrap_or(i32::MAX).to_ne_bytes().to_vec())
    }
}

/// Length of a `TCP_CONGESTION` name in bytes.
const TCP_CA_NAME_MAX: usize = 16;

// Linux's numbers of states (include/net/tcp_states.h).
const ESTABLISHED: u8 = 1;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;

fn number(state: State) -> u8 {
    match state {
        State::Established => ESTABLISHED,
        State::SynSent => 2,
        State::SynReceived { .. } => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait { .. } => 6,
        State::Closed => CLOSE,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

impl SocketInfo {
    /// `struct tcp_info`, as far as it can be filled.
    fn tcp_info(&self) -> Vec<u8> {
        let (state, waiting) = match &self.what {
            What::Connection(info) => return of_connection(info),
            What::Listener(backlog) => (LISTEN, *backlog),
            What::Other(state) => (*state, 0),
        };
        let mut words = [0; 24];
        (words[SND_MSS], words[SACKED]) = (u32::from(self.mss()), waiting);
        laid_out([state, 0, 0, 0, 0, 0, 0, 0], words, &[])
    }
}

/// Indices of the words of `struct tcp_info` after its first eight bytes.
const RTO: usize = 0;
const SND_MSS: usize = 2;
const UNACKED: usize = 4;
const SACKED: usize = 5;
const LOST: usize = 6;
const LAST_ACK_RECV: usize = 12;
const PMTU: usize = 13;
const RTT: usize = 15;
const RTTVAR: usize = 16;
const SND_SSTHRESH: usize = 17;
const SND_CWND: usize = 18;
const ADVMSS: usize = 19;
const RCV_SPACE: usize = 22;
const TOTAL_RETRANS: usize = 23;

/// `struct tcp_info` of a connection in Linux's units: segments, microseconds, and milliseconds for
/// ages.
fn of_connection(info: &Info) -> Vec<u8> {
    let mss = u64::from(info.mss.max(1));
    let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let segments = |bytes: Bytes| narrow(bytes.get().div_ceil(mss));
    let micros = |span: Span| narrow(span.as_nanos() / 1_000);
    let repair = match info.repair {
        RecoveryKind::None => 0,
        RecoveryKind::Reduction => 2,
        RecoveryKind::Fast => 3,
        RecoveryKind::Timeout => 4,
    };
    let options = [info.timestamps, info.sack, info.scales.is_some(), info.ecn];
    let options = (0..).zip(options).map(|(bit, on)| u8::from(on) << bit).sum();
    let [peer_scale, own_scale] = info.scales.unwrap_or_default();
    // Two fields of four bits.
    let scales = (peer_scale & 15) | (own_scale << 4);
    let head = [number(info.state), repair, info.retries, 0, 0, options, scales, 0];
    let mut words = [0; 24];
    for (word, value) in [
        (RTO, micros(info.rto)),
        (SND_MSS, u32::from(info.mss)),
        (UNACKED, segments(info.unacknowledged)),
        (SACKED, segments(info.sacked)),
        (LOST, segments(info.lost)),
        (LAST_ACK_RECV, narrow(info.silent.as_nanos() / 1_000_000)),
        (PMTU, u32::from(info.mtu)),
        (RTT, info.srtt.map_or(0, micros)),
        (RTTVAR, micros(info.rttvar)),
        (SND_SSTHRESH, segments(info.ssthresh).min(SSTHRESH_INFINITE)),
        (SND_CWND, segments(info.cwnd)),
        (ADVMSS, u32::from(info.mss)),
        (RCV_SPACE, narrow(info.window.get())),
        (TOTAL_RETRANS, info.segments[1]),
    ] {
        words[word] = value;
    }
    let (acked, received) = (info.acknowledged.get(), info.received.get());
    let (unsent, sent) = (narrow(info.unsent.get()), info.segments[0]);
    let windows = [info.peer_window, info.window].map(|window| narrow(window.get()));
    // Pacing rates; bytes acknowledged and received; segments out and in; bytes not sent; rates,
    // times and counts that are not kept; windows.
    let long = |value: u64| value.to_ne_bytes().to_vec();
    let short = |value: u32| value.to_ne_bytes().to_vec();
    let rest = [
        vec![0; 16],
        long(acked),
        long(received),
        short(sent),
        vec![0; 4],
        short(unsent),
        vec![0; 12 + 32 + 8 + 16 + 12],
        short(windows[0]),
        short(windows[1]),
    ];
    laid_out(head, words, &rest.concat())
}

fn laid_out(head: [u8; 8], words: [u32; 24], rest: &[u8]) -> Vec<u8> {
    let words = words.iter().flat_map(|word| word.to_ne_bytes());
    head.into_iter().chain(words).chain(rest.iter().copied()).collect()
}

//~ programs: libc's `tcp_info` can be read from the stack
#[cfg(test)]
mod tests {
    use libc::tcp_info;

    use super::*;

    fn info() -> Info {
        let ms = Span::from_millis;
        Info {
            state: State::Established,
            repair: RecoveryKind::Fast,
            timestamps: true,
            sack: true,
            ecn: false,
            scales: Some([7, 9]),
            mss: 1448,
            mtu: 1500,
            srtt: Some(ms(3)),
            rttvar: ms(1),
            rto: ms(8),
            retries: 2,
            silent: ms(250),
            cwnd: Bytes::new(14_480),
            ssthresh: Bytes::new(u64::from(u32::MAX)),
            congestion: Some("cubic"),
            received: Bytes::new(5),
            acknowledged: Bytes::new(1 << 40),
            unsent: Bytes::new(77),
            unacknowledged: Bytes::new(1449),
            sacked: Bytes::new(1448),
            lost: Bytes::ZERO,
            peer_window: Bytes::new(1 << 16),
            window: Bytes::new(1 << 15),
            segments: [100, 3],
            user_timeout: Some(ms(1500)),
            dscp: 46,
            hops: HopLimits { sent: 255, received_min: 254 },
        }
    }

    fn int(figures: &SocketInfo, level: i32, name: i32) -> Option<i32> {
        figures.value(level, name).map(|bytes| i32::from_ne_bytes(bytes.try_into().unwrap()))
    }

    #[test]
    fn a_value_that_was_set_is_returned() {
        let settings = [
            (libc::TCP_KEEPIDLE, 300),
            (libc::TCP_KEEPINTVL, 5),
            (libc::TCP_KEEPCNT, 3),
            (libc::TCP_USER_TIMEOUT, 2500),
        ];
        let set: Vec<TcpSockopt> = settings
            .map(|(name, value)| TcpSockopt::of(IPPROTO_TCP, name, [value, 0]).expect("an option"))
            .to_vec();
        let listener = SocketInfo::of_listener(511, &set);
        for (name, value) in settings {
            assert_eq!(int(&listener, IPPROTO_TCP, name), Some(value), "option {name}");
        }
        for (name, value) in [(libc::TCP_KEEPIDLE, 7200), (libc::TCP_KEEPINTVL, 75), (libc::TCP_KEEPCNT, 9)] {
            assert_eq!(int(&SocketInfo::gone(), IPPROTO_TCP, name), Some(value), "option {name}, tcp(7)");
        }
    }

    /// Decodes a value by the C library's declaration.
    fn read(bytes: &[u8]) -> tcp_info {
        let mut padded = [0; size_of::<tcp_info>()];
        padded[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the buffer has the size of the struct, which has integer fields only.
        unsafe { padded.as_ptr().cast::<tcp_info>().read_unaligned() }
    }

    #[test]
    fn figures_are_in_linux_units() {
        let figures = SocketInfo::of(&info(), KeepAlive::LINUX);
        let raw = read(&figures.value(IPPROTO_TCP, libc::TCP_INFO).unwrap());
        assert_eq!((raw.tcpi_state, raw.tcpi_ca_state, raw.tcpi_options), (1, 3, 0b111));
        assert_eq!((raw.tcpi_snd_rcv_wscale & 15, raw.tcpi_snd_rcv_wscale >> 4), (7, 9));
        assert_eq!((raw.tcpi_rtt, raw.tcpi_rttvar, raw.tcpi_rto), (3000, 1000, 8000));
        assert_eq!((raw.tcpi_snd_cwnd, raw.tcpi_unacked, raw.tcpi_sacked), (10, 2, 1));
        assert!((1 << 20..=SSTHRESH_INFINITE).contains(&raw.tcpi_snd_ssthresh), "infinite");
        assert_eq!((raw.tcpi_retransmits, raw.tcpi_total_retrans), (2, 3));
        assert_eq!((raw.tcpi_last_ack_recv, raw.tcpi_pmtu), (250, 1500));
        assert_eq!(int(&figures, IPPROTO_TCP, libc::TCP_MAXSEG), Some(1448));
        assert_eq!(int(&figures, IPPROTO_TCP, libc::TCP_USER_TIMEOUT), Some(1500));
        assert_eq!(int(&figures, IPPROTO_IP, IP_TOS), Some(46 << 2));
        assert_eq!(int(&figures, IPPROTO_IP, libc::IP_TTL), Some(255));
        assert_eq!(int(&figures, IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT), Some(254));
        assert_eq!(figures.value(IPPROTO_TCP, libc::TCP_CONGESTION).unwrap()[..6], *b"cubic\0");
        assert_eq!(figures.value(IPPROTO_TCP, libc::TCP_MD5SIG), None);
        assert_eq!(SocketInfo::gone().value(IPPROTO_TCP, libc::TCP_CONGESTION), None);
    }

    /// musl's declaration lacks these fields.
    #[cfg(target_env = "gnu")]
    #[test]
    fn newer_fields_of_tcp_info_are_where_linux_has_them() {
        let raw =
            read(&SocketInfo::of(&info(), KeepAlive::LINUX).value(IPPROTO_TCP, libc::TCP_INFO).unwrap());
        assert_eq!((raw.tcpi_bytes_acked, raw.tcpi_bytes_received), (1 << 40, 5));
        assert_eq!((raw.tcpi_segs_out, raw.tcpi_notsent_bytes), (100, 77));
        assert_eq!((raw.tcpi_snd_wnd, raw.tcpi_rcv_wnd), (1 << 16, 1 << 15));
    }

    #[test]
    fn a_listener_tells_how_many_may_wait() {
        let info = read(&SocketInfo::of_listener(511, &[]).value(IPPROTO_TCP, libc::TCP_INFO).unwrap());
        assert_eq!((info.tcpi_state, info.tcpi_sacked, info.tcpi_snd_mss), (10, 511, 536));
    }
}
