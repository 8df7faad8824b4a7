//! AF_XDP: frames in memory shared with the driver, one socket for each receive queue of an interface.
//!
//! The kernel keeps the interface. An XDP program (see [`Claims`]) redirects frames for our addresses
//! to us and passes the rest to the kernel, so the host stays reachable over the same card. Our
//! hardware address is the interface's own.
//!
//! Nothing stays behind: the program is attached by a link, multicast is requested by a socket, and the
//! kernel releases both with our descriptors, however the process ends. The next start has nothing to
//! clean up.
//!
//! A received frame is lent where the kernel put it, and a sent one is written in place. `transmit`
//! only fills the ring; `flush` makes one system call per batch. On a veth pair with segmentation
//! offload, a frame longer than the MTU leaves unsegmented through a packet socket, as the kernel's own
//! do: frames are copied there in any case, and no queue behind the device could reorder them.
//!
//! Not here: memory shared between queues (each queue has its own, so that queues share nothing),
//! frames longer than a chunk, checksum offload (AF_XDP does not report it on receipt).
//!
//! Source: Linux, Documentation/networking/af_xdp.rst.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::packet::RawSocket;
use host::interface::{AllMulticast, Interface, InterfaceError};
use host::wait;
use hostbpf::{bpf, xdp};

mod device;
mod program;
mod program_swap;
mod ring;
mod ring_mmap;
mod socket;
mod umem;

pub use device::AfXdp;
pub use program::Claims;
pub use program_swap::Claimant;
pub use umem::UmemFrame;

pub use hostbpf::xdp::Mode;

use socket::Socket;
use umem::{HUGEPAGE, Umem};

/// Options of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// XDP mode of the program; `None`: native if supported.
    pub mode: Option<Mode>,
    /// Fails unless frames are zero-copy. Otherwise frames are copied where driver or mode requires it.
    pub zerocopy: bool,
    /// Number of receive queues, all of which must be served; `None`: as many as the interface has.
    pub queues: Option<u16>,
    /// Busy polling: our system calls do the card's work in place of its interrupts. For a core that
    /// spins.
    pub busy_poll: bool,
    /// Places frames in huge pages of 2 MiB.
    pub hugepages: bool,
    /// Ring size in each direction of a queue, in frames; a power of two in 64..=32768.
    pub frames: u32,
    /// Received frames per queue that may be held before the kernel runs short of chunks, 0..=65536. A
    /// receive buffer of at most this size never keeps an urgent frame from being received.
    pub held: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: None,
            zerocopy: false,
            queues: None,
            busy_poll: false,
            hugepages: false,
            frames: 2048,
            held: 6144,
        }
    }
}

impl Options {
    /// Number of chunks for receiving.
    fn receive_chunks(&self) -> u32 {
        self.frames + self.held
    }

    /// Slots of the fill ring.
    fn fill_slots(&self) -> u32 {
        fill_slots(self.receive_chunks())
    }
}

/// Slots of a fill ring that never overflows with `chunks` chunks.
///
/// Twice as many: the kernel first publishes a received frame and only then releases the chunk's slot
/// in this ring (`xsk_flush`). On another core a chunk may be back before that, and each may have two
/// slots for a moment.
fn fill_slots(chunks: u32) -> u32 {
    (2 * chunks).next_power_of_two()
}

/// An interface with our program.
#[derive(Debug)]
pub struct OpenedInterface {
    /// The interface.
    pub interface: Interface,
    /// XDP mode of the program.
    pub mode: Mode,
    /// True if frames cross between kernel and us without a copy.
    pub zerocopy: bool,
    /// One device per receive queue, queue 0 first. The program is detached with the last of them.
    pub devices: Vec<AfXdp>,
    /// Handle that changes the program's claims.
    pub claimant: Claimant,
}

impl OpenedInterface {
    /// Summary in one line: `native XDP, copied frames, 4 queues`.
    #[must_use]
    pub fn summary(&self) -> String {
        let mode = match self.mode {
            Mode::Native => "native XDP",
            Mode::Generic => "generic XDP",
        };
        let copies = if self.zerocopy { "no copies" } else { "copied frames" };
        let queues = if self.devices.len() == 1 { "queue" } else { "queues" };
        format!("{mode}, {copies}, {} {queues}", self.devices.len())
    }
}

/// Owner of the attached program.
#[derive(Debug)]
struct Steering {
    link: OwnedFd,
    sockets: OwnedFd,
    _multicast: Option<AllMulticast>,
}

impl Drop for Steering {
    fn drop(&mut self) {
        // If this fails (Linux before 5.9), closing the link detaches it.
        let _ = bpf::detach(&self.link);
    }
}

/// Opens interface `name` for the traffic in `claims`, one device for each of its queues.
///
/// # Errors
/// The reason, with a remedy where one is known. Nothing is left behind.
///
/// # Panics
/// `options.frames` or `options.held` is outside its range, or `claims` holds more than its program
/// supports.
pub fn open(name: &str, options: &Options, claims: &Claims) -> Result<OpenedInterface, InterfaceError> {
    let frames = options.frames;
    assert!(frames.is_power_of_two() && (64..=32_768).contains(&frames), "{frames} frames are not a ring");
    assert!(options.held <= 65_536, "{} frames held are outside 0..=65536", options.held);
    let interface = Interface::find(name)?;
    let chunk = chunk_for(&interface)?;
    let queues = options.queues.unwrap_or(interface.queues);
    if queues != interface.queues {
        return Err(InterfaceError::Queues { name: name.to_owned(), asked: queues, there: interface.queues });
    }
    let refused = |what| move |e: io::Error| refusal(name, what, e);
    raise_memory_limit();
    let sockets = bpf::socket_map(queues.into()).map_err(refused("a map of sockets"))?;
    let opened: Vec<(Socket, Umem)> = (0..queues)
        .map(|_| {
            let chunks = (options.receive_chunks() + frames) as usize;
            let umem = Umem::new(chunks, chunk, options.hugepages).map_err(|_| {
                let bytes = chunks * chunk;
                match options.hugepages {
                    true => {
                        InterfaceError::NoHugepages { pages: bytes.div_ceil(HUGEPAGE) * usize::from(queues) }
                    }
                    false => InterfaceError::NoMemory { bytes },
                }
            })?;
            let fd = socket::open().map_err(refused("an AF_XDP socket"))?;
            let socket = Socket::set_up(fd, &umem, chunk, frames, options.fill_slots());
            let socket = socket.map_err(refused("memory for AF_XDP"))?;
            Ok((socket, umem))
        })
        .collect::<Result<_, InterfaceError>>()?;
    let program = program_swap::load(claims, &sockets).map_err(refused("the XDP program"))?;
    let (link, mode) = xdp::attach(&interface, &program, options.mode, |what, e| refusal(name, what, e))?;
    for (queue, (socket, _)) in (0..).zip(&opened) {
        socket.bind(interface.index, queue.into(), options.zerocopy).map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY) => InterfaceError::QueueBusy { name: name.to_owned(), queue },
            Some(libc::EOPNOTSUPP | libc::EINVAL) if options.zerocopy => {
                InterfaceError::NoZeroCopy(name.to_owned())
            }
            _ => refusal(name, "an AF_XDP socket on a queue", e),
        })?;
        if options.busy_poll {
            socket.busy_poll(BUSY_POLL_MICROS, BUSY_POLL_FRAMES).map_err(refused("busy polling"))?;
        }
        bpf::set_socket(&sockets, queue.into(), socket).map_err(refused("a socket in the map"))?;
    }
    // IPv6 neighbours address their solicitations to a multicast group.
    let by_multicast = claims.addresses.iter().any(std::net::IpAddr::is_ipv6);
    let multicast = by_multicast.then(|| AllMulticast::on(interface.index)).transpose();
    let multicast = multicast.map_err(refused("all multicast"))?;
    let steering = Arc::new(Steering { link, sockets, _multicast: multicast });
    let zerocopy = opened.iter().all(|(socket, _)| socket.is_zerocopy());
    let frame_len_max = usize::from(interface.mtu) + ETHERNET;
    let devices = opened.into_iter().map(|(socket, umem)| {
        let eventfd = wait::EventFd::new().map_err(refused("an event descriptor"))?;
        let long = (interface.takes_uncut && !zerocopy).then(|| RawSocket::open(&interface)).transpose()?;
        let parts = device::Parts { socket, umem, long, eventfd, steering: steering.clone() };
        Ok(AfXdp::new(parts, chunk, options, frame_len_max))
    });
    let devices = devices.collect::<Result<_, InterfaceError>>()?;
    let claimant = Claimant::new(name, &steering);
    Ok(OpenedInterface { interface, mode, zerocopy, devices, claimant })
}

/// Size of the chunk that holds the interface's longest frame with the kernel's headroom.
fn chunk_for(interface: &Interface) -> Result<usize, InterfaceError> {
    let needed = HEADROOM + ETHERNET + usize::from(interface.mtu);
    CHUNKS.into_iter().find(|&chunk| needed <= chunk).ok_or_else(|| InterfaceError::MtuLarge {
        name: interface.name.clone(),
        mtu: interface.mtu,
        max: (CHUNKS[1] - HEADROOM - ETHERNET) as u16,
    })
}

fn refusal(name: &str, what: &'static str, e: io::Error) -> InterfaceError {
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => InterfaceError::NoPermission {
            name: name.to_owned(),
            what: "AF_XDP",
            capabilities: "cap_net_raw,cap_net_admin,cap_bpf",
        },
        Some(libc::EAFNOSUPPORT) => InterfaceError::Unsupported { what: "AF_XDP", since: "4.18" },
        Some(libc::ENOSYS) => InterfaceError::Unsupported { what: "bpf(2)", since: "4.18" },
        _ => InterfaceError::Refused { name: name.to_owned(), what, source: e },
    }
}

/// Raises the limit of 64 KiB against which older kernels count BPF maps and frames.
fn raise_memory_limit() {
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // If this is not permitted, the present limit may suffice; if not, the later allocation reports an
    // error.
    // SAFETY: reads one `rlimit` that lives through the call.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const all) };
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Headroom of the kernel before a frame, `XDP_PACKET_HEADROOM`.
const HEADROOM: usize = 256;
/// Chunk sizes: the smallest for 1500 bytes, and a page, the maximum.
const CHUNKS: [usize; 2] = [2048, 4096];
/// Duration and budget of one busy poll.
const BUSY_POLL_MICROS: i32 = 20;
const BUSY_POLL_FRAMES: i32 = 64;
