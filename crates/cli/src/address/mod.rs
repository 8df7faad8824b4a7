//! `--addr`: the addresses of a server and their sources.
//!
//! [`RequestedAddress`] reads one word. [`Addresses::plan`] combines the requested addresses, gateways and
//! the kernel's end, and reports contradictions.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use drivers::afxdp::Claims;
use host::interface::Interface;
use net::stack::{Config, Ipv6, Lease};
use shim::Routes;

mod cidr;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::device::kind::DeviceKind;
pub use cidr::InterfaceAddress;

/// One requested address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedAddress {
    /// A given address.
    Given(Scoped<InterfaceAddress>),
    /// An IPv4 address leased by a DHCP server.
    Dhcp,
    /// IPv6 addresses in the prefixes that routers advertise.
    Slaac,
}

/// The text that reads as the address.
impl fmt::Display for RequestedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(Scoped { addr, scope: Some(scope) }) => write!(f, "{addr}%{scope}"),
            Self::Given(Scoped { addr, scope: None }) => addr.fmt(f),
            Self::Dhcp => f.write_str("dhcp"),
            Self::Slaac => f.write_str("slaac"),
        }
    }
}

/// An address, with its interface where one is named: `fe80::1%eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scoped<T> {
    /// The address.
    pub addr: T,
    /// The interface.
    pub scope: Option<String>,
}

impl<T: FromStr> FromStr for Scoped<T> {
    type Err = T::Err;

    /// The scope may stand before the prefix, as in `fe80::1%eth0/64`, or after it.
    fn from_str(text: &str) -> Result<Self, T::Err> {
        let Some((addr, rest)) = text.split_once('%') else {
            return Ok(Self { addr: text.parse()?, scope: None });
        };
        let (scope, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Ok(Self { addr: format!("{addr}{prefix}").parse()?, scope: Some(scope.to_owned()) })
    }
}

impl FromStr for RequestedAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dhcp" => Ok(Self::Dhcp),
            "slaac" => Ok(Self::Slaac),
            text => text.parse().map(Self::Given),
        }
    }
}

/// The kernel's end of a TAP device: an address, and its subnet where that is
/// not the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEnd {
    addr: IpAddr,
    subnet: Option<InterfaceAddress>,
}

impl FromStr for KernelEnd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            let subnet: InterfaceAddress = text.parse()?;
            return Ok(Self { addr: subnet.addr, subnet: Some(subnet) });
        }
        let addr = text.parse().map_err(|_| format!("{text:?} is not ADDRESS or ADDRESS/PREFIX"))?;
        Ok(Self { addr, subnet: None })
    }
}

/// A server's addresses and their sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The IPv4 address, if given.
    pub v4: Option<InterfaceAddress>,
    /// True if an IPv4 address is requested by DHCP.
    pub dhcp: bool,
    /// Given IPv6 addresses.
    pub v6: Vec<InterfaceAddress>,
    /// True if router advertisements add addresses.
    pub slaac: bool,
    /// The kernel's end of a TAP device, by family.
    pub kernel: Vec<InterfaceAddress>,
    /// True if IPv6 addresses are checked for duplicates on the link.
    checked: bool,
    gateway4: Option<Ipv4Addr>,
    gateway6: Option<Ipv6Addr>,
    /// Families for which a gateway was named: IPv4, IPv6.
    named: [bool; 2],
}

/// Maximum number of IPv6 addresses that may be given.
const GIVEN_MAX: usize = 8;

impl Addresses {
    /// Combines the addresses requested on a device of this kind.
    ///
    /// # Errors
    /// Contradictory arguments, or ones that such a device cannot have.
    pub fn plan(
        kind: &DeviceKind,
        wanted: &[RequestedAddress],
        kernel: &[KernelEnd],
        gateways: &[Scoped<IpAddr>],
    ) -> Result<Self, Error> {
        let mut plan = Self { checked: kind.is_live(), ..Self::default() };
        for wanted in wanted {
            plan.want(kind, wanted)?;
        }
        if plan.v6.len() > GIVEN_MAX {
            let what = format!("{} IPv6 addresses exceed the maximum of {GIVEN_MAX}", plan.v6.len());
            return Err(Error::new(what).advice(format!("at most {GIVEN_MAX} addresses, or --addr slaac")));
        }
        if !kind.is_live() && (plan.dhcp || plan.slaac) {
            let what = format!("{kind} is a capture, which answers no request for an address");
            return Err(Error::new(what).advice("--addr with an address that the capture has frames for"));
        }
        if kind.has_kernel_end() {
            plan.meet_kernel(kernel)?;
        } else if !kernel.is_empty() {
            let what = format!("--host-addr is the kernel's end of a TAP device, and {kind} has none");
            return Err(Error::new(what).advice("without --host-addr"));
        }
        plan.leave_by(kind, gateways)?;
        Ok(plan)
    }

    fn want(&mut self, kind: &DeviceKind, wanted: &RequestedAddress) -> Result<(), Error> {
        match wanted {
            RequestedAddress::Dhcp => self.dhcp = true,
            RequestedAddress::Slaac => self.slaac = true,
            RequestedAddress::Given(Scoped { addr: cidr, scope }) => match cidr.addr {
                IpAddr::V4(_) if self.v4.is_some_and(|before| before != *cidr) => {
                    let before = self.v4.map_or(String::new(), |before| before.to_string());
                    let what = format!("a server has one IPv4 address, not {before} and {cidr}");
                    return Err(Error::new(what).advice(format!("--addr {before}")));
                }
                IpAddr::V4(_) => self.v4 = Some(*cidr),
                IpAddr::V6(addr) => {
                    on_this_link(kind, "--addr", addr, scope.as_deref(), Some(cidr.prefix))?;
                    self.v6.extend((!self.v6.contains(cidr)).then_some(*cidr));
                }
            },
        }
        match self.v4 {
            Some(given) if self.dhcp => {
                let what = format!("a server has one IPv4 address, not {given} and one by DHCP");
                Err(Error::new(what).advice(format!("--addr {given}, or --addr dhcp")))
            }
            _ => Ok(()),
        }
    }

    /// Sets the kernel end's addresses: in each given subnet the requested one, or else the first
    /// other.
    fn meet_kernel(&mut self, asked: &[KernelEnd]) -> Result<(), Error> {
        let subnets = [self.v4, self.v6.iter().copied().find(InterfaceAddress::is_global)];
        for subnet in subnets.into_iter().flatten() {
            let same = |end: &&KernelEnd| end.addr.is_ipv4() == subnet.addr.is_ipv4();
            let addr = asked.iter().find(same).map_or(subnet.first_other(), |end| end.addr);
            if !subnet.has_neighbor(addr) {
                let advice = format!("--host-addr {}", subnet.first_other());
                return Err(foreign_address("host-addr", addr, subnet).advice(advice));
            }
            self.kernel.push(InterfaceAddress { addr, ..subnet });
        }
        for end in asked {
            if self.kernel.iter().any(|known| known.addr == end.addr) {
                continue;
            }
            let subnet = end.subnet.ok_or_else(|| {
                let prefix = if end.addr.is_ipv4() { 24 } else { 64 };
                let what =
                    format!("host-addr {} needs its prefix: no --addr says what its subnet is", end.addr);
                Error::new(what).advice(format!("--host-addr {}/{prefix}", end.addr))
            })?;
            self.kernel.push(subnet);
        }
        Ok(())
    }

    /// Sets the next hops; by default the kernel's end, where there is one.
    fn leave_by(&mut self, kind: &DeviceKind, asked: &[Scoped<IpAddr>]) -> Result<(), Error> {
        for end in &self.kernel {
            match end.addr {
                IpAddr::V4(addr) if self.v4.is_some() => self.gateway4 = Some(addr),
                IpAddr::V6(addr) if !self.v6.is_empty() && !self.slaac => self.gateway6 = Some(addr),
                _ => {}
            }
        }
        for Scoped { addr, scope } in asked {
            self.named[usize::from(addr.is_ipv6())] = true;
            match *addr {
                IpAddr::V4(gateway) => {
                    let Some(subnet) = self.v4 else {
                        let what = match self.dhcp {
                            true => {
                                format!(
                                    "--addr dhcp provides the gateway, so --gateway {gateway} would have no effect"
                                )
                            }
                            false => format!("gateway {gateway} is IPv4, but no --addr is IPv4"),
                        };
                        return Err(Error::new(what).advice(format!("without --gateway {gateway}")));
                    };
                    neighbor_in(&[subnet], *addr)?;
                    self.gateway4 = Some(gateway);
                }
                IpAddr::V6(gateway) if gateway.is_unicast_link_local() && self.has_ipv6() => {
                    on_this_link(kind, "--gateway", gateway, scope.as_deref(), None)?;
                    self.gateway6 = Some(gateway);
                }
                IpAddr::V6(gateway) => {
                    if self.v6.is_empty() {
                        let what = match self.slaac {
                            true => {
                                format!(
                                    "--addr slaac provides the routers, so --gateway {gateway} would have no effect"
                                )
                            }
                            false => format!("gateway {gateway} is IPv6, but no --addr is IPv6"),
                        };
                        return Err(Error::new(what).advice(format!("without --gateway {gateway}")));
                    }
                    neighbor_in(&self.v6, *addr)?;
                    self.gateway6 = Some(gateway);
                }
            }
        }
        Ok(())
    }

    /// True if the server uses IPv6.
    #[must_use]
    pub fn has_ipv6(&self) -> bool {
        self.slaac || !self.v6.is_empty()
    }

    /// True if some addresses are still to be found.
    #[must_use]
    pub fn are_found(&self) -> bool {
        self.dhcp || self.slaac
    }

    /// The given addresses.
    pub fn given(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.v4.iter().chain(&self.v6).map(|cidr| cidr.addr)
    }

    /// A stack's address configuration on a device of this kind, with the addresses found and the
    /// lease.
    #[must_use]
    pub fn routes(&self, kind: &DeviceKind, every: Vec<IpAddr>, lease: Option<&Lease>) -> Routes {
        let given = self.v4.iter().chain(&self.v6).map(|cidr| (cidr.addr, cidr.prefix));
        let lent = lease.map(|lease| (lease.addr.into(), lease.prefix));
        // Router advertisements carry 64-bit prefixes (RFC 4862 §5.5.3).
        let made = every.iter().filter(|addr| self.slaac && addr.is_ipv6()).map(|addr| (*addr, 64));
        Routes {
            subnets: given.chain(lent).chain(made).collect(),
            beyond4: self.named[0] || lease.is_some_and(|lease| lease.router.is_some()),
            beyond6: self.named[1] || self.slaac,
            interface: kind.name().and_then(|name| Interface::find(name).ok()).map_or(0, |of| of.index),
            meets_kernel: kind.has_kernel_end(),
            addrs: every,
        }
    }

    /// A stack with these addresses; without IPv4 where none is requested.
    #[must_use]
    pub fn stack(&self, mac: [u8; 6], secret: [u8; 16]) -> Config {
        let (addr, prefix) = match self.v4 {
            Some(InterfaceAddress { addr: IpAddr::V4(addr), prefix }) => (addr, prefix),
            _ => (Ipv4Addr::UNSPECIFIED, 0),
        };
        let mut config = Config::new(mac, addr, prefix, secret);
        config.gateway = self.gateway4;
        config.dhcp = self.dhcp;
        let v6 = self.v6.iter().filter_map(|cidr| match cidr.addr {
            IpAddr::V6(addr) => Some((addr, cidr.prefix)),
            IpAddr::V4(_) => None,
        });
        config.ipv6 = self.has_ipv6().then(|| Ipv6 {
            addrs: v6.collect(),
            gateway: self.gateway6,
            slaac: self.slaac,
            probes: u8::from(self.checked),
            ..Ipv6::default()
        });
        config
    }

    /// The interface's traffic that such a stack claims before it has found more addresses.
    #[must_use]
    pub fn claims(&self, mac: [u8; 6], secret: [u8; 16]) -> Claims {
        let made = self.stack(mac, secret).link_local().map(IpAddr::V6);
        Claims { addresses: self.given().chain(made).collect(), ports: Vec::new() }
    }
}

/// Refuses a link-local address that is not scoped to the device.
fn on_this_link(
    kind: &DeviceKind,
    what: &str,
    addr: Ipv6Addr,
    scope: Option<&str>,
    prefix: Option<u8>,
) -> Result<(), Error> {
    let interface = kind.name().unwrap_or_default();
    let message = match scope {
        None if addr.is_unicast_link_local() => {
            format!("link-local address {addr} does not name its interface")
        }
        Some(scope) if scope != interface => format!("{addr}%{scope} is on another interface than {kind}"),
        _ => return Ok(()),
    };
    let prefix = prefix.map_or(String::new(), |prefix| format!("/{prefix}"));
    Err(Error::new(message).advice(format!("{what} {addr}%{interface}{prefix}")))
}

/// Refuses a gateway outside all subnets.
fn neighbor_in(subnets: &[InterfaceAddress], addr: IpAddr) -> Result<(), Error> {
    if subnets.iter().any(|subnet| subnet.has_neighbor(addr)) {
        return Ok(());
    }
    let other = subnets[0].first_other();
    Err(foreign_address("gateway", addr, subnets[0]).advice(format!("--gateway {other}")))
}

fn foreign_address(name: &str, addr: IpAddr, subnet: InterfaceAddress) -> Error {
    Error::new(format!("{name} {addr} is not another host's address in the subnet of {subnet}"))
}

/// `10.0.0.1 and fd00::1`.
pub fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(" and ")
}
