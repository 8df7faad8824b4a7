//! Maps of a guard, whichever process created them.

use std::io;

use queueing::Time;

use super::classes::Prefix;
use super::error::GuardError;
use super::map_layout::{Connections, Counts, LimitEntry, PORTS_MAX, PortEntry};
use super::settings::Settings;
use crate::bpf::{self, Map};

/// The maps of a guard.
#[derive(Debug)]
pub struct Maps {
    settings: Map,
    limits: Map,
    spent: Map,
    counts: Map,
    connections: Map,
    /// Maps written once, by the owner.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    ports: Map,
    prefixes: Map,
}

/// Slot of the totals, after those of the ports.
const TOTALS: usize = PORTS_MAX;

impl Maps {
    /// Maps of a program that was just loaded.
    ///
    /// # Errors
    /// The kernel's error.
    #[cfg(feature = "bpf")]
    pub(super) fn of(fds: Vec<std::os::fd::OwnedFd>) -> Result<Self, GuardError> {
        let maps = fds.into_iter().map(Map::with_fd).collect::<io::Result<Vec<_>>>();
        Self::named(maps.map_err(refused("a read of the guard's maps"))?, true)
    }

    /// Maps of the attached program `id`.
    ///
    /// # Errors
    /// The kernel's error, or the maps are of another version.
    pub(super) fn attached(id: u32) -> Result<Self, GuardError> {
        let maps = bpf::program_maps(id).and_then(|ids| ids.into_iter().map(Map::with_id).collect());
        Self::named(maps.map_err(refused("a read of the guard's maps"))?, false)
    }

    fn named(mut maps: Vec<(Map, String)>, own: bool) -> Result<Self, GuardError> {
        let mut take = |name: &str, len: usize| {
            let at = maps.iter().position(|(_, found)| found == name);
            let map = at.map(|at| maps.swap_remove(at).0);
            map.filter(|map| len == 0 || map.value_len().is_multiple_of(len) && map.value_len() > 0)
                .ok_or_else(|| {
                    GuardError::Unreadable(format!(
                        "the attached guard has no map {name} of this version's layout"
                    ))
                })
        };
        Ok(Self {
            settings: take("gw_settings", Settings::LEN)?,
            limits: take("gw_limits", LimitEntry::LEN)?,
            spent: take("gw_spent", 8)?,
            counts: take("gw_counts", Counts::LEN)?,
            connections: take("gw_connections", Connections::LEN)?,
            own: match own {
                true => {
                    Some(Own { ports: take("gw_ports", PortEntry::LEN)?, prefixes: take("gw_prefixes", 4)? })
                }
                false => None,
            },
        })
    }

    fn own(&self) -> &Own {
        self.own.as_ref().expect("only the owner writes these maps")
    }

    fn value<T>(map: &Map, at: usize, read: impl Fn(&[u8]) -> Option<T>) -> io::Result<T> {
        let value = map.get(&key(at))?.as_deref().and_then(read);
        value.ok_or_else(|| io::Error::other("a map of the guard holds an invalid value"))
    }

    pub(super) fn set_settings(&self, settings: &Settings) -> io::Result<()> {
        self.settings.set(&key(0), &settings.bytes())
    }

    pub(super) fn settings(&self) -> io::Result<Settings> {
        Self::value(&self.settings, 0, Settings::read)
    }

    /// Guards `port`.
    pub(super) fn set_port(&self, port: u16, entry: PortEntry) -> io::Result<()> {
        self.own().ports.set(&port.to_ne_bytes(), &entry.bytes())
    }

    pub(super) fn set_prefix(&self, prefix: Prefix, class: u8) -> io::Result<()> {
        self.own().prefixes.set(&prefix.key(), &u32::from(class).to_ne_bytes())
    }

    /// Sets the limit of the port at `slot`.
    pub(super) fn set_limit(&self, slot: usize, entry: &LimitEntry) -> io::Result<()> {
        self.limits.set(&key(slot), &entry.bytes())
    }

    pub(super) fn limit(&self, slot: usize) -> io::Result<LimitEntry> {
        Self::value(&self.limits, slot, LimitEntry::read)
    }

    pub(super) fn set_totals(&self, entry: &LimitEntry) -> io::Result<()> {
        self.set_limit(TOTALS, entry)
    }

    pub(super) fn totals(&self) -> io::Result<LimitEntry> {
        self.limit(TOTALS)
    }

    /// Empties the bucket of the port at `slot` until `time`.
    pub(super) fn set_spent(&self, slot: usize, time: Time) -> io::Result<()> {
        self.spent.set(&key(slot), &time.as_nanos().to_ne_bytes())
    }

    /// Counts of the port at `slot`.
    pub(super) fn counts(&self, slot: usize) -> io::Result<Counts> {
        Self::value(&self.counts, slot, Counts::sum)
    }

    /// Counts of each of the first `ports` ports, and their sum.
    pub(super) fn counts_of_ports(&self, ports: usize) -> io::Result<(Vec<Counts>, Counts)> {
        let by_port = (0..ports).map(|slot| self.counts(slot)).collect::<io::Result<Vec<_>>>()?;
        let mut all = Counts::default();
        by_port.iter().for_each(|counts| all.add(counts));
        Ok((by_port, all))
    }

    /// Connections of the port at `slot` since the attach.
    pub(super) fn connections(&self, slot: usize) -> io::Result<Connections> {
        Self::value(&self.connections, slot, Connections::read)
    }

    #[cfg(all(test, feature = "bpf"))]
    pub(super) fn set_connections(&self, slot: usize, [opened, closed]: [u64; 2]) -> io::Result<()> {
        let mut value = vec![0; Connections::LEN];
        value[..16].copy_from_slice([opened, closed].map(u64::to_ne_bytes).as_flattened());
        self.connections.set(&key(slot), &value)
    }
}

/// Key of an array's entry.
fn key(at: usize) -> [u8; 4] {
    (at as u32).to_ne_bytes()
}

pub(super) fn refused(what: &'static str) -> impl Fn(io::Error) -> GuardError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => GuardError::NoPermission,
        _ => GuardError::Refused { what: what.to_owned(), source },
    }
}
