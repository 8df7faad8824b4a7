//! Layout of the managed cores: policy numbers from 0, siblings and sockets.

use std::fs;

use queueing::CoreId;
use rustix::thread::CpuSet;
use sched::cores::{CoresConfigError, Topology};

use super::cpulist;

/// The managed cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Linux's numbers, by policy number.
    cores: Vec<CoreId>,
    topology: Topology,
}

impl Layout {
    /// Layout of `cores`, read from `/sys`.
    ///
    /// # Errors
    /// `cores` is empty.
    pub fn new(cores: &[CoreId]) -> Result<Self, CoresConfigError> {
        let of = |core: &CoreId, file: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{}/topology/{file}", core.0);
            fs::read_to_string(path).unwrap_or_default().trim().to_owned()
        };
        Self::described(cores, |core| (of(core, "thread_siblings_list"), of(core, "physical_package_id")))
    }

    /// Layout of `cores`, with siblings and socket from `describe`. A core that it does not describe is
    /// alone on the first socket.
    fn described(
        cores: &[CoreId],
        describe: impl Fn(&CoreId) -> (String, String),
    ) -> Result<Self, CoresConfigError> {
        let (mut leaders, mut packages) = (Vec::new(), Vec::new());
        let index_of = |known: &mut Vec<String>, name: String| {
            known.iter().position(|one| *one == name).unwrap_or_else(|| {
                known.push(name);
                known.len() - 1
            })
        };
        let core_and_package: Vec<(usize, usize)> = cores
            .iter()
            .map(|core| {
                let (siblings, package) = describe(core);
                let siblings = if siblings.is_empty() { core.0.to_string() } else { siblings };
                (index_of(&mut leaders, siblings), index_of(&mut packages, package))
            })
            .collect();
        Ok(Self { cores: cores.to_vec(), topology: Topology::of(core_and_package)? })
    }

    /// Topology for the core assignment.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Linux's numbers, by policy number.
    #[must_use]
    pub fn cores(&self) -> &[CoreId] {
        &self.cores
    }

    /// All managed cores as a CPU set.
    #[must_use]
    pub fn all(&self) -> CpuSet {
        cpulist::set_of(self.cores.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_need_not_be_neighbours_and_any_cores_may_be_managed() {
        let describe =
            |core: &CoreId| (format!("{},{}", core.0 % 4, core.0 % 4 + 4), (core.0 % 4 / 2).to_string());
        let layout = Layout::described(&[1, 2, 3, 5, 6].map(CoreId), describe).unwrap();
        let topology = layout.topology();
        assert_eq!((topology.cores(), topology.physical_cores(), topology.sockets()), (5, 3, 2));
        assert_eq!(topology.siblings(CoreId(0)).collect::<Vec<_>>(), [CoreId(3)]);
        assert_eq!(topology.on_socket(0), [CoreId(0), CoreId(3)]);
        assert_eq!(layout.cores()[3], CoreId(5));
    }

    #[test]
    fn what_sys_does_not_tell_is_a_core_of_its_own() {
        let layout = Layout::described(&[CoreId(0), CoreId(1)], |_| Default::default()).unwrap();
        assert_eq!(layout.topology().physical_cores(), 2);
        assert!(Layout::new(&[]).is_err());
    }
}
