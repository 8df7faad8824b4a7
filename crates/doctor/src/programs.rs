//! Checks for unmodified programs on greenwave's stack: preloading the library, the socket server, and
//! the programs of this machine that can run so.
//!
//! `run` needs the first three, so a mere limitation is never reported as absent here.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Gid, Resource, Uid, geteuid, getrlimit};
use rustix::thread::{UnshareFlags, set_thread_gid, set_thread_uid, unshare_unsafe};

use super::{Finding, Health};
use shim::preload::elf_check::{fits, is_program};
use shim::preload::{Library, PreloadError};
use shim::{ShimClient, SocketServer};

const AREA: &str = "run";

/// Checks, given the findings of the `devices` of `serve`.
pub(super) fn examine(devices: &[Finding]) -> Vec<Finding> {
    let limit = getrlimit(Resource::Nofile).maximum;
    vec![
        preload(Library::find(None)),
        socket_server(),
        ways(devices),
        kinds(&in_path()),
        connections(limit),
        alone(),
    ]
}

/// Preloading of the library into a program.
fn preload(found: Result<Library, PreloadError>) -> Finding {
    const WHAT: &str = "preload";
    let tried = found.and_then(|library| library.check().map(|untried| (library, untried)));
    match tried {
        Ok((library, None)) => {
            Finding::works(AREA, WHAT, format!("{}, from this build", library.path().display()))
        }
        Ok((library, Some(unfit))) => {
            let seen = format!("{}, not tested: {unfit}", library.path().display());
            Finding::limited(AREA, WHAT, seen, [unfit.advice()])
        }
        Err(e) => Finding::absent(AREA, WHAT, e.to_string(), [e.advice()]),
    }
}

/// The socket server, with one request from another thread, as a program makes it.
fn socket_server() -> Finding {
    const WHAT: &str = "channel";
    /// Timeout for a reply, many times its usual duration.
    const TIMEOUT: Duration = Duration::from_secs(5);
    // Two concurrent checks use different names.
    static LOOKS: AtomicU8 = AtomicU8::new(0);
    let remedies =
        || ["a kernel with CONFIG_UNIX and CONFIG_MEMFD_CREATE, and free descriptors (ulimit -n)".to_owned()];
    let opened = SocketServer::open([LOOKS.fetch_add(1, Ordering::Relaxed); 16]);
    let mut socket_server = match opened {
        Ok(socket_server) => Some(socket_server),
        Err(e) => return Finding::absent(AREA, WHAT, e.to_string(), remedies()),
    };
    let shim_client =
        ShimClient::parse(&socket_server.as_ref().map(SocketServer::variable).unwrap_or_default());
    let asked = std::thread::scope(|scope| {
        let asking =
            scope.spawn(|| shim_client.ok().and_then(|shim_client| shim_client.labels().ok()).is_some());
        let start = Instant::now();
        while !asking.is_finished() {
            if start.elapsed() > TIMEOUT {
                // A pending client sees the server's end.
                socket_server = None;
            }
            if let Some(socket_server) = &mut socket_server {
                socket_server.poll(&mut Vec::new());
            }
            std::thread::yield_now();
        }
        asking.join().unwrap_or(false)
    });
    match asked {
        true => Finding::works(AREA, WHAT, "abstract sockets and shared memory for the preloaded library"),
        false => Finding::absent(AREA, WHAT, "a request got no answer", remedies()),
    }
}

/// Devices of `serve`.
fn ways(devices: &[Finding]) -> Finding {
    const WHAT: &str = "device";
    let (there, absent): (Vec<_>, Vec<_>) = devices.iter().partition(|way| way.health != Health::Absent);
    let names = |ways: &[&Finding]| ways.iter().map(|way| way.what.as_str()).collect::<Vec<_>>().join("; ");
    match there.as_slice() {
        [] => {
            let first = devices.first();
            let why = first.map_or("no device", |way| way.seen.as_str());
            let remedies = first.map(|way| way.remedies.clone()).unwrap_or_default();
            Finding::absent(AREA, WHAT, format!("none of {}: {why}", names(&absent)), remedies)
        }
        there => Finding::works(AREA, WHAT, format!("{}, as for serve", names(there))),
    }
}

/// All programs in PATH.
fn in_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // /bin may be another name of /usr/bin.
    let folders: BTreeSet<PathBuf> =
        std::env::split_paths(&path).filter_map(|folder| folder.canonicalize().ok()).collect();
    let files = folders.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    files.map(|entry| entry.path()).filter(|file| is_program(file)).take(PROGRAMS_MAX).collect()
}

/// Maximum of programs examined.
const PROGRAMS_MAX: usize = 20_000;
/// Number of names printed per kind.
const NAMED: usize = 5;

/// Number of `programs` that cannot be preloaded, and the reasons.
fn kinds(programs: &[PathBuf]) -> Finding {
    const WHAT: &str = "programs";
    let (mut without, mut remedies) = (BTreeMap::<&str, Vec<String>>::new(), BTreeSet::new());
    for (program, unfit) in programs.iter().filter_map(|file| Some((file, fits(file).err()?))) {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        without.entry(unfit.word()).or_default().push(name);
        remedies.insert(unfit.advice());
    }
    let count: usize = without.values().map(Vec::len).sum();
    let all = programs.len();
    if without.is_empty() {
        return Finding::works(AREA, WHAT, format!("all {all} in PATH can run on greenwave's stack"));
    }
    let kinds = without.iter_mut().map(|(word, names)| {
        names.sort();
        let named = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if names.len() > NAMED { ", …" } else { "" };
        format!("{} {word} ({named}{more})", names.len())
    });
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let seen = format!("{} of {all} in PATH can run on greenwave's stack; not: {kinds}", all - count);
    Finding::limited(AREA, WHAT, seen, remedies)
}

/// Maximum of connections under `limit` descriptors.
fn connections(limit: Option<u64>) -> Finding {
    const WHAT: &str = "connections";
    /// Ports of one client address towards one server port.
    const MANY: u64 = 65_536;
    match limit {
        Some(limit) if limit < MANY => {
            let seen = format!(
                "fewer than {limit} at a time: each needs a descriptor, and the hard limit is reached"
            );
            let remedy = format!("ulimit -Hn {MANY} as root, or LimitNOFILE={MANY} in the unit");
            Finding::limited(AREA, WHAT, seen, [remedy])
        }
        Some(limit) => {
            Finding::works(AREA, WHAT, format!("fewer than {limit} at a time: each needs a descriptor"))
        }
        None => Finding::works(AREA, WHAT, "limited by memory only: no descriptor limit"),
    }
}

/// A network namespace without root, to try a program in.
fn alone() -> Finding {
    const WHAT: &str = "namespaces";
    let mut command = Command::new("true");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (is_root, unprivileged) = (geteuid().is_root(), 65_534);
    let moved = move || {
        if is_root {
            // As root the result would mean nothing.
            set_thread_gid(Gid::from_raw(unprivileged))?;
            set_thread_uid(Uid::from_raw(unprivileged))?;
        }
        // SAFETY: this process is a single thread that is about to exec.
        unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }.map_err(std::io::Error::from)
    };
    // SAFETY: between fork and exec the closure makes three system calls; it allocates nothing and
    // takes no lock.
    unsafe { command.pre_exec(moved) };
    match command.status() {
        Ok(_) => Finding::works(AREA, WHAT, "unprivileged users can test inside `unshare -rn`"),
        Err(e) => {
            let seen = format!(
                "unprivileged user namespaces are off (unshare -rn: {e}): run needs root, or permission for a device"
            );
            let remedy = "sysctl -w user.max_user_namespaces=10000, and kernel.unprivileged_userns_clone=1 or \
                          kernel.apparmor_restrict_unprivileged_userns=0 where there is one";
            Finding::limited(AREA, WHAT, seen, [remedy.to_owned()])
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::serves;
    use super::*;

    #[test]
    fn a_library_that_is_missing_leaves_nothing_to_run() {
        let none = preload(Library::find(Some(Path::new("/no/lib.so"))));
        assert_eq!(none.health, Health::Absent);
        assert!(none.seen.starts_with("/no/lib.so: No such file") && none.remedies.len() == 1, "{none:?}");
        let works = Finding::works(AREA, "channel", "asked");
        assert!(serves(AREA, std::slice::from_ref(&works)) && !serves(AREA, &[]));
        assert!(!serves(AREA, &[works, none]), "one is not enough");
    }

    #[test]
    fn the_desk_is_asked_and_answers() {
        assert_eq!(socket_server().health, Health::Works);
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(socket_server)).collect();
            threads.into_iter().map(|probe| probe.join().unwrap().health).collect()
        });
        assert_eq!(results, [Health::Works; 4], "beside each other");
    }

    #[test]
    fn any_of_serve_s_devices_does_and_without_one_the_reason_is_the_first_s() {
        let tap = Finding::absent("serve", "tap", "no /dev/net/tun", ["modprobe tun".to_owned()]);
        let packet = Finding::works("serve", "packet", "rings");
        let some = ways(&[tap.clone(), packet]);
        assert_eq!((some.health, &*some.seen), (Health::Works, "packet, as for serve"));
        let none = ways(&[tap]);
        assert_eq!((none.health, &*none.seen), (Health::Absent, "none of tap: no /dev/net/tun"));
        assert_eq!(none.remedies, ["modprobe tun"]);
    }

    #[test]
    fn programs_that_cannot_be_run_so_are_named_by_kind() {
        let this = std::env::current_exe().unwrap();
        assert_eq!(kinds(std::slice::from_ref(&this)).health, Health::Works);
        let text = PathBuf::from("/etc/passwd");
        let found = kinds(&[this, text]);
        assert_eq!(found.health, Health::Limited);
        let expected = "1 of 2 in PATH can run on greenwave's stack; not: 1 not executable (passwd)";
        assert_eq!((&*found.seen, found.remedies.len()), (expected, 1));
        assert!(!in_path().is_empty(), "a test is started by a program in PATH");
    }

    #[test]
    fn few_descriptors_are_few_connections() {
        assert_eq!(connections(Some(20_000)).health, Health::Limited);
        assert_eq!([connections(Some(1 << 20)).health, connections(None).health], [Health::Works; 2]);
        assert_ne!(alone().health, Health::Absent, "root does, too");
    }
}
