//! Bulk flows: endless flows over the kernel's TCP for the length of a run.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use host::{affinity, signals};
use netlab::Namespace;
use queueing::CoreId;
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion};

use crate::error::{Error, plain};

/// Bytes after which a flow has sunk below the levels of requests.
const SETTLED: u64 = 3_000_000;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Timeout of settling, which takes seconds.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Bulk flows; they end on drop.
#[derive(Default)]
pub struct Bulk {
    stop: Arc<AtomicBool>,
    received_bytes: Arc<AtomicU64>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Bulk {
    /// Adds `flows` from `source` to `address` in `target`, sent and received on `core`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add(
        &mut self,
        flows: usize,
        (source, target): (&Namespace, &Namespace),
        address: IpAddr,
        congestion: &str,
        core: CoreId,
    ) -> Result<(), Error> {
        let failed =
            |e: std::io::Error| Error::new(format!("a bulk flow to {address}: {}", plain(&e.to_string())));
        let listener = target.enter(|| TcpListener::bind((address, 0))).map_err(failed)?;
        let at = listener.local_addr().map_err(failed)?;
        for _ in 0..flows {
            let sender = source.enter(|| TcpStream::connect(at)).map_err(failed)?;
            set_tcp_congestion(&sender, congestion).map_err(|e| failed(e.into()))?;
            // Discards unsent data on close.
            set_socket_linger(&sender, Some(Duration::ZERO)).map_err(|e| failed(e.into()))?;
            let (receiver, _) = listener.accept().map_err(failed)?;
            for stream in [&sender, &receiver] {
                self.streams.push(stream.try_clone().map_err(failed)?);
            }
            let (stop, received_bytes) = (Arc::clone(&self.stop), Arc::clone(&self.received_bytes));
            self.threads.push(thread::spawn(move || send(sender, &stop, core)));
            self.threads.push(thread::spawn(move || receive(receiver, &received_bytes, core)));
        }
        Ok(())
    }

    /// Waits until each flow has sent so much, on average, that it counts as long under every
    /// policy.
    ///
    /// # Errors
    /// The flows make no progress, or the run was interrupted.
    pub fn wait_until_settled(&self) -> Result<(), Error> {
        // A sender and a receiver per flow.
        let enough = SETTLED * (self.threads.len() / 2) as u64;
        let end = Instant::now() + SETTLE_TIMEOUT;
        while self.received_bytes() < enough {
            if signals::is_set() {
                return Err(Error::interrupted(""));
            }
            if Instant::now() > end {
                let received_bytes = self.received_bytes();
                return Err(Error::new(format!(
                    "bulk flows transferred only {received_bytes} bytes in {SETTLE_TIMEOUT:?}"
                )));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Bytes received so far.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for stream in &self.streams {
            // Fails if it is closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn send(mut stream: TcpStream, stop: &AtomicBool, core: CoreId) {
    // Runs unpinned if pinning fails; other parts of the run report that.
    let _ = affinity::pin(core);
    let bytes = vec![0; 64 * 1024];
    while !stop.load(Ordering::Relaxed) && stream.write_all(&bytes).is_ok() {}
}

/// Reads until the sender closes.
fn receive(mut stream: TcpStream, received_bytes: &AtomicU64, core: CoreId) {
    let _ = affinity::pin(core);
    let mut buffer = vec![0; 256 * 1024];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        received_bytes.fetch_add(len as u64, Ordering::Relaxed);
    }
}
