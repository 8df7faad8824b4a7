//! Writes by others to a group's freezer file.
//!
//! The file says whether the group is to be frozen, not who asked for it. The last writer decides: a
//! group that an operator freezes while greenwave has it frozen stays frozen. Without inotify, only a
//! group frozen before greenwave freezes it is recognised.
//!
//! Source: inotify(7).

use std::os::fd::OwnedFd;

use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

use super::super::cgroups::Group;

/// Watch of one file; none by default.
#[derive(Debug, Default)]
pub(super) struct FreezerWatch(Option<OwnedFd>);

impl FreezerWatch {
    /// Watches the freezer file of `group`, if possible.
    pub(super) fn of(group: &Group) -> Self {
        let watched = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).and_then(|queue| {
            add_watch(&queue, group.freezer_file(), WatchFlags::MODIFY)?;
            Ok(queue)
        });
        Self(watched.ok())
    }

    /// True if the file was written since the last call.
    pub(super) fn take(&self) -> bool {
        let Some(queue) = &self.0 else { return false };
        let (mut events, mut any) = ([0_u8; 1024], false);
        while rustix::io::read(queue, &mut events).is_ok_and(|len| len > 0) {
            any = true;
        }
        any
    }
}
