//! TCP and UDP sockets of the kernel.

use std::io;
use std::ops::RangeInclusive;

use super::{Socket, SocketProtocol};
use host::sock_diag::{self, CLOSE, CLOSE_WAIT, ESTABLISHED, LISTEN, SYN_SENT, SockDiag};

/// States of connections that may still transfer data.
const CONNECTED: u32 = 1 << ESTABLISHED | 1 << SYN_SENT | 1 << CLOSE_WAIT;
/// States of UDP sockets, connected and unconnected.
const DATAGRAMS: u32 = 1 << ESTABLISHED | 1 << CLOSE;

/// Sockets of this network namespace: listeners, which are few and cheap to query, or all.
pub(super) fn sockets(diag: &mut SockDiag, all: bool) -> io::Result<Vec<Socket>> {
    let mut sockets = Vec::new();
    let mut ask = |protocol: SocketProtocol, number: u8, states: u32| {
        diag.dump(number, 0, states, |answer| {
            let remote = Some(answer.remote()).filter(|remote| remote.port() != 0);
            sockets.push(Socket {
                protocol,
                listens: answer.state() == LISTEN,
                local: answer.local(),
                remote,
                inode: answer.inode(),
                cookie: answer.cookie(),
            });
        })
    };
    ask(SocketProtocol::Tcp, sock_diag::TCP, 1 << LISTEN | if all { CONNECTED } else { 0 })?;
    if all {
        ask(SocketProtocol::Udp, sock_diag::UDP, DATAGRAMS)?;
    }
    Ok(sockets)
}

/// Ephemeral ports of the kernel.
pub(super) fn chosen_ports() -> RangeInclusive<u16> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_whitespace().map(str::parse);
    match (words.next(), words.next()) {
        (Some(Ok(first)), Some(Ok(last))) => first..=last,
        // Linux's default.
        _ => 32_768..=60_999,
    }
}
