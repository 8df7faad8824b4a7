//! Arguments that several commands take, and how they are read.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use queueing::Span;

/// `300/10ms`: so many requests at once, so often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Requests per burst, 1 or more.
    pub size: u64,
    /// From the start of one burst to the next, more than 0.
    pub period: Span,
}

impl FromStr for Burst {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("burst {text:?} is not SIZE/PERIOD with both above 0, such as 300/10ms");
        let (size, period) = text.split_once('/').ok_or_else(bad)?;
        let (size, period) = (size.parse().map_err(|_| bad())?, period.parse().map_err(|_| bad())?);
        if size == 0 || period == Span::ZERO { Err(bad()) } else { Ok(Self { size, period }) }
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} every {}", self.size, self.period)
    }
}

/// `10k`, `1M`: a count of 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1_000),
            None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
        };
        let count = digits.parse().ok().and_then(|n: u64| n.checked_mul(unit)).filter(|n| *n > 0);
        count.map(Self).ok_or_else(|| format!("{text:?} is not a count above 0, such as 10000, 10k or 1M"))
    }
}

/// `low=1,2`: these priorities are for these workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steer {
    /// Levels, as [`sched::dispatch::Steering::from_lists`] names them.
    pub levels: String,
    /// Workers, from 0.
    pub workers: Vec<usize>,
}

impl FromStr for Steer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not LEVELS=WORKERS, such as high=0 or 4-7=1,2");
        let (levels, workers) = text.split_once('=').ok_or_else(bad)?;
        let workers = workers.split(',').map(|worker| worker.parse().map_err(|_| bad()));
        Ok(Self { levels: levels.to_owned(), workers: workers.collect::<Result<_, _>>()? })
    }
}

/// An address within its subnet: `10.77.0.2/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub addr: Ipv4Addr,
    /// Length of the subnet's prefix, 1..=30.
    pub prefix: u8,
}

impl Cidr {
    fn mask(self) -> u32 {
        u32::MAX << (32 - u32::from(self.prefix))
    }

    /// Whether `addr` is a host's address in this subnet.
    #[must_use]
    pub fn holds(self, addr: Ipv4Addr) -> bool {
        let (own, bits) = (u32::from(self.addr), u32::from(addr));
        let host = bits & !self.mask();
        own & self.mask() == bits & self.mask() && host != 0 && host != !self.mask()
    }

    /// The subnet's first address that is not this one.
    #[must_use]
    pub fn first_other(self) -> Ipv4Addr {
        let first = (u32::from(self.addr) & self.mask()) + 1;
        let own = u32::from(self.addr);
        Ipv4Addr::from(if first == own { first + 1 } else { first })
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not ADDRESS/PREFIX, such as 10.77.0.2/24");
        let (addr, prefix) = text.split_once('/').ok_or_else(bad)?;
        let cidr =
            Self { addr: addr.parse().map_err(|_| bad())?, prefix: prefix.parse().map_err(|_| bad())? };
        if !(1..=30).contains(&cidr.prefix) {
            return Err(format!("prefix {} is outside 1..=30", cidr.prefix));
        }
        let unusable = cidr.addr.is_loopback() || !(1..=223).contains(&cidr.addr.octets()[0]);
        if unusable {
            return Err(format!("{} is no address that a host can have, such as 10.77.0.2", cidr.addr));
        }
        if !cidr.holds(cidr.addr) {
            let (network, hosts) = (u32::from(cidr.addr) & cidr.mask(), !cidr.mask() - 1);
            let (first, last) = (Ipv4Addr::from(network + 1), Ipv4Addr::from(network + hosts));
            return Err(format!("{} is not one of the subnet's hosts, {first} to {last}", cidr.addr));
        }
        Ok(cidr)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix)
    }
}

/// 16 bytes nobody can guess, for a stack's `secret`.
///
/// # Errors
/// When the kernel offers no random bytes.
pub fn secret() -> Result<[u8; 16], crate::Error> {
    use std::io::Read;
    let path = std::path::Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|e| crate::Error::file(path, &e))
}

/// `bytes` that only depend on `seed` and `which`, for runs that must replay.
#[must_use]
pub fn secret_of(seed: u64, which: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes[8..].copy_from_slice(&which.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_read_as_they_are_written() {
        assert_eq!("300/10ms".parse(), Ok(Burst { size: 300, period: Span::from_millis(10) }));
        for text in ["300", "0/10ms", "300/0ms", "x/10ms", "300/10"] {
            assert!(text.parse::<Burst>().is_err(), "{text:?} is no burst");
        }
    }

    #[test]
    fn counts_may_have_units() {
        for (text, count) in [("1", 1), ("10k", 10_000), ("1M", 1_000_000)] {
            assert_eq!(text.parse(), Ok(Count(count)));
        }
        for text in ["", "0", "k", "-1", "1.5M", "1G", "99999999999999999999", "99999999999999999M"] {
            assert!(text.parse::<Count>().is_err(), "{text:?} is no count");
        }
    }

    #[test]
    fn steering_names_levels_and_lists_workers() {
        let steer = Steer { levels: "4-7".to_owned(), workers: vec![1, 2] };
        assert_eq!("4-7=1,2".parse(), Ok(steer));
        for text in ["low", "low=", "low=1,", "low=1;2", "low=-1", "low=high"] {
            assert!(text.parse::<Steer>().is_err(), "{text:?} steers nothing");
        }
    }

    #[test]
    fn the_kernels_end_gets_the_first_other_address() {
        let other = |text: &str| text.parse::<Cidr>().map(|c| c.first_other().to_string());
        assert_eq!(other("10.77.0.2/24"), Ok("10.77.0.1".to_owned()));
        assert_eq!(other("10.77.0.1/24"), Ok("10.77.0.2".to_owned()));
        assert_eq!(other("10.77.3.9/16"), Ok("10.77.0.1".to_owned()));
        assert_eq!(other("10.77.0.1/30"), Ok("10.77.0.2".to_owned()));
    }

    #[test]
    fn addresses_no_host_can_have_are_refused() {
        let texts = ["10.77.0.0/24", "10.77.0.255/24", "10.77.0.2", "10.77.0.2/0", "10.77.0.2/31"];
        for text in texts.into_iter().chain([
            "224.0.0.1/24",
            "240.0.0.1/8",
            "0.0.0.5/8",
            "127.0.0.1/8",
            "1.2.3/8",
            "1.2.3.4/x",
        ]) {
            assert!(text.parse::<Cidr>().is_err(), "{text} is no host's address");
        }
        let error = "10.77.0.0/24".parse::<Cidr>().unwrap_err();
        assert_eq!(error, "10.77.0.0 is not one of the subnet's hosts, 10.77.0.1 to 10.77.0.254");
    }
}
