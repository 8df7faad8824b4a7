//! Tests with many connections, and with more than a program's descriptors allow.

use super::harness::{Trial, until};
use super::http_checks::serving;
use super::program::{DESCRIPTORS, SetupVariant, TestedProgram};
use super::verdict::TrialResult;

/// Number of concurrent connections.
const MANY: usize = 1000;
/// Number of connections to a program with too few descriptors.
const TOO_MANY: usize = 150;

pub fn many(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    let server = serving(program, world, SetupVariant::Usual, b"")?;
    // Each sends a request before the next opens: some servers use a thread per connection that
    // waits for a request.
    let mut streams = Vec::new();
    for number in 0..MANY {
        let mut stream = server.connections(1)?.remove(0);
        program.ask(&mut stream).map_err(|why| format!("connection {number}: {why}"))?;
        streams.push(stream);
    }
    for (number, stream) in streams.iter_mut().enumerate() {
        program.ask(stream).map_err(|why| format!("connection {number} of {MANY}, second request: {why}"))?;
    }
    server.stop().map(|()| TrialResult::Works)
}

pub fn few_descriptors(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    program.files(world, b"")?;
    // Root could raise the limit again unless it drops the capability.
    let limit = format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}");
    let before = ["setpriv", "--bounding-set", "-sys_resource", "prlimit", &limit].map(str::to_owned);
    let words = [&before[..], &program.words(world, super::harness::OURS, SetupVariant::Few)?].concat();
    let server = world.serve(&words, program.port())?;
    // Some are refused, by the program or by the stack, as expected.
    let streams: Vec<_> = (0..TOO_MANY).map(|_| server.connections(1)).collect();
    drop(streams);
    until("serves again", || server.connect().is_ok_and(|mut stream| program.ask(&mut stream).is_ok()))?;
    server.stop().map(|()| TrialResult::Works)
}
