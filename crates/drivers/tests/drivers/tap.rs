//! TAP devices against the kernel at their other end.

//~ devices: TAP devices offload checksums, merge receives and have several queues

use drivers::Tap;
use drivers::tap::TapError;
use net::device::multi_queue::MultiQueue;
use netlab::NetLab;
use netlab::client::check_echo;

use crate::echo::{HOST, HOST6, OURS, OURS6, PORT, Server};
use crate::skipped;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

fn echo_over(test: &str, queues: u16) {
    if let Some(why) = NetLab::unavailable() {
        return skipped(test, &why);
    }
    let inside = NetLab::new(test).unwrap().namespace("inside").unwrap();
    inside.enter(|| {
        let taps = match Tap::create_queues("gw0", queues) {
            Err(e @ TapError::NoTun) => return skipped(test, &e.to_string()),
            taps => taps.expect("root may make TAP devices"),
        };
        assert!(matches!(Tap::create("gw0"), Err(TapError::NameInUse(_))));
        taps[0].up(HOST, 24).unwrap();
        taps[0].up(HOST6, 64).unwrap();
        let server = Server::on(MultiQueue::new(taps), MAC);
        check_echo((OURS, PORT).into(), 3_000_000);
        check_echo((OURS6, PORT).into(), 3_000_000);
        let (_, stack) = server.stop();
        assert_eq!(stack.counters().malformed.iter().sum::<u64>(), 0);
    });
}

#[test]
fn the_kernels_tcp_is_served_over_tap() {
    echo_over("the_kernels_tcp_is_served_over_tap", 1);
}

#[test]
fn a_tap_device_may_have_several_queues() {
    echo_over("a_tap_device_may_have_several_queues", 2);
}
