//! User account to which a process of root changes.
//!
//! Source: getpwnam(3), setgroups(2); nptl(7): the C library changes the user of all threads, which the
//! kernel's calls alone do not.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;

use rustix::thread::{CapabilitySet, capabilities};

/// A user with its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    id: libc::uid_t,
    group: libc::gid_t,
    /// All its groups.
    groups: Vec<libc::gid_t>,
}

/// Error: no such user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserError(String);

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {:?} is neither a name or number of a user of this machine nor UID:GID", self.0)
    }
}

impl std::error::Error for UserError {}

impl User {
    /// The user named by `text`: `www-data`, `33`, or `33:33`, which need not exist here and has that
    /// one group.
    ///
    /// # Errors
    /// No such user.
    pub fn find(text: &str) -> Result<Self, UserError> {
        if let Some((id, group)) = text.split_once(':') {
            let (Ok(id), Ok(group)) = (id.parse(), group.parse()) else {
                return Err(UserError(text.to_owned()));
            };
            return Ok(Self { id, group, groups: vec![group] });
        }
        let known = match text.parse() {
            Ok(id) => lookup(|entry, buffer, result| {
                // SAFETY: all pointers are to memory that lives through the call, and the length is the
                // buffer's.
                unsafe { libc::getpwuid_r(id, entry, buffer.as_mut_ptr().cast(), buffer.len(), result) }
            }),
            Err(_) => CString::new(text).ok().and_then(|name| {
                lookup(|entry, buffer, result| {
                    // SAFETY: as above; the name ends with a NUL.
                    unsafe {
                        libc::getpwnam_r(
                            name.as_ptr(),
                            entry,
                            buffer.as_mut_ptr().cast(),
                            buffer.len(),
                            result,
                        )
                    }
                })
            }),
        };
        known.ok_or_else(|| UserError(text.to_owned()))
    }

    /// True if this process already runs as that user.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        rustix::process::geteuid().as_raw() == self.id && rustix::process::getuid().as_raw() == self.id
    }

    /// True if this process may change its user.
    #[must_use]
    pub fn can_be_changed() -> bool {
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
        capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
    }

    /// Changes the user and groups of each thread of this process.
    pub(super) fn enter(&self) -> io::Result<()> {
        let done = |result: libc::c_int| match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // Groups first: it is not allowed afterwards.
        // SAFETY: the pointer is to that many groups.
        done(unsafe { libc::setgroups(self.groups.len(), self.groups.as_ptr()) })?;
        // SAFETY: changes the process's IDs, and accesses no memory.
        done(unsafe { libc::setresgid(self.group, self.group, self.group) })?;
        // SAFETY: as above.
        done(unsafe { libc::setresuid(self.id, self.id, self.id) })
    }
}

/// User that `ask` finds in the user database.
fn lookup(ask: impl Fn(*mut libc::passwd, &mut [u8], *mut *mut libc::passwd) -> libc::c_int) -> Option<User> {
    let mut buffer = vec![0; ENTRY_BYTES];
    loop {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        match ask(entry.as_mut_ptr(), &mut buffer, &raw mut found) {
            libc::EINTR => {}
            libc::ERANGE if buffer.len() < ENTRY_BYTES_MAX => buffer.resize(2 * buffer.len(), 0),
            _ if found.is_null() => return None,
            _ => {
                // SAFETY: it was found, so it is initialised.
                let entry = unsafe { entry.assume_init() };
                return Some(User { id: entry.pw_uid, group: entry.pw_gid, groups: groups(&entry) });
            }
        }
    }
}

/// All groups of the user in `entry`.
fn groups(entry: &libc::passwd) -> Vec<libc::gid_t> {
    let mut groups = vec![entry.pw_gid; 16];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: the name ends with a NUL and lives in the caller's buffer; the array holds that many
        // groups.
        let found =
            unsafe { libc::getgrouplist(entry.pw_name, entry.pw_gid, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).unwrap_or_default();
        if found >= 0 || count <= groups.len() {
            groups.truncate(count);
            return groups;
        }
        groups.resize(count, entry.pw_gid);
    }
}

/// Bytes of a user's names and directories: initial and maximum.
const ENTRY_BYTES: usize = 1024;
const ENTRY_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_known_by_name_and_number_and_two_numbers_need_not_be() {
        let root = User { id: 0, group: 0, groups: vec![0] };
        let named = User::find("root").expect("every machine has root");
        assert_eq!((named.id, named.group), (0, 0));
        assert_eq!(User::find("0").as_ref(), Ok(&named));
        assert_eq!(User::find("0:0"), Ok(root));
        let other = User { id: 70_001, group: 70_002, groups: vec![70_002] };
        assert_eq!(User::find("70001:70002"), Ok(other.clone()));
        assert!(!other.is_ours());
    }

    #[test]
    fn an_unknown_user_is_named() {
        for text in ["no such user", "", "a\0b", "4294967290", "1:", "x:y", "-1", "99999999999"] {
            let error = User::find(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("user {text:?} is neither")), "{error}");
        }
    }
}
