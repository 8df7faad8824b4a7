//! Settings of the XDP program: `struct settings` of `intf.h`, byte for byte. Fixed at the attach
//! except for the metadata, which no program reads.

use super::map_layout::{NOTES_LEN, words};

/// Transmit path of a RST to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Sent back by the driver (`XDP_TX`).
    Driver = 1,
    /// Redirected to the device (`XDP_REDIRECT`).
    Redirect = 2,
}

/// Offsets of ports and metadata.
const GUARDED: usize = 24;
const NOTES: usize = GUARDED + 8192;

/// `struct settings`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Number of the network namespace.
    pub netns: u32,
    /// Number of classes.
    pub classes: u32,
    /// True if no connection is shed.
    pub watching: bool,
    /// True if there are prefixes.
    pub prefixes: bool,
    /// Transmit path of RSTs for shed SYNs; `None` without RSTs.
    pub resets: Option<Way>,
    /// True if connections are tracked until their first response.
    pub answers: bool,
    /// Guarded ports, ascending.
    pub ports: Vec<u16>,
    /// Metadata of the attached guard.
    pub notes: Vec<u8>,
}

impl Settings {
    /// True if a RST arrives only where the client's end of a veth polls.
    pub fn may_lose_resets(&self) -> bool {
        self.resets == Some(Way::Redirect)
    }

    pub(super) const LEN: usize = NOTES + NOTES_LEN;

    pub(super) fn bytes(&self) -> Vec<u8> {
        let flags = [self.watching, self.prefixes].map(u32::from);
        let resets = self.resets.map_or(0, |way| way as u32);
        let words = [&[self.netns, self.classes], &flags[..], &[resets, self.answers.into()]].concat();
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        bytes.resize(GUARDED, 0);
        let mut guarded = vec![0_u64; 1024];
        self.ports.iter().for_each(|port| guarded[usize::from(port / 64)] |= 1 << (port % 64));
        bytes.extend(guarded.into_iter().flat_map(u64::to_ne_bytes));
        bytes.extend(self.notes.iter().take(NOTES_LEN));
        bytes.resize(Self::LEN, 0);
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at * 4..)?.first_chunk()?));
        let guarded: [u64; 1024] = words(bytes.get(GUARDED..NOTES)?)?;
        let ports =
            (0..=u16::MAX).filter(|port| guarded[usize::from(port / 64)] >> (port % 64) & 1 == 1).collect();
        let notes = bytes.get(NOTES..)?.split(|&byte| byte == 0).next()?.to_vec();
        Some(Self {
            netns: word(0)?,
            classes: word(1)?,
            watching: word(2)? != 0,
            prefixes: word(3)? != 0,
            resets: match word(4)? {
                0 => None,
                1 => Some(Way::Driver),
                2 => Some(Way::Redirect),
                _ => return None,
            },
            answers: word(5)? != 0,
            ports,
            notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let settings = Settings {
            netns: 9,
            classes: 2,
            watching: true,
            resets: Some(Way::Redirect),
            answers: true,
            ports: vec![1, 80, 65_535],
            notes: b"x".to_vec(),
            ..Settings::default()
        };
        assert_eq!(Settings::read(&settings.bytes()), Some(settings));
    }
}
