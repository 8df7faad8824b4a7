//! Overload of a listener by real clients: four times as many connections as are served.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use netlab::Namespace;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, listen, send, socket_with};

use super::{Rig, SERVER, number};

/// Interval between two connections of the clients, and between two that the server serves.
const ARRIVAL: Duration = Duration::from_millis(1);
pub(super) const SERVICE: Duration = Duration::from_millis(4);
/// Number of connections that the clients keep; older ones are closed.
const KEPT: usize = 300;

/// Threads that end on drop.
pub(super) struct Background {
    /// Each thread with the sender whose drop ends it.
    threads: Vec<(Sender<()>, JoinHandle<()>)>,
}

impl Background {
    fn new() -> Self {
        Self { threads: Vec::new() }
    }

    /// Calls `step` every `interval`.
    fn spawn(&mut self, interval: Duration, mut step: impl FnMut() + Send + 'static) {
        let (sender, ends) = channel();
        let thread = std::thread::spawn(move || {
            while ends.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                step();
            }
        });
        self.threads.push((sender, thread));
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for (sender, thread) in self.threads.drain(..) {
            drop(sender);
            thread.join().unwrap();
        }
    }
}

/// Clients that connect to [`SERVER`] all the time; each sends a byte.
fn flood(background: &mut Background, client: Namespace) {
    let mut kept: VecDeque<OwnedFd> = VecDeque::new();
    background.spawn(ARRIVAL, move || {
        let socket = client.enter(|| {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
            // In progress.
            let _ = connect(&socket, &SocketAddr::from(SERVER));
            socket
        });
        if let Some(earlier) = kept.len().checked_sub(20) {
            let _ = send(&kept[earlier], b"?", rustix::net::SendFlags::NOSIGNAL);
        }
        kept.push_back(socket);
        if kept.len() > KEPT {
            kept.pop_front();
        }
    });
}

/// Closes all waiting connections of `listener`.
fn drain(listener: &TcpListener) {
    listener.set_nonblocking(true).unwrap();
    while listener.accept().is_ok() {}
    listener.set_nonblocking(false).unwrap();
}

/// Overload; the queue is emptied on drop, unless the test's server does so.
pub(super) struct Overload {
    background: Option<Background>,
    listener: Option<TcpListener>,
}

impl Drop for Overload {
    fn drop(&mut self) {
        drop(self.background.take());
        self.listener.iter().for_each(drain);
    }
}

impl Rig {
    /// A server that accepts, and closes, fewer connections than its clients open. Returns once a limit is
    /// in force and has shed.
    pub(super) fn overload(&self) -> Overload {
        self.overload_served(|listener| drop(listener.accept()))
    }

    /// A server that accepts at once and answers fewer connections than its clients open, one at a time.
    pub(super) fn overload_of_threads(&self) -> Overload {
        let mut accepted: VecDeque<TcpStream> = VecDeque::new();
        self.overload_served(move |listener| {
            accepted.extend(std::iter::from_fn(|| listener.accept().ok()).map(|(stream, _)| stream));
            accepted.pop_front().into_iter().for_each(|mut stream| {
                let _ = stream.write_all(b"!");
            });
        })
    }

    /// A server that calls `serve` with its listener, which does not block, every [`SERVICE`].
    fn overload_served(&self, mut serve: impl FnMut(&TcpListener) + Send + 'static) -> Overload {
        let [listener, accepting] = [(); 2].map(|()| self.listener.try_clone().unwrap());
        accepting.set_nonblocking(true).unwrap();
        let mut background = Background::new();
        background.spawn(SERVICE, move || serve(&accepting));
        self.flooded(background, Some(listener))
    }

    /// A server of the test's, overloaded.
    pub(super) fn overload_of(&self) -> Overload {
        self.flooded(Background::new(), None)
    }

    fn flooded(&self, mut background: Background, listener: Option<TcpListener>) -> Overload {
        // The kernel itself drops none.
        listen(&self.listener, 4_096).unwrap();
        flood(&mut background, self.client.clone());
        self.until("overload", |status| {
            let shed = number(&status["shed"]);
            (status["limit"]["kind"] == "rate" || status["dry_run"] == true) && shed > 0
        });
        Overload { background: Some(background), listener }
    }
}
