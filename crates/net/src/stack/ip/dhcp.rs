//! DHCP client: an IPv4 address leased from a server.
//!
//! A state machine: messages and time in, messages and leases out; the stack sends and applies
//! them. Does not remember leases over restarts (INIT-REBOOT) and sends no DECLINE.
//!
//! Source: RFC 2131 §4.4, Figure 5.

use std::net::{IpAddr, Ipv4Addr};

use queueing::{Span, Time};
use wire::dhcp::{CLIENT_PORT, Message, MessageType, SERVER_PORT};
use wire::ethernet::{BROADCAST, Mac};
use wire::ip::{Protocol, TrafficClass};
use wire::{Malformed, udp};

use super::output::Outgoing;
use crate::stack::Stack;
use crate::stack::egress::Reply;

/// Retransmission interval, doubling from the first to the second (RFC 2131 §4.1).
const RETRY_MIN: Span = Span::from_secs(4);
const RETRY_MAX: Span = Span::from_secs(64);
/// Minimum interval of requests while a lease runs (RFC 2131 §4.4.5).
const RENEW_MIN: Span = Span::from_secs(60);
/// Maximum number of transactions that one shard may be ahead of another.
const AHEAD_MAX: usize = 16;
/// Maximum number of requests for one offer before the client discovers servers again.
const REQUESTS_MAX: u32 = 4;

/// Lease of an IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Leased address.
    pub addr: Ipv4Addr,
    /// Prefix length of its network.
    pub prefix: u8,
    /// Default gateway.
    pub router: Option<Ipv4Addr>,
    /// Server that granted the lease.
    pub server: Ipv4Addr,
    /// End of the lease.
    pub until: Time,
    renew_at: Time,
    rebind_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Discovering servers.
    Selecting,
    /// Requesting this offer.
    Requesting { addr: Ipv4Addr, server: Ipv4Addr },
    /// Using the address. From `renew_at` the client renews with its server, from `rebind_at` with
    /// any server.
    Bound(Lease),
}

/// Action of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DhcpAction {
    /// Send the message to the server, or broadcast it.
    Send(Message, Option<Ipv4Addr>),
    /// Use this address.
    Use(Lease),
    /// Stop using the address.
    Lose,
}

/// DHCP client.
#[derive(Debug)]
pub(crate) struct Client {
    mac: Mac,
    state: State,
    /// True if it sends requests; false if it only receives the replies to another shard's.
    sends: bool,
    transaction: u32,
    tries: u32,
    began: Time,
    due: Time,
}

impl Client {
    /// A client that discovers servers from its first poll on, or one that only follows the
    /// server's replies to another shard.
    pub(crate) fn new(mac: Mac, transaction: u32, sends: bool) -> Self {
        let due = if sends { Time::ZERO } else { Time::MAX };
        Self { mac, state: State::Selecting, sends, transaction, tries: 0, began: Time::ZERO, due }
    }

    /// Time when [`Client::poll`] is due.
    pub(crate) fn deadline(&self) -> Time {
        self.due
    }

    /// Current lease.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Bound(lease) => Some(lease),
            _ => None,
        }
    }

    fn restart(&mut self, now: Time) {
        self.transaction = following(self.transaction);
        let due = if self.sends { now } else { Time::MAX };
        (self.state, self.tries, self.began, self.due) = (State::Selecting, 0, now, due);
    }

    /// The next action due at `now`.
    pub(crate) fn poll(&mut self, now: Time) -> Option<DhcpAction> {
        if now < self.due {
            return None;
        }
        match self.state {
            State::Requesting { .. } if self.tries >= REQUESTS_MAX => self.restart(now),
            State::Bound(lease) if now >= lease.until => {
                self.restart(now);
                return Some(DhcpAction::Lose);
            }
            _ => {}
        }
        if self.tries == 0 {
            self.began = now;
        }
        let seconds = (now.since(self.began).as_nanos() / 1_000_000_000).min(0xffff) as u16;
        let message = Message {
            seconds,
            broadcast: true,
            ..Message::new(MessageType::Request, self.transaction, self.mac)
        };
        self.tries += 1;
        let act = match self.state {
            State::Selecting => {
                self.due = now + self.backoff();
                DhcpAction::Send(Message { kind: MessageType::Discover, ..message }, None)
            }
            State::Requesting { addr, server } => {
                self.due = now + self.backoff();
                DhcpAction::Send(Message { requested: Some(addr), server: Some(server), ..message }, None)
            }
            State::Bound(lease) => {
                let renewing = now < lease.rebind_at;
                let end = if renewing { lease.rebind_at } else { lease.until };
                self.due = (now + (end.since(now) / 2).max(RENEW_MIN)).min(end);
                let server = Some(lease.server).filter(|_| renewing);
                DhcpAction::Send(Message { client: lease.addr, broadcast: false, ..message }, server)
            }
        };
        Some(act)
    }

    /// Exponential backoff with a jitter of ±1 s (RFC 2131 §4.1).
    fn backoff(&self) -> Span {
        let jitter = Span::from_millis(u64::from(self.transaction.rotate_left(self.tries) % 2000));
        let doubled = RETRY_MIN * (1 << (self.tries - 1).min(4));
        doubled.min(RETRY_MAX) + jitter - Span::from_secs(1)
    }

    /// Handles a received message.
    pub(crate) fn on_message(&mut self, now: Time, received: &Message) -> Option<DhcpAction> {
        if received.mac != self.mac {
            return None;
        }
        if !self.sends {
            return self.overhear(now, received);
        }
        if received.transaction != self.transaction {
            return None;
        }
        match (self.state, received.kind) {
            (State::Selecting, MessageType::Offer) => {
                let server = received.server?;
                if is_host(received.yours) {
                    self.state = State::Requesting { addr: received.yours, server };
                    (self.tries, self.due) = (0, now);
                }
                None
            }
            (State::Requesting { .. } | State::Bound(_), MessageType::Ack) => {
                let before = self.lease().copied();
                let server = received.server.or(before.map(|lease| lease.server))?;
                let chosen = match self.state {
                    State::Requesting { addr, server: asked } => addr == received.yours && asked == server,
                    _ => true,
                };
                if !chosen || !is_host(received.yours) {
                    return None;
                }
                let lease = Lease::new(now, received, server)?;
                // Even a short lease is not renewed at a higher rate than this.
                let due = lease.renew_at.max(now + RENEW_MIN).min(lease.until);
                (self.state, self.tries, self.due) = (State::Bound(lease), 0, due);
                Some(DhcpAction::Use(lease))
            }
            (State::Requesting { server, .. }, MessageType::Nak) if received.server == Some(server) => {
                self.restart(now);
                None
            }
            (State::Bound(_), MessageType::Nak) if self.tries > 0 => {
                self.restart(now);
                Some(DhcpAction::Lose)
            }
            _ => None,
        }
    }

    /// Handles a message to the requesting shard, which may be some transactions ahead, as that
    /// shard will.
    fn overhear(&mut self, now: Time, received: &Message) -> Option<DhcpAction> {
        let mut ahead = std::iter::successors(Some(self.transaction), |t| Some(following(*t)));
        self.transaction = ahead.by_ref().take(AHEAD_MAX).find(|t| *t == received.transaction)?;
        match received.kind {
            MessageType::Ack if is_host(received.yours) => {
                let lease = Lease::new(now, received, received.server?)?;
                (self.state, self.due) = (State::Bound(lease), lease.until);
                Some(DhcpAction::Use(lease))
            }
            MessageType::Nak if self.lease().is_some() => {
                self.restart(now);
                Some(DhcpAction::Lose)
            }
            _ => None,
        }
    }
}

/// Transaction ID after this one.
fn following(transaction: u32) -> u32 {
    transaction.wrapping_mul(0x9e37_79b1).wrapping_add(1)
}

impl Lease {
    /// Lease of an ACK, unless its duration is missing or zero; T1 and T2 default to half and seven
    /// eighths (RFC 2131 §4.4.5).
    fn new(now: Time, received: &Message, server: Ipv4Addr) -> Option<Self> {
        let lease_s = u64::from(received.lease_s.filter(|seconds| *seconds > 0)?);
        let is_infinite = lease_s == u64::from(u32::MAX);
        let after = |s: u64| if is_infinite { Time::MAX } else { now + Span::from_secs(s) };
        let rebind_s = received.rebind_s.map_or(lease_s * 7 / 8, u64::from).min(lease_s);
        let renew_s = received.renew_s.map_or(lease_s / 2, u64::from).min(rebind_s);
        Some(Self {
            addr: received.yours,
            prefix: received.prefix.unwrap_or(24),
            router: received.router,
            server,
            until: after(lease_s),
            renew_at: after(renew_s),
            rebind_at: after(rebind_s),
        })
    }
}

/// True if `addr` is a valid host address.
fn is_host(addr: Ipv4Addr) -> bool {
    !addr.is_unspecified() && !addr.is_broadcast() && !addr.is_multicast() && !addr.is_loopback()
}

impl Stack {
    /// Current lease of this host's IPv4 address, if obtained by DHCP.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.ip.dhcp.as_ref()?.lease()
    }

    /// True if the IPv4 address is obtained by DHCP.
    pub(in crate::stack) fn requests_address(&self) -> bool {
        self.ip.dhcp.is_some()
    }

    pub(super) fn run_dhcp(&mut self, now: Time) {
        while let Some(act) = self.ip.dhcp.as_mut().and_then(|client| client.poll(now)) {
            self.act(act);
        }
    }

    /// Handles a datagram for the DHCP client port.
    pub(super) fn on_dhcp(&mut self, now: Time, payload: &[u8]) -> Result<(), Malformed> {
        let message = Message::parse(payload)?;
        let act = self.ip.dhcp.as_mut().and_then(|client| client.on_message(now, &message));
        if let Some(act) = act {
            self.act(act);
        }
        self.run_dhcp(now);
        self.watch_ip_clock();
        Ok(())
    }

    fn act(&mut self, act: DhcpAction) {
        match act {
            DhcpAction::Use(lease) => {
                self.counters.leases += 1;
                (self.config.addr, self.config.prefix) = (lease.addr, lease.prefix);
                self.config.gateway = lease.router;
            }
            DhcpAction::Lose => {
                self.counters.addresses_lost += 1;
                self.config.addr = Ipv4Addr::UNSPECIFIED;
                self.config.gateway = None;
            }
            DhcpAction::Send(message, server) => {
                let mut body = Vec::new();
                message.emit(&mut body);
                let datagram =
                    udp::Datagram { source_port: CLIENT_PORT, target_port: SERVER_PORT, payload: &body };
                let (source, target) = (message.client, server.unwrap_or(Ipv4Addr::BROADCAST));
                let mut payload = vec![0; datagram.len()];
                datagram.emit(source, target, &mut payload);
                let (source, target) = (IpAddr::V4(source), IpAddr::V4(target));
                let protocol = Protocol::Udp;
                if server.is_none() {
                    self.reply(Reply::packet(BROADCAST, source, target, protocol, payload));
                } else {
                    let ident = self.ip.idents.next(&self.config.secret, source, target);
                    let mac = [0; 6];
                    let marks = TrafficClass::default();
                    let (dont_fragment, sent, hops) = (false, 0, protocol.hops());
                    let packet = Outgoing {
                        mac,
                        source,
                        target,
                        protocol,
                        marks,
                        hops,
                        dont_fragment,
                        payload,
                        ident,
                        sent,
                    };
                    self.udp.outbox.queue(packet, &mut self.counters);
                }
            }
        }
    }
}
