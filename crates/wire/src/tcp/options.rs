//! TCP options supported by the stack; others are skipped.
//!
//! Source: RFC 9293 §3.2, RFC 7323, 2018, 7413.

use super::super::{Malformed, be16, be32};
use super::Seq;
use super::fast_open::{self, FastOpen};

/// Options of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size of the sender, in bytes; on SYN.
    pub mss: Option<u16>,
    /// Window scale shift of the sender, 0..=14; on SYN.
    pub window_scale: Option<u8>,
    /// SACK-permitted: the sender supports SACK; on SYN.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Fast Open cookie or cookie request, on SYN; omitted if it does not fit beside the other
    /// options.
    pub fast_open: Option<FastOpen>,
    /// SACK blocks: data received beyond the acknowledgement.
    pub sack: SackBlocks,
}

/// Timestamps option (RFC 7323 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: clock of the sender.
    pub value: u32,
    /// TSecr: latest value received.
    pub echo: u32,
}

/// Up to four SACK blocks `[start, end)` (RFC 2018 §3).
#[derive(Clone, Copy, Default)]
pub struct SackBlocks {
    len: u8,
    blocks: [(Seq, Seq); 4],
}

impl SackBlocks {
    /// No blocks.
    pub const NONE: Self = Self { len: 0, blocks: [(Seq(0), Seq(0)); 4] };

    /// Adds a block; returns false if there are four already.
    pub fn push(&mut self, start: Seq, end: Seq) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.len)) else { return false };
        *slot = (start, end);
        self.len += 1;
        true
    }

    /// Blocks in their order on the wire.
    #[must_use]
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Sorts the blocks by the distance of their start from `seq`.
    pub fn sort_after(&mut self, seq: Seq) {
        self.blocks[..usize::from(self.len)].sort_unstable_by_key(|block| block.0.distance(seq));
    }

    /// Iterator over the blocks.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        self.as_slice().iter().copied()
    }

    /// Number of blocks.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True without blocks.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

impl std::fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl FromIterator<(Seq, Seq)> for SackBlocks {
    /// Keeps the first four blocks.
    fn from_iter<I: IntoIterator<Item = (Seq, Seq)>>(blocks: I) -> Self {
        let mut sack = Self::NONE;
        blocks.into_iter().take(4).for_each(|(start, end)| {
            sack.push(start, end);
        });
        sack
    }
}

impl Options {
    /// No options.
    pub const NONE: Self = Self {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        fast_open: None,
        sack: SackBlocks::NONE,
    };

    /// Parses the bytes between the fixed header and the data.
    ///
    /// # Errors
    /// [`Malformed::BadOption`] if an option exceeds the header, is shorter than 2 bytes, or has a
    /// length that its kind does not allow.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        match Self::read_timestamps_alone(bytes) {
            timestamps @ Some(_) => Ok(Self { timestamps, ..Self::NONE }),
            None => Self::parse_each(bytes),
        }
    }

    /// Timestamps, if `bytes` contains nothing else.
    #[inline]
    pub(super) fn read_timestamps_alone(bytes: &[u8]) -> Option<Timestamps> {
        (bytes.len() == 12 && bytes[..4] == TIMESTAMPS_ALIGNED)
            .then(|| Timestamps { value: be32(bytes, 4), echo: be32(bytes, 8) })
    }

    fn parse_each(mut bytes: &[u8]) -> Result<Self, Malformed> {
        let mut options = Self::NONE;
        while let [kind, rest @ ..] = bytes {
            match *kind {
                END => break,
                NOP => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let len = usize::from(*rest.first().ok_or(Malformed::BadOption)?);
            if len < 2 || len > bytes.len() {
                return Err(Malformed::BadOption);
            }
            let (option, after) = bytes.split_at(len);
            match (*kind, len) {
                (MSS, 4) => options.mss = Some(be16(option, 2)),
                // A shift above 14 counts as 14 (RFC 7323 §2.3).
                (WINDOW_SCALE, 3) => options.window_scale = Some(option[2].min(14)),
                (SACK_PERMITTED, 2) => options.sack_permitted = true,
                (SACK, 10 | 18 | 26 | 34) => {
                    options.sack =
                        option[2..].chunks_exact(8).map(|b| (Seq(be32(b, 0)), Seq(be32(b, 4)))).collect();
                }
                (TIMESTAMPS, 10) => {
                    options.timestamps = Some(Timestamps { value: be32(option, 2), echo: be32(option, 6) });
                }
                // A cookie of invalid length is ignored.
                (fast_open::KIND, _) => options.fast_open = FastOpen::new(&option[2..]),
                (MSS | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS, _) => {
                    return Err(Malformed::BadOption);
                }
                _ => {}
            }
            bytes = after;
        }
        Ok(options)
    }

    /// Length on the wire in bytes, including padding: a multiple of 4, at most 40.
    ///
    /// SACK blocks that do not fit are omitted.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        if self.timestamps_alone().is_some() {
            return 12;
        }
        self.len_without_sack() + if self.sack_fitting() == 0 { 0 } else { 4 + 8 * self.sack_fitting() }
    }

    /// True without options.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the options into the first [`Options::len`] bytes of `buf`, each padded in front to a
    /// multiple of 4.
    ///
    /// # Panics
    /// If `buf` is shorter.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) {
        let (Some(stamps), Some(buf)) = (self.timestamps_alone(), buf.first_chunk_mut::<12>()) else {
            return self.emit_each(buf);
        };
        buf[..4].copy_from_slice(&TIMESTAMPS_ALIGNED);
        buf[4..8].copy_from_slice(&stamps.value.to_be_bytes());
        buf[8..].copy_from_slice(&stamps.echo.to_be_bytes());
    }

    fn emit_each(&self, buf: &mut [u8]) {
        let mut at = 0;
        let mut put = |bytes: [u8; 4]| {
            buf[at..at + 4].copy_from_slice(&bytes);
            at += 4;
        };
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            put([MSS, 4, high, low]);
        }
        if let Some(shift) = self.window_scale {
            put([NOP, WINDOW_SCALE, 3, shift]);
        }
        if self.sack_permitted {
            put([NOP, NOP, SACK_PERMITTED, 2]);
        }
        if let Some(stamps) = self.timestamps {
            put(TIMESTAMPS_ALIGNED);
            put(stamps.value.to_be_bytes());
            put(stamps.echo.to_be_bytes());
        }
        if let Some(fast_open) = self.fast_open.filter(|_| self.fast_open_len() > 0) {
            fast_open.emit(&mut buf[at..]);
            at += fast_open.wire_len();
        }
        let mut put = |bytes: [u8; 4]| {
            buf[at..at + 4].copy_from_slice(&bytes);
            at += 4;
        };
        let fitting = self.sack_fitting();
        if fitting > 0 {
            put([NOP, NOP, SACK, 2 + 8 * fitting as u8]);
        }
        for (start, end) in self.sack.iter().take(fitting) {
            put(start.0.to_be_bytes());
            put(end.0.to_be_bytes());
        }
    }

    /// Timestamps, if no other option is set: the common case on an established connection.
    #[inline]
    const fn timestamps_alone(&self) -> Option<Timestamps> {
        let others = self.mss.is_some()
            | self.window_scale.is_some()
            | self.sack_permitted
            | self.fast_open.is_some()
            | !self.sack.is_empty();
        if others { None } else { self.timestamps }
    }

    const fn len_without_sack(&self) -> usize {
        self.len_of_fixed() + self.fast_open_len()
    }

    /// Length of the cookie option in bytes; 0 if it does not fit.
    const fn fast_open_len(&self) -> usize {
        match self.fast_open {
            Some(fast_open) if self.len_of_fixed() + fast_open.wire_len() <= LEN_MAX => fast_open.wire_len(),
            _ => 0,
        }
    }

    const fn len_of_fixed(&self) -> usize {
        4 * (self.mss.is_some() as usize
            + self.window_scale.is_some() as usize
            + self.sack_permitted as usize)
            + 12 * self.timestamps.is_some() as usize
    }

    /// Number of SACK blocks that fit beside the other options: three with timestamps.
    const fn sack_fitting(&self) -> usize {
        let room = (LEN_MAX - self.len_without_sack()).saturating_sub(4) / 8;
        if self.sack.len() < room { self.sack.len() } else { room }
    }
}

const LEN_MAX: usize = 40;
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const TIMESTAMPS_ALIGNED: [u8; 4] = [NOP, NOP, TIMESTAMPS, 10];
