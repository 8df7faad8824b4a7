//! Who is urgent: classifiers that the application defines.
//!
//! Two places ask. The driver asks once per frame, before any copy
//! ([`DriverClassifier`], the paper's `pri_filter`); the transport asks once
//! per segment that carries payload and knows the flow
//! ([`TransportClassifier`], `pri_extraction`). The transport asks when the
//! segment's turn in the byte stream has come: one that came early is shown
//! once the gap before it has closed, of a retransmission only the new bytes.
//! So a classifier sees the stream in order and each byte once, unless it
//! drops the segment; only then do the same bytes come again. A verdict that is out of range
//! and a classifier that panics both mean *no verdict*, and are counted.
//!
//! A classifier is a closure: an application's own, one of the shipped
//! [`scenarios`], several joined with [`first_of`] or [`most_urgent_of`], or
//! the rules of a [`Policy`] that an operator wrote in TOML.
//! Source: ADPS §2.1, §2.2; M1–M5.

use std::any::Any;
use std::sync::Arc;

use queueing::{Bytes, Priority, Span, Time};

pub(crate) mod catch_panic;
mod combine;
pub mod l7;
mod packet_view;
pub mod private;
pub mod rules;
pub mod scenarios;

#[cfg(test)]
mod testing;

pub use combine::{Combine, first_of, most_urgent_of};
pub use packet_view::{IpView, Ipv4View, PacketView};
pub use rules::{Policy, PolicyError};
pub use scenarios::SCENARIOS;

/// Which of the two places asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Once per received frame, before any copy: `pri_filter`.
    Driver,
    /// Once per segment with payload, in order, knowing the flow: `pri_extraction`.
    Transport,
}

impl std::fmt::Display for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Driver => "driver",
            Self::Transport => "transport",
        })
    }
}

/// What a classifier says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No opinion: what was decided before stands, or else the default.
    NoVerdict,
    /// This level; outside 0..=7 it is counted as bad and means [`Verdict::Keep`].
    Level(u8),
    /// The same, for want of something better: where the packet belongs to a
    /// connection, what is known of that says when it leaves the receive buffer.
    Default(u8),
    /// Drop the packet now. At the driver this is free; at the transport the
    /// segment counts as lost.
    Drop,
}

impl From<Priority> for Verdict {
    fn from(priority: Priority) -> Self {
        Self::Level(priority.level())
    }
}

/// What is known of a frame besides its bytes; travels with it.
#[derive(Clone, Copy, Debug)]
pub struct PacketMeta {
    /// When the device received it.
    pub received: Time,
    /// Length of the frame in bytes.
    pub bytes: u16,
    /// The driver's verdict, if it gave one (M6).
    pub priority: Option<Priority>,
    /// That verdict was [`Verdict::Default`].
    pub by_default: bool,
    /// The device vouches for the transport checksum: it is not looked at again.
    pub checked: bool,
}

impl PacketMeta {
    /// What is known of a frame of `bytes` bytes before anybody has looked at it.
    #[must_use]
    pub fn new(received: Time, bytes: usize) -> Self {
        let bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
        Self { received, bytes, priority: None, by_default: false, checked: false }
    }
}

/// `pri_filter`: called for every received frame (M1).
pub type DriverClassifier = Arc<dyn Fn(&PacketView<'_>) -> Verdict + Send + Sync>;

/// `pri_extraction`: called for every segment that carries payload, when its
/// turn in the stream has come (M2).
pub type TransportClassifier = Arc<dyn Fn(&mut FlowContext<'_>) -> Verdict + Send + Sync>;

/// What the flow has been like so far (M4).
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowState {
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Span>,
    /// Segments retransmitted of the latest thousands of segments sent, 0.0..=1.0.
    pub loss: f32,
    /// Payload received in order, this segment included: the stream position
    /// after its last byte.
    pub received: Bytes,
    /// Payload sent and acknowledged.
    pub sent: Bytes,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Whether the connection recovers from loss now.
    pub recovering: bool,
}

/// 64 bytes per connection that the classifier and the application share (M5).
pub type Private = [u8; 64];

/// Memory of the application's that it attaches to a connection (M5).
pub type AppMemory = Arc<dyn Any + Send + Sync>;

/// What a classifier keeps of one connection, for as long as that lives.
pub trait Memory: Any + Send + Sync {
    /// The application writes to the connection at `now`.
    fn on_answer(&mut self, now: Time) {
        let _ = now;
    }
}

/// What a transport classifier may see and change.
pub struct FlowContext<'a> {
    /// When it is asked.
    pub now: Time,
    /// The packet's metadata; `priority` is the driver's verdict.
    pub meta: &'a PacketMeta,
    /// What is new of the segment's payload: never empty, in order.
    pub payload: &'a [u8],
    /// The peer's and our port and address.
    pub tuple: &'a crate::wire::FourTuple,
    /// The flow so far.
    pub flow: FlowState,
    /// State kept across packets, shared with the application.
    pub private: &'a mut Private,
    /// Application memory attached to the connection, if any.
    pub app: Option<&'a (dyn Any + Send + Sync)>,
    /// What a classifier keeps of the connection, beyond the private bytes; it
    /// belongs to whoever has put it there. None where there is no connection.
    pub memory: Option<&'a mut Option<Box<dyn Memory>>>,
    /// Put a classifier here to replace this one from the next segment on (M3).
    pub successor: Option<TransportClassifier>,
}
