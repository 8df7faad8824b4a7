//! Reservations, profiles and assignments.

use super::*;

const SHORT: RequestType = RequestType(1);
const LONG: RequestType = RequestType(2);

fn of(token: u64, kind: Option<RequestType>) -> Task {
    Task { token, label: Label::default(), kind }
}

fn share(kind: u16, mean_ns: f64, demand: f64) -> Share {
    Share { kind: RequestType(kind), mean_ns, ratio: 0.0, demand }
}

fn workers(numbers: impl IntoIterator<Item = u8>) -> WorkerSet {
    numbers.into_iter().map(WorkerId).collect()
}

fn idle(numbers: impl IntoIterator<Item = u8>) -> IdleWorkers {
    IdleWorkers { accepting: [workers(numbers); 8] }
}

/// DARC on four workers after 99 short and 11 long requests of the given length.
fn profiled(settings: DarcSettings, short_us: u64, long_us: u64) -> Darc {
    let mut darc = Darc::new(4, 100, DarcSettings { samples: 110, ..settings });
    for n in 0..110 {
        let (kind, us) = if n % 10 == 9 { (LONG, long_us) } else { (SHORT, short_us) };
        darc.push(Time::ZERO, of(n, Some(kind))).unwrap();
        darc.assign(Time::ZERO, &all_idle(4)).unwrap();
        darc.on_done(Time::ZERO, WorkerId(0), Some(kind), Span::from_micros(us));
    }
    darc
}

#[test]
fn first_come_first_served_until_the_window_is_full() {
    let mut darc = Darc::new(1, 9, DarcSettings { samples: 3, ..DarcSettings::default() });
    check(&mut darc, &[of(1, Some(LONG)), of(2, None), of(3, Some(SHORT))], &[1, 2, 3]);
    for kind in [LONG, SHORT, SHORT] {
        assert_eq!(darc.reservation(), None);
        darc.on_done(at(9), WorkerId(0), Some(kind), Span::from_micros(u64::from(kind.0)));
    }
    check(&mut darc, &[of(4, Some(LONG)), of(5, None), of(6, Some(SHORT))], &[6, 4, 5]);
}

//~ dispatch: DARC reserves workers by demand, groups similar kinds, and short requests steal from long ones only
#[test]
fn workers_are_reserved_by_demand() {
    let shares = [share(1, 1e3, 0.4), share(2, 100e3, 0.6)];
    let reservation = Reservation::new(&shares, 10, 1.2, |_| Priority::LOWEST);
    let [short, long] = &reservation.groups[..] else { panic!("two groups") };
    assert_eq!((short.reserved, short.stealable), (workers(0..4), workers(4..10)));
    assert_eq!((long.reserved, long.stealable), (workers(4..10), WorkerSet::NONE));
    assert_eq!(reservation.spillway, WorkerId(9));
}

//~ dispatch: DARC reserves workers by demand, groups similar kinds, and short requests steal from long ones only
#[test]
fn kinds_of_similar_length_share_a_group_measured_by_its_first() {
    let shares = [share(1, 100.0, 0.1), share(2, 119.0, 0.1), share(3, 121.0, 0.1), share(4, 145.0, 0.7)];
    let kinds = |r: Reservation| r.groups.into_iter().map(|g| g.kinds).collect::<Vec<_>>();
    let reservation = Reservation::new(&shares, 4, 1.2, |_| Priority::LOWEST);
    assert_eq!(
        kinds(reservation),
        [vec![RequestType(1), RequestType(2)], vec![RequestType(3), RequestType(4)]]
    );
}

#[test]
fn types_of_equal_length_go_by_declared_urgency() {
    let urgency = vec![(LONG, Priority::HIGHEST)];
    let mut darc = profiled(DarcSettings { urgency, ..DarcSettings::default() }, 10, 10);
    check(&mut darc, &[of(500, Some(SHORT)), of(501, Some(LONG)), of(502, Some(SHORT))], &[501, 500, 502]);
}

#[test]
fn without_a_declaration_the_most_urgent_label_seen_decides() {
    let mut darc = Darc::new(1, 9, DarcSettings { samples: 2, ..DarcSettings::default() });
    let urgent = Task { label: Label::new(Priority::HIGHEST), ..of(1, Some(LONG)) };
    check(&mut darc, &[urgent, of(2, Some(SHORT))], &[1, 2]);
    for kind in [SHORT, LONG] {
        darc.on_done(Time::ZERO, WorkerId(0), Some(kind), Span::from_micros(5));
    }
    check(&mut darc, &[of(3, Some(SHORT)), of(4, Some(LONG))], &[4, 3]);
}

//~ dispatch: DARC reserves workers by demand, groups similar kinds, and short requests steal from long ones only
#[test]
fn when_workers_run_out_the_last_is_shared() {
    let shares = [share(1, 1.0, 0.1), share(2, 10.0, 0.1), share(3, 100.0, 0.8)];
    let reservation = Reservation::new(&shares, 2, 1.2, |_| Priority::LOWEST);
    let reserved: Vec<_> = reservation.groups.iter().map(|g| g.reserved).collect();
    assert_eq!(reserved, [workers([0]), workers([1]), workers([1])]);
}

//~ dispatch: DARC reserves workers by demand, groups similar kinds, and short requests steal from long ones only
#[test]
fn short_requests_steal_from_long_ones_and_never_the_reverse() {
    let mut darc = profiled(DarcSettings::default(), 1, 100);
    darc.push(Time::ZERO, of(900, Some(LONG))).unwrap();
    assert_eq!(darc.assign(Time::ZERO, &idle([0])), None, "worker 0 is reserved for short requests");
    let reserved: Vec<_> = darc.reservation().unwrap().groups.iter().map(|g| g.reserved).collect();
    assert_eq!(reserved, [workers([0]), workers([1, 2, 3])]);
    darc.push(Time::ZERO, of(901, Some(SHORT))).unwrap();
    assert_eq!(darc.assign(Time::ZERO, &idle([2])), Some((WorkerId(2), of(901, Some(SHORT)))));
    assert_eq!(darc.assign(Time::ZERO, &idle([0, 2])), Some((WorkerId(2), of(900, Some(LONG)))));
}

//~ dispatch: DARC reserves workers by demand, groups similar kinds, and short requests steal from long ones only
#[test]
fn requests_of_unknown_type_run_on_the_spillway_after_all_others() {
    let mut darc = profiled(DarcSettings::default(), 1, 100);
    darc.push(Time::ZERO, of(900, None)).unwrap();
    darc.push(Time::ZERO, of(901, Some(RequestType(77)))).unwrap();
    darc.push(Time::ZERO, of(902, Some(LONG))).unwrap();
    assert_eq!(darc.assign(Time::ZERO, &idle([3])).unwrap().1.token, 902);
    assert_eq!(darc.assign(Time::ZERO, &idle([0, 1, 2])), None);
    assert_eq!(darc.assign(Time::ZERO, &idle([3])).unwrap().1.token, 900);
    assert_eq!(darc.assign(Time::ZERO, &idle([3])).unwrap().1.token, 901);
}

//~ dispatch: DARC changes its reservations only when requests wait and demand has moved
#[test]
fn workers_are_reserved_anew_only_when_requests_wait_and_demand_has_moved() {
    let mut darc = profiled(DarcSettings::default(), 1, 100);
    darc.push(Time::ZERO, of(0, Some(SHORT))).unwrap();
    darc.assign(Time::ZERO, &all_idle(4)).unwrap();
    let first = darc.reservation().cloned();
    let window = |darc: &mut Darc, long_us| {
        for n in 0..110 {
            let (kind, us) = if n % 10 == 9 { (LONG, long_us) } else { (SHORT, 1) };
            darc.on_done(Time::ZERO, WorkerId(0), Some(kind), Span::from_micros(us));
        }
    };
    let wait = |darc: &mut Darc, us| {
        darc.push(Time::ZERO, of(1, Some(SHORT))).unwrap();
        darc.assign(at(us), &all_idle(4)).unwrap();
    };
    window(&mut darc, 100);
    wait(&mut darc, 1_000);
    assert_eq!(darc.reservation(), first.as_ref(), "demand has not changed");
    window(&mut darc, 2);
    wait(&mut darc, 5);
    assert_eq!(darc.reservation(), first.as_ref(), "no request waits too long");
    window(&mut darc, 2);
    window(&mut darc, 2);
    wait(&mut darc, 1_000);
    assert_ne!(darc.reservation(), first.as_ref());
}

//~ dispatch: DARC bounds the number of request kinds, profiles exactly, and supports 256 workers
#[test]
fn the_number_of_kinds_a_client_can_invent_is_bounded() {
    let mut darc = Darc::new(2, 1_000, DarcSettings { samples: 256, ..DarcSettings::default() });
    for kind in 0..1_000 {
        darc.push(Time::ZERO, of(u64::from(kind), Some(RequestType(kind)))).unwrap();
        darc.on_done(Time::ZERO, WorkerId(0), Some(RequestType(kind)), Span::from_nanos(1));
    }
    let served = std::iter::from_fn(|| darc.assign(Time::ZERO, &all_idle(2))).count();
    assert_eq!(served, 1_000);
    let kinds: usize = darc.reservation().unwrap().groups.iter().map(|g| g.kinds.len()).sum();
    assert_eq!(kinds, 256);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    //~ dispatch: DARC bounds the number of request kinds, profiles exactly, and supports 256 workers
    /// Means, ratios and demands are those of the definition.
    #[test]
    fn the_profile_agrees_with_the_arithmetic(samples in prop::collection::vec((0u16..6, 0u64..1_000_000), 1..200)) {
        let mut profile = Profile::default();
        samples.iter().for_each(|&(kind, ns)| profile.record(RequestType(kind), Span::from_nanos(ns)));
        let total: u64 = samples.iter().map(|s| s.1).sum();
        for share in profile.shares() {
            let own: Vec<u64> = samples.iter().filter(|s| s.0 == share.kind.0).map(|s| s.1).collect();
            let sum: u64 = own.iter().sum();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
            prop_assert!(near(share.mean_ns, sum as f64 / own.len() as f64));
            prop_assert!(near(share.ratio, own.len() as f64 / samples.len() as f64));
            prop_assert!(near(share.demand, sum as f64 / total.max(1) as f64));
        }
    }

    //~ dispatch: DARC bounds the number of request kinds, profiles exactly, and supports 256 workers
    /// Every group has a worker; reservations overlap only at the spillway; a group
    /// steals only from longer ones.
    #[test]
    fn no_long_request_gets_a_worker_reserved_for_shorter_ones(
        means in prop::collection::vec((1u32..1_000_000, 1u32..1_000), 1..12),
        count in prop_oneof![1usize..20, Just(256)],
    ) {
        let total: f64 = means.iter().map(|m| f64::from(m.0) * f64::from(m.1)).sum();
        let shares: Vec<Share> = (0..).zip(&means)
            .map(|(k, m)| share(k, f64::from(m.0), f64::from(m.0) * f64::from(m.1) / total))
            .collect();
        let reservation = Reservation::new(&shares, count, 1.2, |_| Priority::LOWEST);
        let kinds: usize = reservation.groups.iter().map(|g| g.kinds.len()).sum();
        prop_assert_eq!(kinds, means.len());
        let spillway = workers([reservation.spillway.0]);
        for (g, group) in reservation.groups.iter().enumerate() {
            prop_assert!(!group.reserved.is_empty());
            let usable = group.reserved.or(&group.stealable);
            for shorter in &reservation.groups[..g] {
                let shared = usable.and(&shorter.reserved);
                prop_assert!(shared.is_empty() || shared == spillway);
            }
        }
    }
}
