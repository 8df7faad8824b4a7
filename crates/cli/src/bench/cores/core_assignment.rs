//! Which cores a server has, and which its clients.
//!
//! The server the last of the machine and the clients the first, as in the
//! other comparisons; what lies between is left to whatever else runs.

use std::fmt;

use queueing::CoreId;

use crate::Error;

/// A core of the server's and one of its clients for each queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    pub clients: Vec<CoreId>,
    pub servers: Vec<CoreId>,
    /// Somebody has no core of his own: nothing is measured.
    pub are_shared: bool,
}

/// Server cores to try on a machine of so many: doubled as long as clients
/// find as many, and all but one of its half if that is more.
pub fn steps(there: usize) -> Vec<u16> {
    let half = (there / 2).clamp(1, MOST) as u16;
    let mut steps: Vec<u16> = (0..).map(|power| 1 << power).take_while(|&step| step <= half).collect();
    let spared = half - 1;
    if steps.iter().all(|&step| step < spared) {
        steps.push(spared);
    }
    steps
}

/// Shards that a server can have.
const MOST: usize = 128;

impl Cores {
    /// `count` cores for each side.
    ///
    /// # Errors
    /// There are not so many of `there`.
    pub fn apart(there: &[CoreId], count: u16) -> Result<Self, Error> {
        let (needed, fit) = (2 * usize::from(count), there.len() / 2);
        if fit >= count.into() {
            return Ok(Self::shared(there, count));
        }
        let here = there.len();
        let what = format!("--cores {count} takes {needed}, half of them the clients', and there are {here}");
        Err(Error::new(what).advice(match fit {
            0 => "--scale smoke, which measures nothing".to_owned(),
            _ => format!("--cores {fit}, or --scale smoke, which measures nothing"),
        }))
    }

    /// The same; where there are not so many, some are shared.
    pub fn shared(there: &[CoreId], count: u16) -> Self {
        let count = usize::from(count);
        let clients = there.iter().copied().cycle().take(count).collect();
        let mut servers: Vec<_> = there.iter().rev().copied().cycle().take(count).collect();
        servers.reverse();
        Self { clients, servers, are_shared: 2 * count > there.len() }
    }

    /// Cores of each side.
    pub fn count(&self) -> usize {
        self.servers.len()
    }
}

impl fmt::Display for Cores {
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
        let check = |there, expected: &[u16]| assert_eq!(steps(there), expected, "{there} cores");
        check(1, &[1]);
        check(2, &[1]);
        check(4, &[1, 2]);
        check(12, &[1, 2, 4, 5]);
        check(16, &[1, 2, 4, 8]);
        check(1024, &[1, 2, 4, 8, 16, 32, 64, 128]);
    }

    #[test]
    fn the_server_has_the_last_cores_and_the_clients_the_first() {
        let check =
            |cores: Cores, expected| assert_eq!((cores.to_string().as_str(), cores.are_shared), expected);
        let (four, two) = (machine(4), machine(2));
        check(Cores::apart(&machine(8), 3).unwrap(), ("3 cores: server on 5,6,7, clients on 0,1,2", false));
        check(Cores::apart(&two, 1).unwrap(), ("1 core: server on 1, clients on 0", false));
        check(Cores::shared(&four, 2), ("2 cores: server on 2,3, clients on 0,1", false));
        check(Cores::shared(&two, 2), ("2 cores: server on 0,1, clients on 0,1", true));
        check(Cores::shared(&two, 3), ("3 cores: server on 1,0,1, clients on 0,1,0", true));
    }

    #[test]
    fn more_than_there_are_is_refused_with_what_fits() {
        let check = |there, count, what: &str, fits: &str| {
            let said = Cores::apart(&machine(there), count).unwrap_err().to_string();
            assert!(said.contains(what) && said.contains(fits), "{said}");
        };
        check(
            2,
            2,
            "--cores 2 takes 4, half of them the clients', and there are 2",
            "--cores 1, or --scale smoke",
        );
        check(
            9,
            7,
            "--cores 7 takes 14, half of them the clients', and there are 9",
            "--cores 4, or --scale smoke",
        );
        check(1, 1, "--cores 1 takes 2, half of them the clients', and there are 1", "--scale smoke");
    }
}
