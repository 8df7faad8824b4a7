//! The library in a program's memory: it trusts no pointer of the program and no stale descriptor
//! number, and uses little of the program's memory.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const PORT: u16 = 7000;

/// The program compiled from the C source `text`, or `None` and a line that gives the reason.
fn compiled(world: &World, name: &str, text: &str) -> String {
    let (source, program) = (world.write(&format!("{name}.c"), text), world.folder() + "/" + name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    // These mistakes are on purpose.
    cc.args([
        "-Wno-nonnull",
        "-Wno-stringop-overflow",
        "-Wno-stringop-overread",
        "-o",
        &program,
        &source,
        "-ldl",
    ]);
    let built = cc.output().expect("cc starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// Data that clients read, `at_once` of them, each until the end, while the server runs; and the
/// server's output.
fn read_by_clients(world: &World, server: &mut Server, at_once: usize) -> (Vec<String>, String) {
    let (over, to) = (AtomicBool::new(false), server.to);
    std::thread::scope(|scope| {
        let client = || {
            let mut texts = Vec::new();
            while !over.load(Ordering::Relaxed) {
                // Once the server is gone no host answers.
                let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(2));
                let Ok(mut stream) = world.clients.enter(connect) else { continue };
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                let mut text = String::new();
                // The last ones are not accepted any more.
                let _ = stream.read_to_string(&mut text);
                texts.push(text);
            }
            texts
        };
        let clients: Vec<_> = (0..at_once).map(|_| scope.spawn(client)).collect();
        let (code, output) = server.ended();
        over.store(true, Ordering::Relaxed);
        assert_eq!(code, Some(0), "{output}");
        (clients.into_iter().flat_map(|client| client.join().unwrap()).collect(), output)
    })
}

//~ programs: a write to a reused descriptor number goes to the file that has it now
#[test]
fn what_is_written_to_a_number_goes_to_the_file_that_has_it_now() {
    let test = "what_is_written_to_a_number_goes_to_the_file_that_has_it_now";
    let Some(world) = World::new(test, "cc") else { return };
    let program = compiled(&world, "reused", include_str!("reused.c"));
    let mut server = world.start("packet:gw0", PORT, &[], &[&program, OURS, &PORT.to_string()]);
    let (texts, output) = read_by_clients(&world, &mut server, 4);
    let count = |wanted: &str| texts.iter().filter(|text| *text == wanted).count();
    let (hellos, others, strays) = (count("hello\nbye\n"), count("other\n"), count("other\nstray..\n"));
    let odd: Vec<_> = texts.iter().filter(|text| !text.is_empty()).collect();
    assert_eq!(hellos + others + strays, odd.len(), "{:?}", odd.iter().take(20).collect::<Vec<_>>());
    let printed =
        output.lines().find_map(|line| line.strip_prefix("strays to connections: ")).expect(&output);
    assert_eq!((hellos, strays.to_string()), (9 * 6 * 10, printed.to_owned()), "{others} others");
    assert!(strays >= 9 * 9, "{strays}: all but pwrite");
}

//~ programs: wrong pointers and lengths give the kernel's errors and end no program
#[test]
fn a_call_with_a_wrong_pointer_says_what_the_kernel_says() {
    let test = "a_call_with_a_wrong_pointer_says_what_the_kernel_says";
    let Some(world) = World::new(test, "cc") else { return };
    let program = compiled(&world, "wild", include_str!("wild.c"));
    let mut server = world.start("packet:gw0", PORT, &[], &[&program, OURS, &PORT.to_string()]);
    let mut stream = None;
    world.until("it listens", || {
        stream = world.clients.enter(|| TcpStream::connect(server.to)).ok();
        stream.is_some()
    });
    let mut stream = stream.expect("it is connected");
    stream.write_all(&noise(40_000)).unwrap();
    let reads = std::thread::spawn(move || {
        let mut all = Vec::new();
        // It may end by a reset, because much is left unread.
        let _ = stream.read_to_end(&mut all);
    });
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
    reads.join().unwrap();
}

//~ programs: programs with little address space, locked memory or few descriptors are served
#[test]
fn a_program_with_little_memory_has_it_for_itself() {
    let test = "a_program_with_little_memory_has_it_for_itself";
    let Some(world) = World::new(test, "python3") else { return };
    let script = world.write("limited.py", include_str!("limited.py"));
    let lines: String = (0..2000).map(|number| format!("{number:07}\n")).collect();
    for how in ["64", "100", "200", "locked", "descriptors"] {
        let mut server = world.start("packet:gw0", PORT, &[], &["python3", &script, OURS, how]);
        let at_once = if how == "descriptors" { 4 } else { 40 };
        let (texts, _) = read_by_clients(&world, &mut server, at_once);
        let complete = texts.iter().filter(|text| **text == lines).count();
        assert_eq!(complete, 2 * at_once, "{how}: {} connections", texts.len());
    }
}

const VSFTPD: &str = "listen=YES\nlisten_address=ADDRESS\nbackground=NO\nanonymous_enable=YES\nanon_root=FOLDER/ftp\n\
    secure_chroot_dir=FOLDER/empty\nxferlog_enable=NO\n";
const FTP: &str = "import ftplib, sys\n\
    for _ in range(3):\n    ftp = ftplib.FTP(sys.argv[1], timeout=60)\n    ftp.login()\n\
    \x20   assert ftp.pwd() == '/'\n    ftp.quit()\n";

//~ programs: programs with little address space, locked memory or few descriptors are served
/// It limits its address space, and a refused mapping ends the session.
#[test]
fn vsftpd_lets_clients_log_in() {
    let test = "vsftpd_lets_clients_log_in";
    let Some(world) = World::new(test, "vsftpd") else { return };
    for folder in ["ftp", "empty"] {
        std::fs::create_dir_all(world.folder.join(folder)).unwrap();
    }
    // The login user is not root.
    if !world.folder.ancestors().all(servers::may_be_entered) {
        return skipped(test, "the folder of the tests is not for everybody to enter");
    }
    let config = world.write("vsftpd.conf", VSFTPD);
    let server = world.run("packet:gw0", 21, &["vsftpd", &config]);
    let mut client = Command::new("python3");
    client.args(["-c", FTP, OURS]);
    let out = world.clients.enter(|| client.output()).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    server.stop();
}
