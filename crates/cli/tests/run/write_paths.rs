//! A program's data arrives in the order written, over any path: the outbox, the socket pair, the
//! kernel's splicing, other processes, one of which may only read and write.

//~ programs: writes arrive in order by every way: shared memory, socket pair, copies of the descriptor, children

use super::*;

/// Number of lines; and the seed of their paths.
const LINES: &str = "6000";
const SEED: &str = "20261127";

#[test]
fn bytes_keep_their_order_whichever_way_they_take() {
    let Some(world) = World::new("bytes_keep_their_order_whichever_way_they_take", "python3") else { return };
    let script = world.write("ways.py", include_str!("ways.py"));
    let mut server = world.start("packet:gw0", 7000, &[], &["python3", &script, OURS, LINES, SEED]);
    let mut first = None;
    world.until("it listens", || {
        first = world.clients.enter(|| TcpStream::connect(server.to)).ok();
        first.is_some()
    });
    let mut next = first;
    for _ in 0..6 {
        let mut stream = next.take().unwrap_or_else(|| world.connect(&server));
        let mut greeting = String::new();
        stream.read_to_string(&mut greeting).expect("it closes");
        assert_eq!(greeting, "hello\n");
    }
    let mut text = String::new();
    let mut stream = world.connect(&server);
    stream.read_to_string(&mut text).expect("it closes");
    drop(stream);
    let numbers: Vec<Option<u32>> =
        text.lines().map(|line| line.get(..7).and_then(|number| number.parse().ok())).collect();
    let wanted: Vec<Option<u32>> = (0..LINES.parse().unwrap()).map(Some).collect();
    let wrong = numbers.iter().zip(&wanted).position(|(number, wanted)| number != wanted);
    assert_eq!((wrong, numbers.len()), (None, wanted.len()), "seed {SEED}");
    assert!(text.lines().all(|line| line.trim_end_matches('x').len() <= 8), "lines are whole, seed {SEED}");
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
}
