//! What is read is what was written, or nothing is.

use std::fs::File;
use std::os::unix::fs::FileExt;

use host::lab::Folder;
use proptest::prelude::*;
use queueing::{Priority, Span};

use super::*;

const TEXT: &[u8] = include_bytes!("../../../LICENSE");

fn store(blocks: u32) -> (Store, Folder) {
    let folder = Folder::new("storage").unwrap();
    (Store::create(&folder.path().join("blocks"), blocks, TEXT, 1).unwrap(), folder)
}

fn request(id: u64, kind: u8, body: usize) -> Request {
    let length = (REQUEST_LEN_MIN + body) as u32;
    Request { id, kind, priority: Priority::LOWEST, length, service: Span::ZERO }
}

#[test]
fn a_new_store_holds_text() {
    let (mut store, _folder) = store(64);
    let mut out = Vec::new();
    store.serve(&request(3, Kind::Read(16).code(), 0), &[], &mut out).unwrap();
    assert_eq!(out.len(), 16 * BLOCK);
    assert!(out.is_ascii() && out.windows(8).any(|bytes| bytes == b" License"));
    assert!(store.check().holds);
}

#[test]
fn who_changes_or_moves_a_block_is_found_out() {
    let (mut store, folder) = store(16);
    let file = File::options().read(true).write(true).open(folder.path().join("blocks")).unwrap();
    let mut slot = [0; slot::SLOT];
    file.read_exact_at(&mut slot, 0).unwrap();
    for (at, what) in [(0, "length"), (5, "nonce"), (14, "text")] {
        let mut other = slot;
        other[at] ^= 1;
        file.write_all_at(&other, 0).unwrap();
        assert_eq!(store.wrong(), [0], "{what}");
    }
    file.write_all_at(&slot, slot::SLOT as u64).unwrap();
    file.write_all_at(&slot, 0).unwrap();
    assert_eq!(store.wrong(), [1], "a good block in another's place");
    let error = store.read(0, 2, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "block 1 is not what was written");
    assert!(!store.check().holds);
}

#[test]
fn what_is_no_request_is_refused_in_a_line() {
    let (mut store, _folder) = store(16);
    for (kind, body) in [(0, 0), (17, 0), (0x80, 0), (0x90, 0), (0x81, BLOCK - 1), (0x82, BLOCK)] {
        let refused = store.serve(&request(1, kind, body), &vec![0; body], &mut Vec::new()).unwrap_err();
        assert!(!refused.0.is_empty() && !refused.0.contains('\n'), "{kind}: {refused:?}");
    }
}

#[test]
fn requests_reach_every_block_and_none_beyond() {
    let mut seen = [0; 16];
    for id in 0..10_000 {
        seen[first(id, 1, 16) as usize] += 1;
        assert_eq!(first(id, 16, 16), 0);
        assert!(first(id, 15, 16) <= 1);
    }
    assert!(seen.iter().all(|count| (400..900).contains(count)), "{seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn blocks_are_what_was_last_written(
        writes in prop::collection::vec((any::<u64>(), 1..BLOCKS_MAX, any::<bool>(), any::<u64>()), 1..12)
    ) {
        let (mut store, _folder) = store(24);
        let mut model = Vec::new();
        store.read(0, 24, &mut model).unwrap();
        for (id, blocks, is_noise, seed) in writes {
            let mut rng = queueing::Rng::seeded(seed);
            let mut body = vec![b'x'; usize::from(blocks) * BLOCK];
            if is_noise {
                body.fill_with(|| rng.next_u64() as u8);
            }
            store.serve(&request(id, Kind::Write(blocks).code(), body.len()), &body, &mut Vec::new()).unwrap();
            let at = first(id, blocks, 24) as usize * BLOCK;
            model[at..at + body.len()].copy_from_slice(&body);
        }
        let mut found = Vec::new();
        store.read(0, 24, &mut found).unwrap();
        prop_assert_eq!(found, model);
        prop_assert!(store.check().holds);
    }

    #[test]
    fn any_kind_is_a_request_or_refused(kind: u8, id: u64) {
        if let Some(known) = Kind::of(kind) {
            prop_assert_eq!(known.code(), kind);
            let (Kind::Read(blocks) | Kind::Write(blocks)) = known;
            prop_assert!(u32::from(blocks) + first(id, blocks, 16) <= 16);
        }
    }
}
