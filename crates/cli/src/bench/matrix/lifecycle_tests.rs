//! Tests of the end and restart of programs and of their workers.

use std::io::Read;
use std::net::TcpStream;

use netlab::client::noise;
use rustix::process::Signal;

use super::harness::{ListeningServer, OURS, Trial, because, signal, until};
use super::http_checks::serving;
use super::program::{AGAIN, BIG, SetupVariant, TestedProgram};
use super::verdict::TrialResult;

/// Number of open connections at the end of a process.
const OPEN: usize = 10;

/// Starts `program` and, after its end, starts it again on the same stack.
fn twice<'a>(program: TestedProgram, world: &'a Trial<'_>) -> Result<ListeningServer<'a>, String> {
    program.files(world, b"")?;
    let shell = ["sh", "-c", "\"$@\"; exec \"$@\"", "sh"].map(str::to_owned);
    let words = [&shell[..], &program.words(world, OURS, SetupVariant::Usual)?].concat();
    world.serve(&words, program.port())
}

/// Connections with an answered request.
fn open(program: TestedProgram, server: &ListeningServer<'_>) -> Result<Vec<TcpStream>, String> {
    let mut streams = server.connections(OPEN)?;
    streams.iter_mut().try_for_each(|stream| program.ask(stream))?;
    Ok(streams)
}

/// Checks that each connection ends, by FIN or RST.
fn all_end(streams: Vec<TcpStream>) -> Result<(), String> {
    for mut stream in streams {
        if let Err(e) = stream.read_to_end(&mut Vec::new())
            && matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
        {
            return Err("a connection outlives its process".to_owned());
        }
    }
    Ok(())
}

/// Waits until processes other than `before` run and serve.
fn others_serve(program: TestedProgram, server: &ListeningServer<'_>, before: &[u32]) -> Result<(), String> {
    until("another one runs", || {
        let now = server.processes(program.process());
        !now.is_empty() && now.iter().all(|id| !before.contains(id))
    })?;
    until("the other one serves", || {
        server.connect().is_ok_and(|mut stream| program.ask(&mut stream).is_ok())
    })
}

pub fn restart(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    restart_after(program, world, Signal::TERM)
}

pub fn kill(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    if !program.has_workers() {
        return restart_after(program, world, Signal::KILL);
    }
    let server = serving(program, world, SetupVariant::Workers, b"")?;
    let streams = open(program, &server)?;
    let before = server.processes(program.process());
    let [_, workers @ ..] = &before[..] else { return Err("it has no processes".to_owned()) };
    if workers.is_empty() {
        return Err("it has no workers".to_owned());
    }
    workers.iter().for_each(|&id| signal(id, Signal::KILL));
    all_end(streams)?;
    until("other workers run", || {
        let now = server.processes(program.process());
        now.len() > 1 && now.iter().all(|id| !workers.contains(id))
    })?;
    program.ask(&mut server.connect().map_err(because("a connection"))?)?;
    server.stop().map(|()| TrialResult::Works)
}

fn restart_after(program: TestedProgram, world: &Trial<'_>, by: Signal) -> Result<TrialResult, String> {
    let server = twice(program, world)?;
    let streams = open(program, &server)?;
    let before = server.processes(program.process());
    let Some(&first) = before.first() else { return Err("it has no process".to_owned()) };
    signal(first, by);
    all_end(streams)?;
    others_serve(program, &server, &before)?;
    server.stop().map(|()| TrialResult::Works)
}

pub fn reload(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    let big = noise(BIG);
    let server = serving(program, world, SetupVariant::Usual, &big)?;
    let mut stream = server.connect().map_err(because("a connection"))?;
    let mut answer = program.begin(&mut stream, "/big")?;
    let Some(&first) = server.processes(program.process()).first() else {
        return Err("it has no process".to_owned());
    };
    // The configuration is in the same file.
    program.words(world, OURS, SetupVariant::Next)?;
    signal(first, if program == TestedProgram::Nginx { Signal::HUP } else { Signal::USR1 });
    stream.read_to_end(&mut answer).map_err(because("what is under way"))?;
    program.check_response(&answer, &big).map_err(|why| format!("what was under way: {why}"))?;
    until("the new configuration is in force", || {
        server.connect().is_ok_and(|stream| program.fetch(stream, "/small", AGAIN.as_bytes()).is_ok())
    })?;
    server.stop().map(|()| TrialResult::Works)
}
