//! Resident memory of this process.

/// Bytes of this process in memory (RSS); 0 if the kernel does not report it.
///
/// Source: Linux, proc_pid_statm(5).
#[must_use]
pub fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_written_to_becomes_resident() {
        let before = super::resident();
        let touched = vec![1u8; 32 << 20];
        let grown = super::resident().saturating_sub(before);
        assert!(grown >= 16 << 20, "{grown} bytes after {} were written", touched.len());
    }
}
