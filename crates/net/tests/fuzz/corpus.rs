//! Runner of fuzz targets without a fuzzer: every checked-in seed, random inputs, and mutations of
//! the seeds. All packages with targets share it.

use std::path::Path;

/// Fuzz target: it panics if a property is violated.
pub type Target = fn(&[u8]);

/// Runs the target `name` on its seeds and on `count` generated inputs.
///
/// # Panics
/// If the target fails or has no seeds.
pub fn run(name: &str, target: Target, count: u64) {
    run_on(name, target, &seeds(name), count);
}

/// As [`run`], on these seeds.
///
/// # Panics
/// If the target fails or there are no seeds.
pub fn run_on(name: &str, target: Target, seeds: &[Vec<u8>], count: u64) {
    assert!(!seeds.is_empty(), "{name} has seeds");
    seeds.iter().for_each(|seed| check(name, target, seed));
    let mut dice = Dice(1);
    for _ in 0..count {
        check(name, target, &breed(seeds, &mut dice));
    }
}

/// Runs `target`; if it panics, prints the input.
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

/// Inputs in `fuzz/seeds/NAME`, sorted.
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(name);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// Random bytes, or a seed with some bytes changed, removed or repeated.
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

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
}
