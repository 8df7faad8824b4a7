//! Reference model of the XDP program's decision, with which tests compare the loaded one.
//!
//! The listener of a SYN, which the kernel looks up, is an argument here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use queueing::Time;

use super::classes::{Classes, Prefix};
use super::map_layout::{CLASSES, Counts, DEADMAN, LimitInForce, Reason};
use super::syn::Syn;
use super::syn_reply;

/// Listener of a SYN: length and capacity of its accept queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Connections in its accept queue.
    pub waiting: u32,
    /// Capacity.
    pub room: u32,
}

/// Verdict on a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Passed to the kernel.
    Passes,
    /// Dropped silently.
    Dropped,
    /// Answered with this frame.
    Answered(Vec<u8>),
}

/// Reference model of the XDP program.
#[derive(Clone, Debug)]
pub struct Model {
    ports: BTreeMap<u16, Port>,
    prefixes: Vec<(Prefix, u8)>,
    watching: bool,
    resets: bool,
    alive: Time,
    counts: Counts,
}

/// A guarded port: class of its connections, and its limit.
#[derive(Clone, Copy, Debug)]
struct Port {
    class: u8,
    held: LimitInForce,
    spent_ns: u64,
}

impl Model {
    /// A guard of `ports` with `classes`, open, with the controller's last control step at `now`.
    #[must_use]
    pub fn new(now: Time, ports: &[u16], classes: &Classes, watching: bool) -> Self {
        Self {
            ports: classes
                .of_ports(ports)
                .map(|(port, class)| (port, Port { class, held: LimitInForce::Open, spent_ns: 0 }))
                .collect(),
            prefixes: classes.of_prefixes().collect(),
            watching,
            resets: false,
            alive: now,
            counts: Counts::default(),
        }
    }

    /// Model that answers a shed SYN with RST.
    #[must_use]
    pub fn with_reset(self) -> Self {
        Self { resets: true, ..self }
    }

    /// Sets the limit of `port`.
    ///
    /// # Panics
    /// If the port is not guarded.
    pub fn hold(&mut self, port: u16, now: Time, held: LimitInForce) {
        self.alive = now;
        let port = self.ports.get_mut(&port).expect("a guarded port");
        if let LimitInForce::Rate { cost_ns, .. } = held
            && !matches!(port.held, LimitInForce::Rate { .. })
        {
            port.spent_ns = now.as_nanos().saturating_sub(cost_ns);
        }
        port.held = held;
    }

    /// Empties the buckets of all ports until `time`.
    pub fn set_spent(&mut self, time: Time) {
        self.ports.values_mut().for_each(|port| port.spent_ns = time.as_nanos());
    }

    /// Verdict on `frame` at `now`. `listening` gives the listener of a SYN; the server has this many
    /// connections.
    pub fn decide(
        &mut self,
        now: Time,
        frame: &[u8],
        present: u64,
        listening: impl FnOnce(&Syn) -> Option<Listening>,
    ) -> Verdict {
        match self.sheds(now, frame, present, listening) {
            true if self.watching => Verdict::Passes,
            true if self.resets => syn_reply::reset(frame).map_or(Verdict::Dropped, Verdict::Answered),
            true => Verdict::Dropped,
            false => Verdict::Passes,
        }
    }

    fn sheds(
        &mut self,
        now: Time,
        frame: &[u8],
        present: u64,
        listening: impl FnOnce(&Syn) -> Option<Listening>,
    ) -> bool {
        let Some(syn) = Syn::read(frame) else { return false };
        let Some(&Port { class: by_port, .. }) = self.ports.get(&syn.target.1) else { return false };
        let Some(listening) = listening(&syn) else { return false };
        let class = usize::from(self.class(syn.source.0).map_or(by_port, |class| class.min(by_port)));
        self.counts.seen[class] += 1;
        if now.since(self.alive) > DEADMAN {
            self.counts.silent += 1;
            return false;
        }
        let Some(reason) = self.reason(syn.target.1, now, class, listening, present) else { return false };
        self.counts.shed[class][reason as usize] += 1;
        true
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Class of the longest prefix that contains `addr`.
    fn class(&self, addr: IpAddr) -> Option<u8> {
        let addr = Prefix::new(addr, 128);
        let holding = self.prefixes.iter().filter(|(prefix, _)| prefix.holds(addr));
        holding.max_by_key(|(prefix, _)| prefix.bits()).map(|&(_, class)| class)
    }

    fn reason(
        &mut self,
        port: u16,
        now: Time,
        class: usize,
        listening: Listening,
        present: u64,
    ) -> Option<Reason> {
        assert!(class < CLASSES, "classes are validated");
        if listening.waiting > listening.room {
            return Some(Reason::Full);
        }
        let port = self.ports.get_mut(&port)?;
        match port.held {
            LimitInForce::Open => None,
            LimitInForce::Closed => Some(Reason::Closed),
            LimitInForce::Concurrency(most) => (present >= most[class]).then_some(Reason::Present),
            LimitInForce::Rate { cost_ns, burst_ns, need_ns } => {
                let from = port.spent_ns.max(now.as_nanos().saturating_sub(burst_ns));
                if from.saturating_add(need_ns[class]) > now.as_nanos() {
                    return Some(Reason::Rate);
                }
                port.spent_ns = from + cost_ns;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use guard::{AdmissionController, Class, Limit};
    use proptest::prelude::*;
    use queueing::Span;

    use super::super::frames::syn;
    use super::super::vectors::{LISTENING, vectors};
    use super::*;

    #[test]
    fn only_syns_are_parsed_as_syns() {
        for vector in vectors() {
            assert_eq!(Syn::read(&vector.frame).is_some(), vector.is_syn, "{}", vector.what);
        }
    }

    #[test]
    fn nothing_is_shed_while_the_controller_is_silent() {
        let mut model = Model::new(Time::ZERO, &[80], &Classes::default(), false);
        let passes = |model: &mut Model, now: Time| {
            model.decide(now, &syn(80), 0, |_| Some(LISTENING)) == Verdict::Passes
        };
        let start = Time::ZERO + Span::from_secs(5);
        model.hold(80, start, LimitInForce::Closed);
        assert!(!passes(&mut model, start + Span::from_secs(1)));
        assert!(passes(&mut model, start + Span::from_nanos(1_000_000_001)));
        assert_eq!((model.counts().offered(), model.counts().shed(), model.counts().silent), (2, 1, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        //~ xdp-guard: the BPF program's model admits as many as the admission controller
        /// The model counts time where `AdmissionController` counts requests; both agree up to a
        /// nanosecond per request.
        #[test]
        fn the_model_admits_as_many_as_the_admission_controller(
            per_s in 20.0..2e5_f64,
            burst in 1.0..1e4_f64,
            arrivals in prop::collection::vec((0.0..3.0_f64, 0..3_u8), 1..600),
        ) {
            let classes = Classes(vec![vec!["10.0.0.0/8".parse().unwrap()], vec!["11.0.0.0/8".parse().unwrap()]]);
            let mut now = Time::ZERO + Span::from_secs(100);
            let mut model = Model::new(now, &[80], &classes, false);
            let mut controller = AdmissionController::new(3);
            controller.set(now, Limit::Rate { per_s, burst });
            model.hold(80, now, LimitInForce::new(Limit::Rate { per_s, burst }, 3));
            let mut ahead = 0_i64;
            for (gap, class) in arrivals {
                now += Span::from_secs_f64(gap / per_s);
                model.alive = now;
                let mut frame = syn(80);
                frame[26] = 10 + class;
                let passes = model.decide(now, &frame, 0, |_| Some(LISTENING)) == Verdict::Passes;
                ahead += i64::from(passes) - i64::from(controller.try_admit(now, Class::new(class), 0));
                prop_assert!(ahead.abs() <= 1, "{ahead} more than the controller at {now:?}");
            }
        }
    }
}
