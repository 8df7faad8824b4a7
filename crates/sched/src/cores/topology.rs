//! Which cores share a physical core, and which a socket.
//!
//! Any number of cores, lanes and sockets; a *lane* is one hyperthread of a
//! physical core. Nothing here says which operating system counted them.

use queueing::CoreId;

use super::CoresConfigError;

/// A machine's logical cores, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Per core, its physical core.
    physical: Vec<u16>,
    /// Per core, its socket.
    socket: Vec<u8>,
    /// Per physical core, its logical ones.
    lanes: Vec<Vec<CoreId>>,
    /// Per socket, its logical cores.
    sockets: Vec<Vec<CoreId>>,
}

impl Topology {
    /// Cores at most.
    pub const CORES_MAX: usize = 4096;

    /// `sockets` (1..=256) of `physical` cores with `lanes` each; lanes of one
    /// physical core have neighbouring numbers.
    ///
    /// # Errors
    /// When there is nothing, or more than [`CORES_MAX`](Self::CORES_MAX).
    pub fn regular(sockets: usize, physical: usize, lanes: usize) -> Result<Self, CoresConfigError> {
        let all = (0..sockets * physical).flat_map(|p| std::iter::repeat_n((p, p / physical.max(1)), lanes));
        Self::of(all)
    }

    /// The cores of which `cores` gives the physical core and the socket, each numbered
    /// from 0 in order of appearance.
    ///
    /// # Errors
    /// When there is none, more than [`CORES_MAX`](Self::CORES_MAX), more than 256 sockets,
    /// or a number before its turn.
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
                    "core {core} on physical core {physical}, socket {socket}: at most {next} and {next_socket} come here"
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
            return Err(CoresConfigError(
                "a machine of 0 cores runs nothing, one of 1 and more does".to_owned(),
            ));
        }
        Ok(topology)
    }

    /// How many logical cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.physical.len()
    }

    /// Every core, in order.
    pub fn all(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.physical.len() as u16).map(CoreId)
    }

    /// How many physical cores.
    #[must_use]
    pub fn physical_cores(&self) -> usize {
        self.lanes.len()
    }

    /// How many sockets.
    #[must_use]
    pub const fn sockets(&self) -> usize {
        self.sockets.len()
    }

    /// The logical cores of one socket.
    #[must_use]
    pub fn on_socket(&self, socket: usize) -> &[CoreId] {
        &self.sockets[socket]
    }

    /// The physical core of `core`.
    #[must_use]
    pub fn physical(&self, core: CoreId) -> usize {
        self.physical[core.0 as usize].into()
    }

    /// The socket of `core`.
    #[must_use]
    pub fn socket(&self, core: CoreId) -> usize {
        self.socket[core.0 as usize].into()
    }

    /// The logical cores of one physical core.
    #[must_use]
    pub fn lanes(&self, physical: usize) -> &[CoreId] {
        &self.lanes[physical]
    }

    /// The others on the same physical core.
    pub fn siblings(&self, core: CoreId) -> impl Iterator<Item = CoreId> + '_ {
        self.lanes[self.physical(core)].iter().copied().filter(move |&other| other != core)
    }

    /// Whether it is the first lane of its physical core.
    #[must_use]
    pub fn leads(&self, core: CoreId) -> bool {
        self.lanes[self.physical(core)][0] == core
    }
}
