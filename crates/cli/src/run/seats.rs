//! The desk of [`host::seam`] as the stack sees it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use host::seam::{self, Desk, Figures, NoOffer, Place, Refusal};
use net::classify::{FlowState, Private, TransportClassifier, private};
use net::stack::{CloseReason, ConnId, ConnectError, Info, KeepAlive};
use queueing::{Priority, Span};
use runtime::streams::{Delivered, Happened, Letter, NotOpened, Pipe, Programs, Read, Setting, Wrote};
use rustix::io::Errno;

use crate::Error;

/// Where programs sit.
pub(super) struct Seats {
    desk: Desk,
    happened: Vec<seam::Happened>,
    /// Connections that were not taken: nobody listened, too many waited, no
    /// descriptor was left.
    pub(super) untaken: [u64; 3],
}

/// A program's connection.
pub(super) struct Seat(seam::Pipe);

/// A connection's number at the desk: below 2⁶², as slots are.
fn number(conn: ConnId) -> u64 {
    u64::from(conn.index) << 32 | u64::from(conn.generation)
}

fn conn(number: u64) -> ConnId {
    ConnId { index: (number >> 32) as u32, generation: number as u32 }
}

impl Seats {
    /// A desk that programs can ask.
    ///
    /// # Errors
    /// The kernel has no descriptor, or no abstract sockets.
    pub(super) fn open(key: seam::Key) -> Result<Self, Error> {
        let desk = Desk::open(key).map_err(|e| no_desk(&e))?;
        Ok(Self { desk, happened: Vec::new(), untaken: [0; 3] })
    }

    /// A descriptor that is readable while programs have something to say.
    ///
    /// # Errors
    /// The kernel has no descriptor.
    pub(super) fn readiness(&self) -> Result<OwnedFd, Error> {
        self.desk.readiness().map_err(|e| no_desk(&e))
    }

    pub(super) fn set_place(&mut self, place: Place) {
        self.desk.set_place(place);
    }

    /// What a program's environment is to say.
    pub(super) fn variable(&self) -> String {
        self.desk.variable()
    }

    /// What was refused, a line each.
    pub(super) fn refused(&self) -> impl Iterator<Item = String> + '_ {
        self.desk.refused().map(|(refusal, count)| {
            let what = match refusal {
                Refusal::Connect => {
                    "connect of a socket bound to our address, to where the device does not lead".to_owned()
                }
                Refusal::GetOption { level, name } => {
                    format!("getsockopt level {level} option {name}")
                }
                Refusal::SetOption { level, name } => format!("setsockopt level {level} option {name}"),
                Refusal::Nonsense => "requests that made no sense".to_owned(),
            };
            format!("refused: {what}, {count}×")
        })
    }
}

fn no_desk(e: &std::io::Error) -> Error {
    Error::new(format!("no place for programs to ask: {e}")).advice("ulimit -n with a larger number")
}

impl Programs for Seats {
    type Pipe = Seat;

    fn poll(&mut self, into: &mut Vec<Happened>) -> bool {
        let some = self.desk.poll(&mut self.happened);
        into.extend(self.happened.drain(..).map(|happened| match happened {
            seam::Happened::Pipe { id, readable, writable, gone } => {
                Happened::Pipe { conn: conn(id), readable, writable, gone }
            }
            seam::Happened::Shut(id) => Happened::Shut(conn(id)),
            seam::Happened::Listen(port) => Happened::Listen(port),
            seam::Happened::Unlisten(port) => Happened::Unlisten(port),
            seam::Happened::Connect { call, to, port } => Happened::Connect { call, to, port },
            seam::Happened::Set { id, setting } => Happened::Set(conn(id), translated(setting)),
            seam::Happened::Asked { call, id } => Happened::Asked { call, conn: conn(id) },
            seam::Happened::Bound(port) => Happened::Bound(port),
            seam::Happened::Mail(socket) => Happened::Mail(socket),
            seam::Happened::Room(port) => Happened::Room(port),
        }));
        some
    }

    fn classifier(&self, port: u16) -> Option<TransportClassifier> {
        self.desk.classifier(port)
    }

    fn offer(&mut self, conn: ConnId, local: SocketAddr, remote: SocketAddr) -> Option<Seat> {
        match self.desk.offer(number(conn), local, remote) {
            Ok(pipe) => Some(Seat(pipe)),
            Err(why) => {
                let kind = match why {
                    NoOffer::NoListener => 0,
                    NoOffer::Full => 1,
                    NoOffer::NoDescriptor => 2,
                };
                self.untaken[kind] += 1;
                None
            }
        }
    }

    fn opening(&mut self, call: u64, conn: ConnId, local: SocketAddr, remote: SocketAddr) -> Option<Seat> {
        self.desk.opening(call, number(conn), local, remote).map(Seat)
    }

    fn refuse(&mut self, call: u64, why: NotOpened) {
        self.desk.refuse_opening(call, errno(why));
    }

    fn opened(&mut self, conn: ConnId, pipe: &mut Seat) {
        self.desk.opened(number(conn), &mut pipe.0);
    }

    fn failed(&mut self, conn: ConnId, why: NotOpened) {
        self.desk.failed(number(conn), errno(why));
    }

    fn answer(&mut self, call: u64, info: Option<&Info>, keep_alive: KeepAlive) {
        let figures = info.map_or(Figures::gone(), |info| Figures::of(info, keep_alive));
        self.desk.answer(call, &figures);
    }

    fn deliver(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        level: Priority,
        payload: &[u8],
    ) -> Delivered {
        delivered(self.desk.deliver(local, remote, level.level(), payload))
    }

    fn letter(&mut self, socket: u64, level: Priority, bytes: &mut [u8]) -> Letter {
        match self.desk.letter(socket, level.level(), bytes) {
            seam::Letter::Out { from, to, len } => Letter::Out { from, to, len },
            seam::Letter::Settled(what) => Letter::Settled(delivered(what)),
            seam::Letter::Nothing => Letter::Nothing,
            seam::Letter::End { port, last } => Letter::End { port, last },
        }
    }

    fn undelivered(&mut self, port: u16, remote: SocketAddr) {
        self.desk.undelivered(port, remote);
    }
}

fn delivered(what: seam::Delivered) -> Delivered {
    match what {
        seam::Delivered::To(socket) => Delivered::To(socket),
        seam::Delivered::Full => Delivered::Full,
        seam::Delivered::Lost => Delivered::Lost,
        seam::Delivered::Nobody => Delivered::Nobody,
    }
}

/// What connect(2) says of it.
fn errno(why: NotOpened) -> Errno {
    match why {
        NotOpened::Here(ConnectError::NoPort) => Errno::ADDRNOTAVAIL,
        NotOpened::Here(ConnectError::TooMany) => Errno::NOBUFS,
        NotOpened::Here(ConnectError::NoRoute) => Errno::NETUNREACH,
        NotOpened::There(CloseReason::Reset) => Errno::CONNREFUSED,
        NotOpened::There(CloseReason::TimedOut) => Errno::TIMEDOUT,
        NotOpened::There(CloseReason::Unreachable) => Errno::HOSTUNREACH,
        NotOpened::There(CloseReason::Finished | CloseReason::Aborted) => Errno::CONNABORTED,
    }
}

fn translated(setting: seam::Setting) -> Setting {
    match setting {
        seam::Setting::KeepAlive(on) => Setting::KeepAlive(on),
        seam::Setting::KeepIdle(span) => Setting::KeepIdle(span),
        seam::Setting::KeepInterval(span) => Setting::KeepInterval(span),
        seam::Setting::KeepCount(count) => Setting::KeepCount(count),
        seam::Setting::UserTimeout(timeout) => Setting::UserTimeout(timeout),
        seam::Setting::ResetOnClose(reset) => Setting::ResetOnClose(reset),
        seam::Setting::Priority(level) => Setting::Level(level),
        seam::Setting::Private(bytes) => Setting::Private(bytes),
    }
}

impl Pipe for Seat {
    fn tell(&mut self, level: Priority, private: &Private) {
        self.0.tell(level.level(), private::application(private).try_into().expect("48 of its 64 bytes"));
    }

    fn flow(&mut self, flow: &FlowState) {
        let FlowState { srtt, loss, received, sent, .. } = *flow;
        let rtt_ns = srtt.map_or(0, Span::as_nanos);
        self.0.flow(&seam::labels::Flow { rtt_ns, received: received.get(), sent: sent.get(), loss });
    }

    fn write(&mut self, bytes: &[u8]) -> Wrote {
        match self.0.write(bytes) {
            seam::Wrote::Some(taken) => Wrote::Some(taken),
            seam::Wrote::Full => Wrote::Full,
            seam::Wrote::Gone => Wrote::Gone,
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Read {
        match self.0.read(bytes) {
            seam::Read::Some(taken) => Read::Some(taken),
            seam::Read::Nothing => Read::Nothing,
            seam::Read::End => Read::End,
            seam::Read::Reset => Read::Reset,
        }
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    fn want_room(&mut self, wanted: bool) {
        self.0.want_room(wanted);
    }

    fn is_unread(&self) -> bool {
        self.0.is_unread()
    }
}
