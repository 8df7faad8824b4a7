//! Socket API: application calls on a connection.

use crate::tcp::Hold;
use classify::{AppMemory, FlowState, Private, TransportClassifier};
use queueing::{Label, Priority, Span, Time};
use wire::FourTuple;
use wire::tcp::Options;

use super::{CloseReason, ConnId, HopLimits, Info, KeepAlive, NotOpen, Stack};
use crate::buffer_pool::PoolStats;
use crate::tcp::{Connection, Context, MemoryClass};

impl Stack {
    /// Unread bytes in order, contiguous; empty without any or if `conn` has ended.
    #[must_use]
    pub fn received(&self, conn: ConnId) -> &[u8] {
        self.flows.get(conn).map_or(&[], |connection| connection.recv.as_slice())
    }

    /// Marks the first `n` unread bytes as read; opens the window.
    pub fn consume(&mut self, now: Time, conn: ConnId, n: usize) {
        self.touch_for(now, conn, |connection, cx| connection.consume(cx, n), |due| *due);
    }

    /// Queues bytes for sending; returns the number queued. If smaller than given,
    /// [`EventKind::Writable`](super::EventKind::Writable) follows.
    ///
    /// # Errors
    /// [`NotOpen`] if the connection has ended or its sending side is closed.
    pub fn send(&mut self, now: Time, conn: ConnId, bytes: &[u8]) -> Result<usize, NotOpen> {
        self.touch(now, conn, |connection, cx| connection.write(cx, bytes)).flatten().ok_or(NotOpen)
    }

    /// Number of `wanted` bytes that [`Stack::send`] would queue now. If smaller,
    /// [`EventKind::Writable`](super::EventKind::Writable) follows.
    ///
    /// # Errors
    /// The errors of [`Stack::send`].
    pub fn send_room(&mut self, now: Time, conn: ConnId, wanted: usize) -> Result<usize, NotOpen> {
        let space = self.touch_for(now, conn, |connection, cx| connection.send_room(cx, wanted), |_| false);
        space.flatten().ok_or(NotOpen)
    }

    /// Accounts for memory that the owner keeps for connections in
    /// [`Config::memory_max`](super::Config::memory_max): a buffer grows or shrinks from `before`
    /// to `after` bytes. `false`, without accounting, if that exceeds the share of connections that
    /// hold much.
    #[must_use]
    pub fn hold(&mut self, before: usize, after: usize) -> bool {
        let allowed = after <= before || self.pool.allows(MemoryClass::Much, after - before);
        if allowed {
            self.pool.account(before, after);
        }
        allowed
    }

    /// Closes the sending side after the queued data (FIN).
    pub fn close(&mut self, now: Time, conn: ConnId) {
        self.call(now, conn, |connection, cx| connection.close(cx));
    }

    /// Resets the connection.
    pub fn abort(&mut self, now: Time, conn: ConnId) {
        let Some(connection) = self.flows.get(conn) else { return };
        if connection.state.is_reset_by_abort() {
            let (tuple, seq, ack) = (connection.tuple, connection.snd_nxt, connection.rcv_nxt);
            let hops = connection.hops.sent;
            // RFC 7323 §3.2.
            let timestamps = connection.flags.timestamps.then(|| connection.stamps(now));
            let options = Options { timestamps, ..Options::NONE };
            self.counters.resets += 1;
            self.reset(now, tuple, seq, ack, options, hops);
        }
        self.call(now, conn, |connection, cx| connection.end(cx, CloseReason::Aborted));
    }

    /// Sets the priority of data that `conn` sends from now on. The transmit order
    /// (`Config::transmit`) and the packets' DSCP (`Config::dscp`) follow it. Before the first call
    /// it is the label of the segment delivered last, and before that of the SYN.
    pub fn set_label(&mut self, now: Time, conn: ConnId, label: Label) {
        self.has_levels |= label.priority != Priority::LOWEST;
        self.touch(now, conn, |connection, _| connection.set_level(label.priority));
    }

    /// Sets the DSCP (6 bits) of packets of `conn`, independent of their level; 0 restores that of
    /// the level.
    pub fn set_dscp(&mut self, now: Time, conn: ConnId, dscp: u8) {
        self.call(now, conn, |connection, _| connection.transmit.dscp = dscp & 63);
    }

    /// Changes the hop limits of future packets of `conn`.
    pub fn set_hops(&mut self, now: Time, conn: ConnId, change: impl FnOnce(&mut HopLimits)) {
        self.call(now, conn, |connection, _| change(&mut connection.hops));
    }

    /// Detaches the connection from the application: its sending side closes after the queued data,
    /// `conn` is invalid from now on, and no event follows. Bytes unread, or received later, reset
    /// it (RFC 9293 §3.6.1); otherwise the peer has `Config::fin_wait` to close its side.
    pub fn detach(&mut self, now: Time, conn: ConnId) {
        let Some(connection) = self.flows.get_mut(conn) else { return };
        let open = connection.state.is_synchronized() && !connection.state.is_ending();
        if open && connection.recv.is_empty() {
            self.touch(now, conn, Connection::detach);
            return self.settle(now, conn.index);
        }
        connection.flags.closed_pushed = true;
        if !connection.state.is_ending() {
            self.abort(now, conn);
        }
        self.release_id(conn);
    }

    /// Overrides the keep-alive configuration of `conn`; `None` turns keep-alive off.
    pub fn set_keep_alive(&mut self, now: Time, conn: ConnId, keep_alive: Option<KeepAlive>) {
        self.call(now, conn, |connection, _| connection.timeout_options().keep_alive = Some(keep_alive));
    }

    /// Overrides the user timeout of `conn`: the longest time that data may stay unacknowledged.
    /// `None` leaves it to the retransmission limit. Checked when the retransmission timer fires.
    pub fn set_user_timeout(&mut self, now: Time, conn: ConnId, timeout: Option<Span>) {
        self.call(now, conn, |connection, _| connection.timeout_options().user_timeout = Some(timeout));
    }

    /// Sends small segments at once (the default), or delays them while data is in flight (Nagle's
    /// algorithm, RFC 9293 §3.7.4).
    pub fn set_nodelay(&mut self, now: Time, conn: ConnId, nodelay: bool) {
        self.call(now, conn, |connection, _| connection.flags.hold.set(Hold::NAGLE, !nodelay));
    }

    /// Turns TCP_CORK on or off: holds small segments back until there is more to send (tcp(7)),
    /// except at the end of the stream. The caller bounds its duration.
    pub fn set_cork(&mut self, now: Time, conn: ConnId, cork: bool) {
        self.call(now, conn, |connection, _| connection.flags.hold.set(Hold::CORK, cork));
    }

    /// Memory of 64 bytes shared by application and classifier.
    #[must_use]
    pub fn private(&self, conn: ConnId) -> Option<&Private> {
        self.flows.get(conn).map(|connection| &connection.private)
    }

    /// Memory of 64 bytes shared by application and classifier, mutable.
    #[must_use]
    pub fn private_mut(&mut self, conn: ConnId) -> Option<&mut Private> {
        self.flows.get_mut(conn).map(|connection| &mut connection.private)
    }

    /// Sets the classifier of one connection (ADPS M3); `None` restores its listener's or the stack's.
    /// Returns the previous one, or `classifier` if the connection has ended.
    pub fn set_classifier(
        &mut self,
        conn: ConnId,
        classifier: Option<TransportClassifier>,
    ) -> Option<TransportClassifier> {
        let Some(connection) = self.flows.get_mut(conn) else { return classifier };
        std::mem::replace(&mut connection.classifier, classifier)
    }

    /// Replaces the default classifier of listeners and connections
    /// ([`Config::classifier`](super::Config)), from the next segment on.
    pub fn set_default_classifier(&mut self, classifier: Option<TransportClassifier>) {
        self.config.classifier = classifier;
    }

    /// Attaches application memory for the classifier (ADPS M5). Returns the previous memory, or
    /// `memory` if the connection has ended.
    pub fn attach(&mut self, conn: ConnId, memory: Option<AppMemory>) -> Option<AppMemory> {
        let Some(connection) = self.flows.get_mut(conn) else { return memory };
        if memory.is_none() && connection.rare.is_none() {
            return None;
        }
        std::mem::replace(&mut connection.rare.get_or_insert_default().app, memory)
    }

    /// History of the flow.
    #[must_use]
    pub fn flow(&self, conn: ConnId) -> Option<FlowState> {
        self.flows.get(conn).map(Connection::flow)
    }

    /// State of the connection at `now`.
    #[must_use]
    pub fn info(&self, now: Time, conn: ConnId) -> Option<Info> {
        self.flows.get(conn).map(|connection| connection.info(now, &self.config))
    }

    /// The connection's addresses.
    #[must_use]
    pub fn tuple(&self, conn: ConnId) -> Option<FourTuple> {
        self.flows.get(conn).map(|connection| connection.tuple)
    }

    /// Number of connections in any state, including handshakes and TIME-WAIT.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.flows.len()
    }

    /// Memory of send and receive buffers, of out-of-order segments, and [held](Stack::hold) by the
    /// owner, in bytes.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.pool.held()
    }

    /// Buffers needed for payload, and how many of them the pool supplied.
    #[must_use]
    pub fn buffers(&self) -> PoolStats {
        self.pool.uses()
    }

    /// Memory of connections without their buffers, in bytes: slots, connection table and timers.
    #[must_use]
    pub fn connection_bytes(&self) -> usize {
        // A timer: item, list links, instant and generation.
        self.flows.bytes() + self.timers.len() * 24
    }

    /// Runs `act` on the application's connection `id`, then updates its queues and timers.
    #[inline]
    pub(super) fn call<R>(
        &mut self,
        now: Time,
        id: ConnId,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let result = self.touch(now, id, act)?;
        self.settle(now, id.index);
        Some(result)
    }

    /// Runs `act` on the application's connection `id` and queues it for egress; `act` changes
    /// neither its state nor its deadline.
    #[inline]
    fn touch<R>(
        &mut self,
        now: Time,
        id: ConnId,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.touch_for(now, id, act, |_| true)
    }

    /// [`Stack::touch`] with egress only for some results of `act`.
    #[inline]
    fn touch_for<R>(
        &mut self,
        now: Time,
        id: ConnId,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
        concerns_egress: impl FnOnce(&R) -> bool,
    ) -> Option<R> {
        let connection = self.flows.get_mut(id)?;
        let mut cx = context!(self, now, id);
        let result = act(connection, &mut cx);
        if connection.state.is_ending() {
            self.settle_closed(now, id);
        } else if concerns_egress(&result) {
            self.ready.enqueue(now, connection, id.index);
        }
        Some(result)
    }
}
