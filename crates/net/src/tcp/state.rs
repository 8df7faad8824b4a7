//! The states of a connection and the steps between them, as one table.
//!
//! LISTEN is not here: a listener is an entry of the stack, not a connection.
//! Source: RFC 9293 §3.3.2.

use queueing::Time;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Our SYN is out.
    SynSent,
    /// Both SYNs are out; ours is not acknowledged yet.
    SynReceived {
        /// A listener opened it; otherwise both sides did at once.
        passive: bool,
    },
    /// Data flows both ways.
    Established,
    /// We closed; the peer has not acknowledged that yet.
    FinWait1,
    /// We closed and the peer knows; its half is open.
    FinWait2,
    /// The peer closed; our half is open.
    CloseWait,
    /// Both closed at once; the peer has not acknowledged ours yet.
    Closing,
    /// The peer closed, then we did; our FIN is not acknowledged yet.
    LastAck,
    /// Both closed; late duplicates are awaited.
    TimeWait {
        /// When the connection may be forgotten.
        until: Time,
    },
    /// Gone; the slot is kept until the application has heard of it.
    Closed,
}

/// What moves a connection from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The peer's SYN came and acknowledges ours.
    SynAck,
    /// The peer's SYN came without knowing ours.
    Syn,
    /// Our SYN was acknowledged.
    SynAcked,
    /// The application closes its half.
    Close,
    /// The peer's FIN came in order.
    Fin {
        /// When TIME-WAIT ends, should it start now.
        until: Time,
    },
    /// Our FIN was acknowledged.
    FinAcked {
        /// When TIME-WAIT ends, should it start now.
        until: Time,
    },
}

impl State {
    /// The state after `step`; a step that does not belong here changes nothing.
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

    /// Whether the application may still send.
    #[inline]
    pub(crate) fn can_send(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived { .. } | Self::Established | Self::CloseWait)
    }

    /// Whether the peer may still send.
    #[inline]
    pub(crate) fn can_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether the peer may send, now or once the handshake is done.
    #[inline]
    pub(crate) fn can_receive_soon(self) -> bool {
        self.can_receive() || matches!(self, Self::SynReceived { .. })
    }

    /// Whether the application has no more to do with it than to hear so.
    #[inline]
    pub(crate) fn is_ending(self) -> bool {
        matches!(self, Self::TimeWait { .. } | Self::Closed)
    }

    /// Whether the peer has to hear of an abort (RFC 9293 §3.10.5).
    pub(crate) fn is_reset_by_abort(self) -> bool {
        matches!(
            self,
            Self::SynReceived { .. } | Self::Established | Self::FinWait1 | Self::FinWait2 | Self::CloseWait
        )
    }

    /// Whether both SYNs have been acknowledged.
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

    #[test]
    fn every_way_through_life_ends_where_the_rfc_says() {
        use State::*;
        let (fin, acked) = (Step::Fin { until: UNTIL }, Step::FinAcked { until: UNTIL });
        let done = TimeWait { until: UNTIL };
        check(SynSent, &[Step::SynAck, Step::Close, acked, fin], done);
        check(SynSent, &[Step::Syn, Step::SynAcked, Step::Close, fin, acked], done);
        check(SynReceived { passive: true }, &[Step::SynAcked, fin, Step::Close, acked], Closed);
        check(SynReceived { passive: true }, &[Step::Close, acked, fin], done);
    }

    #[test]
    fn steps_out_of_place_change_nothing() {
        for step in [Step::SynAck, Step::Syn, Step::SynAcked, Step::Close] {
            check(State::TimeWait { until: UNTIL }, &[step], State::TimeWait { until: UNTIL });
            check(State::Closed, &[step], State::Closed);
        }
    }
}
