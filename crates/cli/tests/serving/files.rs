//! Files left by a server, and by its load generator, after write errors.

use super::*;

/// A folder of the test.
fn folder(name: &str) -> netlab::TempDir {
    netlab::TempDir::new(name).expect("a folder can be made")
}

/// Checks that a capture can be replayed to its end, so that it ends with a whole frame.
#[track_caller]
fn is_whole(netns: &Namespace, capture: &Path) {
    let device = format!("pcap:{},fast", capture.display());
    let out = netns.command(GREENWAVE).args(["serve", "--device", &device, "--addr", ADDR]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

//~ cli: a capture that cannot be written ends with a whole frame; `--pcap-max` bounds it
#[test]
fn a_capture_that_cannot_be_written_on_is_whole_and_the_server_goes_on_and_says_so() {
    let Some(netns) = netns_with_tap("a_capture_that_cannot_be_written_on_is_whole_and_…") else { return };
    let folder = folder("da-full");
    let path = folder.path().join("full.pcap");
    // A file limit of 64 blocks, as on a full disk.
    let script = "ulimit -f 64; exec \"$0\" \"$@\"";
    let mut command = netns.command("sh");
    command
        .args(["-c", script, GREENWAVE, "serve", "--device", "tap:gw0", "--addr", ADDR, "--pcap"])
        .arg(&path);
    let mut server = Server::started(&netns, &mut command, false);
    assert_eq!(get(&netns, 80, "/bytes/200000").len(), 200_000);
    assert_eq!(get(&netns, 80, "/"), GREETING, "the traffic goes on");
    kill_process(Pid::from_child(&server.child), Signal::INT).expect("it runs");
    let (code, printed, stderr) = server.ended();
    assert!(printed.contains("2 connections"), "{printed}");
    assert_eq!(code, Some(2), "{stderr}");
    let line = stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("{stderr}"));
    assert!(line.contains("full.pcap: File too large; the file ends after "), "{line}");
    is_whole(&netns, &path);
}

//~ cli: a capture that cannot be written ends with a whole frame; `--pcap-max` bounds it
#[test]
fn a_capture_has_a_bound_that_is_said_when_it_is_reached() {
    let Some(netns) = netns_with_tap("a_capture_has_a_bound_that_is_said_when_it_is_reached") else { return };
    let folder = folder("da-bound");
    let path = folder.path().join("bound.pcap");
    let flags = ["--pcap", path.to_str().unwrap(), "--pcap-max", "16KiB"];
    let mut server = Server::start(&netns, "tap:gw0", &flags);
    assert_eq!(get(&netns, 80, "/bytes/100000").len(), 100_000);
    kill_process(Pid::from_child(&server.child), Signal::TERM).expect("it runs");
    let (code, _, stderr) = server.ended();
    assert_eq!(code, Some(0), "it was asked for: {stderr}");
    assert!(stderr.contains("the limit of 16384 bytes (--pcap-max) is reached"), "{stderr}");
    let size = std::fs::metadata(&path).unwrap().len();
    assert!((8192..=16_384).contains(&size), "{size} bytes");
    is_whole(&netns, &path);
}

#[test]
fn files_that_cannot_be_written_are_refused_before_a_device_is_made() {
    let Some(netns) = netns_with_tap("files_that_cannot_be_written_are_refused_before_a_device_is_made")
    else {
        return;
    };
    let folder = folder("da-refused");
    let (own, readable) = (folder.path().to_str().unwrap(), format!("{}/none/file", folder.path().display()));
    for flag in ["--pcap", "--traces"] {
        for (path, says) in [
            (own, "Is a directory"),
            (&*readable, "No such file or directory"),
            ("/proc/version", "Permission denied"),
            ("/proc/none", "No such file or directory"),
            ("/dev/full", "No space left on device"),
        ] {
            // The error shows once there is a line of traces.
            if (flag, path) == ("--traces", "/dev/full")
                || (path == "/proc/version" && rustix::process::geteuid().is_root())
            {
                continue;
            }
            let args = ["serve", "--device", "tap:gw0", "--addr", ADDR, flag, path];
            let out = netns.command(GREENWAVE).args(args).stdin(Stdio::null()).output().unwrap();
            let stderr = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{flag} {path}: {stderr}");
            assert!(stderr.contains(says) && stderr.starts_with("error: "), "{says:?} is not in {stderr:?}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

//~ cli: an interrupted measurement is marked partial and exits 130
#[test]
fn a_load_that_is_interrupted_says_that_its_figures_are_partial() {
    let Some(netns) = netns_with_tap("a_load_that_is_interrupted_says_that_its_figures_are_partial") else {
        return;
    };
    let server = Server::start(&netns, "tap:gw0", &[]);
    let sent = || {
        let table = netns.run("cat", &["/proc/net/dev"]).unwrap();
        let row = table.lines().find_map(|line| line.trim().strip_prefix("gw0:")).expect("its row");
        row.split_whitespace().nth(9).expect("packets sent").parse::<u64>().expect("a count")
    };
    for (signal, more) in [(Signal::INT, &[][..]), (Signal::TERM, &["--json"])] {
        let mut command = netns.command(GREENWAVE);
        command.args(["load", "--target", "10.77.0.2:80", "--rate", "500", "--duration", "600s"]).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let before = sent();
        let mut load = netns.spawn(&mut command).unwrap();
        let end = Instant::now() + LIMIT;
        // More than the setup of its 50 connections.
        while sent() < before + 1000 {
            assert!(Instant::now() < end, "it does not load");
        }
        kill_process(Pid::from_child(&load), signal).expect("it runs");
        let (mut printed, mut stderr) = (String::new(), String::new());
        load.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        load.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(load.wait().unwrap().code(), Some(130), "{stderr}");
        assert!(
            stderr.starts_with("error: interrupted after ") && stderr.contains(" of 600 s: the figures"),
            "{stderr}"
        );
        if more.is_empty() {
            assert!(printed.contains(" answered ("), "{printed}");
        } else {
            let result: Value = serde_json::from_str(&printed).expect("JSON");
            schema::conforms(&result);
            assert_eq!(result["partial"], true);
        }
    }
    server.stop();
}
