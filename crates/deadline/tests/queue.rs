//! Order of service and load shedding, compared with scheduling theory.

use std::collections::BTreeMap;

use deadline::{
    DeadlineQueue, DequeueResult, EnqueueResult, History, ORDERS, Order, QueueSettings, Reason, SHEDDINGS,
    ServiceTimeEwma, Shedding, Work,
};
use proptest::prelude::{Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use queueing::{Entry, Label, Priority, Rng, Span, Time};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Request {
    number: usize,
    left: Option<Span>,
    service: Span,
}

/// Part of a request whose slowest part takes `slowest`.
struct PartOf {
    name: &'static str,
    left: Span,
    slowest: Span,
}

impl Entry for PartOf {
    fn label(&self) -> Label {
        Label { priority: Priority::LOWEST, deadline: Some(self.left) }
    }

    fn slowest(&self) -> Span {
        self.slowest
    }
}

impl Work for PartOf {}

impl Work for Request {}

impl Entry for Request {
    fn label(&self) -> Label {
        Label { priority: Priority::LOWEST, deadline: self.left }
    }

    fn service(&self) -> Span {
        self.service
    }
}

fn ns(n: u64) -> Span {
    Span::from_nanos(n)
}

fn at(ns: u64) -> Time {
    Time::from_nanos(ns)
}

fn settings(order: Order, shedding: Shedding) -> QueueSettings {
    QueueSettings { capacity: 12, order, shedding, age_max: ns(600) }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Offer { left_ns: Option<u64>, service_ns: u64 },
    Next,
    Wait { ns: u64 },
    GiveUp { which: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let left_ns = prop::option::weighted(0.8, 0..500_u64);
    let step = prop_oneof![
        4 => (left_ns, 0..200_u64).prop_map(|(left_ns, service_ns)| Step::Offer { left_ns, service_ns }),
        3 => (0..1_u8).prop_map(|_| Step::Next),
        2 => (0..100_u64).prop_map(|ns| Step::Wait { ns }),
        1 => (0..300_usize).prop_map(|which| Step::GiveUp { which }),
    ];
    prop::collection::vec(step, 1..300)
}

/// Reason to drop at `now`: reference implementation of the rule.
fn drop_reason(shedding: Shedding, now: Time, offered: Time, request: Request) -> Option<Reason> {
    let left = request.left?.as_nanos() as i128 - now.since(offered).as_nanos() as i128;
    match shedding {
        Shedding::None => None,
        Shedding::Expired | Shedding::Infeasible | Shedding::Overload if left <= 0 => Some(Reason::Expired),
        Shedding::Infeasible if left < request.service.as_nanos() as i128 => Some(Reason::Infeasible),
        Shedding::Expired | Shedding::Infeasible | Shedding::Overload => None,
    }
}

/// Runs `steps` and compares the queue with a list of waiting requests.
fn check(order: Order, shedding: Shedding, steps: &[Step]) {
    let mut queue = DeadlineQueue::new(settings(order, shedding));
    let mut waiting: BTreeMap<usize, (Time, Request)> = BTreeMap::new();
    let mut handles = BTreeMap::new();
    let mut now = at(1_000);
    let next = |queue: &mut DeadlineQueue<Request>, waiting: &mut BTreeMap<usize, (Time, Request)>, now| {
        let Some(dequeued) = queue.dequeue(now) else {
            return assert!(waiting.is_empty(), "an entry was lost");
        };
        let (request, reason) = match dequeued {
            DequeueResult::Serve(request) => (request, None),
            DequeueResult::Shed(request, reason) => (request, Some(reason)),
        };
        let (offered, known) = waiting.remove(&request.number).expect("waiting, and dequeued once");
        assert_eq!((known, reason), (request, drop_reason(shedding, now, offered, request)));
    };
    for (number, &step) in steps.iter().enumerate() {
        match step {
            Step::Wait { ns } => now += Span::from_nanos(ns),
            Step::Next => next(&mut queue, &mut waiting, now),
            Step::GiveUp { which } => {
                let Some(&handle) = handles.get(&which) else { continue };
                let gone = queue.remove(now, handle).map(|request| request.number);
                assert_eq!(
                    gone,
                    waiting.remove(&which).map(|_| which),
                    "only waiting entries can be removed"
                );
            }
            Step::Offer { left_ns, service_ns } => {
                let request = Request { number, left: left_ns.map(ns), service: ns(service_ns) };
                let reason = drop_reason(shedding, now, now, request);
                match queue.enqueue(now, request) {
                    EnqueueResult::Refused(refused, Reason::Full) => {
                        assert_eq!((refused, reason, waiting.len()), (request, None, 12));
                        let (offered, oldest) =
                            waiting.values().min_by_key(|(at, r)| (*at, r.number)).expect("full");
                        assert_eq!(
                            drop_reason(shedding, now, *offered, *oldest),
                            None,
                            "{oldest:?} should have been replaced"
                        );
                    }
                    EnqueueResult::Refused(refused, why) => {
                        assert_eq!((refused, Some(why)), (request, reason))
                    }
                    EnqueueResult::Queued => {
                        assert_eq!(reason, None);
                        waiting.insert(number, (now, request));
                        handles.insert(number, queue.newest().expect("it waits"));
                    }
                    EnqueueResult::Replaced(gone, why) => {
                        let (offered, known) = waiting.remove(&gone.number).expect("it waited");
                        let expected = match drop_reason(shedding, now, offered, gone) {
                            // A doubtful one makes room.
                            None if shedding == Shedding::Overload => Some(Reason::Infeasible),
                            reason => reason,
                        };
                        assert_eq!((known, Some(why)), (gone, expected));
                        waiting.insert(number, (now, request));
                        handles.insert(number, queue.newest().expect("it waits"));
                    }
                }
            }
        }
        assert_eq!((queue.len(), queue.is_empty()), (waiting.len(), waiting.is_empty()));
        assert_eq!(queue.oldest(), waiting.values().map(|&(offered, _)| offered).min());
    }
    while !queue.is_empty() {
        next(&mut queue, &mut waiting, now);
    }
    assert!(waiting.is_empty(), "an entry was lost");
}

/// Number of `requests` served on time, one after the other, all enqueued at time zero.
fn on_time(order: Order, shedding: Shedding, requests: &[Request]) -> usize {
    let mut queue =
        DeadlineQueue::new(QueueSettings { age_max: Span::from_secs(9), ..settings(order, shedding) });
    let mut now = Time::ZERO;
    let mut on_time = 0;
    for &request in requests {
        let _ = queue.enqueue(now, request);
    }
    while let Some(dequeued) = queue.dequeue(now) {
        let DequeueResult::Serve(request) = dequeued else { continue };
        now += request.service;
        on_time += usize::from(request.left.is_none_or(|left| now <= Time::ZERO + left));
    }
    on_time
}

/// Maximum number on time over all orders of service, by exhaustive search.
fn on_time_max(requests: &[Request], now: Time) -> usize {
    let served_first = |first: usize| {
        let mut rest = requests.to_vec();
        let request = rest.remove(first);
        let done = now + request.service;
        let in_time = request.left.is_none_or(|left| done <= Time::ZERO + left);
        usize::from(in_time) + on_time_max(&rest, done)
    };
    (0..requests.len()).map(served_first).max().unwrap_or(0)
}

fn requests(n: usize) -> impl Strategy<Value = Vec<Request>> {
    let request = (1..300_u64, 1..60_u64).prop_map(|(left, service)| (ns(left), ns(service)));
    prop::collection::vec(request, 1..=n).prop_map(|pairs| {
        let numbered = pairs.into_iter().enumerate();
        numbered.map(|(number, (left, service))| Request { number, left: Some(left), service }).collect()
    })
}

proptest! {
    //~ deadlines: the queue loses nothing, drops exactly expired, infeasible and cancelled requests, and keeps its order
    #[test]
    fn nothing_is_lost_and_exactly_the_hopeless_are_dropped(steps in steps()) {
        for (_, order) in ORDERS {
            for (_, shedding) in SHEDDINGS {
                check(order, shedding, &steps);
            }
        }
    }

    //~ deadlines: EDF meets all deadlines whenever any order does; with one deadline it is FIFO
    /// Jackson 1955: if any order meets all deadlines, earliest deadline first does.
    #[test]
    fn edf_is_on_time_whenever_any_order_is(requests in requests(6)) {
        if on_time_max(&requests, Time::ZERO) == requests.len() {
            for shedding in [Shedding::None, Shedding::Infeasible] {
                prop_assert_eq!(on_time(Order::Edf, shedding, &requests), requests.len());
            }
        }
    }

    #[test]
    fn dropping_the_infeasible_never_has_fewer_on_time(requests in requests(8)) {
        for (_, order) in ORDERS {
            let kept = on_time(order, Shedding::Infeasible, &requests);
            prop_assert!(kept >= on_time(order, Shedding::Expired, &requests), "{order:?}");
            prop_assert!(kept >= on_time(order, Shedding::None, &requests), "{order:?}");
        }
    }

    /// `pace` serves by the instant that is its rank, whatever arrives later.
    #[test]
    fn a_pace_is_an_instant(requests in requests(8), gaps in prop::collection::vec(0..200_u64, 8)) {
        let mut queue = DeadlineQueue::new(settings(Order::Pace, Shedding::None));
        let mut now = Time::ZERO;
        let mut offered = BTreeMap::new();
        for (request, gap) in requests.iter().zip(gaps) {
            now += ns(gap);
            assert_eq!(queue.enqueue(now, *request), EnqueueResult::Queued);
            let left = request.left.unwrap_or_default();
            offered.insert(request.number, now + left / 4 + request.service * 4);
        }
        let served: Vec<Time> = std::iter::from_fn(|| match queue.dequeue(now)? {
            DequeueResult::Serve(request) | DequeueResult::Shed(request, _) => Some(offered[&request.number]),
        }).collect();
        prop_assert!(served.is_sorted() || now >= at(600), "{served:?}");
    }

    //~ deadlines: EDF meets all deadlines whenever any order does; with one deadline it is FIFO
    /// With equal relative deadlines, deadline order is order of arrival.
    #[test]
    fn edf_is_fifo_under_one_deadline(gaps in prop::collection::vec(0..50_u64, 1..12)) {
        let order = |order| {
            let mut queue = DeadlineQueue::new(settings(order, Shedding::None));
            let mut now = Time::ZERO;
            for (number, &gap) in gaps.iter().enumerate() {
                now += ns(gap);
                assert_eq!(queue.enqueue(now, Request { number, left: Some(ns(500)), service: ns(9) }), EnqueueResult::Queued);
            }
            std::iter::from_fn(|| queue.dequeue(now)).map(|dequeued| match dequeued {
                DequeueResult::Serve(request) | DequeueResult::Shed(request, _) => request.number,
            }).collect::<Vec<_>>()
        };
        prop_assert_eq!(order(Order::Edf), order(Order::Fifo));
    }
}

/// Order of service of four requests, enqueued 10 ns apart.
fn order_of(mut queue: DeadlineQueue<Request>) -> Vec<usize> {
    let requests = [(400, 0), (100, 0), (380, 300), (105, 0)];
    for (number, (left, service)) in requests.into_iter().enumerate() {
        let request = Request { number, left: Some(ns(left)), service: ns(service) };
        assert_eq!(queue.enqueue(at(10 * number as u64), request), EnqueueResult::Queued);
    }
    let dequeued = std::iter::from_fn(|| queue.dequeue(at(40)));
    dequeued
        .map(|dequeued| match dequeued {
            DequeueResult::Serve(request) | DequeueResult::Shed(request, _) => request.number,
        })
        .collect()
}

//~ deadlines: the queue loses nothing, drops exactly expired, infeasible and cancelled requests, and keeps its order
#[test]
fn each_order_serves_as_its_name_says() {
    for (order, expected) in [
        (Order::Fifo, [0, 1, 2, 3]),
        (Order::Lifo, [3, 2, 1, 0]),
        (Order::Edf, [1, 3, 0, 2]),
        (Order::Laxity, [2, 1, 3, 0]),
        (Order::Pace, [1, 3, 0, 2]),
        (Order::Paper, [1, 3, 2, 0]),
    ] {
        assert_eq!(order_of(DeadlineQueue::new(settings(order, Shedding::None))), expected, "{order:?}");
    }
    let by_service = |_: Time, request: &Request| u64::MAX - request.service.as_nanos();
    let custom = DeadlineQueue::with_order(settings(Order::Edf, Shedding::None), by_service);
    assert_eq!(order_of(custom), [2, 0, 1, 3]);
}

#[test]
fn parts_of_a_short_request_pass_those_of_long_ones_wherever_they_are() {
    let mut queue = DeadlineQueue::new(settings(Order::Pace, Shedding::None));
    for (name, slowest, left) in [("long", 90, 400), ("short", 10, 400), ("long, in a hurry", 90, 40)] {
        let part = PartOf { name, left: ns(left), slowest: ns(slowest) };
        assert!(matches!(queue.enqueue(at(0), part), EnqueueResult::Queued));
    }
    let order = std::iter::from_fn(|| queue.dequeue(at(0))).map(|dequeued| match dequeued {
        DequeueResult::Serve(part) | DequeueResult::Shed(part, _) => part.name,
    });
    assert_eq!(order.collect::<Vec<_>>(), ["short", "long, in a hurry", "long"]);
}

#[test]
fn sizes_are_known_by_kind_and_new_kinds_are_average() {
    let mut sizes = ServiceTimeEwma::new(2);
    assert_eq!(sizes.expected(&"any"), Span::ZERO);
    for _ in 0..2_000 {
        sizes.record("short", Span::from_micros(10));
        sizes.record("long", Span::from_micros(90));
    }
    assert_eq!(sizes.expected(&"short"), Span::from_micros(10));
    sizes.record("one too many", Span::from_micros(7));
    let average = sizes.expected(&"one too many");
    assert!(Span::from_micros(40) < average && average < Span::from_micros(60), "{average}");
    for _ in 0..60 {
        sizes.record("short", Span::from_micros(30));
    }
    assert!(sizes.expected(&"short") > Span::from_micros(29), "it follows a change");
}

//~ deadlines: requests without a deadline are served within the maximum wait, while urgent ones keep arriving
#[test]
fn a_request_older_than_the_maximum_age_is_served_every_ninth_time() {
    let latest_first = |_: Time, request: &Request| 100 - request.number as u64;
    let mut queue = DeadlineQueue::with_order(settings(Order::Edf, Shedding::None), latest_first);
    for number in 0..12 {
        assert_eq!(
            queue.enqueue(Time::ZERO, Request { number, left: None, service: ns(1) }),
            EnqueueResult::Queued
        );
    }
    let dequeued = std::iter::from_fn(|| match queue.dequeue(at(600)) {
        Some(DequeueResult::Serve(request)) => Some(request.number),
        _ => None,
    });
    assert_eq!(dequeued.collect::<Vec<_>>(), [0, 11, 10, 9, 8, 7, 6, 5, 4, 1, 3, 2]);
}

//~ deadlines: requests without a deadline are served within the maximum wait, while urgent ones keep arriving
#[test]
fn a_request_without_a_deadline_is_served_though_urgent_requests_keep_coming() {
    for (name, order) in ORDERS {
        let mut queue = DeadlineQueue::new(settings(order, Shedding::Infeasible));
        assert_eq!(
            queue.enqueue(Time::ZERO, Request { number: 0, left: None, service: ns(1) }),
            EnqueueResult::Queued
        );
        let mut served = false;
        for number in 1..400 {
            let now = at(10 * number as u64);
            assert_eq!(
                queue.enqueue(now, Request { number, left: Some(ns(50)), service: ns(1) }),
                EnqueueResult::Queued
            );
            served |= matches!(queue.dequeue(now), Some(DequeueResult::Serve(Request { number: 0, .. })));
            assert!(served || now < at(600 + 30), "{name}: passed over for longer than the maximum age");
        }
        assert!(served, "{name}");
    }
}

//~ deadlines: expected service times are learned by quantile and follow a change
#[test]
fn a_history_knows_its_quantiles_and_follows_a_change() {
    let mut history = History::new(2);
    let mut rng = Rng::seeded(3);
    let mut now = Time::ZERO;
    assert_eq!(history.estimate(&"search").samples, 0);
    for _ in 0..5_000 {
        now += Span::from_millis(1);
        history.record(now, "search", Span::from_micros(1 + rng.below(100)));
        history.record(now, "write", Span::from_micros(700));
    }
    let near = |span: Span, us: u64| span.as_nanos().abs_diff(us * 1_000) <= us * 1_000 / 8 + 3_000;
    let search = history.estimate(&"search");
    assert!(near(search.p50, 50) && near(search.p95, 95), "{search:?}");
    assert!(search.samples <= 2_100, "two seconds of samples: {search:?}");
    assert_eq!(history.estimate(&"write").p50, Span::from_micros(700));
    for _ in 0..5 + 16 {
        history.record(now, "search", Span::from_millis(3));
    }
    assert_eq!(history.estimate(&"search").p50, Span::from_millis(3), "five in a row show the change");
}

//~ deadlines: expected service times are learned by quantile and follow a change
#[test]
fn a_kind_of_a_second_per_call_keeps_its_samples() {
    let mut history = History::new(2);
    for n in 1..40 {
        history.record(Time::ZERO + Span::from_secs(7 * n), "report", Span::from_secs(2));
    }
    assert_eq!(history.estimate(&"report").expected(), Span::from_secs(2));
}

//~ deadlines: the kind of request that was used least recently makes room for a new one
#[test]
fn the_kind_that_was_recorded_least_recently_makes_room() {
    let mut history = History::new(2);
    let us = Span::from_micros;
    for n in 0..20 {
        history.record(at(n), 0, us(1));
    }
    for kind in 1..100 {
        history.record(at(kind), kind, us(5_000));
        history.record(at(kind), 0, us(1));
    }
    assert_eq!(history.estimate(&0).p95, us(1), "a kind in use stays");
    assert_eq!(history.estimate(&7).p50, us(5_000), "others share an estimate");
}

#[test]
fn orders_and_sheddings_read_as_they_are_shown() {
    assert!(ORDERS.iter().all(|&(name, order)| name.parse() == Ok(order) && order.to_string() == name));
    assert!(SHEDDINGS.iter().all(|&(name, shed)| name.parse() == Ok(shed) && shed.to_string() == name));
    let error = "best".parse::<Order>().map(drop).unwrap_err().to_string();
    assert_eq!(error, "order \"best\" is not one of fifo, lifo, edf, laxity, paper, pace");
}

/// Request with a forecast of `samples`.
struct Sampled {
    name: &'static str,
    left: Option<Span>,
    forecast: deadline::Forecast,
}

impl Entry for Sampled {
    fn label(&self) -> Label {
        Label { priority: Priority::LOWEST, deadline: self.left }
    }
}

impl Work for Sampled {
    fn forecast(&self) -> deadline::Forecast {
        self.forecast.clone()
    }
}

/// Forecast of a kind that takes one of `services_us` with equal probability.
fn forecast(services_us: &[u64]) -> deadline::Forecast {
    let samples = services_us.iter().cycle().take(1_000);
    deadline::Forecast::from_samples(&samples.map(|&us| Span::from_micros(us)).collect::<Vec<_>>())
}

/// Names in the order of service at `now`, of requests enqueued at time zero.
fn served(servers: usize, now: Time, requests: Vec<Sampled>) -> Vec<(&'static str, bool)> {
    let settings = QueueSettings { capacity: 99, age_max: Span::from_secs(9), ..QueueSettings::default() };
    let mut queue = DeadlineQueue::new(settings).with_servers(servers);
    for request in requests {
        assert!(matches!(queue.enqueue(Time::ZERO, request), EnqueueResult::Queued));
    }
    let dequeued = std::iter::from_fn(|| queue.dequeue(now));
    dequeued
        .map(|dequeued| match dequeued {
            DequeueResult::Serve(request) => (request.name, true),
            DequeueResult::Shed(request, _) => (request.name, false),
        })
        .collect()
}

//~ deadlines: a server that is free refuses only requests that have expired
#[test]
fn an_idle_server_serves_what_is_not_expired_however_unlikely() {
    let request =
        Sampled { name: "hopeless", left: Some(Span::from_micros(5)), forecast: forecast(&[10_000]) };
    assert_eq!(served(1, at(10), vec![request]), [("hopeless", true)]);
    let expired = Sampled { name: "expired", left: Some(Span::from_micros(5)), forecast: forecast(&[10]) };
    assert_eq!(served(1, at(5_000), vec![expired]), [("expired", false)]);
}

//~ deadlines: under overload, requests go first that are likely to be in time and cost others least
#[test]
fn what_would_cost_others_their_deadlines_waits_and_is_served_last() {
    let us = Span::from_micros;
    let hurried = |name, left_us, services_us: &[u64]| Sampled {
        name,
        left: Some(us(left_us)),
        forecast: forecast(services_us),
    };
    // The first would be in time with probability 0.5, and cost the second its deadline.
    let order = served(1, at(0), vec![hurried("coin", 50, &[10, 90]), hurried("sure", 62, &[50])]);
    assert_eq!(order, [("sure", true), ("coin", true)]);
    // With time enough for both the earlier deadline goes first.
    let order = served(1, at(0), vec![hurried("coin", 50, &[10, 90]), hurried("sure", 620, &[50])]);
    assert_eq!(order, [("coin", true), ("sure", true)]);
    // Two servers delay the second by half as much.
    let order = served(2, at(0), vec![hurried("coin", 50, &[10, 90]), hurried("sure", 90, &[50])]);
    assert_eq!(order, [("coin", true), ("sure", true)]);
}

//~ deadlines: under overload, requests go first that are likely to be in time and cost others least
#[test]
fn a_request_without_a_deadline_waits_for_those_that_would_lose_theirs() {
    let us = Span::from_micros;
    let patient = Sampled { name: "patient", left: None, forecast: forecast(&[50]) };
    let urgent = Sampled { name: "urgent", left: Some(us(9_000_060)), forecast: forecast(&[50]) };
    assert_eq!(
        served(1, Time::ZERO + us(9_000_000 - 1), vec![patient, urgent]),
        [("urgent", true), ("patient", true)]
    );
}

/// Order in which a short and a long budget are served, after requests with long ones have expired and one with
/// a short one was in time.
fn order_after_losses(order: Order, shedding: Shedding) -> Vec<usize> {
    let mut queue = DeadlineQueue::new(QueueSettings { order, shedding, ..QueueSettings::default() });
    let (service, start, later) = (Span::from_millis(5), at(1), at(500_000_001));
    let [long, short] = [400, 20].map(|ms| Some(Span::from_millis(ms)));
    let push = |queue: &mut DeadlineQueue<Request>, now, number, left| {
        assert_eq!(queue.enqueue(now, Request { number, left, service }), EnqueueResult::Queued);
    };
    push(&mut queue, start, 0, short);
    assert!(matches!(queue.dequeue(start), Some(DequeueResult::Serve(Request { number: 0, .. }))));
    (1..5).for_each(|number| push(&mut queue, start, number, long));
    while queue.dequeue(later).is_some() {}
    push(&mut queue, later, 5, short);
    push(&mut queue, later, 6, long);
    let served = std::iter::from_fn(|| queue.dequeue(later));
    served
        .map(|result| match result {
            DequeueResult::Serve(request) | DequeueResult::Shed(request, _) => request.number,
        })
        .collect()
}

//~ deadlines: a budget that loses less than longer ones waits for them, by each rule that drops the expired
#[test]
fn a_short_budget_waits_for_those_that_lose_more() {
    for (_, order) in ORDERS {
        for (_, shedding) in SHEDDINGS {
            let by_deadline = matches!(order, Order::Edf | Order::Laxity);
            let expected = match shedding {
                // The shared vectors have the rule for overload.
                Shedding::Overload => continue,
                Shedding::Expired | Shedding::Infeasible if by_deadline => [6, 5],
                _ if order == Order::Lifo => [6, 5],
                _ => [5, 6],
            };
            assert_eq!(order_after_losses(order, shedding), expected, "{order:?} {shedding:?}");
        }
    }
}
