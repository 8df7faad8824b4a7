//! File permissions check: root's programs must not load a library that other users could change.
//!
//! Root and the owner of this program are trusted, because they could change this program as well.
//! The library must belong to one of them and be writable by no other group and not by all. No
//! other user may be able to replace it: the directories on its path belong to them as well, with
//! the sticky bit if they are world-writable. Source: sudo's plugins (sudo.conf(5)), `StrictModes`
//! of sshd_config(5).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Owner, group and mode of a file.
#[derive(Clone, Copy, Debug)]
struct Rights {
    user: u32,
    group: u32,
    mode: u32,
    is_folder: bool,
}

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// File or directory by which other users could change `library`, and how; none unless root runs
/// this.
pub(super) fn exposure(library: &Path) -> Option<(PathBuf, String)> {
    if !geteuid().is_root() {
        return None;
    }
    let this = Rights::of(&std::fs::metadata("/proc/self/exe").ok()?);
    let unmapped = unmapped_user();
    library.ancestors().find_map(|path| {
        let rights = Rights::of(&path.metadata().ok()?);
        let how = rights.exposed(this, unmapped)?;
        Some((path.to_owned(), how))
    })
}

impl Rights {
    fn of(file: &Metadata) -> Self {
        Self { user: file.uid(), group: file.gid(), mode: file.mode(), is_folder: file.is_dir() }
    }

    /// Reason why a user other than root and the owner of `this` program may change it. `unmapped`
    /// is the number of users without one in this user namespace.
    fn exposed(self, this: Self, unmapped: Option<u32>) -> Option<String> {
        let mode = self.mode & 0o7777;
        if self.user != 0 && self.user != this.user && Some(self.user) != unmapped {
            return Some(format!("owned by user {}", self.user));
        }
        let is_sticky = self.is_folder && self.mode & STICKY != 0;
        if self.mode & OTHERS_WRITE != 0 && !is_sticky {
            return Some(format!("world-writable (mode {mode:04o})"));
        }
        let is_ours = self.group == 0 || this.mode & GROUP_WRITES != 0 && self.group == this.group;
        // A group that may write a directory, such as staff in /usr/local, is intended to.
        (self.mode & GROUP_WRITES != 0 && !self.is_folder && !is_ours)
            .then(|| format!("writable by group {} (mode {mode:04o})", self.group))
    }
}

/// Number that the kernel shows for users unmapped in this user namespace; none if all are mapped.
/// Source: user_namespaces(7).
fn unmapped_user() -> Option<u32> {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let every: [&str; 3] = ["0", "0", "4294967295"];
    if map.split_whitespace().eq(every) {
        return None;
    }
    std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()
}

//~ run: only this build's library is loaded, and as root only one that others cannot change
#[cfg(test)]
mod tests {
    use super::*;

    const ROOTS: Rights = Rights { user: 0, group: 0, mode: 0o100_755, is_folder: false };

    #[track_caller]
    fn check(file: Rights, this: Rights, expected: Option<&str>) {
        assert_eq!(file.exposed(this, None).as_deref(), expected, "{file:?}");
    }

    #[test]
    fn a_file_that_others_may_write_is_exposed() {
        check(ROOTS, ROOTS, None);
        check(Rights { mode: 0o100_775, ..ROOTS }, ROOTS, None);
        check(Rights { mode: 0o100_777, ..ROOTS }, ROOTS, Some("world-writable (mode 0777)"));
        let shared = Rights { group: 7, mode: 0o100_664, ..ROOTS };
        check(shared, ROOTS, Some("writable by group 7 (mode 0664)"));
        check(Rights { mode: 0o100_644, ..shared }, ROOTS, None);
        check(Rights { user: 7, ..ROOTS }, ROOTS, Some("owned by user 7"));
    }

    #[test]
    fn the_owner_of_this_program_may_write_the_library_too() {
        let owner_rights = Rights { user: 7, group: 7, mode: 0o100_775, is_folder: false };
        check(owner_rights, owner_rights, None);
        check(
            owner_rights,
            Rights { mode: 0o100_755, ..owner_rights },
            Some("writable by group 7 (mode 0775)"),
        );
        check(owner_rights, Rights { user: 8, ..owner_rights }, Some("owned by user 7"));
    }

    #[test]
    fn a_folder_in_which_others_may_replace_files_is_exposed() {
        let folder = Rights { mode: 0o040_777, is_folder: true, ..ROOTS };
        check(folder, ROOTS, Some("world-writable (mode 0777)"));
        check(Rights { mode: 0o041_777, ..folder }, ROOTS, None);
        check(Rights { group: 50, mode: 0o042_775, ..folder }, ROOTS, None);
        check(Rights { user: 7, mode: 0o040_755, ..folder }, ROOTS, Some("owned by user 7"));
    }

    #[test]
    fn in_a_namespace_of_users_those_without_a_number_are_not_others() {
        let unmapped_rights = Rights { user: 65_534, ..ROOTS };
        assert_eq!(unmapped_rights.exposed(ROOTS, Some(65_534)), None);
        check(unmapped_rights, ROOTS, Some("owned by user 65534"));
    }
}
