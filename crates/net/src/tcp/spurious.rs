//! Whether a retransmission was a mistake: the original was only late.
//!
//! With timestamps the first acknowledgement of new data says which of the two
//! it answers (Eifel, RFC 3522). Without, and after a timeout only, new data
//! is sent instead of old for once: if what was never sent again is then
//! acknowledged, nothing had been lost (F-RTO, RFC 5682). The answer is the
//! caller's: RFC 4015, through `CongestionControl::on_undo`.

use queueing::Time;

use super::rack::millis;

/// What is known so far in one episode of repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spurious {
    eifel: Eifel,
    frto: Frto,
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

/// What an acknowledgement during repair shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evidence {
    /// It acknowledges new data.
    pub(crate) advances: bool,
    /// It ends the episode: everything that was in flight is acknowledged.
    pub(crate) ends: bool,
    /// It delivers a segment of that flight which was never sent again.
    pub(crate) original: bool,
    /// The timestamp it echoes, in our milliseconds.
    pub(crate) echo_ms: Option<u32>,
    /// Both sides understand SACK.
    pub(crate) sack: bool,
    /// There is new data to send, and room in the peer's window.
    pub(crate) can_send_new: bool,
}

impl Spurious {
    /// Fast recovery starts.
    pub(crate) fn on_loss(&mut self) {
        *self = Self { eifel: Eifel::Armed, frto: Frto::Off };
    }

    /// The retransmission timer fired, for the first time or `repeatedly`.
    pub(crate) fn on_timeout(&mut self, timestamps: bool, repeatedly: bool) {
        *self = match (repeatedly, timestamps) {
            (true, _) => Self::default(),
            (false, true) => Self { eifel: Eifel::Armed, frto: Frto::Off },
            (false, false) => Self { eifel: Eifel::Off, frto: Frto::First },
        };
    }

    /// A segment is sent again.
    pub(crate) fn on_sent_again(&mut self, now: Time) {
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
        echo_ms: None,
        sack: true,
        can_send_new: true,
    };

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

    fn frto(answers: [Evidence; 2]) -> [(bool, bool); 2] {
        let mut spurious = Spurious::default();
        spurious.on_timeout(false, false);
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
