//! AF_PACKET: frames copied by the kernel into a ring that we share with it,
//! for any Ethernet interface and any kernel.
//!
//! The kernel sees the same frames as we do. It leaves ours alone as long as
//! our address is not its own and it does not forward: a host with
//! `net.ipv4.ip_forward=1` would try to send them on, so there use AF_XDP. Our
//! hardware address is the interface's.
//!
//! Version 2 of the rings, not 3, whose blocks come a millisecond late. Frames
//! are copied out of the ring at once: it is a ring, so one frame that waits
//! would hold up all behind it. Frames that the kernel has merged (GRO) do not
//! fit a slot and are fetched by a system call; the tag of a VLAN, which the kernel
//! takes off, is put back, so that the stack knows it for another network's; datagrams that nobody has cut yet
//! are cut here; what the kernel or the card is to cut (TSO) leaves by a system call,
//! through a socket without a ring. That and the ring both go through the interface's
//! queueing discipline, as everybody's: only so does the kernel cut, and what is sent
//! last cannot overtake.
//! Source: packet(7), Linux, Documentation/networking/packet_mmap.rst.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use libc::{
    SOL_PACKET, TP_STATUS_AVAILABLE, TP_STATUS_COPY, TP_STATUS_CSUMNOTREADY, TP_STATUS_KERNEL,
    TP_STATUS_SEND_REQUEST, TP_STATUS_USER, tpacket2_hdr,
};
use net::Device;
use net::device::{Full, Offloads, Received, Waker};
use queueing::{Span, Time};
use rustix::event::PollFlags;

use crate::frame_pool::{LARGE_LEN, Pool};
use crate::interface::{AllMulticast, Interface, InterfaceError};
use crate::{sockopt, virtio_net_hdr, wait};

mod filter;
mod raw_socket;
mod ring;

pub use crate::frame_pool::Frame;
pub(crate) use raw_socket::RawSocket;
use ring::{Ring, TAG_LEN};

/// Who gets which frame where several sockets share an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fanout {
    /// All frames of a flow go to one socket.
    #[default]
    Flow,
    /// All frames of a receive queue go to one socket.
    Queue,
}

/// How to open an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Sockets, 1..=256.
    pub sockets: u16,
    /// How they share.
    pub fanout: Fanout,
    /// Frames that each direction of a socket holds, 64..=65536.
    pub frames: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { sockets: 1, fanout: Fanout::Flow, frames: 2048 }
    }
}

/// A packet socket with its rings.
#[derive(Debug)]
pub struct Packet {
    fd: OwnedFd,
    /// For frames that fit no slot: a socket with a ring sends from it only.
    long: RawSocket,
    receiving: Ring,
    sending: Ring,
    pool: Pool,
    /// Datagrams that came in one and are still to be received.
    uncut: Option<virtio_net_hdr::GsoSegments>,
    frame_len_max: usize,
    /// Slots filled since the last system call.
    unsent: bool,
    /// Frames that came longer than could be fetched.
    truncated: u64,
    bell: wait::EventFd,
    _multicast: AllMulticast,
}

/// Opens interface `name`: the interface and one device for each socket.
///
/// # Errors
/// Whatever keeps it from being opened, with the way out where one is known.
///
/// # Panics
/// When an option is outside its range.
pub fn open(name: &str, options: &Options) -> Result<(Interface, Vec<Packet>), InterfaceError> {
    assert!((1..=256).contains(&options.sockets), "{} sockets are outside 1..=256", options.sockets);
    assert!((64..=65_536).contains(&options.frames), "{} frames are outside 64..=65536", options.frames);
    let interface = Interface::find(name)?;
    let mut group = None;
    let devices = (0..options.sockets).map(|_| Packet::open(&interface, options, &[], &mut group));
    let devices = devices.collect::<Result<_, _>>()?;
    Ok((interface, devices))
}

/// A copy of what concerns the kernel behind `interface` as well as us, so
/// that no XDP program may take it: routers' advertisements, who has which
/// IPv6 address, and DHCP for clients. For a device beside one of AF_XDP; what
/// its program takes does not come here.
///
/// # Errors
/// As [`open`].
pub fn open_copy(interface: &Interface) -> Result<Packet, InterfaceError> {
    Packet::open(interface, &Options { frames: 64, ..Options::default() }, &filter::CONCERNS_ALL, &mut None)
}

impl Packet {
    /// Ends [`wait`](Device::wait) also while `fd` is readable, from now on.
    pub fn watch(&mut self, fd: OwnedFd) {
        self.bell.watch(fd);
    }

    /// Receives what passes `filter`, or everything if it is empty. Of several sockets the first makes the
    /// fanout `group` that the others join.
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
        // A slot in disorder is skipped rather than waited for.
        set(libc::PACKET_LOSS, 1).map_err(refused("skipping bad slots"))?;
        // What the kernel grants of a buffer is what it grants.
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
            // The kernel names it: a number of our own may be that of a process in another container.
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
            bell: wait::EventFd::new().map_err(refused("an event descriptor"))?,
            _multicast: multicast,
        })
    }

    /// Frames that came longer than they could be fetched.
    #[must_use]
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Has the kernel send what waits, as far as it can now.
    fn send_waiting(&mut self) {
        self.long.flush();
        if self.unsent {
            self.send();
        }
    }

    /// Has the kernel send what is in the ring, as far as it can now.
    fn send(&mut self) {
        // SAFETY: no buffer; nothing is read.
        unsafe { libc::send(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        // Slots are taken in order, until the socket's buffer is full, and a call that took some says
        // that it did: the rest goes with the next.
        self.unsent = self.sending.previous().load(Ordering::Acquire) & TP_STATUS_SEND_REQUEST != 0;
    }

    /// Copies the frame out of the slot at hand; `None` when it was cut short.
    fn copy(&mut self, status: u32) -> Option<Received<Frame>> {
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
        // Slots are longer than ordinary frames, and so may be what was merged.
        let mut buffer = self.pool.of_len(frame.len());
        buffer[..frame.len()].copy_from_slice(frame);
        let (header, frame) = (*vnet, Pool::frame(buffer, frame.len()));
        self.take(&header, frame, status & TP_STATUS_CSUMNOTREADY != 0)
    }

    /// A frame as it came, or the first that it is cut into.
    #[inline]
    fn take(
        &mut self,
        header: &virtio_net_hdr::Header,
        frame: Frame,
        checked: bool,
    ) -> Option<Received<Frame>> {
        match virtio_net_hdr::GsoSegments::of(header, frame) {
            Err(frame) => {
                let checked = checked || virtio_net_hdr::is_checked(header);
                Some(Received { frame, arrived: None, checked })
            }
            Ok(uncut) => {
                self.uncut = Some(uncut);
                self.cut()
            }
        }
    }

    /// The next of what is still to be cut.
    #[cold]
    fn cut(&mut self) -> Option<Received<Frame>> {
        let uncut = self.uncut.as_mut()?;
        if let Some(len) = uncut.next_len() {
            let mut buffer = self.pool.of_len(len);
            uncut.next(&mut buffer[..len]);
            return Some(Received { frame: Pool::frame(buffer, len), arrived: None, checked: true });
        }
        self.uncut.take().into_iter().for_each(|uncut| self.pool.take_back(uncut.into_frame()));
        None
    }

    /// A frame that fits no slot.
    fn fetch(&mut self, tag: Option<[u8; TAG_LEN]>) -> Option<Received<Frame>> {
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
        // SAFETY: two buffers of the lengths said, which live through the call.
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

impl Device for Packet {
    type Frame = Frame;

    fn receive(&mut self, _now: Time) -> Option<Received<Frame>> {
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

    fn recycle(&mut self, frame: Frame) {
        self.pool.take_back(frame);
    }

    fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        assert!(len <= self.frame_len_max, "a frame of {len} bytes is longer than {}", self.frame_len_max);
        // What waits went before.
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
        self.bell.within(&self.fd, PollFlags::IN, if waits { span.min(SOON) } else { span });
    }

    fn waker(&self) -> Option<Waker> {
        Some(self.bell.waker())
    }
}

/// The frame of `len` bytes in `buffer` with its tag, as it was on the wire: it is
/// of a VLAN, and not to be taken for one without. One that has no room for it is cut.
fn tagged(mut buffer: Box<[u8]>, len: usize, tag: [u8; TAG_LEN]) -> Option<Received<Frame>> {
    let len = len.min(buffer.len() - TAG_LEN);
    buffer.copy_within(TAG_AT..len, TAG_AT + TAG_LEN);
    buffer[TAG_AT..TAG_AT + TAG_LEN].copy_from_slice(&tag);
    Some(Received { frame: Pool::frame(buffer, len + TAG_LEN), arrived: None, checked: false })
}

/// Where a frame has its tag: behind both addresses.
const TAG_AT: usize = 12;

/// A packet socket that receives nothing before it is bound.
fn socket(flags: i32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | flags;
    // SAFETY: a plain call; its result is checked.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is fresh and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to the interface; of what comes there, `protocol` is received, or
/// nothing when it is 0.
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
/// What a slot holds before a frame: the kernel's header and address, and the
/// virtio header, each aligned.
const HEADROOM: usize = size_of::<tpacket2_hdr>() + size_of::<libc::sockaddr_ll>() + 48;
/// Bytes for frames between socket and card, and for those that fit no slot.
const BUFFER: i32 = 8 << 20;
/// When what the kernel had no room for is tried again.
const SOON: Span = Span::from_millis(1);
const TPACKET_V2: i32 = 1;
const PACKET_VNET_HDR: i32 = 15;
/// The kernel chooses the number of a fanout group.
const FANOUT_UNIQUE: i32 = 0x2000;
