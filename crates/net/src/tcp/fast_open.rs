//! TCP Fast Open of one connection: data in the SYN, or before the handshake is complete.
//!
//! Cookies are created and checked by the stack.
//! Source: RFC 7413 §4.2.

use queueing::Time;
use wire::tcp::{FastOpen, Segment};

use super::connection::{Connection, Context};
use super::input::Verdicts;
use super::state::State;
use super::store::ByteStore;
use crate::stack::{Config, EventKind, ListenerId, fast_open};

/// Fast Open state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FastOpenState {
    /// Cookie option of the first SYN; a retransmitted SYN carries none.
    cookie: Option<FastOpen>,
    sent_cookie: FastOpen,
    /// Bytes of data in the SYN.
    len: u16,
}

/// Maximum bytes of options in a SYN.
const OPTIONS_LEN_MAX: u16 = 40;

impl<B: ByteStore> Connection<B> {
    /// Puts `cookie` into the first SYN, with queued data up to the cached MSS of the server.
    ///
    /// A cookie request carries no data.
    pub(crate) fn open_fast(&mut self, cookie: FastOpen, mss: u16) {
        let space = usize::from(mss.min(self.mss).saturating_sub(OPTIONS_LEN_MAX));
        let len = if cookie.is_request() { 0 } else { self.send.len().min(space) as u16 };
        self.timeout_options().fast = Some(FastOpenState { cookie: Some(cookie), sent_cookie: cookie, len });
    }

    fn fast(&self) -> Option<FastOpenState> {
        self.timeout_options.as_ref().and_then(|timeout_options| timeout_options.fast)
    }

    /// Bytes of data in the SYN.
    pub(super) fn fast_len(&self) -> u32 {
        self.fast().filter(|fast| fast.cookie.is_some()).map_or(0, |fast| u32::from(fast.len))
    }

    /// Fast Open option of our SYN or SYN-ACK.
    pub(super) fn fast_option(&self, now: Time, config: &Config) -> Option<FastOpen> {
        if self.state == State::SynSent {
            return self.fast()?.cookie;
        }
        self.flags.sends_cookie.then(|| fast_open::current(&config.secret, &self.tuple, now))
    }

    /// The SYN timed out: the next one carries neither cookie nor data, since the path may drop
    /// Fast Open SYNs (RFC 7413 §4.2.2).
    pub(super) fn open_plainly(&mut self) {
        if let Some(fast) =
            self.timeout_options.as_mut().and_then(|timeout_options| timeout_options.fast.as_mut())
        {
            fast.cookie = None;
        }
    }

    /// Frees the SYN data that the SYN-ACK `s` acknowledges, at most what was sent.
    pub(super) fn accept_fast_open(&mut self, cx: &mut Context<'_>, s: &Segment<'_>) {
        let accepted = s.ack - (self.snd_una + 1);
        if accepted > 0 && accepted <= self.fast().map_or(0, |fast| u32::from(fast.len)) {
            self.send.pop(accepted as usize, cx.pool);
            self.acknowledged += u64::from(accepted);
            self.snd_nxt = s.ack;
        }
    }

    /// Bytes of SYN data that the SYN-ACK may acknowledge.
    pub(super) fn fast_end(&self) -> u32 {
        self.fast().map_or(0, |fast| u32::from(fast.len))
    }

    /// Cookie to cache after the handshake that `s` completed: a new one, or the old one if it was
    /// accepted.
    pub(crate) fn learned(&self, s: &Segment<'_>, accepted: bool) -> Option<FastOpen> {
        let sent_cookie = self.fast().map(|fast| fast.sent_cookie).filter(|_| accepted);
        s.options.fast_open.or(sent_cookie).filter(|cookie| !cookie.is_request())
    }

    /// Delivers the data of the SYN `s` before the handshake is complete.
    pub(crate) fn deliver_early(&mut self, cx: &mut Context<'_>, s: &Segment<'_>, v: &Verdicts<'_>) {
        let Some(listener) = self.listener() else { return };
        (self.flags.fast_open, self.flags.announced) = (true, true);
        cx.push(EventKind::Accepted(ListenerId(u32::from(listener))));
        let len = s.payload.len().min(self.receive_space() as usize);
        let payload = &s.payload[..len];
        if len == 0 || self.recv.affordable(len, cx.pool) < len {
            return;
        }
        match self.classify(cx, payload, v.meta, v) {
            Some(label) => cx.label = label,
            None => {
                cx.counters.classifier_drops += 1;
                return;
            }
        }
        self.append(cx, payload);
        self.set_level(cx.label.priority);
        cx.counters.fast_opens += 1;
        cx.push(EventKind::Readable { fresh: len as u32 });
    }
}
