//! Assignment of cores to a server and its clients.
//!
//! The server has the machine's last cores and the clients the first, as in the other comparisons;
//! cores in between are left to other processes.

use std::fmt;

use queueing::CoreId;

use crate::Error;

/// One core of the server and one of its clients per queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCores {
    pub clients: Vec<CoreId>,
    pub servers: Vec<CoreId>,
    /// True if cores are shared; the measurement is then meaningless.
    pub are_shared: bool,
}

/// Numbers of server cores to measure on a machine with `available` cores: powers of two up to half of
/// them, and that half less one if it is larger than all of these.
pub fn steps(available: usize) -> Vec<u16> {
    let half = (available / 2).clamp(1, MOST) as u16;
    let mut steps: Vec<u16> = (0..).map(|power| 1 << power).take_while(|&step| step <= half).collect();
    let spared = half - 1;
    if steps.iter().all(|&step| step < spared) {
        steps.push(spared);
    }
    steps
}

/// Largest number of shards of a server.
const MOST: usize = 128;

impl QueueCores {
    /// `count` cores for each side.
    ///
    /// # Errors
    /// `available` has fewer.
    pub fn disjoint(available: &[CoreId], count: u16) -> Result<Self, Error> {
        let (needed, fit) = (2 * usize::from(count), available.len() / 2);
        if fit >= count.into() {
            return Ok(Self::shared(available, count));
        }
        let available = available.len();
        let what = format!(
            "--cores {count} needs {needed} cores, half of them for the clients; {available} are available"
        );
        Err(Error::new(what).advice(match fit {
            0 => "--scale smoke, whose results are meaningless".to_owned(),
            _ => format!("--cores {fit}, or --scale smoke, whose results are meaningless"),
        }))
    }

    /// As [`disjoint`](Self::apart); shares cores if there are too few.
    pub fn shared(available: &[CoreId], count: u16) -> Self {
        let count = usize::from(count);
        let clients = available.iter().copied().cycle().take(count).collect();
        let mut servers: Vec<_> = available.iter().rev().copied().cycle().take(count).collect();
        servers.reverse();
        Self { clients, servers, are_shared: 2 * count > available.len() }
    }

    /// Number of cores of each side.
    pub fn count(&self) -> usize {
        self.servers.len()
    }
}

impl fmt::Display for QueueCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |cores: &[CoreId]| cores.iter().map(|c| c.0.to_string()).collect::<Vec<_>>().join(",");
        let (count, plural) = (self.count(), if self.count() == 1 { "" } else { "s" });
        let [server, clients] = [&self.servers, &self.clients].map(|cores| list(cores));
        write!(f, "{count} core{plural}: server on {server}, clients on {clients}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: u16) -> Vec<CoreId> {
        (0..cores).map(CoreId).collect()
    }

    #[test]
    fn steps_double_up_to_half_the_machine() {
        let check = |available, expected: &[u16]| assert_eq!(steps(available), expected, "{available} cores");
        check(1, &[1]);
        check(2, &[1]);
        check(4, &[1, 2]);
        check(12, &[1, 2, 4, 5]);
        check(16, &[1, 2, 4, 8]);
        check(1024, &[1, 2, 4, 8, 16, 32, 64, 128]);
    }

    #[test]
    fn the_server_has_the_last_cores_and_the_clients_the_first() {
        let check = |cores: QueueCores, expected| {
            assert_eq!((cores.to_string().as_str(), cores.are_shared), expected)
        };
        let (four, two) = (machine(4), machine(2));
        check(
            QueueCores::disjoint(&machine(8), 3).unwrap(),
            ("3 cores: server on 5,6,7, clients on 0,1,2", false),
        );
        check(QueueCores::disjoint(&two, 1).unwrap(), ("1 core: server on 1, clients on 0", false));
        check(QueueCores::shared(&four, 2), ("2 cores: server on 2,3, clients on 0,1", false));
        check(QueueCores::shared(&two, 2), ("2 cores: server on 0,1, clients on 0,1", true));
        check(QueueCores::shared(&two, 3), ("3 cores: server on 1,0,1, clients on 0,1,0", true));
    }

    #[test]
    fn too_many_cores_are_refused_with_a_count_that_fits() {
        let check = |available, count, what: &str, fits: &str| {
            let error = QueueCores::disjoint(&machine(available), count).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(fits), "{error}");
        };
        check(
            2,
            2,
            "--cores 2 needs 4 cores, half of them for the clients; 2 are available",
            "--cores 1, or --scale smoke",
        );
        check(
            9,
            7,
            "--cores 7 needs 14 cores, half of them for the clients; 9 are available",
            "--cores 4, or --scale smoke",
        );
        check(
            1,
            1,
            "--cores 1 needs 2 cores, half of them for the clients; 1 are available",
            "--scale smoke",
        );
    }
}
