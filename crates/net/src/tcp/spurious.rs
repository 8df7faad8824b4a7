//! Detection of spurious retransmissions: the original was only late, not lost.
//!
//! - Before the first retransmission, an ACK of new data can only answer an original (Linux,
//!   `tcp_packet_delayed`), for example if several segments arrived before any was sent.
//! - With timestamps, the first ACK of new data shows which copy it answers (Eifel, RFC 3522).
//! - Without timestamps, after a timeout, new data is sent once instead of old. If an ACK then covers
//!   data that was never retransmitted, nothing was lost (F-RTO, RFC 5682).
//! - Otherwise D-SACKs decide, though later: once every retransmission of an episode is reported
//!   as received twice, all originals arrived (RFC 2883, RFC 3708).
//!
//! The response is the caller's: RFC 4015, through `CongestionControl::on_undo`.

use queueing::Time;
use wire::tcp::Seq;

use super::rack::millis;

/// Detection state of one recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spurious {
    eifel: Eifel,
    frto: Frto,
    /// True while nothing was retransmitted, in this recovery or in the one that it follows.
    unsent: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Eifel {
    #[default]
    Off,
    /// Nothing was retransmitted yet.
    Armed,
    /// Millisecond of the first retransmission (RetransmitTS).
    Sent(u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Frto {
    #[default]
    Off,
    /// Step 1 done: the first segment was retransmitted; step 2 awaits an ACK.
    First,
    /// New data is being sent; step 3 awaits an ACK.
    Second,
}

/// Retransmissions of the latest recovery that no D-SACK has reported.
///
/// Outlives the recovery, which the originals may end before the D-SACKs arrive, and the flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Undo {
    /// Start of the recovery (undo_marker).
    start: Seq,
    /// Distance from `start` to `snd_nxt` at the last retransmission, in units of 64 KiB.
    ///
    /// Once a window more is acknowledged, a D-SACK has another cause.
    steps: u16,
    /// Unreported retransmissions (undo_retrans) plus 1.
    ///
    /// 0 if there is nothing to undo; saturated if there are too many to count.
    left: u16,
}

impl Undo {
    /// Starts a recovery whose first unacknowledged number is `una`.
    pub(crate) fn start(&mut self, una: Seq) {
        *self = Self { start: una, steps: 0, left: 1 };
    }

    /// True if a D-SACK can still prove the recovery spurious.
    pub(crate) fn is_open(&self) -> bool {
        self.left > 0
    }

    /// Counts a retransmission, with `nxt` as the next sequence number to send.
    pub(crate) fn on_retransmission(&mut self, nxt: Seq) {
        if self.is_open() {
            self.steps = (nxt - self.start).div_ceil(1 << 16).min(u32::from(u16::MAX)) as u16;
            self.left = self.left.saturating_add(1);
        }
    }

    /// Processes a D-SACK of `twice`; returns true if it reports the last retransmission.
    ///
    /// `una` is the acknowledgement, `window` the congestion window in bytes, `mss` the segment
    /// size.
    pub(crate) fn on_twice(&mut self, twice: (Seq, Seq), una: Seq, window: u32, mss: u16) -> bool {
        if una.after(self.start + (u32::from(self.steps) << 16) + window) {
            self.left = 0;
        }
        let of_this = twice.1.at_or_before(una) && twice.1.after(self.start);
        if self.left < 2 || self.left == u16::MAX || !of_this {
            return false;
        }
        let segments = (twice.1 - twice.0).div_ceil(u32::from(mss)).clamp(1, u32::from(self.left - 1));
        self.left -= segments as u16;
        self.left == 1
    }
}

/// Properties of an acknowledgement during recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// Acknowledges new data.
    pub(crate) advances: bool,
    /// Ends the recovery: everything that was in flight is acknowledged.
    pub(crate) ends: bool,
    /// Delivers a segment of that flight that was never retransmitted.
    pub(crate) original: bool,
    /// Acknowledges a segment retransmitted in an earlier recovery or as a tail loss probe.
    pub(crate) retransmitted: bool,
    /// Echoed timestamp, in our milliseconds.
    pub(crate) echo_ms: Option<u32>,
    /// Both sides support SACK.
    pub(crate) sack: bool,
    /// New data could be sent, if the congestion window allows it.
    pub(crate) can_send_new: bool,
}

impl Spurious {
    /// Starts detection in fast recovery.
    pub(crate) fn on_loss(&mut self) {
        *self = Self { eifel: Eifel::Armed, frto: Frto::Off, unsent: true };
    }

    /// Starts detection after a retransmission timeout, the first or one of several (`repeatedly`).
    pub(crate) fn on_timeout(&mut self, timestamps: bool, repeatedly: bool) {
        *self = match (repeatedly, timestamps) {
            (true, _) => Self::default(),
            (false, true) => Self { eifel: Eifel::Armed, frto: Frto::Off, unsent: true },
            (false, false) => Self { eifel: Eifel::Off, frto: Frto::First, unsent: true },
        };
    }

    /// Records a retransmission.
    pub(crate) fn on_retransmission(&mut self, now: Time) {
        self.unsent = false;
        if self.eifel == Eifel::Armed {
            self.eifel = Eifel::Sent(millis(now));
        }
    }

    /// True if only new data may be sent now.
    pub(crate) fn wants_new_data(&self) -> bool {
        self.frto == Frto::Second
    }

    /// Evaluates an acknowledgement; returns true if the recovery is spurious.
    pub(crate) fn on_ack(&mut self, e: &Evidence) -> bool {
        if self.unsent && e.advances && !e.retransmitted {
            *self = Self::default();
            return true;
        }
        if let (Eifel::Sent(sent_ms), true) = (self.eifel, e.advances) {
            self.eifel = Eifel::Off;
            if e.echo_ms.is_some_and(|echo_ms| (echo_ms.wrapping_sub(sent_ms) as i32) < 0) {
                return true;
            }
        }
        match self.frto {
            Frto::Off => false,
            Frto::First => {
                let goes_on = e.advances && !e.ends && e.can_send_new;
                self.frto = if goes_on { Frto::Second } else { Frto::Off };
                false
            }
            Frto::Second => {
                self.frto = Frto::Off;
                if e.sack { e.original } else { e.advances }
            }
        }
    }
}

//~ recovery: a spurious timeout is undone, by timestamps or F-RTO (RFC 3522, 4015, 5682)
#[cfg(test)]
mod tests {
    use super::*;

    const ADVANCE: Evidence = Evidence {
        advances: true,
        ends: false,
        original: false,
        retransmitted: false,
        echo_ms: None,
        sack: true,
        can_send_new: true,
    };

    //~ recovery: a recovery whose retransmissions all arrived twice is undone (RFC 3708)
    #[test]
    fn a_recovery_was_spurious_once_all_its_retransmissions_are_reported_as_duplicates() {
        let twice = |undo: &mut Undo, n: u32| {
            undo.on_twice((Seq(n * 1000), Seq(n * 1000 + 1000)), Seq(9000), 10_000, 1000)
        };
        let mut undo = Undo::default();
        assert!(!twice(&mut undo, 1), "no recovery");
        undo.start(Seq(1000));
        assert!(!twice(&mut undo, 1), "no retransmission yet");
        (0..3).for_each(|_| undo.on_retransmission(Seq(9000)));
        assert!(!twice(&mut undo, 0), "before the recovery");
        assert_eq!([1, 2, 3].map(|n| twice(&mut undo, n)), [false, false, true]);
        assert!(!twice(&mut undo, 4), "more reports than retransmissions");
    }

    #[test]
    fn a_dsack_counts_for_its_segments_and_expires() {
        let mut undo = Undo::default();
        undo.start(Seq(0));
        (0..2).for_each(|_| undo.on_retransmission(Seq(5000)));
        assert!(undo.on_twice((Seq(0), Seq(1500)), Seq(5000), 10_000, 1000));
        undo.start(Seq(0));
        undo.on_retransmission(Seq(5000));
        assert!(!undo.on_twice((Seq(0), Seq(1000)), Seq(65_536 + 10_001), 10_000, 1000));
        assert!(!undo.is_open());
    }

    fn sent_at_ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn eifel(echo_ms: u32) -> bool {
        let mut spurious = Spurious::default();
        spurious.on_timeout(true, false);
        spurious.on_retransmission(sent_at_ms(20));
        spurious.on_retransmission(sent_at_ms(30));
        spurious.on_ack(&Evidence { echo_ms: Some(echo_ms), ..ADVANCE })
    }

    #[test]
    fn echo_older_than_the_first_retransmission_is_of_the_original() {
        assert!(eifel(19));
        assert!(!eifel(20) && !eifel(30));
    }

    #[test]
    fn only_the_first_acknowledgement_decides() {
        let mut spurious = Spurious::default();
        spurious.on_loss();
        spurious.on_retransmission(sent_at_ms(20));
        assert!(!spurious.on_ack(&Evidence { advances: false, echo_ms: Some(10), ..ADVANCE }), "a duplicate");
        assert!(!spurious.on_ack(&Evidence { echo_ms: Some(20), ..ADVANCE }));
        assert!(!spurious.on_ack(&Evidence { echo_ms: Some(10), ..ADVANCE }));
    }

    #[test]
    fn an_acknowledged_segment_that_was_not_retransmitted_was_only_late() {
        let starts: [fn(&mut Spurious); 3] =
            [Spurious::on_loss, |s| s.on_timeout(false, false), |s| s.on_timeout(true, false)];
        for start in starts {
            let judge = |record_retransmission: bool, e: Evidence| {
                let mut spurious = Spurious::default();
                start(&mut spurious);
                if record_retransmission {
                    spurious.on_retransmission(sent_at_ms(20));
                }
                spurious.on_ack(&e)
            };
            assert!(judge(false, ADVANCE) && judge(false, Evidence { ends: true, ..ADVANCE }));
            assert!(!judge(false, Evidence { advances: false, ..ADVANCE }), "a duplicate");
            assert!(!judge(false, Evidence { retransmitted: true, ..ADVANCE }), "retransmitted probe");
            assert!(!judge(true, ADVANCE));
        }
    }

    fn frto(answers: [Evidence; 2]) -> [(bool, bool); 2] {
        let mut spurious = Spurious::default();
        spurious.on_timeout(false, false);
        spurious.on_retransmission(sent_at_ms(20));
        answers.map(|e| (spurious.on_ack(&e), spurious.wants_new_data()))
    }

    #[test]
    fn timeout_was_spurious_if_two_acknowledgements_advance_by_originals() {
        assert_eq!(frto([ADVANCE, Evidence { original: true, ..ADVANCE }]), [(false, true), (true, false)]);
        assert_eq!(frto([ADVANCE, ADVANCE]), [(false, true), (false, false)]);
        let reno = Evidence { sack: false, ..ADVANCE };
        assert_eq!(frto([reno, reno]), [(false, true), (true, false)]);
        assert_eq!(frto([reno, Evidence { advances: false, ..reno }]), [(false, true), (false, false)]);
    }

    #[test]
    fn timeout_was_genuine_if_a_duplicate_arrives_first_or_no_new_data_can_be_sent() {
        for first in [
            Evidence { advances: false, ..ADVANCE },
            Evidence { ends: true, ..ADVANCE },
            Evidence { can_send_new: false, ..ADVANCE },
        ] {
            assert_eq!(frto([first, Evidence { original: true, ..ADVANCE }]), [(false, false); 2]);
        }
    }

    #[test]
    fn second_consecutive_timeout_is_genuine() {
        let mut spurious = Spurious::default();
        spurious.on_timeout(true, true);
        spurious.on_retransmission(sent_at_ms(20));
        assert!(!spurious.on_ack(&Evidence { echo_ms: Some(1), ..ADVANCE }));
    }
}
