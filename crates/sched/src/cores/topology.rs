//! Topology: physical cores and sockets of logical cores.
//!
//! Any number of logical cores, *lanes* (hyperthreads of a physical core) and
//! sockets. Independent of the operating system's numbering.

use queueing::CoreId;

use super::CoresConfigError;

/// Logical cores of a machine, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Physical core of each logical core.
    physical: Vec<u16>,
    /// Socket of each logical core.
    socket: Vec<u8>,
    /// Lanes of each physical core.
    lanes: Vec<Vec<CoreId>>,
    /// Logical cores of each socket.
    sockets: Vec<Vec<CoreId>>,
}

impl Topology {
    /// Maximum number of logical cores.
    pub const CORES_MAX: usize = 4096;

    /// Machine of `sockets` (1..=256) with `physical` cores each and `lanes` per
    /// physical core, numbered consecutively.
    ///
    /// # Errors
    /// If there is no core, or more than [`CORES_MAX`](Self::CORES_MAX).
    pub fn regular(sockets: usize, physical: usize, lanes: usize) -> Result<Self, CoresConfigError> {
        let all = (0..sockets * physical).flat_map(|p| std::iter::repeat_n((p, p / physical.max(1)), lanes));
        Self::of(all)
    }

    /// Machine from the physical core and the socket of each logical core, both
    /// numbered from 0 in order of appearance.
    ///
    /// # Errors
    /// If there is no core, more than [`CORES_MAX`](Self::CORES_MAX), more than 256
    /// sockets, or a number out of order.
    pub fn of(cores: impl IntoIterator<Item = (usize, usize)>) -> Result<Self, CoresConfigError> {
        let mut topology =
            Self { physical: Vec::new(), socket: Vec::new(), lanes: Vec::new(), sockets: Vec::new() };
        for (core, (physical, socket)) in cores.into_iter().enumerate() {
            if core >= Self::CORES_MAX {
                return Err(CoresConfigError(format!("core {core} is outside 0..{}", Self::CORES_MAX)));
            }
            if physical > topology.lanes.len() || socket > topology.sockets.len().min(255) {
                let (next, next_socket) = (topology.lanes.len(), topology.sockets.len().min(255));
                return Err(CoresConfigError(format!(
                    "core {core}: physical core {physical} is above {next}, or socket {socket} above {next_socket}"
                )));
            }
            if physical == topology.lanes.len() {
                topology.lanes.push(Vec::new());
            }
            if socket == topology.sockets.len() {
                topology.sockets.push(Vec::new());
            }
            topology.sockets[socket].push(CoreId(core as u16));
            topology.lanes[physical].push(CoreId(core as u16));
            topology.physical.push(physical as u16);
            topology.socket.push(socket as u8);
        }
        if topology.physical.is_empty() {
            return Err(CoresConfigError("a machine of 0 cores; at least 1 is needed".to_owned()));
        }
        Ok(topology)
    }

    /// Number of logical cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.physical.len()
    }

    /// All logical cores, in order.
    pub fn all(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.physical.len() as u16).map(CoreId)
    }

    /// Number of physical cores.
    #[must_use]
    pub fn physical_cores(&self) -> usize {
        self.lanes.len()
    }

    /// Number of sockets.
    #[must_use]
    pub const fn sockets(&self) -> usize {
        self.sockets.len()
    }

    /// Logical cores of one socket.
    #[must_use]
    pub fn on_socket(&self, socket: usize) -> &[CoreId] {
        &self.sockets[socket]
    }

    /// Physical core of `core`.
    #[must_use]
    pub fn physical(&self, core: CoreId) -> usize {
        self.physical[core.0 as usize].into()
    }

    /// Socket of `core`.
    #[must_use]
    pub fn socket(&self, core: CoreId) -> usize {
        self.socket[core.0 as usize].into()
    }

    /// Lanes of one physical core.
    #[must_use]
    pub fn lanes(&self, physical: usize) -> &[CoreId] {
        &self.lanes[physical]
    }

    /// Other lanes of the same physical core.
    pub fn siblings(&self, core: CoreId) -> impl Iterator<Item = CoreId> + '_ {
        self.lanes[self.physical(core)].iter().copied().filter(move |&other| other != core)
    }

    /// True for the first lane of a physical core.
    #[must_use]
    pub fn is_first_lane(&self, core: CoreId) -> bool {
        self.lanes[self.physical(core)][0] == core
    }
}
