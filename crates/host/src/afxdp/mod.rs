//! AF_XDP: frames in memory that we share with the driver, one socket for each
//! receive queue of an interface.
//!
//! The kernel keeps the interface. An XDP program (see [`Claims`]) gives us
//! what is for our addresses, and the kernel the rest, so the host stays
//! reachable over the same card. Our hardware address is the interface's own.
//!
//! Nothing stays behind: the program is attached by a link, multicast is asked
//! for by a socket, and the kernel takes both back with our descriptors,
//! however the process ends. So there is nothing to restore at the next start.
//!
//! A received frame is lent out where the kernel put it, and a sent one is
//! written in place. `transmit` only fills the ring; `flush` makes the one
//! system call for a batch. On a virtual cable (veth) that has segmentation offload, what is longer than
//! a frame leaves uncut by a packet socket, as the kernel's own does: frames are copied there in any case, and nothing
//! queues behind us that one could overtake.
//!
//! Not here: shared memory between queues (each has its own, so that queues
//! share nothing), frames longer than a chunk, checksums by the card (AF_XDP
//! hands none through on receipt).
//! Source: Linux, Documentation/networking/af_xdp.rst.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::interface::{AllMulticast, Interface, InterfaceError};
use crate::packet::RawSocket;
use crate::{bpf, wait, xdp};

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
pub use umem::Frame;

pub use crate::xdp::Mode;

use socket::Socket;
use umem::{HUGEPAGE, Umem};

/// How to open an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the program runs; `None`: in the driver if it can.
    pub mode: Option<Mode>,
    /// Refuse to open rather than copy. Without it frames are copied only
    /// where driver or mode cannot do otherwise.
    pub zerocopy: bool,
    /// Receive queues, all of which must be served; `None`: as many as there are.
    pub queues: Option<u16>,
    /// Our system calls do the card's work in place of its interrupts: for a
    /// core that spins.
    pub busy_poll: bool,
    /// Frames lie in huge pages of 2 MiB.
    pub hugepages: bool,
    /// Frames that each direction of a queue holds, a power of two in 64..=32768.
    pub frames: u32,
    /// Received frames of a queue that may be out at once before the kernel
    /// has too few to receive into, 0..=65536. A receive buffer that holds no
    /// more than this never keeps an urgent frame from coming in.
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
    /// Chunks to receive into.
    fn receive_chunks(&self) -> u32 {
        self.frames + self.held
    }

    /// Slots of the ring in which the kernel finds them.
    fn fill_slots(&self) -> u32 {
        fill_slots(self.receive_chunks())
    }
}

/// Slots of the fill ring that always have room for every one of `chunks`.
///
/// Twice as many: the kernel shows a received frame first and only then says
/// that it has taken the chunk out of this ring (`xsk_flush`). On another core
/// a chunk may be back before that, and each may have two slots for a moment.
fn fill_slots(chunks: u32) -> u32 {
    (2 * chunks).next_power_of_two()
}

/// An interface with our program on it.
#[derive(Debug)]
pub struct Opened {
    /// What was opened.
    pub interface: Interface,
    /// Where the program runs.
    pub mode: Mode,
    /// Whether frames cross between kernel and us without a copy.
    pub zerocopy: bool,
    /// One device for each receive queue, queue 0 first. The program goes with
    /// the last of them.
    pub devices: Vec<AfXdp>,
    /// Says what the program claims.
    pub claimant: Claimant,
}

impl Opened {
    /// How it was opened, in a line: `native XDP, copied frames, 4 queues`.
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

/// What holds the program in place.
#[derive(Debug)]
struct Steering {
    link: OwnedFd,
    sockets: OwnedFd,
    _multicast: Option<AllMulticast>,
}

impl Drop for Steering {
    fn drop(&mut self) {
        // Where this fails, on Linux before 5.9, closing the link does it.
        let _ = bpf::detach(&self.link);
    }
}

/// Opens interface `name` for what `claims` says is ours, one device for each
/// of its queues.
///
/// # Errors
/// Whatever keeps it from being opened, with the way out where one is known.
/// Nothing is left behind.
///
/// # Panics
/// When `options.frames` or `options.held` is outside its range, or `claims`
/// holds more than its program can.
pub fn open(name: &str, options: &Options, claims: &Claims) -> Result<Opened, InterfaceError> {
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
    // IPv6 neighbours ask for us by multicast.
    let by_multicast = claims.addresses.iter().any(std::net::IpAddr::is_ipv6);
    let multicast = by_multicast.then(|| AllMulticast::on(interface.index)).transpose();
    let multicast = multicast.map_err(refused("all multicast"))?;
    let steering = Arc::new(Steering { link, sockets, _multicast: multicast });
    let zerocopy = opened.iter().all(|(socket, _)| socket.is_zerocopy());
    let frame_len_max = usize::from(interface.mtu) + ETHERNET;
    let devices = opened.into_iter().map(|(socket, umem)| {
        let bell = wait::EventFd::new().map_err(refused("an event descriptor"))?;
        let long = (interface.takes_uncut && !zerocopy).then(|| RawSocket::open(&interface)).transpose()?;
        let parts = device::Parts { socket, umem, long, bell, steering: steering.clone() };
        Ok(AfXdp::new(parts, chunk, options, frame_len_max))
    });
    let devices = devices.collect::<Result<_, InterfaceError>>()?;
    let claimant = Claimant::new(name, &steering);
    Ok(Opened { interface, mode, zerocopy, devices, claimant })
}

/// The chunk that holds the interface's longest frame with the kernel's room
/// before it.
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

/// Older kernels count BPF maps and frames against a limit of 64 KiB.
fn raise_memory_limit() {
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // Where that is not allowed the limit may still do; if not, what needs the
    // memory says so.
    // SAFETY: reads one `rlimit` that lives through the call.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const all) };
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// What the kernel keeps free before a frame, `XDP_PACKET_HEADROOM`.
const HEADROOM: usize = 256;
/// Chunks: the smallest that holds 1500 bytes, and a page, the largest there is.
const CHUNKS: [usize; 2] = [2048, 4096];
/// How long and how far one busy poll goes.
const BUSY_POLL_MICROS: i32 = 20;
const BUSY_POLL_FRAMES: i32 = 64;
