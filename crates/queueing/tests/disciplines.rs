//! Promises of every discipline, from one table: entries are neither lost nor
//! duplicated, lengths and ages are right, and the starvation bound holds for any
//! arrivals.

//~ fabric: disciplines for flows lose and duplicate nothing and keep their bound of waiting

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_oneof, proptest};
use queueing::{
    Aqm, AqmQueue, Bytes, CoDel, Discipline, Drr, DrrConfig, EcnMarkable, Edf, Entry, FairQueue, Fifo,
    FlowId, FlowPifo, Label, Laxity, Pifo, Priority, PrioritySet, PushResult, QueueLength, Red, RedSettings,
    Rng, SelectiveDequeue, SelectiveFifo, Span, StarvationBound, Strict, Time,
};

/// Entry with a number, so that losses and duplicates show.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Request {
    number: usize,
    label: Label,
    flow: FlowId,
    bytes: u64,
    service: Span,
    marked: bool,
    doomed: bool,
}

impl Request {
    /// The entry as it was pushed.
    fn as_pushed(self) -> Self {
        Self { marked: false, doomed: false, ..self }
    }
}

/// Odd numbers are ECN-capable.
impl EcnMarkable for Request {
    fn mark(&mut self) -> bool {
        self.marked = self.number % 2 == 1;
        self.marked
    }
    fn doom(&mut self) {
        self.doomed = true;
    }
}

impl Entry for Request {
    fn label(&self) -> Label {
        self.label
    }
    fn flow(&self) -> FlowId {
        self.flow
    }
    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes)
    }
    fn service(&self) -> Span {
        self.service
    }
    fn doomed(&self) -> bool {
        self.doomed
    }
}

type Named = (&'static str, fn() -> Box<dyn Discipline<Request>>);

const CAPACITY: usize = 12;
const BUDGET_MAX: Span = Span::from_nanos(400);
const AGE_MAX: Span = Span::from_nanos(300);

fn fifo(_: Priority) -> Fifo<Request> {
    Fifo::new(CAPACITY)
}

fn codel() -> Aqm {
    Aqm::CoDel(CoDel::new(Span::from_nanos(50), Span::from_nanos(200), Bytes::new(20)))
}

fn red() -> Aqm {
    let (min, max) = (QueueLength::Bytes(20), QueueLength::Bytes(100));
    let service = Span::from_nanos(20);
    let settings = RedSettings { min, max, chance_max: 0.5, weight: 0.3, service };
    Aqm::Red(Box::new(Red::new(settings, Rng::seeded(1))))
}

/// True if the discipline starves even the most urgent level.
fn starves(name: &str) -> bool {
    name.contains("new flows first") || name.contains("flow pifo")
}

/// Every discipline, with a small capacity, so that it is often full.
const DISCIPLINES: [Named; 27] = [
    ("fifo", || Box::new(Fifo::new(CAPACITY))),
    ("selective fifo", || Box::new(SelectiveFifo::new(CAPACITY))),
    ("strict over fifo", || Box::new(Strict::new(CAPACITY, |_| Fifo::new(CAPACITY)))),
    ("strict over short fifo", || Box::new(Strict::new(CAPACITY, |_| Fifo::new(3)))),
    ("strict with push-out", || Box::new(Strict::new(CAPACITY, |_| Fifo::new(5)).with_push_out())),
    ("strict with aging", || {
        Box::new(Strict::new(CAPACITY, |_| Fifo::new(CAPACITY)).with_push_out().with_age_max(AGE_MAX))
    }),
    ("strict over edf, push-out", || {
        Box::new(Strict::new(CAPACITY, |_| Edf::new(CAPACITY, BUDGET_MAX)).with_push_out())
    }),
    ("drr by count", || {
        Box::new(Drr::new(CAPACITY, DrrConfig::by_count([8, 7, 6, 5, 4, 3, 2, 1], AGE_MAX), fifo))
    }),
    ("drr by bytes", || {
        Box::new(Drr::new(
            CAPACITY,
            DrrConfig::by_bytes([4, 1, 1, 1, 1, 1, 1, 2], Bytes::new(20), AGE_MAX),
            fifo,
        ))
    }),
    ("drr without aging", || {
        Box::new(Drr::new(
            CAPACITY,
            DrrConfig::by_bytes([3, 1, 1, 1, 1, 1, 1, 1], Bytes::new(20), Span::MAX),
            fifo,
        ))
    }),
    ("flows", || Box::new(FairQueue::new(CAPACITY))),
    ("flows by bytes", || Box::new(FairQueue::new(CAPACITY).by_bytes(Bytes::new(30)))),
    ("flows with push-out", || Box::new(FairQueue::new(CAPACITY).with_push_out())),
    ("strict over flows, push-out", || {
        Box::new(Strict::new(CAPACITY, |_| FairQueue::new(CAPACITY).with_push_out()).with_push_out())
    }),
    ("flows, new flows first", || {
        Box::new(FairQueue::new(CAPACITY).by_bytes(Bytes::new(30)).with_new_flows_first().with_push_out())
    }),
    ("fq-codel: new flows first, codel per flow", || {
        let flows = FairQueue::over(CAPACITY, AqmQueue::new(Fifo::new(CAPACITY), codel()));
        Box::new(flows.by_bytes(Bytes::new(30)).with_new_flows_first())
    }),
    ("drr over flows by bytes, push-out", || {
        let shares = DrrConfig::by_bytes([4, 1, 1, 1, 1, 1, 1, 2], Bytes::new(20), Span::MAX);
        let flows = |_| FairQueue::new(CAPACITY).by_bytes(Bytes::new(30)).with_push_out();
        Box::new(Drr::new(CAPACITY, shares, flows).with_push_out())
    }),
    ("drr over flows, aged", || {
        let shares = DrrConfig::by_count([4, 1, 1, 1, 1, 1, 1, 2], AGE_MAX);
        Box::new(Drr::new(CAPACITY, shares, |_| FairQueue::new(CAPACITY)))
    }),
    ("flow pifo, most urgent first", || {
        Box::new(FlowPifo::new(CAPACITY, |request: &Request| request.label.priority.index() as u64))
    }),
    ("flow pifo by size", || Box::new(FlowPifo::new(CAPACITY, |request: &Request| request.bytes))),
    ("red over strict with push-out", || {
        Box::new(AqmQueue::new(Strict::new(CAPACITY, fifo).with_push_out(), red()))
    }),
    ("strict over fifo under codel", || {
        Box::new(Strict::new(CAPACITY, |level| AqmQueue::new(fifo(level), codel())))
    }),
    ("strict over flows with a threshold each", || {
        let fifo = AqmQueue::new(Fifo::new(CAPACITY), Aqm::Above(QueueLength::Entries(2)));
        Box::new(Strict::new(CAPACITY, move |_| FairQueue::over(CAPACITY, fifo.clone())))
    }),
    ("edf", || Box::new(Edf::new(CAPACITY, BUDGET_MAX))),
    ("laxity", || Box::new(Laxity::new(CAPACITY, BUDGET_MAX))),
    ("lifo, aged", || {
        Box::new(Pifo::new(CAPACITY, AGE_MAX, |now: Time, _: &Request| u64::MAX - now.as_nanos()))
    }),
    ("pifo by size, aged", || {
        Box::new(Pifo::new(CAPACITY, AGE_MAX, |_: Time, request: &Request| request.bytes))
    }),
];

#[derive(Clone, Copy, Debug)]
enum Step {
    Push { priority: u8, deadline_ns: Option<u64>, flow: u64, bytes: u64, service_ns: u64 },
    Pop,
    Wait { ns: u64 },
}

/// Random steps, biased to an adversary that pushes urgent, small and long-served
/// entries right after each pop.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let deadline_ns = || prop_oneof![(0..1_000_u64).prop_map(Some), (0..1_u64).prop_map(|_| None)];
    let push = (0..8_u8, deadline_ns(), 0..6_u64, 0..40_u64, 0..2_000_u64).prop_map(
        |(priority, deadline_ns, flow, bytes, service_ns)| Step::Push {
            priority,
            deadline_ns,
            flow,
            bytes,
            service_ns,
        },
    );
    let urgent = (0..3_u8, 0..20_u64, 1..3_u64).prop_map(|(priority, flow, bytes)| Step::Push {
        priority,
        deadline_ns: Some(0),
        flow,
        bytes,
        service_ns: 1_000_000,
    });
    let step = prop_oneof![
        3 => push,
        5 => urgent,
        6 => (0..1_u8).prop_map(|_| Step::Pop),
        3 => (0..200_u64).prop_map(|ns| Step::Wait { ns }),
    ];
    vec(step, 1..600)
}

/// Queued entry, with the number of pops since its push and since it became old,
/// and the latest push among those popped.
struct Waiting {
    request: Request,
    pushed: Time,
    overtaken: u64,
    overtaken_aged: u64,
    overtaken_by: Time,
}

/// Discipline beside a model of its contents.
struct Checked {
    name: &'static str,
    queue: Box<dyn Discipline<Request>>,
    waiting: BTreeMap<usize, Waiting>,
}

impl Checked {
    fn push(&mut self, now: Time, request: Request) {
        let evicted = match self.queue.push(now, request) {
            PushResult::Refused(refused) => return assert_eq!(refused.as_pushed(), request, "{}", self.name),
            PushResult::Queued => None,
            PushResult::PushedOut(victim) => Some(victim),
        };
        let entry = Waiting { request, pushed: now, overtaken: 0, overtaken_aged: 0, overtaken_by: now };
        self.waiting.insert(request.number, entry);
        if let Some(victim) = evicted {
            let later = victim.label.priority > request.label.priority;
            // The choice between flows is tested in tests/flows.rs.
            let other = self.name.contains("flow") && victim.flow != request.flow;
            assert!(later || other, "{}: {victim:?} for {request:?}", self.name);
            self.remove(victim);
        }
    }

    fn pop(&mut self, now: Time) {
        let Some(popped) = self.queue.pop(now) else {
            return assert!(self.waiting.is_empty(), "{}: an empty pop with entries queued", self.name);
        };
        let left = self.remove(popped);
        match self.queue.starvation() {
            StarvationBound::Bounded { entries } => {
                assert!(
                    left.overtaken <= entries,
                    "{}: {} were served first, above {entries}",
                    self.name,
                    left.overtaken
                );
            }
            StarvationBound::Window { span } => {
                assert!(
                    left.overtaken_by <= left.pushed + span,
                    "{}: overtaken by too late an entry",
                    self.name
                );
            }
            StarvationBound::Aged { span, entries } => {
                assert_eq!(span, AGE_MAX);
                assert!(
                    left.overtaken_aged <= entries,
                    "{}: {} were served before an old entry, above {entries}",
                    self.name,
                    left.overtaken_aged
                );
            }
            StarvationBound::Unbounded { from } => {
                assert!(from > Priority::HIGHEST || starves(self.name), "{}", self.name);
            }
        }
        for other in self.waiting.values_mut() {
            other.overtaken += 1;
            other.overtaken_aged += u64::from(now.since(other.pushed) >= AGE_MAX);
            other.overtaken_by = other.overtaken_by.max(left.pushed);
        }
    }

    fn remove(&mut self, request: Request) -> Waiting {
        let known = self.waiting.remove(&request.number);
        let known =
            known.unwrap_or_else(|| panic!("{}: {request:?} was popped twice or never pushed", self.name));
        assert_eq!(known.request, request.as_pushed(), "{}", self.name);
        known
    }

    fn compare(&self) {
        assert_eq!(self.queue.len(), self.waiting.len(), "{}", self.name);
        assert_eq!(self.queue.is_empty(), self.waiting.is_empty(), "{}", self.name);
        let oldest = self.waiting.values().map(|entry| entry.pushed).min();
        assert_eq!(self.queue.oldest(), oldest, "{}", self.name);
        assert!(self.queue.len() <= CAPACITY, "{}", self.name);
    }
}

fn check((name, discipline): Named, steps: &[Step]) {
    let mut checked = Checked { name, queue: discipline(), waiting: BTreeMap::new() };
    let mut now = Time::from_nanos(1_000);
    for (number, &step) in steps.iter().enumerate() {
        match step {
            Step::Push { priority, deadline_ns, flow, bytes, service_ns } => {
                let priority = Priority::new(priority).expect("a level");
                let label = Label { priority, deadline: deadline_ns.map(Span::from_nanos) };
                let (flow, service) = (FlowId(flow), Span::from_nanos(service_ns));
                let request = Request { number, label, flow, bytes, service, marked: false, doomed: false };
                checked.push(now, request);
            }
            Step::Pop => checked.pop(now),
            Step::Wait { ns } => now += Span::from_nanos(ns),
        }
        checked.compare();
    }
    while !checked.queue.is_empty() {
        checked.pop(now);
        checked.compare();
    }
    assert!(checked.waiting.is_empty(), "{name}: entries were lost");
}

proptest! {
    //~ queueing: every discipline is bounded, loses and duplicates nothing, and keeps its starvation bound
    #[test]
    fn no_entry_is_lost_duplicated_or_waits_beyond_the_bound(steps in steps()) {
        for named in DISCIPLINES {
            check(named, &steps);
        }
    }
}

fn request(number: usize, priority: u8) -> Request {
    let label = Label::new(Priority::new(priority).expect("a level"));
    Request { number, label, flow: FlowId(0), bytes: 1, service: Span::ZERO, marked: false, doomed: false }
}

fn due(number: usize, deadline_ns: Option<u64>, service_ns: u64) -> Request {
    let label = Label { deadline: deadline_ns.map(Span::from_nanos), ..Label::default() };
    Request {
        number,
        label,
        flow: FlowId(0),
        bytes: 1,
        service: Span::from_nanos(service_ns),
        marked: false,
        doomed: false,
    }
}

/// Pushes all `requests` at once, drains and returns the numbers in order of service.
fn order(mut queue: impl Discipline<Request>, requests: &[Request]) -> Vec<usize> {
    for &request in requests {
        assert_eq!(queue.push(Time::ZERO, request), PushResult::Queued);
    }
    std::iter::from_fn(|| queue.pop(Time::ZERO)).map(|request| request.number).collect()
}

//~ queueing: strict serves the most urgent level and keeps order within it
#[test]
fn strict_serves_the_most_urgent_and_keeps_order_within_a_level() {
    let requests = [request(0, 7), request(1, 3), request(2, 0), request(3, 3), request(4, 0)];
    assert_eq!(order(Strict::new(9, |_| Fifo::new(9)), &requests), [2, 4, 1, 3, 0]);
}

//~ queueing: strict with aging leaves urgent levels eight ninths of the service in lasting overload
/// If every other pop went to an old entry, level 0, which needs four of five, would fall behind.
#[test]
fn in_lasting_overload_aging_leaves_eight_ninths_to_the_urgent() {
    let mut queue = Strict::new(1_000, |_| Fifo::new(1_000)).with_age_max(Span::from_nanos(10));
    let (mut urgent, mut others) = (0, 0);
    for number in 0..9_000 {
        let now = Time::from_nanos(number as u64);
        while queue.len() < 500 {
            assert_eq!(queue.push(now, request(number, 7)), PushResult::Queued);
        }
        if number % 5 > 0 {
            assert_eq!(queue.push(now, request(number, 0)), PushResult::Queued);
        }
        let popped = queue.pop(now).expect("the queue is backlogged");
        match popped.label.priority {
            Priority::HIGHEST => {
                assert!(number - popped.number <= 2, "waited for {} pops", number - popped.number);
                urgent += 1;
            }
            _ => others += 1,
        }
    }
    assert_eq!(urgent, 7_200);
    assert_eq!(others, 1_800, "the service that level 0 does not need");
}

//~ queueing: strict starves less urgent levels while urgent entries keep arriving, as its documentation states
#[test]
fn strict_starves_the_less_urgent_while_urgent_entries_arrive() {
    let mut queue = Strict::new(CAPACITY, |_| Fifo::new(CAPACITY));
    let level_1 = Priority::new(1).expect("a level");
    assert_eq!(queue.starvation(), StarvationBound::Unbounded { from: level_1 });
    assert_eq!(queue.push(Time::ZERO, request(0, 1)), PushResult::Queued);
    for number in 1..100_000 {
        let now = Time::from_nanos(number as u64);
        assert_eq!(queue.push(now, request(number, 0)), PushResult::Queued);
        assert_eq!(queue.pop(now), Some(request(number, 0)));
    }
    assert_eq!(queue.oldest(), Some(Time::ZERO));
}

//~ queueing: push-out drops the newest entry of the least urgent level and never an equal one
#[test]
fn push_out_drops_the_newest_of_the_least_urgent_and_never_an_equal() {
    let mut queue = Strict::new(3, |_| Fifo::new(3)).with_push_out();
    for entry in [request(0, 5), request(1, 5), request(2, 2)] {
        assert_eq!(queue.push(Time::ZERO, entry), PushResult::Queued);
    }
    assert_eq!(queue.push(Time::ZERO, request(3, 5)), PushResult::Refused(request(3, 5)));
    assert_eq!(queue.push(Time::ZERO, request(4, 0)), PushResult::PushedOut(request(1, 5)));
    assert_eq!(queue.push(Time::ZERO, request(5, 1)), PushResult::PushedOut(request(0, 5)));
    assert_eq!(queue.push(Time::ZERO, request(6, 2)), PushResult::Refused(request(6, 2)));
    assert_eq!(queue.len(), 3);
}

/// Pops levels 4 and up, then no level, then all.
fn check_among(mut queue: impl SelectiveDequeue<Request>, expected: [usize; 3]) {
    for (number, priority) in [(0, 0), (1, 6), (2, 4)] {
        assert_eq!(
            queue.push(Time::from_nanos(number as u64), request(number, priority)),
            PushResult::Queued
        );
    }
    let low = Priority::all().filter(|priority| priority.level() >= 4).collect();
    let mut among = |wanted| queue.pop_among(Time::from_nanos(9), wanted).map(|request| request.number);
    let got = [among(low), among(low), among(low), among(PrioritySet::NONE), among(PrioritySet::ALL)];
    let [first, second, third] = expected.map(Some);
    assert_eq!(got, [first, second, None, None, third]);
    assert!(queue.is_empty() && queue.oldest().is_none());
}

//~ queueing: a pop for some levels returns entries of those levels only
#[test]
fn only_the_requested_levels_are_dequeued() {
    check_among(Strict::new(9, |_| Fifo::new(9)), [2, 1, 0]);
    check_among(SelectiveFifo::new(9), [1, 2, 0]);
    check_among(Drr::new(9, DrrConfig::by_count([1; 8], Span::MAX), fifo), [2, 1, 0]);
    check_among(Drr::new(9, DrrConfig::by_count([1; 8], Span::ZERO), fifo), [1, 2, 0]);
    check_among(Edf::new(9, BUDGET_MAX), [1, 2, 0]);
    check_among(Laxity::new(9, BUDGET_MAX), [1, 2, 0]);
}

#[test]
fn an_urgent_entry_waits_only_after_its_level_used_its_quantum() {
    let mut queue = Drr::new(99, DrrConfig::by_count([2, 1, 1, 1, 1, 1, 1, 4], Span::MAX), |_| Fifo::new(99));
    for number in 0..9 {
        assert_eq!(queue.push(Time::ZERO, request(number, 7)), PushResult::Queued);
    }
    let pops = |queue: &mut Drr<Fifo<Request>>, n| -> Vec<usize> {
        (0..n).filter_map(|_| queue.pop(Time::ZERO)).map(|request| request.number).collect()
    };
    assert_eq!(pops(&mut queue, 1), [0]);
    for number in 10..14 {
        assert_eq!(queue.push(Time::ZERO, request(number, 0)), PushResult::Queued);
    }
    assert_eq!(pops(&mut queue, 12), [10, 11, 1, 2, 3, 12, 13, 4, 5, 6, 7, 8]);
}

//~ queueing: EDF serves by deadline, and entries without a deadline last
#[test]
fn edf_serves_by_deadline_and_the_undated_last() {
    let requests = [due(0, None, 0), due(1, Some(300), 0), due(2, Some(100), 0), due(3, Some(9_999), 0)];
    assert_eq!(order(Edf::new(9, BUDGET_MAX), &requests), [2, 1, 0, 3]);
}

//~ queueing: least laxity starts the longer of two entries with one deadline and prefers no infeasible entry
#[test]
fn laxity_starts_the_longer_of_two_that_are_due_together() {
    let requests = [due(0, Some(300), 10), due(1, Some(300), 200), due(2, Some(150), 0)];
    assert_eq!(order(Laxity::new(9, BUDGET_MAX), &requests), [1, 2, 0]);
}

//~ queueing: least laxity starts the longer of two entries with one deadline and prefers no infeasible entry
#[test]
fn laxity_does_not_prefer_entries_past_their_deadline_to_older_ones() {
    let requests = [due(0, Some(0), 0), due(1, Some(0), 1_000_000)];
    assert_eq!(order(Laxity::new(9, BUDGET_MAX), &requests), [0, 1]);
}

#[test]
fn a_rank_keeps_eight_ninths_of_the_service_when_everything_is_aged() {
    let rank = |_: Time, request: &Request| 100 - request.number as u64;
    let mut queue = Pifo::new(20, Span::ZERO, rank);
    for number in 0..20 {
        assert_eq!(queue.push(Time::ZERO, request(number, 0)), PushResult::Queued);
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.pop(Time::ZERO)).map(|request| request.number).collect();
    let by_rank = |numbers: std::ops::Range<usize>| numbers.rev();
    let expected = [0].into_iter().chain(by_rank(12..20)).chain([1]).chain(by_rank(4..12)).chain([2, 3]);
    assert_eq!(order, expected.collect::<Vec<_>>());
}

#[test]
fn entries_served_for_age_leave_nothing_behind() {
    let mut queue = Pifo::new(50, Span::ZERO, |_: Time, request: &Request| u64::MAX - request.number as u64);
    for number in 0..10_000 {
        assert_eq!(queue.push(Time::ZERO, request(number, 0)), PushResult::Queued);
        assert_eq!(queue.pop_oldest().map(|request| request.number), Some(number));
    }
    assert!(queue.pop(Time::ZERO).is_none() && queue.is_empty());
}

/// Pops per level out of `pops` while all levels stay backlogged; a pop takes
/// 1 ns.
fn served(
    queue: &mut Drr<Fifo<Request>>,
    per_level: usize,
    bytes: impl Fn(u8) -> u64,
    pops: usize,
) -> [usize; 8] {
    let mut served = [0; 8];
    let entry = |level: u8| Request { bytes: bytes(level), ..request(0, level) };
    for level in (0..8).flat_map(|level| std::iter::repeat_n(level, per_level)) {
        assert_eq!(queue.push(Time::ZERO, entry(level)), PushResult::Queued);
    }
    for now in (1..=pops as u64).map(Time::from_nanos) {
        let level = queue.pop(now).expect("the queue is full").label.priority;
        served[level.index()] += 1;
        assert_eq!(queue.push(now, entry(level.level())), PushResult::Queued);
    }
    served
}

//~ queueing: deficit round robin shares by weight in entries or bytes, and ages old entries
#[test]
fn drr_shares_entries_in_proportion_to_the_weights() {
    let mut queue = Drr::new(80, DrrConfig::by_count([8, 4, 2, 1, 1, 1, 1, 2], Span::MAX), |_| Fifo::new(80));
    assert_eq!(served(&mut queue, 10, |_| 1, 2_000), [800, 400, 200, 100, 100, 100, 100, 200]);
}

//~ queueing: deficit round robin shares by weight in entries or bytes, and ages old entries
#[test]
fn drr_shares_bytes_for_any_sizes() {
    let mut queue =
        Drr::new(80, DrrConfig::by_bytes([1; 8], Bytes::new(1_500), Span::MAX), |_| Fifo::new(80));
    let bytes = |level| if level == 0 { 1_500 } else { 100 };
    let served = served(&mut queue, 10, bytes, 10_600);
    assert_eq!(served[0], 100, "{served:?}");
    assert!(served[1..].iter().all(|&n| n == 1_500), "{served:?}");
}

//~ queueing: deficit round robin shares by weight in entries or bytes, and ages old entries
#[test]
fn drr_keeps_eight_ninths_of_the_service_for_the_weights_when_everything_is_aged() {
    let mut queue =
        Drr::new(80, DrrConfig::by_count([93, 1, 1, 1, 1, 1, 1, 1], Span::ZERO), |_| Fifo::new(80));
    let served = served(&mut queue, 10, |_| 1, 4_000);
    // 93 of 100 pops in order; each level has some of the 444 pops for age.
    assert!(served[0] >= 3_300, "{served:?}");
    assert!(served[1..].iter().all(|&n| n > 40), "age serves every level: {served:?}");
}

//~ queueing: deficit round robin shares by weight in entries or bytes, and ages old entries
#[test]
fn drr_serves_an_aged_entry_once_older_ones_are_served() {
    let mut queue =
        Drr::new(1_000, DrrConfig::by_count([900, 1, 1, 1, 1, 1, 1, 1], Span::from_micros(1)), |_| {
            Fifo::new(1_000)
        });
    for number in 0..500 {
        assert_eq!(queue.push(Time::ZERO, request(number, 0)), PushResult::Queued);
    }
    let late = Time::from_nanos(10);
    assert_eq!(queue.push(late, request(500, 7)), PushResult::Queued);
    let now = late + Span::from_micros(1);
    let index = (0..).find(|_| queue.pop(now).is_some_and(|popped| popped.number == 500));
    assert!(index.is_some_and(|index| index <= 500), "{index:?}");
}
