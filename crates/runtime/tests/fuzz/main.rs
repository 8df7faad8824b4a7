//! Fuzz target of the HTTP server without a fuzzer: its seeds and mutations of them. `make fuzz`
//! goes further.

//~ runtime: HTTP/1.1 requests and responses end where their framing ends, in server and load generator (RFC 9112)

#![forbid(unsafe_code)]

use std::path::Path;

use proptest::prelude::*;

mod http;

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/http");
    let mut paths: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().collect();
    paths.sort_by_key(std::fs::DirEntry::path);
    paths.iter().filter_map(|entry| std::fs::read(entry.path()).ok()).collect()
}

//~ fuzzing: the HTTP server answers each seed alike however its bytes are split
#[test]
fn every_seed_gets_the_same_response_for_any_segmentation() {
    assert!(!seeds().is_empty());
    seeds().iter().for_each(|seed| http::http(seed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn responses_do_not_depend_on_segmentation(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 0..8),
    ) {
        let seeds = seeds();
        let mut bytes = seeds[which.index(seeds.len())].clone();
        for (at, byte, how) in edits {
            let at = at.index(bytes.len() + 1);
            match how {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                2 => bytes.extend_from_within(at..),
                _ => if let Some(old) = bytes.get_mut(at) { *old ^= 1 << (byte % 8) },
            }
            bytes.truncate(4096);
        }
        http::http(&bytes);
    }
}
