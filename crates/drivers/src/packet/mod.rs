//! AF_PACKET: frames copied by the kernel into a ring shared with it, for any Ethernet interface and
//! any kernel.
//!
//! The kernel sees the same frames. It ignores ours as long as our address is not its own and it does
//! not forward: a host with `net.ipv4.ip_forward=1` would try to forward them, so use AF_XDP there. Our
//! hardware address is the interface's.
//!
//! The rings are of version 2, not 3, whose blocks arrive a millisecond late. Frames are copied out of
//! the ring at once, since one waiting frame would block all behind it.
//!
//! Several kinds of frames need more than a slot. Frames merged by the kernel (GRO) do not fit and are
//! fetched by a system call. A VLAN tag that the kernel removed is restored, so that the stack
//! recognises frames of another network. UDP GSO datagrams are split here. Frames to be segmented by
//! the kernel or the card (TSO) are sent by a system call, through a socket without a ring. That socket
//! and the ring both go through the interface's qdisc like other traffic: only then does the kernel
//! segment, and later frames cannot overtake.
//!
//! Source: packet(7), Linux, Documentation/networking/packet_mmap.rst.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use libc::{
    SOL_PACKET, TP_STATUS_AVAILABLE, TP_STATUS_COPY, TP_STATUS_CSUMNOTREADY, TP_STATUS_KERNEL,
    TP_STATUS_SEND_REQUEST, TP_STATUS_USER, tpacket2_hdr,
};
use net::Device;
use net::device::{Full, Offloads, ReceivedFrame, Waker};
use queueing::{Span, Time};
use rustix::event::PollFlags;

use crate::frame_pool::{LARGE_LEN, Pool};
use crate::virtio_net_hdr;
use host::interface::{AllMulticast, Interface, InterfaceError};
use host::{sockopt, wait};

mod filter;
mod raw_socket;
mod ring;

pub use crate::frame_pool::PooledFrame;
pub(crate) use raw_socket::RawSocket;
use ring::{Ring, TAG_LEN};

/// Distribution of frames to several sockets of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fanout {
    /// All frames of a flow go to one socket.
    #[default]
    Flow,
    /// All frames of a receive queue go to one socket.
    Queue,
}

/// Options of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of sockets, 1..=256.
    pub sockets: u16,
    /// Distribution of frames to the sockets.
    pub fanout: Fanout,
    /// Ring size in each direction of a socket, in frames, 64..=65536.
    pub frames: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { sockets: 1, fanout: Fanout::Flow, frames: 2048 }
    }
}

/// A packet socket with its rings.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    /// Socket for frames that fit no slot: a socket with a ring sends from the ring only.
    long: RawSocket,
    receiving: Ring,
    sending: Ring,
    pool: Pool,
    /// GSO datagrams that are still to be split.
    uncut: Option<virtio_net_hdr::GsoSegments>,
    frame_len_max: usize,
    /// True if slots were filled since the last system call.
    unsent: bool,
    /// Frames longer than could be fetched.
    truncated: u64,
    eventfd: wait::EventFd,
    _multicast: AllMulticast,
}

/// Opens interface `name`: the interface and one device for each socket.
///
/// # Errors
/// The reason, with a remedy where one is known.
///
/// # Panics
/// An option is outside its range.
pub fn open(name: &str, options: &Options) -> Result<(Interface, Vec<PacketSocket>), InterfaceError> {
    assert!((1..=256).contains(&options.sockets), "{} sockets are outside 1..=256", options.sockets);
    assert!((64..=65_536).contains(&options.frames), "{} frames are outside 64..=65536", options.frames);
    let interface = Interface::find(name)?;
    let mut group = None;
    let devices = (0..options.sockets).map(|_| PacketSocket::open(&interface, options, &[], &mut group));
    let devices = devices.collect::<Result<_, _>>()?;
    Ok((interface, devices))
}

/// A copy of traffic that concerns the kernel behind `interface` as well, which no XDP program may
/// therefore take: router advertisements, neighbour discovery of IPv6, and DHCP for clients. Used
/// beside an AF_XDP device; frames taken by its XDP program do not arrive here.
///
/// # Errors
/// The errors of [`open`].
pub fn open_copy(interface: &Interface) -> Result<PacketSocket, InterfaceError> {
    PacketSocket::open(
        interface,
        &Options { frames: 64, ..Options::default() },
        &filter::CONCERNS_ALL,
        &mut None,
    )
}

impl PacketSocket {
    /// Ends [`wait`](Device::wait) also while `fd` is readable, from now on.
    pub fn watch(&mut self, fd: OwnedFd) {
        self.eventfd.watch(fd);
    }

    /// Receives frames that pass `filter`, or all if it is empty. The first of several sockets creates
    /// the fanout `group` that the others join.
    fn open(
        interface: &Interface,
        options: &Options,
        filter: &[libc::sock_filter],
        group: &mut Option<i32>,
    ) -> Result<Self, InterfaceError> {
        let refused = |what| move |e: io::Error| refusal(&interface.name, what, e);
        let fd = socket(0).map_err(refused("a packet socket"))?;
        let set = |option, value: i32| sockopt::set(&fd, SOL_PACKET, option, &value);
        set(libc::PACKET_VERSION, TPACKET_V2).map_err(refused("packet rings of version 2"))?;
        set(PACKET_VNET_HDR, 1).map_err(refused("checksum offload"))?;
        set(libc::PACKET_IGNORE_OUTGOING, 1).map_err(refused("leaving out our own frames"))?;
        // A frame that fits no slot waits in the socket instead.
        set(libc::PACKET_COPY_THRESH, 1).map_err(refused("fetching long frames"))?;
        // A malformed slot is skipped, not waited for.
        set(libc::PACKET_LOSS, 1).map_err(refused("skipping bad slots"))?;
        // A smaller buffer than requested will do.
        for buffer in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            let _ = sockopt::set(&fd, libc::SOL_SOCKET, buffer, &BUFFER);
        }
        let long = RawSocket::open(interface)?;
        let frame_len_max = usize::from(interface.mtu) + ETHERNET;
        let slot = (HEADROOM + frame_len_max).next_power_of_two();
        let (receiving, sending) =
            ring::map_pair(&fd, slot, options.frames).map_err(refused("memory for packet rings"))?;
        if !filter.is_empty() {
            filter::attach(&fd, filter).map_err(refused("a packet filter"))?;
        }
        bind(&fd, interface.index, libc::ETH_P_ALL as u16).map_err(refused("a packet socket on it"))?;
        if options.sockets > 1 {
            let kind = match options.fanout {
                Fanout::Flow => libc::PACKET_FANOUT_HASH,
                Fanout::Queue => libc::PACKET_FANOUT_QM,
            };
            // The kernel chooses the group's number: one of ours could collide with a process in
            // another container.
            let asked = group.unwrap_or((kind as i32 | FANOUT_UNIQUE) << 16);
            set(libc::PACKET_FANOUT, asked).map_err(refused("a fanout group"))?;
            if group.is_none() {
                // SAFETY: it is a number.
                let named = unsafe { sockopt::get(&fd, SOL_PACKET, libc::PACKET_FANOUT) };
                *group = Some(named.map_err(refused("a fanout group"))?);
            }
        }
        let multicast = AllMulticast::on(interface.index).map_err(refused("all multicast"))?;
        Ok(Self {
            fd,
            long,
            receiving,
            sending,
            pool: Pool::new(frame_len_max),
            uncut: None,
            frame_len_max,
            unsent: false,
            truncated: 0,
            eventfd: wait::EventFd::new().map_err(refused("an event descriptor"))?,
            _multicast: multicast,
        })
    }

    /// Frames longer than could be fetched.
    #[must_use]
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Makes the kernel send waiting frames, as far as it can now.
    fn send_waiting(&mut self) {
        self.long.flush();
        if self.unsent {
            self.send();
        }
    }

    /// Makes the kernel send the ring's frames, as far as it can now.
    fn send(&mut self) {
        // SAFETY: no buffer; nothing is read.
        unsafe { libc::send(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        // Slots are taken in order until the socket's buffer is full. A call that took some succeeds;
        // the rest goes with the next.
        self.unsent = self.sending.previous().load(Ordering::Acquire) & TP_STATUS_SEND_REQUEST != 0;
    }

    /// Copies the frame out of the current slot; `None` if it was truncated.
    fn copy(&mut self, status: u32) -> Option<ReceivedFrame<PooledFrame>> {
        let tag = self.receiving.tag(status);
        if status & TP_STATUS_COPY != 0 {
            return self.fetch(tag);
        }
        let (vnet, frame) = self.receiving.received()?;
        if let Some(tag) = tag {
            let mut buffer = self.pool.of_len(frame.len() + TAG_LEN);
            buffer[..frame.len()].copy_from_slice(frame);
            let len = frame.len();
            return tagged(buffer, len, tag);
        }
        // Slots are longer than ordinary frames, so merged frames may fit, too.
        let mut buffer = self.pool.of_len(frame.len());
        buffer[..frame.len()].copy_from_slice(frame);
        let (header, frame) = (*vnet, Pool::frame(buffer, frame.len()));
        self.take(&header, frame, status & TP_STATUS_CSUMNOTREADY != 0)
    }

    /// A received frame, or the first that it is split into.
    #[inline]
    fn take(
        &mut self,
        header: &virtio_net_hdr::Header,
        frame: PooledFrame,
        checked: bool,
    ) -> Option<ReceivedFrame<PooledFrame>> {
        match virtio_net_hdr::GsoSegments::of(header, frame) {
            Err(frame) => {
                let checked = checked || virtio_net_hdr::is_checked(header);
                Some(ReceivedFrame { frame, arrived: None, checked })
            }
            Ok(uncut) => {
                self.uncut = Some(uncut);
                self.cut()
            }
        }
    }

    /// The next part of a frame that is being split.
    #[cold]
    fn cut(&mut self) -> Option<ReceivedFrame<PooledFrame>> {
        let uncut = self.uncut.as_mut()?;
        if let Some(len) = uncut.next_len() {
            let mut buffer = self.pool.of_len(len);
            uncut.next(&mut buffer[..len]);
            return Some(ReceivedFrame { frame: Pool::frame(buffer, len), arrived: None, checked: true });
        }
        self.uncut.take().into_iter().for_each(|uncut| self.pool.take_back(uncut.into_frame()));
        None
    }

    /// Fetches a frame that fits no slot.
    fn fetch(&mut self, tag: Option<[u8; TAG_LEN]>) -> Option<ReceivedFrame<PooledFrame>> {
        let mut vnet = [0; virtio_net_hdr::HEADER_LEN];
        let mut buffer = self.pool.large();
        let mut parts = [
            libc::iovec { iov_base: vnet.as_mut_ptr().cast(), iov_len: vnet.len() },
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: LARGE_LEN },
        ];
        // SAFETY: all-zero bytes are a valid `msghdr`: no name, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: two buffers of the given lengths, which live through the call.
        let got = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        let len = usize::try_from(got).ok().and_then(|got| got.checked_sub(vnet.len()));
        match len {
            Some(len) if message.msg_flags & libc::MSG_TRUNC == 0 => {
                if let Some(tag) = tag {
                    return tagged(buffer, len, tag);
                }
                self.take(&vnet, Pool::frame(buffer, len), false)
            }
            _ => {
                self.pool.take_back_buffer(buffer);
                None
            }
        }
    }
}

impl Device for PacketSocket {
    type Frame = PooledFrame;

    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<PooledFrame>> {
        if self.uncut.is_some()
            && let Some(received) = self.cut()
        {
            return Some(received);
        }
        loop {
            let status = self.receiving.current().load(Ordering::Acquire);
            if status & TP_STATUS_USER == 0 {
                self.send_waiting();
                return None;
            }
            let received = self.copy(status);
            self.receiving.current().store(TP_STATUS_KERNEL, Ordering::Release);
            self.receiving.advance();
            match received {
                None => self.truncated += 1,
                received => return received,
            }
        }
    }

    fn recycle(&mut self, frame: PooledFrame) {
        self.pool.take_back(frame);
    }

    fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        assert!(len <= self.frame_len_max, "a frame of {len} bytes is longer than {}", self.frame_len_max);
        // Earlier frames go first.
        if self.long.flush() || self.sending.current().load(Ordering::Acquire) != TP_STATUS_AVAILABLE {
            return Err(Full);
        }
        self.sending.fill(len, |slot| {
            let (header, frame) = slot.split_at_mut(virtio_net_hdr::HEADER_LEN);
            fill(frame);
            header.copy_from_slice(&virtio_net_hdr::header_for(frame, None));
        });
        self.sending.current().store(TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.sending.advance();
        self.unsent = true;
        Ok(())
    }

    fn transmit_cut(
        &mut self,
        _now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        if self.unsent {
            self.send();
        }
        if self.unsent {
            return Err(Full);
        }
        self.long.send(len, size, fill)
    }

    fn frame_len_max(&self) -> usize {
        self.frame_len_max
    }

    fn flush(&mut self, _now: Time) {
        self.send_waiting();
    }

    fn offloads(&self) -> Offloads {
        Offloads { tx_checksum: true, tx_segmentation: true }
    }

    fn wait(&mut self, span: Span) {
        self.send_waiting();
        let waits = self.unsent || self.long.is_held();
        self.eventfd.within(&self.fd, PollFlags::IN, if waits { span.min(SOON) } else { span });
    }

    fn waker(&self) -> Option<Waker> {
        Some(self.eventfd.waker())
    }
}

/// The frame of `len` bytes in `buffer` with its VLAN tag restored, as it was on the wire, since it is
/// not a frame without one. A frame without space for the tag counts as truncated.
fn tagged(mut buffer: Box<[u8]>, len: usize, tag: [u8; TAG_LEN]) -> Option<ReceivedFrame<PooledFrame>> {
    let len = len.min(buffer.len() - TAG_LEN);
    buffer.copy_within(TAG_AT..len, TAG_AT + TAG_LEN);
    buffer[TAG_AT..TAG_AT + TAG_LEN].copy_from_slice(&tag);
    Some(ReceivedFrame { frame: Pool::frame(buffer, len + TAG_LEN), arrived: None, checked: false })
}

/// Offset of a frame's tag: behind both addresses.
const TAG_AT: usize = 12;

/// A packet socket that receives nothing before it is bound.
fn socket(flags: i32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | flags;
    // SAFETY: a plain call; its result is checked.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to the interface and receives `protocol` there; 0 receives nothing.
fn bind(fd: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives through the call and has this length.
    match unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn refusal(name: &str, what: &'static str, e: io::Error) -> InterfaceError {
    match e.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => InterfaceError::NoPermission {
            name: name.to_owned(),
            what: "a packet socket",
            capabilities: "cap_net_raw",
        },
        Some(libc::ENOMEM) => InterfaceError::NoMemory { bytes: 0 },
        _ => InterfaceError::Refused { name: name.to_owned(), what, source: e },
    }
}

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of a slot before the frame: the kernel's header and address, and the virtio header, each
/// aligned.
const HEADROOM: usize = size_of::<tpacket2_hdr>() + size_of::<libc::sockaddr_ll>() + 48;
/// Bytes of socket buffers, for sent frames and for those that fit no slot.
const BUFFER: i32 = 8 << 20;
/// Retry interval for frames that the kernel could not buffer.
const SOON: Span = Span::from_millis(1);
const TPACKET_V2: i32 = 1;
const PACKET_VNET_HDR: i32 = 15;
/// The kernel chooses the number of a fanout group.
const FANOUT_UNIQUE: i32 = 0x2000;
