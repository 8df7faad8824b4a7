//! SYN cookies: a handshake without state.
//!
//! At the limit of half-open connections, a listener encodes the state of a handshake in its
//! SYN-ACK. The sequence number holds a keyed hash of the tuple and of the peer's sequence number,
//! the time in steps of 64 s, and the class of the peer's MSS; the lowest six bits of the timestamp
//! hold window scale, SACK and ECN. The stack keeps nothing until the peer proves, by acknowledging
//! the number, that it receives at its address. A guess succeeds once in 2^28: two epochs of 256
//! times eight classes of 2^24. A peer without timestamps gets neither SACK nor window scaling.
//!
//! Source: RFC 4987 §3.6; bit layout as in Linux.

use std::hash::Hasher;

use queueing::{Span, Time};
use siphasher::sip::SipHasher13;
use wire::FourTuple;
use wire::tcp::{Options, Seq, Timestamps};

use super::connection_table;

/// Policy for SYN cookies of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SynCookies {
    /// No cookies: SYNs beyond the limit of half-open connections are dropped.
    Off,
    /// Cookies only while the number of the listener's half-open connections is at its limit.
    #[default]
    WhenFull,
    /// Cookies for every SYN: no connection is ever half-open.
    Always,
}

/// Length of a cookie's epoch; a cookie is valid in its own epoch and the next.
const EPOCH: Span = Span::from_secs(64);
/// Longest validity of a cookie.
pub(super) const COOKIE_LIFE: Span = Span::from_secs(128);

/// MSS classes of a cookie; a peer's MSS is rounded down to one.
const MSS: [u16; 8] = [88, 536, 1220, 1360, 1440, 1452, 1460, 8960];

/// Purposes of the secret, in addition to those of the stack.
const HASH_TUPLE: u8 = 8;
const HASH_BASE: u8 = 9;
const HASH_PAD: u8 = 10;

/// Inputs of a stack's cookies.
#[derive(Clone, Copy)]
pub(super) struct Cookies<'a> {
    pub(super) secret: &'a [u8; 16],
    pub(super) now: Time,
}

impl Cookies<'_> {
    /// Initial sequence number in response to a SYN with sequence number `irs` and this MSS.
    pub(super) fn cookie_isn(&self, tuple: &FourTuple, irs: Seq, mss: u16) -> Seq {
        let class = MSS.iter().rposition(|known| *known <= mss).unwrap_or(0) as u32;
        let epoch = self.epoch();
        let hash = connection_table::hash(self.secret, HASH_TUPLE, tuple);
        let low = self.mix(HASH_PAD, hash, irs, epoch).wrapping_add(class) & LOW;
        Seq(self.mix(HASH_BASE, hash, irs, 0).wrapping_add(epoch << LOW_BITS).wrapping_add(low))
    }

    /// MSS encoded in `number`, sent in response to a SYN with sequence number `irs`; `None` if it
    /// is no cookie of this stack or too old.
    pub(super) fn mss(&self, tuple: &FourTuple, irs: Seq, number: Seq) -> Option<u16> {
        let hash = connection_table::hash(self.secret, HASH_TUPLE, tuple);
        let rest = number.0.wrapping_sub(self.mix(HASH_BASE, hash, irs, 0));
        let age = self.epoch().wrapping_sub(rest >> LOW_BITS) & 0xff;
        if age > 1 {
            return None;
        }
        let epoch = self.epoch().wrapping_sub(age);
        let class = rest.wrapping_sub(self.mix(HASH_PAD, hash, irs, epoch)) & LOW;
        MSS.get(class as usize).copied()
    }

    fn epoch(&self) -> u32 {
        (self.now.as_nanos() / EPOCH.as_nanos()) as u32
    }

    fn mix(&self, purpose: u8, tuple: u64, irs: Seq, epoch: u32) -> u32 {
        let mut hasher = SipHasher13::new_with_key(self.secret);
        hasher.write_u64(tuple);
        hasher.write_u32(irs.0);
        hasher.write_u32(epoch);
        hasher.write_u8(purpose);
        hasher.finish() as u32
    }
}

/// Options encoded in the lowest bits of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CookieOptions {
    pub(super) window_scale: Option<u8>,
    pub(super) sack: bool,
    pub(super) ecn: bool,
}

impl CookieOptions {
    /// Options of a SYN that the cookie must preserve.
    pub(super) fn from(options: &Options, ecn: bool) -> Self {
        Self { window_scale: options.window_scale, sack: options.sack_permitted, ecn }
    }

    /// Timestamp with these options in its lowest bits; never later than `timestamp`, so that the
    /// timestamp clock does not run back afterwards.
    pub(super) fn encode_timestamp(self, timestamp: u32) -> u32 {
        let scale = self.window_scale.map_or(NO_SCALE, |shift| u32::from(shift.min(14)));
        let bits = scale | u32::from(self.sack) << 4 | u32::from(self.ecn) << 5;
        let stamp = timestamp & !BITS | bits;
        if stamp.wrapping_sub(timestamp) as i32 > 0 { stamp.wrapping_sub(BITS + 1) } else { stamp }
    }

    /// Options decoded from the peer's echo of such a timestamp.
    pub(super) fn decode_timestamp(stamp: u32) -> Self {
        let scale = stamp & NO_SCALE;
        Self {
            window_scale: (scale != NO_SCALE).then_some(scale as u8),
            sack: stamp & 1 << 4 != 0,
            ecn: stamp & 1 << 5 != 0,
        }
    }

    /// Options of the SYN, as far as the cookie preserved them.
    pub(super) fn options(self, mss: u16, timestamps: Timestamps) -> Options {
        Options {
            mss: Some(mss),
            window_scale: self.window_scale,
            sack_permitted: self.sack,
            timestamps: Some(timestamps),
            ..Options::NONE
        }
    }
}

const LOW_BITS: u32 = 24;
const LOW: u32 = (1 << LOW_BITS) - 1;
const BITS: u32 = 0x3f;
const NO_SCALE: u32 = 0xf;

//~ tcp: SYN cookies replace a full SYN queue and keep options; the accept queue has its own bound (RFC 4987)
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn tuple(remote_port: u16) -> FourTuple {
        let (local, remote) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
        FourTuple { local, local_port: 80, remote, remote_port }
    }

    fn at(secs: u64) -> Cookies<'static> {
        Cookies { secret: &[7; 16], now: Time::from_nanos(secs * 1_000_000_000) }
    }

    proptest! {
        #[test]
        fn cookie_yields_the_mss_for_64_s_at_least_and_128_at_most(
            irs: u32, port: u16, mss in 88u16.., made in 0u64..100_000, later in 0u64..300,
        ) {
            let number = at(made).cookie_isn(&tuple(port), Seq(irs), mss);
            let known = at(made + later).mss(&tuple(port), Seq(irs), number);
            if later <= 64 || known.is_some() && later < 128 {
                prop_assert!(known.is_some_and(|known| known <= mss && MSS.contains(&known)));
            } else if later >= 128 {
                prop_assert_eq!(known, None);
            }
        }

        #[test]
        fn timestamp_encodes_the_options_and_is_never_in_the_future(
            shift in proptest::option::of(0u8..15), sack: bool, ecn: bool, timestamp: u32,
        ) {
            let remembered = CookieOptions { window_scale: shift, sack, ecn };
            let stamp = remembered.encode_timestamp(timestamp);
            prop_assert_eq!(CookieOptions::decode_timestamp(stamp), remembered);
            prop_assert!(timestamp.wrapping_sub(stamp) < 64);
        }
    }

    #[test]
    fn guesses_fail_but_once_in_a_quarter_of_a_billion() {
        let (cookies, t) = (at(1000), tuple(5000));
        let right = (0..2_000_000_u32).filter(|i| {
            let guess = Seq(i.wrapping_mul(2_654_435_761));
            cookies.mss(&t, Seq(1), guess).is_some()
        });
        assert!(right.count() <= 1, "expected 0.007");
    }

    #[test]
    fn cookie_is_of_one_tuple_one_number_and_one_secret() {
        let number = at(0).cookie_isn(&tuple(1), Seq(5), 1460);
        assert_eq!(at(0).mss(&tuple(1), Seq(5), number), Some(1460));
        assert_eq!(at(0).mss(&tuple(2), Seq(5), number), None);
        assert_eq!(at(0).mss(&tuple(1), Seq(6), number), None);
        let other = Cookies { secret: &[8; 16], now: Time::ZERO };
        assert_eq!(other.mss(&tuple(1), Seq(5), number), None);
    }
}
