//! Socket calls on UDP sockets.

use std::net::SocketAddr;

use net::stack::{SendError, UdpId, UdpOptions};
use wire::icmp::Cause;

use super::ast::Call;
use super::calls::{Outcome, Socket, fd, number, port_in};
use super::flow::bytes;
use super::run::{Failure, PORTS, Runner};

impl Runner {
    /// True if the call is on a UDP socket.
    pub(super) fn is_datagram(&self, call: &Call) -> Result<bool, Failure> {
        let socket = self.sockets.open.get(&fd(call)?);
        Ok(matches!(socket, Some(Socket::FreshDatagram | Socket::Datagram(_))))
    }

    pub(super) fn datagram(&mut self, name: &str, call: &Call) -> Result<Outcome, Failure> {
        let port = call.args.iter().find_map(|arg| port_in(arg));
        if name == "bind" {
            return Ok(self.bind_datagram(fd(call)?, port.unwrap_or(PORTS.1)).map(|_| 0));
        }
        let id = match self.sockets.open.get(&fd(call)?) {
            Some(Socket::Datagram(id)) => *id,
            _ => match self.bind_datagram(fd(call)?, PORTS.1) {
                Ok(id) => id,
                Err(errno) => return Ok(Err(errno)),
            },
        };
        match name {
            "sendto" | "write" | "send" => {
                let len = number(call, 2)?;
                let remote = SocketAddr::new(self.peer(), port.unwrap_or(PORTS.0));
                let sent = self.stack.send_to(self.now, id, remote, &bytes(0, len as u32));
                Ok(match sent {
                    Ok(()) => Ok(len),
                    Err(SendError::TooLong) => Err("EMSGSIZE"),
                    Err(SendError::NoRoute) => Err("ENETUNREACH"),
                    Err(_) => Err("EAGAIN"),
                })
            }
            "recvfrom" | "read" | "recv" => self.receive(id),
            "getsockopt" => {
                let got = match self.stack.take_udp_error(id) {
                    None => "[0]",
                    Some((_, Cause::Port)) => "[ECONNREFUSED]",
                    Some(_) => "[EHOSTUNREACH]",
                };
                match call.args.get(3) {
                    Some(expected) if expected != got => {
                        Err(Failure::differs("the error differs", expected, got))
                    }
                    _ => Ok(Ok(0)),
                }
            }
            "close" => {
                self.sockets.open.remove(&fd(call)?);
                self.stack.close_udp(id);
                Ok(Ok(0))
            }
            other => Err(Failure::new(format!(
                "{other} is no call of a datagram socket; valid: bind, sendto, recvfrom, getsockopt, close"
            ))),
        }
    }

    fn bind_datagram(&mut self, fd: i64, port: u16) -> Result<UdpId, &'static str> {
        let id = self.stack.bind_udp(port, UdpOptions::default()).map_err(|_| "EADDRINUSE")?;
        self.sockets.open.insert(fd, Socket::Datagram(id));
        Ok(id)
    }

    fn receive(&mut self, id: UdpId) -> Result<Outcome, Failure> {
        let Some(datagram) = self.stack.receive_from(self.now, id) else { return Ok(Err("EAGAIN")) };
        if datagram.payload != bytes(0, datagram.payload.len() as u32) {
            return Err(Failure::new("the bytes read are not those that the peer sent"));
        }
        let len = datagram.payload.len() as i64;
        self.stack.recycle(datagram.payload);
        Ok(Ok(len))
    }
}
