//! Counters of a stack; each drop has one.

use queueing::Time;
use wire::Malformed;

/// Counts since the stack was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames received.
    pub frames_received: u64,
    /// Frames passed to the device.
    pub frames_sent: u64,
    /// Frames rejected, by [`Malformed::index`].
    pub malformed: [u64; Malformed::ALL.len()],
    /// Frames or packets for another host, of a VLAN, or of an unsupported protocol.
    pub not_for_us: u64,
    /// Fragments received.
    pub fragments: u64,
    /// Packets reassembled.
    pub reassembled: u64,
    /// Fragments dropped because they overlap or contradict others.
    pub fragments_refused: u64,
    /// Packets dropped because reassembly timed out.
    pub fragments_expired: u64,
    /// Incomplete packets evicted to make space for others.
    pub fragments_evicted: u64,
    /// Datagrams put into a socket's queue.
    pub udp_received: u64,
    /// Datagrams for a port without a socket.
    pub no_socket: u64,
    /// Datagrams dropped or evicted because a socket's queue was full.
    pub udp_full: u64,
    /// Datagrams sent.
    pub udp_sent: u64,
    /// Datagrams not sent: no route, or the neighbour did not answer.
    pub udp_unsent: u64,
    /// Neighbours that did not answer address resolution.
    pub neighbors_silent: u64,
    /// Addresses of this host that another host has or claims.
    pub duplicate_addresses: u64,
    /// Redirects to a better first hop accepted (RFC 4861 §8).
    pub redirects: u64,
    /// Redirects ignored: not from the first hop, or invalid.
    pub redirects_ignored: u64,
    /// DHCP leases obtained or renewed.
    pub leases: u64,
    /// Addresses of this host that expired.
    pub addresses_lost: u64,
    /// Well-formed ICMP errors received.
    pub icmp_errors: u64,
    /// ICMP errors ignored, a part of `icmp_errors`: they quote nothing in flight.
    pub icmp_ignored: u64,
    /// Path MTU reductions.
    pub paths_limited: u64,
    /// Black holes, a part of `paths_limited`: paths that dropped large packets without an ICMP
    /// error.
    pub black_holes: u64,
    /// Probes for a larger path MTU that arrived or were lost alone (RFC 8899).
    pub path_probes: u64,
    /// Lost probes, a part of `path_probes`: no sign of congestion.
    pub path_probes_lost: u64,
    /// ICMP errors sent.
    pub icmp_errors_sent: u64,
    /// ICMP errors suppressed by the rate limit.
    pub icmp_suppressed: u64,
    /// Replies (ARP, ICMP, RST) dropped because their queue was full.
    pub replies_dropped: u64,
    /// Connections reset by this host.
    pub resets: u64,
    /// Connections reset or refused by their peers.
    pub resets_received: u64,
    /// Segments of connections, SYNs for listeners and ICMP errors about connections, dropped because
    /// their packet, or the quoted one, had too few hops left.
    pub hops_min_drops: u64,
    /// Resets sent for segments of no connection or of a handshake that they do not fit.
    pub refusals: u64,
    /// SYNs for a port without a listener.
    pub no_listener: u64,
    /// Segments of no connection that cannot open one.
    pub no_connection: u64,
    /// SYNs dropped because the half-open connections were at their limit.
    pub backlog_drops: u64,
    /// SYNs and last segments of handshakes dropped because the accept queue was full.
    pub accept_drops: u64,
    /// Connections accepted: those of listeners whose handshake is completed, or whose data was delivered
    /// at once.
    pub accepted: u64,
    /// SYNs whose data was delivered at once (Fast Open).
    pub fast_opens: u64,
    /// SYN cookies sent.
    pub cookies_sent: u64,
    /// Connections opened by a SYN cookie.
    pub cookies_accepted: u64,
    /// Acknowledgements of no connection that held no valid cookie, while cookies were valid.
    pub cookies_refused: u64,
    /// SYNs dropped at the limit `connections_max`.
    pub connections_max_drops: u64,
    /// TIME-WAIT connections replaced by a new SYN.
    pub time_wait_reused: u64,
    /// Acknowledgements of data never sent, or far too old.
    pub bad_acks: u64,
    /// Segments outside the window, including probes and old duplicates.
    pub out_of_window: u64,
    /// Challenge ACKs, in response to a suspicious RST, SYN or ACK (RFC 5961).
    pub challenge_acks: u64,
    /// Acknowledgements of unacceptable segments withheld by the rate limit.
    pub answers_withheld: u64,
    /// Resets for a connection in TIME-WAIT, which are ignored (RFC 1337).
    pub time_wait_resets: u64,
    /// Delayed acknowledgements sent because their delay ended.
    pub delayed_acks: u64,
    /// Detached connections whose peer did not close in time.
    pub fin_wait_timeouts: u64,
    /// Calls of `send` shortened for lack of memory.
    pub memory_refusals: u64,
    /// Segments whose data was dropped for lack of memory.
    pub memory_drops: u64,
    /// Segments rejected by their timestamp (PAWS).
    pub paws: u64,
    /// Segments with payload received out of order.
    pub out_of_order: u64,
    /// Segments whose entire payload had been received before.
    pub duplicates: u64,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Fast recoveries: losses detected by time, SACK or duplicate acknowledgements.
    pub fast_retransmits: u64,
    /// Recoveries and timeouts undone as spurious (Eifel, F-RTO).
    pub recoveries_undone: u64,
    /// Data segments received with a congestion mark (CE).
    pub marks_received: u64,
    /// Window reductions because the peer echoed congestion.
    pub ecn_reductions: u64,
    /// Tail loss probes (RFC 8985 §7).
    pub tail_probes: u64,
    /// Acknowledgements that report a segment received twice (RFC 2883).
    pub duplicates_reported: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Probes of a zero window or an idle peer.
    pub probes: u64,
    /// Classifiers that panicked.
    pub classifier_panics: u64,
    /// Classifier verdicts outside 0..=7.
    pub classifier_out_of_range: u64,
    /// Segments that a transport classifier dropped.
    pub classifier_drops: u64,
}

impl Counters {
    pub(crate) fn malformed(&mut self, reason: Malformed) {
        self.malformed[reason.index()] += 1;
    }
}

/// Challenge ACKs sent in the current second, RFC 5961 §7.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Challenges {
    second: u64,
    sent: u32,
}

impl Challenges {
    /// True if one more of `per_second_max` may be sent at `now`; counts it.
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
