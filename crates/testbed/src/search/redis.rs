//! Private `redis-server` and one connection to it.
//!
//! Debian's server on a free loopback port, without files; it is killed when the value is
//! dropped. Two commands need no library: RESP is lines of text.
//! Source: Redis serialization protocol, version 2.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Error;

/// Server and connection; calls are sequential.
pub struct Redis {
    address: SocketAddr,
    stream: TcpStream,
    server: Child,
}

impl Redis {
    /// Starts a server and connects.
    ///
    /// # Errors
    /// If `redis-server` is missing or does not answer.
    pub async fn start() -> Result<Self, Error> {
        let failed = |cause: String| Error::new(cause, "apt-get install redis-server");
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
        let address = free.map_err(|e| failed(format!("port on 127.0.0.1: {e}")))?;
        let port = address.port().to_string();
        let options = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let spawned =
            Command::new("redis-server").args(options).stdout(Stdio::null()).stdin(Stdio::null()).spawn();
        let mut server = spawned.map_err(|e| failed(format!("redis-server: {e}")))?;
        for _ in 0..START_TRIES {
            if let Ok(stream) = TcpStream::connect(address).await {
                let mut redis = Self { address, stream, server };
                redis.call(&["PING"]).await.map_err(failed)?;
                return Ok(redis);
            }
            tokio::time::sleep(START_STEP).await;
        }
        let _ = server.kill();
        let _ = server.wait();
        Err(failed(format!("redis-server on port {port} does not answer")))
    }

    /// Address for further connections.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Writes `value` under `key`.
    ///
    /// # Errors
    /// The server's error.
    pub async fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        self.call(&["SET", key, value]).await
    }

    /// Sends one command; its reply must be a line that begins with `+`.
    async fn call(&mut self, words: &[&str]) -> Result<(), String> {
        let mut text = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| text.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        self.stream.write_all(text.as_bytes()).await.map_err(|e| format!("redis: {e}"))?;
        let mut reply = Vec::new();
        while !reply.ends_with(b"\r\n") {
            if reply.len() > REPLY_MAX {
                return Err("redis: a reply without an end".to_owned());
            }
            reply.push(self.stream.read_u8().await.map_err(|e| format!("redis: {e}"))?);
        }
        match reply.first() {
            Some(b'+') => Ok(()),
            _ => Err(format!("redis: {}", String::from_utf8_lossy(&reply).trim())),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Interval and number of connection attempts.
const START_STEP: Duration = Duration::from_millis(20);
const START_TRIES: usize = 500;
/// Maximum reply length; replies are a status or an error.
const REPLY_MAX: usize = 4_096;
