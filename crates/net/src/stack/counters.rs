//! What was counted; nothing is dropped without a number here.

use queueing::Time;

use crate::wire::Malformed;

/// Counts since the stack was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames taken in.
    pub frames_received: u64,
    /// Frames handed to the device.
    pub frames_sent: u64,
    /// Frames refused, by [`Malformed::index`].
    pub malformed: [u64; Malformed::ALL.len()],
    /// Frames or packets for another host, of a VLAN, or of a protocol that is not spoken.
    pub not_for_us: u64,
    /// Pieces of larger packets.
    pub fragments: u64,
    /// Packets put together from their pieces.
    pub reassembled: u64,
    /// Pieces dropped because they overlap or contradict others.
    pub fragments_refused: u64,
    /// Packets dropped because not all their pieces came in time.
    pub fragments_expired: u64,
    /// Packets whose pieces made room for others.
    pub fragments_evicted: u64,
    /// Datagrams put into a socket's queue.
    pub udp_received: u64,
    /// Datagrams for a port without socket.
    pub no_socket: u64,
    /// Datagrams that had no room in a socket's queue, or were pushed out of it.
    pub udp_full: u64,
    /// Datagrams sent.
    pub udp_sent: u64,
    /// Datagrams not sent: no way, or the neighbour is silent.
    pub udp_unsent: u64,
    /// Neighbours that did not answer who they are.
    pub neighbors_silent: u64,
    /// Addresses that someone else has or wants, ours by name.
    pub duplicate_addresses: u64,
    /// Better first hops that routers told of (RFC 4861 §8).
    pub redirects: u64,
    /// Such words of someone who is not the first hop, or that make no sense.
    pub redirects_ignored: u64,
    /// Leases of an IPv4 address, begun or prolonged.
    pub leases: u64,
    /// Addresses of ours whose life ended.
    pub addresses_lost: u64,
    /// ICMP errors received, well-formed.
    pub icmp_errors: u64,
    /// Of those, what quotes nothing that is in flight.
    pub icmp_ignored: u64,
    /// Paths that turned out to carry less than was thought.
    pub paths_limited: u64,
    /// Of those, paths that swallowed what was too large without a word.
    pub black_holes: u64,
    /// Probes for a larger path MTU that arrived or were lost alone (RFC 8899).
    pub path_probes: u64,
    /// Of those, the lost ones: no sign of congestion.
    pub path_probes_lost: u64,
    /// ICMP errors sent.
    pub icmp_errors_sent: u64,
    /// ICMP errors not sent: too many.
    pub icmp_suppressed: u64,
    /// Replies (ARP, ICMP, RST) dropped because too many waited.
    pub replies_dropped: u64,
    /// Connections reset by us.
    pub resets: u64,
    /// Connections reset, or refused, by their peers.
    pub resets_received: u64,
    /// Segments of connections, and SYNs for listeners, whose packet had fewer hops left than it must have.
    pub hops_min_drops: u64,
    /// Segments of no connection, or of a handshake that they do not fit, that
    /// were answered by a reset.
    pub refusals: u64,
    /// SYNs for a port without listener.
    pub no_listener: u64,
    /// Segments of no connection that cannot open one.
    pub no_connection: u64,
    /// SYNs dropped because as many handshakes as allowed were under way.
    pub backlog_drops: u64,
    /// SYNs and last segments of handshakes dropped because as many
    /// connections as allowed waited for being taken.
    pub accept_drops: u64,
    /// SYNs whose data was delivered at once (Fast Open).
    pub fast_opens: u64,
    /// SYNs answered with a cookie.
    pub cookies_sent: u64,
    /// Connections opened by a cookie.
    pub cookies_accepted: u64,
    /// Acknowledgements of no connection that were no cookie, while cookies were about.
    pub cookies_refused: u64,
    /// SYNs dropped because `connections_max` connections existed.
    pub connections_max_drops: u64,
    /// TIME-WAIT connections that gave way to a new SYN.
    pub time_wait_reused: u64,
    /// Acknowledgements of what was never sent, or far too old.
    pub bad_acks: u64,
    /// Segments outside the window, probes and old duplicates among them.
    pub out_of_window: u64,
    /// Acknowledgements that challenge a suspicious RST, SYN or ACK (RFC 5961).
    pub challenge_acks: u64,
    /// Answers to segments that fit nowhere and that were one too many.
    pub answers_withheld: u64,
    /// Resets for a connection in TIME-WAIT, which do nothing (RFC 1337).
    pub time_wait_resets: u64,
    /// Acknowledgements of data that had waited long enough.
    pub delayed_acks: u64,
    /// Connections that the application had let go of and the peer did not close in time.
    pub fin_wait_timeouts: u64,
    /// Calls of `send` that took less than they might, for want of memory.
    pub memory_refusals: u64,
    /// Segments whose data was dropped for want of memory.
    pub memory_drops: u64,
    /// Segments refused by their timestamp (PAWS).
    pub paws: u64,
    /// Segments with payload that came before their turn.
    pub out_of_order: u64,
    /// Segments whose payload was all here already, in order or early.
    pub duplicates: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Fast recoveries: losses found by time, SACK or duplicate acknowledgements.
    pub fast_retransmits: u64,
    /// Recoveries and timeouts that turned out to be mistakes (Eifel, F-RTO).
    pub recoveries_undone: u64,
    /// Data segments that met congestion on their way to us (CE).
    pub marks_received: u64,
    /// Windows reduced because the peer echoed congestion.
    pub ecn_reductions: u64,
    /// Probes for a lost tail (RFC 8985 §7).
    pub tail_probes: u64,
    /// Acknowledgements that tell of a segment received twice (RFC 2883).
    pub duplicates_reported: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Probes for a closed window or a silent peer.
    pub probes: u64,
    /// Classifiers that panicked.
    pub classifier_panics: u64,
    /// Verdicts outside 0..=7.
    pub classifier_out_of_range: u64,
    /// Segments that a transport classifier dropped.
    pub classifier_drops: u64,
}

impl Counters {
    pub(crate) fn malformed(&mut self, reason: Malformed) {
        self.malformed[reason.index()] += 1;
    }
}

/// How many challenges were sent this second, RFC 5961 §7.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Challenges {
    second: u64,
    sent: u32,
}

impl Challenges {
    /// Whether one more of `per_second_max` may be sent at `now`; counts it.
    pub(crate) fn allow(&mut self, now: Time, per_second_max: u32, counters: &mut Counters) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if self.second != second {
            *self = Self { second, sent: 0 };
        }
        let allowed = self.sent < per_second_max;
        self.sent += u32::from(allowed);
        counters.challenge_acks += u64::from(allowed);
        allowed
    }
}
