//! Packet classifiers defined by the application.
//!
//! The driver calls a [`DriverClassifier`] (the paper's `pri_filter`) once per frame, before any
//! copy. The transport calls a [`TransportClassifier`] (`pri_extraction`) once per segment with
//! payload and passes the state of the flow. A transport classifier sees the stream in order: an
//! out-of-order segment is passed after the gap before it has closed, and only the new bytes of a
//! retransmission are passed. It sees each byte once, unless it drops the segment; the same bytes
//! then arrive again. An out-of-range verdict and a panic of the classifier both count as *no
//! verdict*, each with its counter.
//!
//! A classifier is a closure: an application's own, one of the shipped [`scenarios`], several
//! combined with [`first_of`] or [`most_urgent_of`], or the rules of a TOML [`Policy`].
//! Source: ADPS §2.1, §2.2; M1–M5.
#![forbid(unsafe_code)]

use std::any::Any;
use std::sync::Arc;

use queueing::{Bytes, Priority, Span, Time};

pub mod catch_panic;
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

/// Layer that calls a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Once per received frame, before any copy: `pri_filter`.
    Driver,
    /// Once per segment with payload, in order, with the state of the flow: `pri_extraction`.
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

/// Decision of a classifier about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No decision: the earlier verdict holds, or else the default level.
    NoVerdict,
    /// Priority level. A level outside 0..=7 is counted and means [`Verdict::NoVerdict`].
    Level(u8),
    /// Fallback level. If the packet belongs to a connection whose level is known, that level
    /// replaces it when the packet leaves the receive buffer.
    Default(u8),
    /// Drop the packet now. A dropped frame costs the driver nothing more; a dropped segment counts
    /// as lost at the transport.
    Drop,
}

impl From<Priority> for Verdict {
    fn from(priority: Priority) -> Self {
        Self::Level(priority.level())
    }
}

/// Metadata that accompanies a frame.
#[derive(Clone, Copy, Debug)]
pub struct PacketMeta {
    /// Time at which the device received the frame.
    pub received: Time,
    /// Length of the frame in bytes.
    pub bytes: u16,
    /// Verdict of the driver, if any (ADPS M6).
    pub priority: Option<Priority>,
    /// True if that verdict was [`Verdict::Default`].
    pub by_default: bool,
    /// True if the device has verified the transport checksum, which is then not verified again.
    pub checked: bool,
}

impl PacketMeta {
    /// Metadata of a frame of `bytes` bytes before classification.
    #[must_use]
    pub fn new(received: Time, bytes: usize) -> Self {
        let bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
        Self { received, bytes, priority: None, by_default: false, checked: false }
    }
}

/// `pri_filter`: called for every received frame (ADPS M1).
pub type DriverClassifier = Arc<dyn Fn(&PacketView<'_>) -> Verdict + Send + Sync>;

/// `pri_extraction`: called for every segment with payload, in stream order (ADPS M2).
pub type TransportClassifier = Arc<dyn Fn(&mut FlowContext<'_>) -> Verdict + Send + Sync>;

/// State of the flow so far (ADPS M4).
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowState {
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Span>,
    /// Share of the last thousands of segments sent that were retransmissions, 0.0..=1.0.
    pub loss: f32,
    /// Payload received in order, including this segment: the stream offset after its last byte.
    pub received: Bytes,
    /// Payload sent and acknowledged.
    pub sent: Bytes,
    /// Congestion window.
    pub cwnd: Bytes,
    /// True if the connection is in loss recovery.
    pub recovering: bool,
}

/// 64 bytes per connection, shared by the classifier and the application (ADPS M5).
pub type Private = [u8; 64];

/// Application memory attached to a connection (ADPS M5).
pub type AppMemory = Arc<dyn Any + Send + Sync>;

/// State that a classifier keeps for the lifetime of one connection.
pub trait ConnectionState: Any + Send + Sync {
    /// The application writes to the connection at `now`.
    fn on_answer(&mut self, now: Time) {
        let _ = now;
    }
}

/// Input of a transport classifier, and the state it may change.
pub struct FlowContext<'a> {
    /// Time of the call.
    pub now: Time,
    /// Metadata of the packet; `priority` is the driver's verdict.
    pub meta: &'a PacketMeta,
    /// New part of the segment's payload: in order and never empty.
    pub payload: &'a [u8],
    /// Local and remote address and port.
    pub tuple: &'a wire::FourTuple,
    /// State of the flow so far.
    pub flow: FlowState,
    /// State kept across packets and shared with the application.
    pub private: &'a mut Private,
    /// Application memory attached to the connection, if any.
    pub app: Option<&'a (dyn Any + Send + Sync)>,
    /// Connection state of a classifier, beyond the private bytes. It belongs to the classifier
    /// that stored it. `None` where there is no connection.
    pub memory: Option<&'a mut Option<Box<dyn ConnectionState>>>,
    /// Classifier that replaces this one from the next segment on, if set (ADPS M3).
    pub successor: Option<TransportClassifier>,
}
