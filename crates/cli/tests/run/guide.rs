//! The guide lists exactly the calls that the library intercepts.

use std::collections::BTreeSet;

use super::*;

/// The functions exported by a 64-bit ELF file (elf(5)).
fn exported(bytes: &[u8]) -> BTreeSet<String> {
    const SHT_DYNSYM: usize = 11;
    let number = |at: usize, len: usize| {
        let mut eight = [0; 8];
        eight[..len].copy_from_slice(&bytes[at..at + len]);
        u64::from_le_bytes(eight) as usize
    };
    let section = |n: usize| {
        let at = number(40, 8) + n * number(58, 2);
        (number(at + 4, 4), number(at + 24, 8), number(at + 32, 8), number(at + 40, 4))
    };
    let all = (0..number(60, 2)).map(section);
    let (_, symbols, len, names) =
        all.into_iter().find(|(kind, ..)| *kind == SHT_DYNSYM).expect("it has symbols");
    let (_, names, ..) = section(names);
    let defined = (0..len / 24).map(|n| symbols + n * 24).filter(|at| number(at + 6, 2) != 0);
    let name = |at: usize| {
        let name = bytes[names + number(at, 4)..].split(|&b| b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    };
    defined.map(name).collect()
}

//~ run: the guide lists the calls that the library intercepts
#[test]
fn the_guide_lists_the_calls_that_the_library_takes() {
    let guide = include_str!("../../../../docs/guide/unmodified-programs.md");
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | mapped"));
    let documented: BTreeSet<String> =
        rows.flat_map(|(calls, _)| calls.split("`, `")).map(str::to_owned).collect();
    let exported = exported(&std::fs::read(library()).unwrap());
    let (api, taken): (BTreeSet<_>, _) =
        exported.into_iter().partition(|name| name.starts_with("greenwave_"));
    assert_eq!(documented, taken);
    let header = include_str!("../../../capi/include/greenwave.h");
    assert!(api.len() >= 8 && api.iter().all(|name| header.contains(&format!(" {name}("))), "{api:?}");
}
