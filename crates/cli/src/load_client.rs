//! Clients of servers that are measured: our own stack, set up as the kernel
//! sets up its clients, so that all servers are asked alike.

use std::net::Ipv4Addr;

use host::afxdp::{self, AfXdp, Claims, Mode, Options};
use net::stack::Config;
use queueing::Span;

/// How long connections may take to open.
pub const OPEN_WITHIN: Span = Span::from_secs(10);
/// Frames that each direction of a client's socket holds.
pub const FRAMES: u32 = 8192;
/// Linux' `TCP_RTO_MIN`: with less, a thousand requests that wait in a queue
/// are all sent again.
pub const RTO_MIN: Span = Span::from_millis(200);

/// A client's stack at `addr` of a network of 24 bits.
pub fn stack(mac: [u8; 6], addr: Ipv4Addr, secret: [u8; 16]) -> Config {
    let mut config = Config::new(mac, addr, 24, secret);
    (config.recv_buffer, config.send_buffer) = (4 << 20, 4 << 20);
    config.rto_min = RTO_MIN;
    config
}

/// AF_XDP on `device` of this thread's namespace, which has one queue, for a
/// client at `addr`, and its hardware address.
///
/// # Errors
/// Why there is none, in a line.
pub fn xdp(device: &str, addr: Ipv4Addr) -> Result<(AfXdp, [u8; 6]), String> {
    let (mut queues, mac) = xdp_queues(device, addr)?;
    Ok((queues.pop().ok_or("the interface has no queue")?, mac))
}

/// The same on each of its queues.
///
/// # Errors
/// As [`xdp`].
pub fn xdp_queues(device: &str, addr: Ipv4Addr) -> Result<(Vec<AfXdp>, [u8; 6]), String> {
    let options = Options { mode: Some(Mode::Generic), frames: FRAMES, ..Options::default() };
    let claims = Claims { addresses: vec![addr.into()], ports: Vec::new() };
    let opened = afxdp::open(device, &options, &claims).map_err(|e| e.to_string())?;
    Ok((opened.devices, opened.interface.mac))
}
