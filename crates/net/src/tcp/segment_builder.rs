//! Segment builder: turns a plan into a segment with acknowledgement, window and options.
//!
//! The choice of data to send is in `output`. Source: RFC 9293 §3.1, §3.8.6, RFC 7323.

use queueing::Time;
use wire::tcp::{Flags, Options, SackBlocks, Segment, Seq, Timestamps};

use super::connection::Connection;
use super::output::SegmentPlan;
use super::store::ByteStore;
use crate::stack::Config;

impl<B: ByteStore> Connection<B> {
    /// Right edge of the advertised window, as a sequence number.
    ///
    /// It grows only by amounts worth a segment (RFC 9293 §3.8.6.2.2) and never shrinks.
    #[inline]
    pub(crate) fn edge(&self) -> Seq {
        let promised = self.rcv_adv.max(self.rcv_nxt);
        let worth = (self.window.limit() / 2).min(usize::from(self.mss)) as u32;
        if self.window_update() >= worth {
            promised.max(self.rcv_nxt + self.receive_space())
        } else {
            promised
        }
    }

    /// Growth of the advertised window in bytes, as the peer would see it.
    ///
    /// The field counts in units of the window scale; less than one unit reads as a closed window
    /// (RFC 7323 §2.4).
    #[inline]
    pub(super) fn window_update(&self) -> u32 {
        let scaled = |bytes: u32| bytes >> self.recv_scale << self.recv_scale;
        let promised = self.rcv_adv.distance(self.rcv_nxt).max(0) as u32;
        scaled(self.receive_space()).saturating_sub(scaled(promised))
    }

    /// Segment of `plan`, with a window up to `edge`.
    #[inline]
    pub(crate) fn segment(&self, plan: &SegmentPlan, edge: Seq, now: Time, config: &Config) -> Segment<'_> {
        if plan.flags.contains(Flags::SYN) {
            return self.opening_segment(plan, edge, now, config);
        }
        let ack = self.acked_by(plan);
        let offset = plan.seq.distance(self.data_start()).max(0) as usize;
        Segment {
            source_port: self.tuple.local_port,
            target_port: self.tuple.remote_port,
            seq: plan.seq,
            ack,
            flags: plan.flags | self.ecn_flags(plan),
            window: self.window_field(ack, edge),
            options: Options {
                timestamps: self.timestamps(now, self.ts_recent),
                sack: match &self.reassembly {
                    Some(reassembly) if self.flags.sack && plan.len == 0 => reassembly.blocks(),
                    _ => SackBlocks::NONE,
                },
                ..Options::NONE
            },
            payload: self.send.slice(offset, plan.len as usize),
        }
    }

    /// Window field of a segment that acknowledges `ack`, for a window up to `edge`.
    #[inline]
    pub(crate) fn window_field(&self, ack: Seq, edge: Seq) -> u16 {
        ((edge - ack) >> self.recv_scale).min(65_535) as u16
    }

    /// SYN or SYN-ACK; its window is not scaled.
    #[inline(never)]
    fn opening_segment(&self, plan: &SegmentPlan, edge: Seq, now: Time, config: &Config) -> Segment<'_> {
        let first = plan.flags == Flags::SYN;
        let ack = if first { Seq(0) } else { self.acked_by(plan) };
        let window = if first { self.receive_space() } else { edge - ack };
        let offset = plan.seq.distance(self.data_start()).max(0) as usize;
        Segment {
            source_port: self.tuple.local_port,
            target_port: self.tuple.remote_port,
            seq: plan.seq,
            ack,
            flags: plan.flags | self.ecn_flags(plan),
            window: window.min(65_535) as u16,
            options: Options {
                mss: Some(config.mss(self.tuple.remote)),
                window_scale: self.flags.scaling.then_some(self.recv_scale),
                sack_permitted: self.flags.sack,
                timestamps: self.timestamps(now, if first { 0 } else { self.ts_recent }),
                fast_open: self.fast_option(now, config),
                sack: SackBlocks::NONE,
            },
            payload: self.send.slice(offset, plan.len as usize),
        }
    }

    #[inline]
    fn timestamps(&self, now: Time, echo: u32) -> Option<Timestamps> {
        self.flags.timestamps.then(|| Timestamps { value: self.timestamp(now), echo })
    }

    /// Acknowledgement number of `plan`.
    #[inline]
    pub(super) fn acked_by(&self, plan: &SegmentPlan) -> Seq {
        if !plan.partial {
            return self.rcv_nxt;
        }
        self.acked_before_change().unwrap_or(self.rcv_nxt)
    }
}
