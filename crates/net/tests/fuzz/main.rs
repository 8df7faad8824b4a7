//! The fuzz targets without a fuzzer: every checked-in seed, and some thousand
//! inputs that are drawn or bred from the seeds. `make fuzz` goes further.
#![forbid(unsafe_code)]

use std::path::Path;

#[allow(dead_code)] // Shared with the tests of the network layer, which use the rest.
#[path = "../ip/host.rs"]
mod host;
mod targets;
#[allow(dead_code)] // Shared with the tests of TCP.
#[path = "../tcp/world.rs"]
mod world;

use targets::{TARGETS, Target};
use world::Dice;

/// Inputs drawn for a target, by what one costs.
fn inputs(name: &str) -> u64 {
    match name {
        "connection" => 400,
        "differential" => 120,
        "frames" => 1000,
        _ => 3000,
    }
}

#[test]
fn seeds_and_what_is_bred_from_them_break_nothing() {
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has seeds");
        seeds.iter().for_each(|seed| check(name, *target, seed));
        let mut dice = Dice(1);
        for _ in 0..inputs(name) {
            check(name, *target, &breed(&seeds, &mut dice));
        }
    }
}

/// Runs `target` and says with which bytes it failed, should it do so.
fn check(name: &str, target: Target, data: &[u8]) {
    struct Blame<'a>(&'a str, &'a [u8]);
    impl Drop for Blame<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("{} fails with {:?}", self.0, self.1);
            }
        }
    }
    let _blame = Blame(name, data);
    target(data);
}

/// The inputs in `fuzz/seeds/NAME`, in order.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// Random bytes, or a seed with some of its bytes changed, cut or repeated.
fn breed(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    if dice.below(4) == 0 {
        let len = dice.below(400);
        return (0..len).map(|_| dice.roll() as u8).collect();
    }
    let mut bytes = seeds[dice.below(seeds.len() as u64) as usize].clone();
    for _ in 0..1 + dice.below(6) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        match dice.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, dice.roll() as u8),
            2 => bytes.extend_from_within(at..),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
        bytes.truncate(4096);
    }
    bytes
}
