//! Priority level of a connection, carried as DSCP in its packets.
//!
//! A client opens one connection per level, whose packets carry the level's DSCP. The server's
//! kernel answers with the DSCP of the first packet (`net.ipv4.tcp_reflect_tos`), and the
//! server reads the level from there. [`LevelHeader`] writes it into the headers of each request and
//! overwrites the peer's header, so that a request always has the level of its packets. Socket
//! options are read through the C library, so that a preloaded stack can answer.
//! Source: RFC 2474; Linux, ip(7) (`IP_TOS`), ip-sysctl.rst.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tonic::transport::server::Connected;

/// Connects to `address` with packets that carry `dscp`, 0..64.
///
/// # Errors
/// The kernel's error.
pub async fn connect(address: SocketAddr, dscp: u8) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    SockRef::from(&socket).set_tos_v4(u32::from(dscp) << 2)?;
    socket.set_nodelay(true)?;
    socket.connect(address).await
}

/// DSCP of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(pub u8);

/// Accepted connection with its DSCP.
#[derive(Debug)]
pub struct DscpStream(TcpStream, Dscp);

impl DscpStream {
    /// Reads the DSCP of `stream`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        let tos = SockRef::from(&stream).tos_v4()?;
        Ok(Self(stream, Dscp((tos >> 2) as u8)))
    }
}

impl Connected for DscpStream {
    type ConnectInfo = Dscp;

    fn connect_info(&self) -> Dscp {
        self.1
    }
}

impl AsyncRead for DscpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for DscpStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Writes the level of its connection into each request: the index of the DSCP among the known
/// ones, most urgent first; for an unknown DSCP the last.
#[derive(Clone, Debug)]
pub struct LevelHeader {
    known: Arc<[u8]>,
}

impl LevelHeader {
    /// For levels with the DSCPs `known`.
    ///
    /// # Panics
    /// If there are none, or more than 64.
    #[must_use]
    pub fn new(known: &[u8]) -> Self {
        assert!((1..=64).contains(&known.len()), "each level has a DSCP of its own");
        Self { known: known.into() }
    }

    /// Adds the level to `request`.
    #[must_use]
    pub fn write<B>(&self, mut request: Request<B>) -> Request<B> {
        let level = self.level(request.extensions().get());
        request.headers_mut().insert(&LEVEL, HeaderValue::from(level));
        request
    }

    fn level(&self, dscp: Option<&Dscp>) -> u16 {
        let index = dscp.and_then(|dscp| self.known.iter().position(|&known| known == dscp.0));
        index.unwrap_or(self.known.len() - 1) as u16
    }
}

/// Level that [`LevelHeader`] wrote; 0 if absent.
#[must_use]
pub fn level(headers: &HeaderMap) -> usize {
    headers.get(&LEVEL).and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(0)
}

/// Header with a request's level within a service.
static LEVEL: HeaderName = HeaderName::from_static("testbed-level");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requests_level_is_its_connections() {
        let header = LevelHeader::new(&[46, 10]);
        let check = |dscp: Option<u8>, expected: usize| {
            let mut request = Request::new(());
            request.headers_mut().insert(&LEVEL, HeaderValue::from(0));
            dscp.map(|dscp| request.extensions_mut().insert(Dscp(dscp)));
            assert_eq!(level(header.write(request).headers()), expected, "{dscp:?}");
        };
        check(Some(46), 0);
        check(Some(10), 1);
        check(Some(0), 1);
        check(None, 1);
    }
}
