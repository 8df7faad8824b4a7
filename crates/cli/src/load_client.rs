//! Clients of measured servers: our own stack, configured like the kernel's, so that all servers
//! get the same load.

use std::net::Ipv4Addr;

use drivers::afxdp::{self, AfXdp, Claims, Mode, Options};
use net::stack::Config;
use queueing::Span;

/// Maximum time for connections to open.
pub const OPEN_WITHIN: Span = Span::from_secs(10);
/// Number of frames in each ring of a client's socket.
pub const FRAMES: u32 = 8192;
/// Minimum RTO, Linux' `TCP_RTO_MIN`: with less, a thousand queued requests are all retransmitted.
pub const RTO_MIN: Span = Span::from_millis(200);

/// A client's stack at `addr` in a /24 network.
pub fn stack(mac: [u8; 6], addr: Ipv4Addr, secret: [u8; 16]) -> Config {
    let mut config = Config::new(mac, addr, 24, secret);
    (config.recv_buffer, config.send_buffer) = (4 << 20, 4 << 20);
    config.rto_min = RTO_MIN;
    config
}

/// AF_XDP on `device` of this thread's namespace, which has one queue, for a client at `addr`; and
/// its hardware address.
///
/// # Errors
/// The reason it cannot be opened, in a line.
pub fn xdp(device: &str, addr: Ipv4Addr) -> Result<(AfXdp, [u8; 6]), String> {
    let (mut queues, mac) = xdp_queues(device, addr)?;
    Ok((queues.pop().ok_or("the interface has no queue")?, mac))
}

/// AF_XDP sockets on each queue of the interface.
///
/// # Errors
/// The errors of [`xdp`].
pub fn xdp_queues(device: &str, addr: Ipv4Addr) -> Result<(Vec<AfXdp>, [u8; 6]), String> {
    let options = Options { mode: Some(Mode::Generic), frames: FRAMES, ..Options::default() };
    let claims = Claims { addresses: vec![addr.into()], ports: Vec::new() };
    let opened = afxdp::open(device, &options, &claims).map_err(|e| e.to_string())?;
    Ok((opened.devices, opened.interface.mac))
}
