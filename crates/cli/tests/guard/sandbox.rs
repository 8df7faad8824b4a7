//! Privileges that a controller drops once its guard is attached.

use super::threads::statuses;
use super::*;

/// CAP_BPF, bit 39.
const BPF: &str = "0000008000000000";

//~ operations: `run` and `guard attach` drop the privileges that they do not need
#[test]
fn a_controller_keeps_what_it_looks_with_and_no_more() {
    let Some(rig) = Rig::new("a_controller_keeps_what_it_looks_with_and_no_more") else { return };
    for user in ["0", "70001"] {
        let user_and_group = format!("{user}:{user}");
        let mut controller = rig.attach(&["--user", &user_and_group]);
        let keys = ["NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapInh", "Uid"];
        for status in statuses(controller.id(), keys) {
            assert_eq!(status[..5], ["1", "2", BPF, BPF, threads::NONE]);
            assert!(status[5].split_whitespace().eq([user; 4]), "{status:?}");
        }
        let overload = rig.overload();
        let process = number(&rig.status()["process"]);
        assert_eq!(process, u64::from(controller.id()), "it is known");
        signal(&controller, Signal::INT);
        let mut stderr = String::new();
        controller.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(!stderr.contains("sandbox"), "there is nothing to say: {stderr}");
        assert!(ended(controller).contains(": detached; "));
        let link = rig.server.run("ip", &["link", "show", "dev", "eth0"]).unwrap();
        assert!(!link.contains("xdp"), "{link}");
        drop(overload);
    }
}
