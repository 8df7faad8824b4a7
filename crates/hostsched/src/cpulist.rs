//! CPU lists in the kernel's notation (`0-3,8`), and the sets that system calls take.

use queueing::CoreId;
use rustix::thread::CpuSet;

/// Reads `0-3,8`; ascending.
///
/// # Errors
/// One line: the entry that is not a core, or the core that is named twice.
pub fn parse(text: &str) -> Result<Vec<CoreId>, String> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let bad =
            || format!("cores {text:?} are not numbers and ranges below {}, such as 0-3,8", CpuSet::MAX_CPU);
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |word: &str| word.trim().parse::<u16>().map_err(|_| bad());
        let (first, last) = (number(first)?, number(last)?);
        if first > last || usize::from(last) >= CpuSet::MAX_CPU {
            return Err(bad());
        }
        for core in first..=last {
            if cores.contains(&CoreId(core)) {
                return Err(format!("cores {text:?} name core {core} twice"));
            }
            cores.push(CoreId(core));
        }
    }
    cores.sort_unstable();
    Ok(cores)
}

/// Writes ascending `cores` as [`parse`] reads them.
#[must_use]
pub fn text(cores: &[CoreId]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for run in cores.chunk_by(|a, b| a.0 + 1 == b.0) {
        let (first, last) = (run[0].0, run[run.len() - 1].0);
        parts.push(if first == last { first.to_string() } else { format!("{first}-{last}") });
    }
    parts.join(",")
}

/// CPU set of `cores`, for sched_setaffinity(2).
#[must_use]
pub fn set_of(cores: impl IntoIterator<Item = CoreId>) -> CpuSet {
    let mut set = CpuSet::new();
    cores.into_iter().for_each(|core| set.set(core.0.into()));
    set
}

/// Cores of a CPU set, ascending.
#[must_use]
pub fn of_set(set: &CpuSet) -> Vec<CoreId> {
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).map(|core| CoreId(core as u16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_they_are_written() {
        for list in ["0", "0-3,8", "1,3,5-6", "1023"] {
            let cores = parse(list).unwrap();
            assert_eq!(text(&cores), list);
            assert_eq!(of_set(&set_of(cores.clone())), cores);
        }
        assert_eq!(text(&parse("3, 2,0-1").unwrap()), "0-3");
    }

    #[test]
    fn what_is_no_list_is_said_so() {
        for list in ["", "x", "3-1", "1,,2", "-1", "1024", "0-70000"] {
            assert!(parse(list).is_err_and(|e| e.contains("are not numbers and ranges")), "{list:?}");
        }
        assert_eq!(parse("0-2,1"), Err("cores \"0-2,1\" name core 1 twice".to_owned()));
    }
}
