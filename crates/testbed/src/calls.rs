//! `testbed calls FRONT DSCP…`: calls to a service in a process, or a place, of
//! its own ([`tier`](crate::tier)), a connection and a DSCP for each class of
//! users.
//!
//! Told and heard as a runner, except that it starts nothing: what the plan
//! says of the first stage is for the service that is called, the rest for those
//! that work on its parts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use deadline::Budget;
use deadline::tower::scope;
use queueing::Span;
use tokio::runtime::{Builder, Handle};

use crate::protocol::Line;
use crate::rpc::{Client, PATHS};
use crate::run::Run;
use crate::series::all_end;
use crate::tier::{propagating, telling};
use crate::{Error, Planned, Report, Setup, pace};

/// Calls as `plan` says, and returns when all calls have ended.
///
/// # Errors
/// The arguments are not an address and a DSCP for each class, or nobody
/// listens there.
pub fn run(setup: &Setup, plan: Vec<Planned>, report: Report) -> Result<(), Error> {
    let (front, dscp) = arguments(std::env::args().skip(2), setup.slos.len())?;
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::new(format!("runtime: {e}"), "ulimit -u, ulimit -n"))?;
    let run = Run::new(plan, report);
    let clients = runtime.block_on(connect(setup, front, &dscp))?;
    let late = send(runtime.handle(), setup, &run, &clients)?;
    runtime.shutdown_timeout(GONE);
    run.say(Line::Late(late));
    Ok(())
}

/// The address, and a DSCP for each of so many classes.
fn arguments(
    mut given: impl Iterator<Item = String>,
    classes: usize,
) -> Result<(SocketAddr, Vec<u8>), Error> {
    let bad = |what: String| Error::new(what, "testbed calls 10.0.0.1:7000 46 10");
    let front = given.next().unwrap_or_default();
    let address = front.parse().map_err(|e| bad(format!("FRONT {front:?}: {e}")))?;
    let dscp = given.map(|text| text.parse().ok().filter(|dscp| *dscp < 64).ok_or(text));
    let dscp: Result<Vec<u8>, String> = dscp.collect();
    let dscp = dscp.map_err(|text| bad(format!("DSCP {text:?} is not 0..=63")))?;
    match dscp.len() == classes && classes <= PATHS.len() {
        true => Ok((address, dscp)),
        false => Err(bad(format!("{} DSCP for {classes} classes, of 8 at most", dscp.len()))),
    }
}

/// A client for each class.
async fn connect(setup: &Setup, front: SocketAddr, dscp: &[u8]) -> Result<Vec<Client>, Error> {
    let propagate = propagating(setup.queue().shedding);
    let mut clients = Vec::new();
    for &dscp in dscp {
        clients.push(Client::connect_as(dscp, front, &propagate, setup.capacity.saturating_mul(2)).await?);
    }
    Ok(clients)
}

/// Sends the plan and waits until all of it has ended: how late one was sent.
fn send(runtime: &Handle, setup: &Setup, run: &Arc<Run>, clients: &[Client]) -> Result<Span, Error> {
    let (ended, ends) = channel();
    let zero = run.begin();
    let late = pace::send_all(zero, &run.plan, |request, planned| {
        let (run, mut client, ended) = (Arc::clone(run), clients[planned.class].clone(), ended.clone());
        let slo = Span::from_nanos(setup.slos[planned.class].slo_ns);
        let (level, call) = (planned.class, telling(&planned.service));
        runtime.spawn(async move {
            let budget = Budget::restored(slo, run.elapsed(request), &[]);
            let answered = scope(budget, client.call_as(level, call)).await.is_ok();
            let elapsed = run.elapsed(request);
            run.say(Line::End { request, answered, elapsed, used: usize::from(answered), parts: 1 });
            let _ = ended.send(());
        });
    });
    drop(ended);
    all_end(&ends).map(|()| late)
}

/// What is still to be said to peers takes no longer.
const GONE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_dscp() {
        let given = |text: &str| arguments(text.split_whitespace().map(str::to_owned), 2);
        assert_eq!(given("10.0.0.1:7000 46 10"), Ok(("10.0.0.1:7000".parse().unwrap(), vec![46, 10])));
        for (text, says) in [
            ("", "FRONT \"\""),
            ("10.0.0.1 46 10", "FRONT \"10.0.0.1\""),
            ("10.0.0.1:7000 46 64", "DSCP \"64\" is not 0..=63"),
            ("10.0.0.1:7000 46", "1 DSCP for 2 classes"),
        ] {
            let error = given(text).unwrap_err().to_string();
            assert!(error.contains(says), "{says:?} is not in {error}");
        }
    }
}
