//! TCP connection states and their transitions, as one table.
//!
//! LISTEN is absent: a listener is an entry of the stack, not a connection.
//! Source: RFC 9293 §3.3.2.

use queueing::Time;

/// TCP state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// SYN-SENT: our SYN was sent.
    SynSent,
    /// SYN-RECEIVED: both SYNs were sent; ours is not acknowledged yet.
    SynReceived {
        /// Opened by a listener; otherwise a simultaneous open.
        passive: bool,
    },
    /// ESTABLISHED: data flows both ways.
    Established,
    /// FIN-WAIT-1: our FIN is queued or sent and not acknowledged yet.
    FinWait1,
    /// FIN-WAIT-2: our FIN is acknowledged; the peer's half is open.
    FinWait2,
    /// CLOSE-WAIT: the peer's FIN was received; our half is open.
    CloseWait,
    /// CLOSING: both sides closed at once; our FIN is not acknowledged yet.
    Closing,
    /// LAST-ACK: the peer closed, then we did; our FIN is not acknowledged yet.
    LastAck,
    /// TIME-WAIT: both sides closed; old duplicates may still arrive.
    TimeWait {
        /// End of the state.
        until: Time,
    },
    /// CLOSED; the slot is kept until the application has received the event.
    Closed,
}

/// Event that changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The peer's SYN-ACK was received.
    SynAck,
    /// The peer's SYN without ACK was received.
    Syn,
    /// Our SYN was acknowledged.
    SynAcked,
    /// The application closes its half.
    Close,
    /// The peer's FIN was received in order.
    Fin {
        /// End of TIME-WAIT, if it starts now.
        until: Time,
    },
    /// Our FIN was acknowledged.
    FinAcked {
        /// End of TIME-WAIT, if it starts now.
        until: Time,
    },
}

impl State {
    /// State after `step`; a step that does not apply changes nothing.
    #[must_use]
    #[inline]
    pub(crate) fn after(self, step: Step) -> Self {
        use State::*;
        match (self, step) {
            (SynSent, Step::SynAck) | (SynReceived { .. }, Step::SynAcked) => Established,
            (SynSent, Step::Syn) => SynReceived { passive: false },
            (Established | SynReceived { .. }, Step::Close) => FinWait1,
            (CloseWait, Step::Close) => LastAck,
            (Established, Step::Fin { .. }) => CloseWait,
            (FinWait1, Step::Fin { .. }) => Closing,
            (FinWait2, Step::Fin { until }) | (Closing, Step::FinAcked { until }) => TimeWait { until },
            (FinWait1, Step::FinAcked { .. }) => FinWait2,
            (LastAck, Step::FinAcked { .. }) => Closed,
            (same, _) => same,
        }
    }

    /// True if the application may still send.
    #[inline]
    pub(crate) fn can_send(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived { .. } | Self::Established | Self::CloseWait)
    }

    /// True if the peer may still send.
    #[inline]
    pub(crate) fn can_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// True if the peer may send, now or after the handshake.
    #[inline]
    pub(crate) fn can_receive_soon(self) -> bool {
        self.can_receive() || matches!(self, Self::SynReceived { .. })
    }

    /// True if the application can only wait for the end.
    #[inline]
    pub(crate) fn is_ending(self) -> bool {
        matches!(self, Self::TimeWait { .. } | Self::Closed)
    }

    /// True if an abort sends a reset (RFC 9293 §3.10.5).
    pub(crate) fn is_reset_by_abort(self) -> bool {
        matches!(
            self,
            Self::SynReceived { .. } | Self::Established | Self::FinWait1 | Self::FinWait2 | Self::CloseWait
        )
    }

    /// True once both SYNs are acknowledged.
    #[inline]
    pub(crate) fn is_synchronized(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived { .. } | Self::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: Time = Time::from_nanos(1);

    fn check(start: State, steps: &[Step], end: State) {
        assert_eq!(steps.iter().fold(start, |s, step| s.after(*step)), end);
    }

    //~ tcp: the table of states leads every path to the end that RFC 9293 §3.3.2 gives
    #[test]
    fn every_sequence_of_events_ends_in_the_state_of_the_rfc() {
        use State::*;
        let (fin, acked) = (Step::Fin { until: UNTIL }, Step::FinAcked { until: UNTIL });
        let done = TimeWait { until: UNTIL };
        check(SynSent, &[Step::SynAck, Step::Close, acked, fin], done);
        check(SynSent, &[Step::Syn, Step::SynAcked, Step::Close, fin, acked], done);
        check(SynReceived { passive: true }, &[Step::SynAcked, fin, Step::Close, acked], Closed);
        check(SynReceived { passive: true }, &[Step::Close, acked, fin], done);
    }

    //~ tcp: the table of states leads every path to the end that RFC 9293 §3.3.2 gives
    #[test]
    fn steps_out_of_place_change_nothing() {
        for step in [Step::SynAck, Step::Syn, Step::SynAcked, Step::Close] {
            check(State::TimeWait { until: UNTIL }, &[step], State::TimeWait { until: UNTIL });
            check(State::Closed, &[step], State::Closed);
        }
    }
}
