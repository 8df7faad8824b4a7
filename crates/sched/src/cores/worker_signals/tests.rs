//! Encoding of worker signals, and their sum over workers.

//~ tasks: a worker publishes its queue's age and its request's start, and parks on request

use proptest::prelude::*;

use super::*;

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

fn us(n: u64) -> Span {
    Span::from_micros(n)
}

#[test]
fn ages_grow_by_the_readers_clock_and_are_added_up() {
    let signals = WorkerSignals {
        at: at(10),
        frames: Some(at(4)),
        tasks: Some(at(9)),
        timers: Some(at(30)),
        ..WorkerSignals::default()
    };
    assert_eq!(signals.delay(at(10)), us(6 + 1), "a future timer adds nothing");
    assert_eq!(signals.delay(at(40)), us(36 + 31 + 10), "ages grow without a publication");
    assert_eq!(signals.delay(at(1)), Span::ZERO, "clocks of two cores may differ a little");
}

#[test]
fn a_programs_delay_is_the_maximum_over_its_workers() {
    let page = SignalPage::new(3);
    page.slots()[1].publish(&WorkerSignals { tasks: Some(at(2)), runnable: 4, ..WorkerSignals::default() });
    page.slots()[2].publish(&WorkerSignals {
        frames: Some(at(7)),
        timers: Some(at(50)),
        ..WorkerSignals::default()
    });
    let TaskSignals { delay, runnable, .. } = page.signals(at(12));
    assert_eq!((delay, runnable), (us(10), 2), "a worker without signals needs no core");
    assert_eq!(page.process(), std::process::id());
}

#[test]
fn an_uninitialised_page_has_no_slots_and_an_invalid_count_is_clamped() {
    let page = SignalPage::new(1);
    page.head.slots.store(u32::MAX, Ordering::Relaxed);
    assert_eq!(page.slots().len(), WORKERS_MAX);
    page.head.magic.store(1, Ordering::Relaxed);
    assert_eq!((page.is_initialized(), page.slots().len()), (false, 0));
}

#[test]
fn park_requests_are_idempotent_and_acknowledged() {
    let request = ParkRequest::new();
    assert!(request.is_done());
    assert!(request.request(true) && !request.request(true));
    assert!(!request.is_done());
    let word = request.acknowledge().expect("the worker must leave its core");
    assert!(request.is_done());
    assert_eq!(request.word().load(Ordering::Relaxed), word);
    assert!(request.request(false) && !request.is_done());
    assert_eq!(request.acknowledge(), None);
    assert!(request.is_done());
}

#[test]
fn park_requests_are_valid_only_during_a_lease() {
    let page = SignalPage::new(1);
    assert!(!page.is_leased(Time::ZERO));
    page.set_lease(Some(at(5)));
    assert!(page.is_leased(Time::ZERO) && page.is_leased(at(5)) && !page.is_leased(at(6)));
    page.set_lease(None);
    assert!(!page.is_leased(Time::ZERO));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn published_signals_are_read_back(
        at in any::<u32>(),
        since in proptest::array::uniform5(proptest::option::of(any::<u32>())),
        runnable in any::<u32>(),
        sleeping in any::<bool>(),
        core in proptest::option::of(0u16..u16::MAX),
        long in any::<u32>(),
    ) {
        let [frames, tasks, timers, storage, request] =
            since.map(|ns| ns.map(|ns| Time::from_nanos(ns.into())));
        let at = Time::from_nanos(at.into());
        let core = core.map(CoreId);
        let signals = WorkerSignals { at, frames, tasks, timers, storage, request, runnable, sleeping, core, long };
        let slot = WorkerSlot::default();
        slot.publish(&WorkerSignals::default());
        slot.publish(&signals);
        prop_assert_eq!(slot.read(), Some(signals));
    }

    #[test]
    fn any_words_are_valid(words in proptest::array::uniform8(any::<u64>()), now in any::<u64>()) {
        let signals = WorkerSignals::from_words(&words);
        let now = Time::from_nanos(now);
        let _ = (signals.delay(now), signals.needs_core(now));
    }
}
