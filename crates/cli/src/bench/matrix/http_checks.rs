//! Tests that a program serves complete content; and tests of clients.

use netlab::client::noise;

use super::feature::Feature;
use super::harness::{ListeningServer, OURS, PEER, Trial, because};
use super::program::{BIG, SMALL, SetupVariant, TestedProgram};
use super::verdict::TrialResult;

/// Number of requests on one connection.
const REQUESTS: usize = 100;
/// Number of concurrent clients.
const CLIENTS: usize = 4;

/// `program` in its usual setup, with content.
pub fn serving<'a>(
    program: TestedProgram,
    world: &'a Trial<'_>,
    shape: SetupVariant,
    big: &[u8],
) -> Result<ListeningServer<'a>, String> {
    program.files(world, big)?;
    world.serve(&program.words(world, OURS, shape)?, program.port())
}

pub fn serves(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    let server = serving(program, world, SetupVariant::Usual, b"")?;
    program.ask(&mut server.connect().map_err(because("a connection"))?)?;
    server.stop().map(|()| TrialResult::Works)
}

pub fn is_kept(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    let server = serving(program, world, SetupVariant::Usual, b"")?;
    let mut stream = server.connect().map_err(because("a connection"))?;
    (0..REQUESTS).try_for_each(|_| program.ask(&mut stream))?;
    server.stop().map(|()| TrialResult::Works)
}

pub fn download(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    let big = noise(BIG);
    let server = serving(program, world, SetupVariant::Usual, &big)?;
    if !program.is_http() {
        program.store(&mut server.connect().map_err(because("a connection"))?, &big)?;
    }
    program.fetch(server.connect().map_err(because("a connection"))?, "/big", &big)?;
    let streams = server.connections(CLIENTS)?;
    std::thread::scope(|scope| {
        let fetch = |stream| program.fetch(stream, "/big", &big);
        let all: Vec<_> = streams.into_iter().map(|stream| scope.spawn(move || fetch(stream))).collect();
        all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("a client panicked".to_owned())))
    })?;
    server.stop().map(|()| TrialResult::Works)
}

pub fn upload(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    let big = noise(BIG);
    let server = serving(program, world, SetupVariant::Usual, &big)?;
    if !program.is_http() {
        program.store(&mut server.connect().map_err(because("a connection"))?, &big)?;
        program.fetch(server.connect().map_err(because("a connection"))?, "", &big)?;
        return server.stop().map(|()| TrialResult::Works);
    }
    let path = world.folder().join("big").display().to_string();
    let curl = ["curl", "--silent", "--show-error", "--fail", "--max-time", "60"];
    let how: &[&str] = match program {
        TestedProgram::Nginx | TestedProgram::Asyncio | TestedProgram::Node | TestedProgram::Java => {
            &["--upload-file", &path]
        }
        // A script receives it.
        _ => &["--request", "POST", "--upload-file", &path],
    };
    let name =
        if matches!(program, TestedProgram::Lighttpd | TestedProgram::Apache) { "up.cgi" } else { "up" };
    let url = format!("http://{}/{name}", server.to);
    let output = world.peer_client(&[&curl[..], how, &[&url]].concat())?;
    if program == TestedProgram::Nginx {
        let results = std::fs::read(world.folder().join("up")).map_err(because("what came"))?;
        if results != big {
            return Err(format!("received {} bytes, which are not the bytes sent", results.len()));
        }
    } else {
        let sums = world.peer_client(&["sha256sum", &path])?;
        let sum = sums.split(' ').next().unwrap_or_default();
        if !output.starts_with(sum) {
            return Err(format!("returns the SHA-256 {output}; correct is {sum}"));
        }
    }
    server.stop().map(|()| TrialResult::Works)
}

/// A client on greenwave's stack, and its server on the kernel's.
pub fn client(feature: Feature, program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    match program {
        TestedProgram::Iperf3 => iperf3(feature, world),
        _ => curl(feature, world),
    }
}

/// Number of downloads, fifty at a time.
const DOWNLOADS: usize = 200;

fn curl(feature: Feature, world: &Trial<'_>) -> Result<TrialResult, String> {
    let big = match feature {
        Feature::Download | Feature::Upload => noise(BIG),
        _ => Vec::new(),
    };
    TestedProgram::Nginx.files(world, &big)?;
    let nginx = TestedProgram::Nginx.words(world, PEER, SetupVariant::Usual)?;
    let at = std::net::SocketAddr::new(PEER.parse().expect("an address"), 80);
    let takes = || world.clients.enter(|| std::net::TcpStream::connect(at).is_ok());
    let _peer = world.peer(&nginx, takes)?;
    let curl = ["curl", "--silent", "--show-error", "--fail", "--max-time", "60"];
    let (ours, kernel) = (world.folder().join("big"), world.folder().join("came"));
    let (ours, kernel) = (ours.display().to_string(), kernel.display().to_string());
    let [small, large, up] = ["small", "big", "came"].map(|name| format!("http://{at}/{name}"));
    let is_complete = || match std::fs::read(&kernel).map_err(because("what came"))? == big {
        true => Ok(TrialResult::Works),
        false => Err("the received bytes differ".to_owned()),
    };
    let same = |output: String, times: usize| match output == SMALL.repeat(times) {
        true => Ok(TrialResult::Works),
        false => Err(format!("received {} bytes, which are not the bytes sent", output.len())),
    };
    match feature {
        Feature::Download => {
            world.client(&[&curl[..], &["--output", &kernel, &large]].concat())?;
            is_complete()
        }
        Feature::Upload => {
            world.client(&[&curl[..], &["--upload-file", &ours, &up]].concat())?;
            is_complete()
        }
        Feature::KeepAlive => {
            // Prints the number of opened connections after each transfer.
            let output =
                world.client(&[&curl[..], &["--write-out", "%{num_connects}", &small, &small]].concat())?;
            match output == format!("{SMALL}1{SMALL}0") {
                true => Ok(TrialResult::Works),
                false => Err(format!("opens another connection, or receives different bytes: {output:?}")),
            }
        }
        Feature::Load => {
            let many = format!("{small}?[1-{DOWNLOADS}]");
            let output =
                world.client(&[&curl[..], &["--parallel", "--parallel-max", "50", &many]].concat())?;
            same(output, DOWNLOADS)
        }
        _ => same(world.client(&[&curl[..], &[&small]].concat())?, 1),
    }
}

fn iperf3(feature: Feature, world: &Trial<'_>) -> Result<TrialResult, String> {
    let server = ["iperf3", "--server", "--one-off"].map(str::to_owned);
    let listens = || {
        let listening = world.clients.run("ss", &["-Htln", "sport = :5201"]);
        listening.is_ok_and(|text| !text.trim().is_empty())
    };
    let _peer = world.peer(&server, listens)?;
    let client = TestedProgram::Iperf3.words(world, PEER, SetupVariant::Usual)?;
    let client: Vec<&str> = client.iter().map(String::as_str).collect();
    let how: &[&str] = match feature {
        Feature::Download => &["--reverse", "--bytes", "256M"],
        Feature::Upload => &["--bytes", "256M"],
        Feature::Load => &["--parallel", "16", "--bytes", "256M"],
        _ => &["--bytes", "1M"],
    };
    let output = world.client(&[&client, how].concat())?;
    match (output.contains("iperf Done"), feature) {
        (true, Feature::Download | Feature::Upload) => {
            Ok(TrialResult::Noted("256 MB, counted and not compared".to_owned()))
        }
        (true, _) => Ok(TrialResult::Works),
        (false, _) => Err(format!("did not finish: {output}")),
    }
}
