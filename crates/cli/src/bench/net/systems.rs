//! The compared servers and the devices they serve on.

use super::cases::Case;
use crate::bench::baselines::Serves;

/// TCP/IP stack of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemStack {
    Kernel,
    Greenwave,
    Smoltcp,
    Gvisor,
}

/// Device of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemDevice {
    /// A veth end with an address of the kernel.
    Veth,
    /// AF_XDP on a veth end, in generic mode.
    Xdp,
    /// AF_XDP on a veth end, in native mode.
    XdpNative,
    /// AF_PACKET rings on a veth end.
    Packet,
    /// A TAP device.
    Tap,
}

/// One of the compared servers.
#[derive(Clone, Copy, Debug)]
pub struct System {
    pub stack: SystemStack,
    pub device: SystemDevice,
    /// Note that the figures do not show.
    pub note: &'static str,
}

/// All servers, the reference servers first.
pub const SYSTEMS: &[System] = &[
    System {
        stack: SystemStack::Kernel,
        device: SystemDevice::Veth,
        note: "epoll, one thread; offloads off",
    },
    System { stack: SystemStack::Greenwave, device: SystemDevice::Xdp, note: "generic XDP, copied frames" },
    System {
        stack: SystemStack::Greenwave,
        device: SystemDevice::XdpNative,
        note: "native XDP, copied frames; the receive softirq runs on the client's core",
    },
    System {
        stack: SystemStack::Greenwave,
        device: SystemDevice::Packet,
        note: "AF_PACKET rings, version 2",
    },
    System {
        stack: SystemStack::Kernel,
        device: SystemDevice::Tap,
        note: "epoll, one thread, behind a TAP device",
    },
    System { stack: SystemStack::Greenwave, device: SystemDevice::Tap, note: "one frame per system call" },
    System {
        stack: SystemStack::Smoltcp,
        device: SystemDevice::Tap,
        note: "0.14; one frame per system call",
    },
    System { stack: SystemStack::Gvisor, device: SystemDevice::Tap, note: "netstack in Go, GOMAXPROCS 1" },
];

impl System {
    /// Name such as `greenwave/xdp`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.stack.name(), self.device.name())
    }

    /// True if the system is measured in `case`. Streams are compared with the kernel only.
    pub fn serves(&self, case: &Case) -> bool {
        let stream = matches!(case.serves, Serves::Sink | Serves::Source);
        !stream || matches!(self.stack, SystemStack::Kernel | SystemStack::Greenwave)
    }
}

impl SystemStack {
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Greenwave => "greenwave",
            Self::Smoltcp => "smoltcp",
            Self::Gvisor => "gvisor",
        }
    }
}

impl SystemDevice {
    pub fn name(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::Xdp => "xdp",
            Self::XdpNative => "xdp-native",
            Self::Packet => "packet",
            Self::Tap => "tap",
        }
    }
}
