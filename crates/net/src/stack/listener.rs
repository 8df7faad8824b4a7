//! Listeners: passive open.
//!
//! A listener bounds half-open connections and its accept queue separately. At the first bound it
//! sends SYN cookies and keeps no state. While the accept queue is full, it drops SYNs and the last
//! segments of handshakes, so that the peer retries instead of believing itself connected. A
//! segment of no connection and no listener is reset; a listener resets only segments that
//! acknowledge something.
//!
//! Source: RFC 9293 §3.10.7.1 and §3.10.7.2, RFC 4987.

use std::net::IpAddr;

use classify::{PacketMeta, TransportClassifier};
use queueing::Time;
use wire::ethernet::{EtherType, Frame, Mac};
use wire::ip::Protocol;
use wire::tcp::{Flags, Options, Segment, Seq, Timestamps};
use wire::{FourTuple, ipv4, ipv6};

use super::cookies::{COOKIE_LIFE, CookieOptions, Cookies, SynCookies};
use super::egress::Reply;
use super::fast_open::FastOpenOffer;
use super::ingress::IpFields;
use super::{ConnId, HopLimits, ListenOptions, Stack};
use crate::tcp::{Connection, State, Verdicts};

/// Listener on a port.
pub(super) struct Listener {
    pub(super) classifier: Option<TransportClassifier>,
    /// Half-open connections.
    pub(super) half_open: usize,
    half_open_max: usize,
    /// Connections accepted and not yet polled.
    pub(super) accepted: usize,
    accepted_max: usize,
    /// Half-open connections whose SYN carried data.
    pub(super) fast_open: usize,
    pub(super) fast_open_max: usize,
    /// Hop limits that its connections inherit, of IPv4 and of IPv6.
    pub(super) hops: [HopLimits; 2],
    /// True once its port is released.
    closed: bool,
}

/// Default limit of a listener's half-open connections and accept queue.
const BACKLOG: usize = 1024;
/// Maximum number of replies queued when a cookie is added; the rest of the queue is for other replies.
const COOKIES_WAITING_MAX: usize = super::egress::REPLIES_MAX / 2;

impl Listener {
    pub(super) fn new(options: ListenOptions) -> Self {
        let accepted_max = if options.backlog == 0 { BACKLOG } else { options.backlog };
        let half_open_max = if options.half_open == 0 { accepted_max } else { options.half_open };
        Self {
            classifier: options.classifier,
            half_open: 0,
            half_open_max,
            accepted: 0,
            accepted_max,
            fast_open: 0,
            fast_open_max: options.fast_open,
            hops: options.hops,
            closed: false,
        }
    }

    /// Closes the listener; accepted connections stay.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// True if `next` can take its slot: it is closed and counts no connections, and neither has a
    /// classifier, so that remaining connections notice no difference.
    pub(super) fn is_replaced_by(&self, next: &Self) -> bool {
        self.is_over() && self.classifier.is_none() && next.classifier.is_none()
    }

    /// True if it is closed and counts no connections; some may still use its classifier.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.half_open + self.accepted + self.fast_open == 0
    }

    /// True if the accept queue has space.
    #[inline]
    pub(super) fn has_space(&self) -> bool {
        self.accepted < self.accepted_max
    }

    /// Hop limits of a connection with these addresses.
    fn hops_of(&self, tuple: &FourTuple) -> HopLimits {
        self.hops[usize::from(tuple.remote.is_ipv6())]
    }

    /// Counts a completed handshake.
    pub(super) fn on_accepted(&mut self) {
        self.half_open -= 1;
        self.accepted += 1;
    }
}

impl Stack {
    /// Handles a segment of no connection: it opens one or is reset.
    pub(super) fn on_stray(
        &mut self,
        now: Time,
        tuple: FourTuple,
        s: &Segment<'_>,
        ip: IpFields,
        from: Mac,
        meta: &PacketMeta,
    ) {
        if self.config.shard_index.is_some_and(|shard| !shard.owns(&tuple)) {
            // Another shard may own it: reassembled packets are steered by addresses alone.
            self.counters.not_for_us += 1;
            return;
        }
        let has = |flag| s.flags.contains(flag);
        if has(Flags::ACK) && !has(Flags::SYN) && !has(Flags::RST) && now < self.cookies_until {
            match self.take_cookie(now, tuple, s) {
                Cookie::Good => return self.on_segment(now, tuple, s, ip, from, meta),
                Cookie::Full => return,
                Cookie::None => {}
            }
        }
        let opens = has(Flags::SYN) && !has(Flags::ACK) && !has(Flags::RST);
        let Some(&index) = self.ports.get(&tuple.local_port) else {
            *if opens { &mut self.counters.no_listener } else { &mut self.counters.no_connection } += 1;
            return self.refuse(&tuple, s, from);
        };
        // A listener resets segments that acknowledge something and ignores segments that are
        // neither that nor a SYN (RFC 9293 §3.10.7.2). Like Linux, it ignores a SYN with FIN, which
        // no TCP sends.
        if !opens || has(Flags::FIN) {
            self.counters.no_connection += 1;
            return if has(Flags::ACK) {
                self.refuse(&tuple, s, from)
            };
        }
        let listener = &mut self.listeners[usize::from(index)];
        let hops = listener.hops_of(&tuple);
        if ip.hops < hops.received_min {
            self.counters.hops_min_drops += 1;
            return;
        }
        if !listener.has_space() {
            self.counters.accept_drops += 1;
            return;
        }
        if self.flows.len() >= self.config.connections_max {
            self.counters.connections_max_drops += 1;
            return;
        }
        match (self.config.syn_cookies, listener.half_open < listener.half_open_max) {
            (SynCookies::Always, _) | (SynCookies::WhenFull, false) => {
                return self.send_cookie(now, tuple, s, hops.sent, from);
            }
            (SynCookies::Off, false) => {
                self.counters.backlog_drops += 1;
                return;
            }
            (_, true) => {}
        }
        listener.half_open += 1;
        let offer = FastOpenOffer::of(s, &tuple, now, &self.config.secret, listener);
        let mut connection = self.new_connection(now, tuple);
        connection.hops = hops;
        connection.accept(index, s, &self.config);
        connection.set_level(meta.priority.unwrap_or_default());
        connection.flags.sends_cookie = offer.sends_cookie;
        let id = self.add(connection);
        if offer.good {
            self.open_fast(now, id, index, s, meta);
        }
        self.settle(now, id.index);
    }

    /// Accepts `id` before its handshake completes and delivers the data of its SYN `s`, whose
    /// cookie is valid.
    fn open_fast(&mut self, now: Time, id: ConnId, listener: u16, s: &Segment<'_>, meta: &PacketMeta) {
        let listener = &mut self.listeners[usize::from(listener)];
        listener.on_accepted();
        self.counters.accepted += 1;
        listener.fast_open += 1;
        let Some((_, connection)) = self.flows.at(id.index) else { return };
        let mut cx = context!(self, now, id, meta, 0);
        let (own, default) = (listener.classifier.as_ref(), self.config.classifier.as_ref());
        connection.deliver_early(&mut cx, s, &Verdicts { listener: own, default, meta, has_space: true });
    }

    /// Answers the SYN `s` with a cookie, in a packet with hop limit `hops`.
    fn send_cookie(&mut self, now: Time, tuple: FourTuple, s: &Segment<'_>, hops: u8, mac: Mac) {
        if self.replies.len() >= COOKIES_WAITING_MAX {
            self.counters.replies_dropped += 1;
            return;
        }
        // The offer is that of any connection.
        let connection = self.answering(now, tuple, s);
        let Some(plan) = connection.plan(now, &self.config) else { return };
        let offer = connection.segment(&plan, connection.edge(), now, &self.config);
        let options = Options {
            window_scale: offer.options.window_scale.filter(|_| s.options.timestamps.is_some()),
            sack_permitted: offer.options.sack_permitted && s.options.timestamps.is_some(),
            timestamps: offer.options.timestamps.map(|stamps| Timestamps {
                value: CookieOptions::from(&s.options, connection.has_ecn()).encode_timestamp(stamps.value),
                echo: stamps.echo,
            }),
            ..offer.options
        };
        let cookies = Cookies { secret: &self.config.secret, now };
        let mss = s.options.mss.unwrap_or(Connection::mss_default(&tuple));
        // Without timestamps, the cookie cannot preserve the use of ECN.
        let plain = Flags::SYN | Flags::ACK;
        let flags = if options.timestamps.is_some() { offer.flags } else { plain };
        let (seq, ack, window) = (cookies.cookie_isn(&tuple, s.seq, mss), s.seq + 1, offer.window);
        self.reply(Reply::Segment { mac, tuple, seq, ack, flags, window, options, hops });
        self.cookies_until = now + COOKIE_LIFE;
        self.counters.cookies_sent += 1;
    }

    /// Opens a connection if `s` acknowledges a cookie, as if it had been half-open since its SYN.
    fn take_cookie(&mut self, now: Time, tuple: FourTuple, s: &Segment<'_>) -> Cookie {
        let Some(&index) = self.ports.get(&tuple.local_port) else { return Cookie::None };
        let (irs, number) = (s.seq - 1, s.ack - 1);
        let cookies = Cookies { secret: &self.config.secret, now };
        let Some(mss) = cookies.mss(&tuple, irs, number) else {
            self.counters.cookies_refused += 1;
            return Cookie::None;
        };
        let listener = &mut self.listeners[usize::from(index)];
        if !listener.has_space() || self.flows.len() >= self.config.connections_max {
            self.counters.accept_drops += 1;
            return Cookie::Full;
        }
        listener.half_open += 1;
        let hops = listener.hops_of(&tuple);
        let (options, ecn) = match s.options.timestamps.map(|stamps| (stamps, stamps.echo)) {
            Some((stamps, echo)) => {
                let remembered = CookieOptions::decode_timestamp(echo);
                (remembered.options(mss, stamps), remembered.ecn)
            }
            None => (Options { mss: Some(mss), ..Options::NONE }, false),
        };
        let flags = if ecn { Flags::SYN | Flags::ECE | Flags::CWR } else { Flags::SYN };
        let mut connection = self.answering(now, tuple, &Segment { seq: irs, flags, options, ..*s });
        connection.hops = hops;
        connection.resume(index, number);
        // A classifier may drop this segment, and no other may follow.
        connection.arm(now, &self.config);
        self.add(connection);
        self.counters.cookies_accepted += 1;
        Cookie::Good
    }

    /// A connection with the options negotiated by the SYN `s`.
    fn answering(&self, now: Time, tuple: FourTuple, s: &Segment<'_>) -> Connection {
        let mut connection = self.new_connection(now, tuple);
        connection.answer(s, &self.config);
        connection
    }

    /// True if `port` has a listener.
    #[must_use]
    #[inline]
    pub fn listens(&self, port: u16) -> bool {
        self.ports.contains_key(&port)
    }

    /// Answers the SYN in `frame` with a reset, as if its port had no listener, for a guard that
    /// sheds it. Ignores the SYN of an existing connection and frames that are malformed or for
    /// another host.
    pub fn refuse_syn(&mut self, frame: &[u8], meta: &PacketMeta) {
        let Ok(frame) = Frame::parse(frame) else { return };
        let Some((source, target, bytes)) = self.tcp_for_us(&frame) else { return };
        let Ok(segment) = Segment::parse(bytes, source, target, !meta.checked) else { return };
        let tuple = FourTuple {
            local: target,
            local_port: segment.target_port,
            remote: source,
            remote_port: segment.source_port,
        };
        let opens = segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::ACK);
        if opens && self.flows.find(self.hash(&tuple), &tuple).is_none() {
            self.refuse(&tuple, &segment, frame.source);
        }
    }

    /// Source, target and bytes of the TCP segment in `frame`, if it is for this host and
    /// unfragmented.
    fn tcp_for_us<'a>(&self, frame: &Frame<'a>) -> Option<(IpAddr, IpAddr, &'a [u8])> {
        let (source, target, protocol, is_unfragmented, bytes): (IpAddr, IpAddr, _, _, _) = match frame.kind {
            EtherType::Ipv4 => {
                let p = ipv4::Packet::parse(frame.payload).ok()?;
                let ours = p.target == self.config.addr && !p.source.is_broadcast();
                (p.source.into(), p.target.into(), p.protocol, ours && p.fragment.is_none(), p.payload)
            }
            EtherType::Ipv6 => {
                let p = ipv6::Packet::parse(frame.payload).ok()?;
                let ours = self.ip.v6.as_deref().is_some_and(|v6| v6.owns(p.target));
                (p.source.into(), p.target.into(), p.protocol, ours && p.fragment.is_none(), p.payload)
            }
            _ => return None,
        };
        let ours = is_unfragmented
            && frame.target == self.config.mac
            && protocol == Protocol::Tcp
            && !frame.is_of_vlan();
        let sends = !source.is_multicast() && !source.is_unspecified() && !source.is_loopback();
        (ours && sends).then_some((source, target, bytes))
    }

    /// Answers a segment with a reset, unless it is a reset itself (RFC 9293 §3.10.7.1).
    pub(super) fn refuse(&mut self, tuple: &FourTuple, s: &Segment<'_>, mac: Mac) {
        if !s.flags.contains(Flags::RST) {
            self.counters.refusals += 1;
            self.answer_by_reset(tuple, s, mac);
        }
    }

    /// Answers `s` with a reset that the peer accepts.
    pub(super) fn answer_by_reset(&mut self, tuple: &FourTuple, s: &Segment<'_>, mac: Mac) {
        let (seq, ack, flags) = if s.flags.contains(Flags::ACK) {
            (s.ack, Seq(0), Flags::RST)
        } else {
            (Seq(0), s.seq + s.seq_len(), Flags::RST | Flags::ACK)
        };
        self.reply(Reply::reset(mac, *tuple, seq, ack, flags, Options::NONE));
    }
}

/// Updates the listener's count when a Fast Open handshake ends.
#[inline]
pub(super) fn fast_open_ends(connection: &mut Connection, listeners: &mut [Listener]) {
    if connection.flags.fast_open && !matches!(connection.state, State::SynReceived { .. }) {
        connection.flags.fast_open = false;
        if let Some(listener) = connection.listener() {
            listeners[usize::from(listener)].fast_open -= 1;
        }
    }
}

/// Result of checking an acknowledgement of no connection for a cookie.
enum Cookie {
    /// The acknowledgement opened a connection.
    Good,
    /// A valid cookie, but the accept queue or the connection table is full.
    Full,
    /// The segment acknowledges no cookie.
    None,
}
