//! Bodies of fuzz targets: arbitrary values of the guard's maps, and arbitrary data from the kernel.
//!
//! Properties: no panic; a value that is read is written the same; counts never wrap; shares are within
//! 0..=1.

use super::accept_queue::{self, QUEUE};
use super::attachment::GuardAttachment;
use super::map_layout::{CLASSES, Connections, Counts, LimitEntry, Reason, words};
use super::settings::Settings;
use super::system_load::{memory_share, share_max, sockets, ticks};
use host::netstat::counter;
use host::sock_diag;

/// The first byte selects the map; the rest is its value, cut or padded to length.
pub(crate) fn maps(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else { return };
    let value = |len: usize| {
        let mut value = bytes.to_vec();
        value.resize(len, 0);
        value
    };
    match which % 6 {
        0 => {
            assert!(LimitEntry::read(bytes).is_none() || bytes.len() == LimitEntry::LEN, "a foreign length");
            if let Some(entry) = LimitEntry::read(&value(LimitEntry::LEN)) {
                assert_eq!(LimitEntry::read(&entry.bytes()), Some(entry));
            }
        }
        1 => {
            let _ = Settings::read(bytes);
            if let Some(settings) = Settings::read(&value(Settings::LEN)) {
                assert_eq!(Settings::read(&settings.bytes()), Some(settings));
            }
        }
        2 => {
            let len = bytes.len().next_multiple_of(Counts::LEN);
            let counts = Counts::sum(&value(len)).expect("the length is a multiple of a processor's part");
            assert!(counts.seen.iter().all(|seen| *seen <= counts.offered()), "{counts:?}");
            assert!(counts.shed.iter().flatten().all(|shed| *shed <= counts.shed()), "{counts:?}");
            assert_eq!(counts.shed.as_flattened().len(), CLASSES * Reason::ALL.len());
            assert!(bytes.len() == len || Counts::sum(bytes).is_none(), "a part of a processor is rejected");
        }
        3 => {
            assert_eq!(Connections::read(bytes).is_some(), bytes.len() == Connections::LEN);
            assert_eq!(words::<2>(bytes).is_some(), bytes.len() == 16);
        }
        4 => {
            for bytes in bytes.chunks_exact(QUEUE) {
                let queue = accept_queue::read(80, bytes);
                assert!(queue.port == 80 && (queue.waiting > 0 || queue.since.is_none()), "{queue:?}");
            }
        }
        _ => {
            if let Ok(notes) = GuardAttachment::read(bytes) {
                assert_eq!(GuardAttachment::read(&notes.bytes()).ok().as_ref(), Some(&notes));
                assert!(!notes.name().contains('\n') || notes.policy.contains('\n'));
            }
        }
    }
}

/// A reply of the kernel's about sockets.
pub(crate) fn listeners(data: &[u8]) {
    let mut found = 0;
    let end = sock_diag::read(data, &mut |socket| {
        found += 1;
        let _ = (
            socket.local(),
            socket.remote(),
            socket.state(),
            socket.inode(),
            socket.waiting(),
            socket.room(),
        );
    });
    assert!(found * 88 <= data.len(), "each listener takes 88 bytes of the reply");
    if let Some(Err(error)) = end {
        assert!(error.raw_os_error().is_some());
    }
}

/// System load, as text.
pub(crate) fn machine(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (before, after) = text.split_once("\n\n").unwrap_or((&text, &text));
    let share = share_max(&ticks(before), &ticks(after));
    assert!((0.0..=1.0).contains(&share), "a share of {share}");
    let share = memory_share(&text);
    assert!((0.0..=1.0).contains(&share), "a share of {share}");
    let _ = (sockets(&text), counter(&text, "ListenDrops"));
}
