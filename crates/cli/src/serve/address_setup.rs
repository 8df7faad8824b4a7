//! Address setup before a server listens: duplicate detection, DHCP and router advertisements.
//!
//! The stacks do this themselves, as later while they serve; here they run until all requested
//! addresses are found, another host has one of them, or the time is over.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use host::Monotonic;
use net::{Device, Stack};
use queueing::{Clock, Span, Time};
use runtime::shard::Step;
use runtime::socket_proxy::{AppSockets, SocketProxy};
use runtime::{App, Shard};

use crate::Error;
use crate::address::{Addresses, InterfaceAddress};
use crate::device::not_the_kernels;

/// Maximum time for a server or a router to answer.
const CHECK_TIMEOUT: Span = Span::from_secs(10);
/// Poll interval while no frame arrives.
const LOOK_EVERY: Span = Span::from_millis(5);
/// Maximum number of steps of a shard before the next shard runs.
const STEPS_MAX: usize = 1024;

/// Addresses in use.
pub(crate) struct Found {
    /// Addresses for clients.
    pub(crate) served: Vec<IpAddr>,
    /// The addresses for clients, and the link-local address.
    pub(crate) every: Vec<IpAddr>,
}

/// A stack that its owner steps.
pub(crate) trait Steppable<D: Device> {
    /// The stack.
    fn stack(&mut self) -> &mut Stack;
    /// Does the pending work, up to a bound; there is no listener yet.
    fn turn(&mut self, now: Time, device: &mut D);
}

impl<D: Device, A: App> Steppable<D> for Shard<D, A> {
    fn stack(&mut self) -> &mut Stack {
        self.stack()
    }

    fn turn(&mut self, now: Time, device: &mut D) {
        for _ in 0..STEPS_MAX {
            match self.step(now, device) {
                Step::Idle => break,
                Step::Assign(_) => unreachable!("no listener yet"),
                _ => {}
            }
        }
    }
}

impl<D: Device, P: AppSockets> Steppable<D> for SocketProxy<D, P> {
    fn stack(&mut self) -> &mut Stack {
        self.stack()
    }

    fn turn(&mut self, now: Time, device: &mut D) {
        self.step(now, device);
    }
}

/// Steps `shards` until they have the addresses in `wanted`, and prints them (`aside`: on stderr).
/// `None` when `interrupted`.
///
/// # Errors
/// An address that another host has; no answer within [`CHECK_TIMEOUT`].
pub(crate) fn settle<D: Device, S: Steppable<D>>(
    shards: &mut [(S, D)],
    wanted: &Addresses,
    interrupted: &AtomicBool,
    aside: bool,
) -> Result<Option<Found>, Error> {
    let clock = Monotonic::new();
    let end = clock.now() + CHECK_TIMEOUT;
    loop {
        let missing = shards.iter_mut().find_map(|(shard, _)| missing(shard.stack(), wanted));
        match missing {
            None => break,
            Some(Missing::Taken(addr)) => return Err(taken(addr)),
            Some(what) if clock.now() > end => return Err(silence(&what)),
            Some(_) if interrupted.load(Ordering::Relaxed) => return Ok(None),
            Some(_) => turn(shards, &clock),
        }
    }
    // Every shard has the same addresses.
    let Some((first, _)) = shards.first_mut() else { return Ok(None) };
    let stack = first.stack();
    let every: Vec<IpAddr> = stack.addrs().collect();
    let served = every.iter().copied().filter(|addr| is_served(*addr, wanted)).collect();
    say(stack, wanted, clock.now(), aside)?;
    Ok(Some(Found { served, every }))
}

/// Steps each shard until it is idle, then waits a little for more.
fn turn<D: Device, S: Steppable<D>>(shards: &mut [(S, D)], clock: &Monotonic) {
    for (shard, device) in shards.iter_mut() {
        shard.turn(clock.now(), device);
    }
    // The first shard always has a device; others may share it.
    if let Some((_, device)) = shards.first_mut() {
        device.wait(LOOK_EVERY);
    }
}

/// The missing part of a stack's addresses.
enum Missing {
    /// An address that is still being checked.
    Checked,
    /// An address that another host has.
    Taken(InterfaceAddress),
    /// A DHCP server's answer.
    Lease,
    /// A router's advertisement.
    Advertisement,
}

fn missing(stack: &Stack, wanted: &Addresses) -> Option<Missing> {
    let has = |addr: IpAddr| stack.addrs().any(|own| own == addr);
    let not_there: Vec<InterfaceAddress> = wanted.v6.iter().copied().filter(|cidr| !has(cidr.addr)).collect();
    if let Some(taken) = not_there.iter().find(|cidr| !stack.is_checking(cidr.addr)) {
        return Some(Missing::Taken(*taken));
    }
    if !not_there.is_empty() {
        return Some(Missing::Checked);
    }
    if wanted.dhcp && stack.lease().is_none() {
        return Some(Missing::Lease);
    }
    let found = stack.addrs().any(|addr| is_made(addr, wanted));
    (wanted.slaac && !found).then_some(Missing::Advertisement)
}

/// True if `addr` derives from a router's advertisement.
fn is_made(addr: IpAddr, wanted: &Addresses) -> bool {
    let is_global = matches!(addr, IpAddr::V6(addr) if !addr.is_unicast_link_local());
    is_global && wanted.given().all(|given| given != addr)
}

/// True if `addr` is for clients.
fn is_served(addr: IpAddr, wanted: &Addresses) -> bool {
    addr.is_ipv4() || is_made(addr, wanted) || wanted.given().any(|given| given == addr)
}

fn taken(cidr: InterfaceAddress) -> Error {
    let what = format!("address {} is in use by another host of the link", cidr.addr);
    Error::new(what).advice("--addr with an unused address of the subnet, or --addr slaac")
}

fn silence(what: &Missing) -> Error {
    match what {
        Missing::Checked | Missing::Taken(_) => {
            Error::new(format!("duplicate address detection did not finish within {CHECK_TIMEOUT}"))
                .advice("--pcap FILE, to see whether the device sends")
        }
        Missing::Lease => Error::new(format!("no DHCP lease within {CHECK_TIMEOUT}"))
            .advice("--addr with an unused address of the subnet"),
        Missing::Advertisement => {
            Error::new(format!("no router advertisement with a prefix within {CHECK_TIMEOUT}"))
                .advice("--addr with an address, such as fd00::2/64")
        }
    }
}

/// Prints the addresses found; on stderr if `aside`.
fn say(stack: &Stack, wanted: &Addresses, now: Time, aside: bool) -> Result<(), Error> {
    let say = |line: String| if aside { errln!("{line}") } else { outln!("{line}") };
    if let Some(lease) = stack.lease() {
        not_the_kernels(lease.addr.into(), "--addr with an unused address of the subnet")?;
        let gateway = lease.router.map_or("no gateway".to_owned(), |router| format!("gateway {router}"));
        let span = match lease.until {
            Time::MAX => "without expiry".to_owned(),
            until => {
                format!("for {} s", (until.since(now) + Span::from_millis(500)).as_nanos() / 1_000_000_000)
            }
        };
        say(format!("{}/{} leased from {} {span}, {gateway}", lease.addr, lease.prefix, lease.server));
    }
    for addr in stack.addrs().filter(|addr| is_made(*addr, wanted)) {
        say(format!("{addr}/64 from a router advertisement"));
    }
    Ok(())
}
