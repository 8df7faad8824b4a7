//! Whether a retransmission was a mistake: the original was only late.
//!
//! As long as nothing was sent again, an acknowledgement of new data can only
//! answer an original (Linux, `tcp_packet_delayed`): so it is where segments that
//! came together are judged one after the other before anything is sent.
//! With timestamps the first acknowledgement of new data says which of the two
//! it answers (Eifel, RFC 3522). Without, and after a timeout only, new data
//! is sent instead of old for once: if what was never sent again is then
//! acknowledged, nothing had been lost (F-RTO, RFC 5682). Where neither can
//! tell, the peer's reports do, if late: once every retransmission of an
//! episode was reported as having come twice, so did all originals (D-SACK,
//! RFC 2883, RFC 3708). The answer is the caller's: RFC 4015, through `CongestionControl::on_undo`.

use queueing::Time;

use super::rack::millis;
use crate::wire::tcp::Seq;

/// What is known so far in one episode of repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spurious {
    eifel: Eifel,
    frto: Frto,
    /// Nothing was sent again yet, in this episode or in one that it follows.
    unsent: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Eifel {
    #[default]
    Off,
    /// Nothing was sent again yet.
    Armed,
    /// The first retransmission left at this millisecond (RetransmitTS).
    Sent(u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Frto {
    #[default]
    Off,
    /// The first segment was sent again; step 2 awaits an answer.
    First,
    /// New data goes out; step 3 awaits an answer.
    Second,
}

/// Which retransmissions of the latest repair the peer has not reported as
/// duplicates. It outlives the repair, which the originals may end before the
/// reports come, and the flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Undo {
    /// Where the repair began (undo_marker).
    start: Seq,
    /// How far beyond that had been sent, in steps of 64 KiB, when a segment
    /// last went again: once a window more is acknowledged, a report has
    /// another reason.
    steps: u16,
    /// Retransmissions that were not reported (undo_retrans), and one more; 0
    /// when there is nothing to undo, the largest number when there are too
    /// many to count.
    left: u16,
}

impl Undo {
    /// A repair starts with the first unacknowledged number, `una`.
    pub(crate) fn start(&mut self, una: Seq) {
        *self = Self { start: una, steps: 0, left: 1 };
    }

    /// Whether a report can still say something.
    pub(crate) fn is_open(&self) -> bool {
        self.left > 0
    }

    /// A segment is sent again, with `nxt` to be sent next.
    pub(crate) fn on_sent_again(&mut self, nxt: Seq) {
        if self.is_open() {
            self.steps = (nxt - self.start).div_ceil(1 << 16).min(u32::from(u16::MAX)) as u16;
            self.left = self.left.saturating_add(1);
        }
    }

    /// The peer reports that `twice` came a second time, when all before `una`
    /// is acknowledged and `window` bytes may be in flight, in segments of
    /// `mss`; `true` when that was the last retransmission.
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

/// What an acknowledgement during repair shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// It acknowledges new data.
    pub(crate) advances: bool,
    /// It ends the episode: everything that was in flight is acknowledged.
    pub(crate) ends: bool,
    /// It delivers a segment of that flight which was never sent again.
    pub(crate) original: bool,
    /// It acknowledges a segment that was sent again, in an episode before or as
    /// a tail loss probe.
    pub(crate) again: bool,
    /// The timestamp it echoes, in our milliseconds.
    pub(crate) echo_ms: Option<u32>,
    /// Both sides understand SACK.
    pub(crate) sack: bool,
    /// There is new data to send, and nothing but the congestion window that
    /// might hold it back.
    pub(crate) can_send_new: bool,
}

impl Spurious {
    /// Fast recovery starts.
    pub(crate) fn on_loss(&mut self) {
        *self = Self { eifel: Eifel::Armed, frto: Frto::Off, unsent: true };
    }

    /// The retransmission timer fired, for the first time or `repeatedly`.
    pub(crate) fn on_timeout(&mut self, timestamps: bool, repeatedly: bool) {
        *self = match (repeatedly, timestamps) {
            (true, _) => Self::default(),
            (false, true) => Self { eifel: Eifel::Armed, frto: Frto::Off, unsent: true },
            (false, false) => Self { eifel: Eifel::Off, frto: Frto::First, unsent: true },
        };
    }

    /// A segment is sent again.
    pub(crate) fn on_sent_again(&mut self, now: Time) {
        self.unsent = false;
        if self.eifel == Eifel::Armed {
            self.eifel = Eifel::Sent(millis(now));
        }
    }

    /// Whether only new data may go out for now.
    pub(crate) fn wants_new_data(&self) -> bool {
        self.frto == Frto::Second
    }

    /// Judges an acknowledgement; `true` when the repair was a mistake.
    pub(crate) fn on_ack(&mut self, e: &Evidence) -> bool {
        if self.unsent && e.advances && !e.again {
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

#[cfg(test)]
mod tests {
    use super::*;

    const ADVANCE: Evidence = Evidence {
        advances: true,
        ends: false,
        original: false,
        again: false,
        echo_ms: None,
        sack: true,
        can_send_new: true,
    };

    #[test]
    fn a_repair_was_a_mistake_once_all_it_sent_came_twice() {
        let twice = |undo: &mut Undo, n: u32| {
            undo.on_twice((Seq(n * 1000), Seq(n * 1000 + 1000)), Seq(9000), 10_000, 1000)
        };
        let mut undo = Undo::default();
        assert!(!twice(&mut undo, 1), "nothing was repaired");
        undo.start(Seq(1000));
        assert!(!twice(&mut undo, 1), "nothing was sent again yet");
        (0..3).for_each(|_| undo.on_sent_again(Seq(9000)));
        assert!(!twice(&mut undo, 0), "before the repair");
        assert_eq!([1, 2, 3].map(|n| twice(&mut undo, n)), [false, false, true]);
        assert!(!twice(&mut undo, 4), "one too many");
    }

    #[test]
    fn a_report_counts_for_as_many_segments_as_it_has_and_not_for_ever() {
        let mut undo = Undo::default();
        undo.start(Seq(0));
        (0..2).for_each(|_| undo.on_sent_again(Seq(5000)));
        assert!(undo.on_twice((Seq(0), Seq(1500)), Seq(5000), 10_000, 1000));
        undo.start(Seq(0));
        undo.on_sent_again(Seq(5000));
        assert!(!undo.on_twice((Seq(0), Seq(1000)), Seq(65_536 + 10_001), 10_000, 1000));
        assert!(!undo.is_open());
    }

    fn sent_at_ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn eifel(echo_ms: u32) -> bool {
        let mut spurious = Spurious::default();
        spurious.on_timeout(true, false);
        spurious.on_sent_again(sent_at_ms(20));
        spurious.on_sent_again(sent_at_ms(30));
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
        spurious.on_sent_again(sent_at_ms(20));
        assert!(!spurious.on_ack(&Evidence { advances: false, echo_ms: Some(10), ..ADVANCE }), "a duplicate");
        assert!(!spurious.on_ack(&Evidence { echo_ms: Some(20), ..ADVANCE }));
        assert!(!spurious.on_ack(&Evidence { echo_ms: Some(10), ..ADVANCE }));
    }

    #[test]
    fn what_was_never_sent_again_was_only_late_if_it_is_acknowledged() {
        let starts: [fn(&mut Spurious); 3] =
            [Spurious::on_loss, |s| s.on_timeout(false, false), |s| s.on_timeout(true, false)];
        for start in starts {
            let judge = |sent_again: bool, e: Evidence| {
                let mut spurious = Spurious::default();
                start(&mut spurious);
                if sent_again {
                    spurious.on_sent_again(sent_at_ms(20));
                }
                spurious.on_ack(&e)
            };
            assert!(judge(false, ADVANCE) && judge(false, Evidence { ends: true, ..ADVANCE }));
            assert!(!judge(false, Evidence { advances: false, ..ADVANCE }), "a duplicate");
            assert!(!judge(false, Evidence { again: true, ..ADVANCE }), "a probe went again");
            assert!(!judge(true, ADVANCE));
        }
    }

    fn frto(answers: [Evidence; 2]) -> [(bool, bool); 2] {
        let mut spurious = Spurious::default();
        spurious.on_timeout(false, false);
        spurious.on_sent_again(sent_at_ms(20));
        answers.map(|e| (spurious.on_ack(&e), spurious.wants_new_data()))
    }

    #[test]
    fn timeout_was_a_mistake_if_two_acknowledgements_advance_by_originals() {
        assert_eq!(frto([ADVANCE, Evidence { original: true, ..ADVANCE }]), [(false, true), (true, false)]);
        assert_eq!(frto([ADVANCE, ADVANCE]), [(false, true), (false, false)]);
        let reno = Evidence { sack: false, ..ADVANCE };
        assert_eq!(frto([reno, reno]), [(false, true), (true, false)]);
        assert_eq!(frto([reno, Evidence { advances: false, ..reno }]), [(false, true), (false, false)]);
    }

    #[test]
    fn timeout_was_right_if_a_duplicate_comes_first_or_nothing_new_can_be_sent() {
        for first in [
            Evidence { advances: false, ..ADVANCE },
            Evidence { ends: true, ..ADVANCE },
            Evidence { can_send_new: false, ..ADVANCE },
        ] {
            assert_eq!(frto([first, Evidence { original: true, ..ADVANCE }]), [(false, false); 2]);
        }
    }

    #[test]
    fn second_timeout_in_a_row_is_believed() {
        let mut spurious = Spurious::default();
        spurious.on_timeout(true, true);
        spurious.on_sent_again(sent_at_ms(20));
        assert!(!spurious.on_ack(&Evidence { echo_ms: Some(1), ..ADVANCE }));
    }
}
