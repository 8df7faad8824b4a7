//! What the application asks of a connection that it knows by its id.

use queueing::{Label, Priority, Span, Time};

use super::{CloseReason, ConnId, HopLimits, Info, KeepAlive, NotOpen, Stack};
use crate::buffer_pool::PoolStats;
use crate::classify::{AppMemory, FlowState, Private, TransportClassifier};
use crate::tcp::{Connection, Context, MemoryClass};
use crate::wire::FourTuple;
use crate::wire::tcp::Options;

impl Stack {
    /// Unread bytes in order, contiguous; empty when none or when `conn` is gone.
    #[must_use]
    pub fn received(&self, conn: ConnId) -> &[u8] {
        self.flows.get(conn).map_or(&[], |connection| connection.recv.as_slice())
    }

    /// Marks the first `n` unread bytes as read; opens the window.
    pub fn consume(&mut self, now: Time, conn: ConnId, n: usize) {
        self.touch_for(now, conn, |connection, cx| connection.consume(cx, n), |due| *due);
    }

    /// Queues bytes for sending; returns how many were taken. When fewer than
    /// given, [`EventKind::Writable`](super::EventKind::Writable) follows.
    ///
    /// # Errors
    /// [`NotOpen`] when the connection is gone or our half is closed.
    pub fn send(&mut self, now: Time, conn: ConnId, bytes: &[u8]) -> Result<usize, NotOpen> {
        self.touch(now, conn, |connection, cx| connection.write(cx, bytes)).flatten().ok_or(NotOpen)
    }

    /// Number of `wanted` bytes that [`Stack::send`] would take now. When fewer,
    /// [`EventKind::Writable`](super::EventKind::Writable) follows.
    ///
    /// # Errors
    /// As [`Stack::send`].
    pub fn send_room(&mut self, now: Time, conn: ConnId, wanted: usize) -> Result<usize, NotOpen> {
        let room = self.touch_for(now, conn, |connection, cx| connection.send_room(cx, wanted), |_| false);
        room.flatten().ok_or(NotOpen)
    }

    /// Counts memory that the owner keeps for connections towards
    /// [`Config::memory_max`](super::Config::memory_max): a buffer of `before`
    /// bytes has `after` from now on. `false`, and nothing is counted, where
    /// that is more than there is for a connection that holds much.
    #[must_use]
    pub fn hold(&mut self, before: usize, after: usize) -> bool {
        let allowed = after <= before || self.pool.allows(MemoryClass::Much, after - before);
        if allowed {
            self.pool.account(before, after);
        }
        allowed
    }

    /// Closes our half after what is queued (FIN).
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

    /// What `conn` sends from now on is as urgent as `label` says: which
    /// connection sends first (`Config::transmit`) and the packets' DSCP
    /// (`Config::dscp`) follow. Until the application says so, it is the
    /// label of the segment that was delivered last, and before that the SYN's.
    pub fn set_label(&mut self, now: Time, conn: ConnId, label: Label) {
        self.tells_apart |= label.priority != Priority::LOWEST;
        self.touch(now, conn, |connection, _| connection.set_level(label.priority));
    }

    /// The packets of `conn` have this code point (DSCP, 6 bits) from now on, whatever their
    /// level; 0: that of their level again.
    pub fn set_dscp(&mut self, now: Time, conn: ConnId, dscp: u8) {
        self.call(now, conn, |connection, _| connection.transmit.dscp = dscp & 63);
    }

    /// Changes the hop limits of `conn`, for packets from now on.
    pub fn set_hops(&mut self, now: Time, conn: ConnId, change: impl FnOnce(&mut HopLimits)) {
        self.call(now, conn, |connection, _| change(&mut connection.hops));
    }

    /// Lets go of the connection: our half closes after what is queued, `conn`
    /// is invalid from now on, and nothing more is heard of it. Bytes that
    /// were not read, or that the peer still sends, reset it (RFC 9293
    /// §3.6.1); otherwise the peer has `Config::fin_wait` to close its half.
    pub fn detach(&mut self, now: Time, conn: ConnId) {
        let Some(connection) = self.flows.get_mut(conn) else { return };
        let open = connection.state.is_synchronized() && !connection.state.is_ending();
        if open && connection.recv.is_empty() {
            self.touch(now, conn, Connection::let_go);
            return self.settle(now, conn.index);
        }
        connection.flags.closed_pushed = true;
        if !connection.state.is_ending() {
            self.abort(now, conn);
        }
        self.release_id(conn);
    }

    /// Asks `conn`'s peer, when silent, whether it lives, whatever the
    /// configuration says; `None` never does.
    pub fn set_keep_alive(&mut self, now: Time, conn: ConnId, keep_alive: Option<KeepAlive>) {
        self.call(now, conn, |connection, _| connection.patience().keep_alive = Some(keep_alive));
    }

    /// Ends `conn` when its data waits so long for an acknowledgement,
    /// whatever the configuration says; `None` waits as long as
    /// retransmission takes. Looked at when the retransmission timer fires.
    pub fn set_user_timeout(&mut self, now: Time, conn: ConnId, timeout: Option<Span>) {
        self.call(now, conn, |connection, _| connection.patience().user_timeout = Some(timeout));
    }

    /// Sends small segments at once (the default), or lets them wait for what
    /// is in flight (Nagle's algorithm, RFC 9293 §3.7.4).
    pub fn set_nodelay(&mut self, now: Time, conn: ConnId, nodelay: bool) {
        self.call(now, conn, |connection, _| connection.flags.nagle = !nodelay);
    }

    /// Holds small segments back until there is more to send (tcp(7), TCP_CORK), or no longer. The end of the
    /// stream is not held back. How long that lasts is the caller's affair.
    pub fn set_cork(&mut self, now: Time, conn: ConnId, cork: bool) {
        self.call(now, conn, |connection, _| connection.flags.cork = cork);
    }

    /// The shared 64 bytes.
    #[must_use]
    pub fn private(&self, conn: ConnId) -> Option<&Private> {
        self.flows.get(conn).map(|connection| &connection.private)
    }

    /// The shared 64 bytes, to write.
    #[must_use]
    pub fn private_mut(&mut self, conn: ConnId) -> Option<&mut Private> {
        self.flows.get_mut(conn).map(|connection| &mut connection.private)
    }

    /// Gives one connection its own classifier (M3); `None` hands the choice
    /// back to its listener's, or the stack's. What it had comes back, or the
    /// new one where the connection is gone.
    pub fn set_classifier(
        &mut self,
        conn: ConnId,
        classifier: Option<TransportClassifier>,
    ) -> Option<TransportClassifier> {
        let Some(connection) = self.flows.get_mut(conn) else { return classifier };
        std::mem::replace(&mut connection.classifier, classifier)
    }

    /// Replaces the classifier that listeners and connections have where they
    /// have none of their own ([`Config::classifier`](super::Config)), from the
    /// next segment on.
    pub fn set_default_classifier(&mut self, classifier: Option<TransportClassifier>) {
        self.config.classifier = classifier;
    }

    /// Attaches application memory for the classifier (M5). What was attached
    /// comes back, or the new where the connection is gone.
    pub fn attach(&mut self, conn: ConnId, memory: Option<AppMemory>) -> Option<AppMemory> {
        let Some(connection) = self.flows.get_mut(conn) else { return memory };
        if memory.is_none() && connection.kept.is_none() {
            return None;
        }
        std::mem::replace(&mut connection.kept.get_or_insert_default().app, memory)
    }

    /// What the flow has been like.
    #[must_use]
    pub fn flow(&self, conn: ConnId) -> Option<FlowState> {
        self.flows.get(conn).map(Connection::flow)
    }

    /// All that the connection knows of itself, at `now`.
    #[must_use]
    pub fn info(&self, now: Time, conn: ConnId) -> Option<Info> {
        self.flows.get(conn).map(|connection| connection.info(now, &self.config))
    }

    /// The connection's addresses.
    #[must_use]
    pub fn tuple(&self, conn: ConnId) -> Option<FourTuple> {
        self.flows.get(conn).map(|connection| connection.tuple)
    }

    /// Connections that exist, in any state: handshakes and TIME-WAIT too.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.flows.len()
    }

    /// Bytes that send and receive buffers and early segments take up, and what
    /// the owner [holds](Stack::hold).
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.pool.held()
    }

    /// How often payload that waits needed a buffer, and how often the pool had one.
    #[must_use]
    pub fn buffers(&self) -> PoolStats {
        self.pool.uses()
    }

    /// Bytes that connections take up without their buffers: slots, flow
    /// table and timers.
    #[must_use]
    pub fn connection_bytes(&self) -> usize {
        // A timer takes its item, list links, instant and generation.
        self.flows.bytes() + self.timers.len() * 24
    }

    /// Runs `act` on the application's connection `id`, then looks after it.
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

    /// Runs `act` on the application's connection `id` and queues it for
    /// egress; `act` changes neither its state nor its deadline.
    #[inline]
    fn touch<R>(
        &mut self,
        now: Time,
        id: ConnId,
        act: impl FnOnce(&mut Connection, &mut Context<'_>) -> R,
    ) -> Option<R> {
        self.touch_for(now, id, act, |_| true)
    }

    /// [`Stack::touch`] where egress concerns only some results of `act`.
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
