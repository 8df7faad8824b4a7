//! Existing network interface, as the kernel describes it.
//!
//! Properties that AF_XDP and packet sockets need before they open one, and the errors of opening it.
//! Nothing here changes the interface. Queried by ioctl, not from `/sys`, which shows the network
//! namespace of its mount and not that of the thread.
//!
//! Source: netdevice(7), ethtool's `ETHTOOL_GCHANNELS`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::{__c_anonymous_ifr_ifru as Argument, IFNAMSIZ, c_char, ifreq};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

mod allmulti;
mod error;

pub use allmulti::AllMulticast;
pub use error::InterfaceError;

/// An Ethernet interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Index in this network namespace.
    pub index: u32,
    /// Hardware address.
    pub mac: [u8; 6],
    /// MTU.
    pub mtu: u16,
    /// Number of receive queues, at least 1.
    pub queues: u16,
    /// True for a veth pair that accepts segments longer than a frame: they wait in no queue and are
    /// not segmented.
    pub takes_uncut: bool,
}

/// Minimum MTU: every IPv4 host must accept such packets (RFC 1122 §3.3.2).
const MTU_MIN: u16 = 576;

impl Interface {
    /// The interface called `name`.
    ///
    /// # Errors
    /// The interface does not exist, is down, is not Ethernet, or has an MTU below 576.
    pub fn find(name: &str) -> Result<Self, InterfaceError> {
        let missing = || InterfaceError::Missing { name: name.to_owned(), there: names() };
        let asked = Question::new(name).ok_or_else(missing)?;
        let refused = |what: &'static str| {
            move |source| InterfaceError::Refused { name: name.to_owned(), what, source }
        };
        let index = match asked.index() {
            Ok(index) => index,
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return Err(missing()),
            Err(e) => return Err(refused("what it is")(e)),
        };
        let hardware = asked.ask(libc::SIOCGIFHWADDR).map_err(refused("its hardware address"))?;
        // SAFETY: this request fills in the hardware address.
        let hardware = unsafe { hardware.ifru_hwaddr };
        if hardware.sa_family != libc::ARPHRD_ETHER {
            return Err(InterfaceError::NotEthernet(name.to_owned()));
        }
        let flags = asked.ask(libc::SIOCGIFFLAGS).map_err(refused("its flags"))?;
        // SAFETY: this request fills in the flags.
        if i32::from(unsafe { flags.ifru_flags }) & libc::IFF_UP == 0 {
            return Err(InterfaceError::Down(name.to_owned()));
        }
        let mtu = asked.ask(libc::SIOCGIFMTU).map_err(refused("its MTU"))?;
        // SAFETY: this request fills in the MTU.
        let mtu = u16::try_from(unsafe { mtu.ifru_mtu }).unwrap_or(u16::MAX);
        if mtu < MTU_MIN {
            return Err(InterfaceError::MtuSmall { name: name.to_owned(), mtu, min: MTU_MIN });
        }
        let mut mac = [0; 6];
        mac.iter_mut().zip(hardware.sa_data).for_each(|(to, from)| *to = from as u8);
        Ok(Self {
            name: name.to_owned(),
            index,
            mac,
            mtu,
            queues: asked.queues(),
            takes_uncut: asked.is_veth() && asked.has_segmentation(),
        })
    }
}

/// Check that an interface still exists, without opening descriptors.
///
/// Another interface of the same name does not count.
#[derive(Debug)]
pub struct Presence {
    asked: Option<Question>,
    /// Index, if it existed at first.
    index: Option<u32>,
}

impl Presence {
    /// The interface `name` in this thread's network namespace.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let asked = Question::new(name);
        let index = asked.as_ref().and_then(|asked| asked.index().ok());
        Self { asked, index }
    }

    /// Index, if it existed at first.
    #[must_use]
    pub fn index(&self) -> Option<u32> {
        self.index
    }

    /// True if the interface exists now, or if the kernel does not report it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let Some(asked) = &self.asked else { return true };
        match asked.index() {
            Ok(index) => self.index.is_none_or(|first| first == index),
            Err(e) => e.raw_os_error() != Some(libc::ENODEV),
        }
    }
}

/// Ioctl query of an interface by name.
#[derive(Debug)]
struct Question {
    socket: OwnedFd,
    name: [c_char; IFNAMSIZ],
}

impl Question {
    /// `None` for an invalid name.
    fn new(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() >= IFNAMSIZ || text.contains('\0') {
            return None;
        }
        let mut name = [0; IFNAMSIZ];
        name.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char);
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
        Some(Self { socket, name })
    }

    fn index(&self) -> io::Result<u32> {
        let answer = self.ask(libc::SIOCGIFINDEX)?;
        // SAFETY: this request fills in the index.
        Ok(unsafe { answer.ifru_ifindex }.cast_unsigned())
    }

    fn ask(&self, request: libc::Ioctl) -> io::Result<Argument> {
        self.ask_with(request, Argument { ifru_map: EMPTY })
    }

    fn ask_with(&self, request: libc::Ioctl, argument: Argument) -> io::Result<Argument> {
        let mut ifreq = ifreq { ifr_name: self.name, ifr_ifru: argument };
        // SAFETY: every request used here reads and writes one `ifreq`, which lives until the call
        // returns, and the memory it points to, if any.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), request, &raw mut ifreq) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(ifreq.ifr_ifru),
        }
    }

    /// Receive queues in use; 1 if the driver does not report them.
    fn queues(&self) -> u16 {
        let mut channels = Channels { cmd: ETHTOOL_GCHANNELS, ..Channels::default() };
        let argument = Argument { ifru_data: (&raw mut channels).cast() };
        match self.ask_with(libc::SIOCETHTOOL as libc::Ioctl, argument) {
            Ok(_) => (channels.rx + channels.combined).clamp(1, u32::from(u16::MAX)) as u16,
            Err(_) => 1,
        }
    }

    /// True if the interface's driver is reported as `veth`.
    fn is_veth(&self) -> bool {
        let mut driver = Driver { cmd: ETHTOOL_GDRVINFO, name: [0; 32], rest: [0; 160] };
        let argument = Argument { ifru_data: (&raw mut driver).cast() };
        let answer = self.ask_with(libc::SIOCETHTOOL as libc::Ioctl, argument);
        answer.is_ok() && driver.name.starts_with(b"veth\0")
    }

    /// True if the interface does segmentation (TSO). False for a veth whose peer has an XDP
    /// program.
    fn has_segmentation(&self) -> bool {
        let mut value = [ETHTOOL_GTSO, 0];
        let argument = Argument { ifru_data: value.as_mut_ptr().cast() };
        self.ask_with(libc::SIOCETHTOOL as libc::Ioctl, argument).is_ok() && value[1] != 0
    }
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct Driver {
    cmd: u32,
    name: [u8; 32],
    rest: [u8; 160],
}

const ETHTOOL_GDRVINFO: u32 = 3;
const ETHTOOL_GTSO: u32 = 0x1e;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// All-zero argument of maximum length.
const EMPTY: libc::__c_anonymous_ifru_map =
    libc::__c_anonymous_ifru_map { mem_start: 0, mem_end: 0, base_addr: 0, irq: 0, dma: 0, port: 0 };

/// Names of the interfaces of this network namespace.
fn names() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = table.lines().skip(2).filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).filter(|name| name != "lo").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_named_with_those_that_are() {
        for name in ["no-such-device", "", "a-name-that-is-much-too-long", "a\0b"] {
            match Interface::find(name) {
                Err(e @ InterfaceError::Missing { .. }) => {
                    assert!(e.to_string().contains(&format!("{name:?}")), "{e}")
                }
                other => panic!("{name:?} is no interface, got {other:?}"),
            }
        }
    }

    #[test]
    fn an_interface_is_there_or_not() {
        assert!(Presence::of("lo").is_there());
        assert!(!Presence::of("no-such-device").is_there());
        let other = Presence { index: Some(u32::MAX), ..Presence::of("lo") };
        assert!(!other.is_there(), "another interface has the same name");
    }

    #[test]
    fn the_loopback_is_no_ethernet() {
        match Interface::find("lo") {
            Err(InterfaceError::NotEthernet(name)) => assert_eq!(name, "lo"),
            other => panic!("lo is no Ethernet, got {other:?}"),
        }
    }
}
