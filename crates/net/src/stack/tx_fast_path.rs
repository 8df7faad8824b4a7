//! TX fast path: sends all of a connection's data in one segment to a known neighbour.
//!
//! Output and state afterwards equal those of the slow path in `egress`. The conditions on a
//! connection are in [`tcp`](crate::tcp)'s module of this name.

use std::net::IpAddr;

use queueing::Time;
use wire::fast_path::{FastPathFrame, TCP_LEN};
use wire::ip::Protocol;
use wire::tcp::Flags;
use wire::{FourTuple, ipv4};

use super::Stack;
use crate::Device;

impl Stack {
    /// Sends all data of connection `index` if it fits one segment to a known neighbour; `false`
    /// leaves it to the slow path.
    #[inline]
    pub(super) fn transmit_fast_path<D: Device>(&mut self, now: Time, device: &mut D, index: u32) -> bool {
        let (config, offloaded) = (&self.config, device.offloads().tx_checksum);
        let Some((_, connection)) = self.flows.at(index) else { return false };
        let Some(len) = connection.single_segment_len() else { return false };
        let FourTuple { local, local_port, remote, remote_port } = connection.tuple;
        let (IpAddr::V4(source), IpAddr::V4(target)) = (local, remote) else { return false };
        let Some(hop) = config.next_hop(target) else { return false };
        let Some(mac) = self.neighbors.recent(now, hop.into()) else { return false };
        let edge = connection.edge();
        let dscp = connection.transmit.dscp(config);
        let (ttl, payload_len) = (connection.hops.sent, TCP_LEN + len as usize);
        let frame = FastPathFrame {
            target_mac: mac,
            source_mac: config.mac,
            ip: ipv4::Header { source, target, protocol: Protocol::Tcp, dscp, ecn: 0, ttl, payload_len },
            source_port: local_port,
            target_port: remote_port,
            seq: connection.snd_nxt,
            ack: connection.rcv_nxt,
            flags: Flags::ACK.with(Flags::PSH),
            window: connection.window_field(connection.rcv_nxt, edge),
            stamps: connection.stamps(now),
            payload: connection.send.as_slice(),
        };
        if device.transmit(now, frame.frame_len(), &mut |buf| frame.emit(buf, offloaded)).is_err() {
            return false;
        }
        self.counters.frames_sent += 1;
        connection.on_all_transmitted(edge, now, config);
        super::set_timer(&mut self.timers, connection, config, index);
        true
    }
}

#[cfg(test)]
mod tests;
