//! `testbed calls FRONT CLASS…`: client of a service in another process
//! ([`tier`](crate::tier)), with one DSCP per user class.
//!
//! A class `10` uses one connection for all its calls. A class `new:10` opens a connection for
//! each call and closes it after the answer or on its deadline.
//!
//! Speaks the runner protocol but starts no services: the plan's first stage is for the called
//! service, the others for the services that work on its parts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use deadline::tower::{PropagateLayer, remaining, scope};
use deadline::{Budget, Remaining};
use queueing::Span;
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;
use tonic::Request;

use crate::protocol::OutputLine;
use crate::rpc::{PATHS, RpcClient};
use crate::run::Run;
use crate::series::wait_for_requests;
use crate::tier::{call_with_times, propagate_layer};
use crate::{Error, OutputHandle, Planned, SetupMessage, open_loop};

/// Sends the calls of `plan`; returns when all have ended.
///
/// # Errors
/// If the arguments are not an address and one DSCP per class, or nothing listens there.
pub fn run(setup: &SetupMessage, plan: Vec<Planned>, report: OutputHandle) -> Result<(), Error> {
    let (front, classes) = parse_arguments(std::env::args().skip(2), setup.slos.len())?;
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::new(format!("runtime: {e}"), "ulimit -u, ulimit -n"))?;
    let run = Run::new(plan, report);
    let target = Target {
        front,
        propagate: propagate_layer(setup.queue().shedding),
        waiting: setup.capacity.saturating_mul(2),
    };
    let callers = runtime.block_on(target.callers(&classes))?;
    let delay_max = send(runtime.handle(), setup, &run, &callers)?;
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    run.report(OutputLine::Late(delay_max));
    Ok(())
}

/// User class: DSCP, and whether each call opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    dscp: u8,
    new: bool,
}

/// Parses the address and `classes` classes.
fn parse_arguments(
    mut args: impl Iterator<Item = String>,
    classes: usize,
) -> Result<(SocketAddr, Vec<Class>), Error> {
    let bad = |cause: String| Error::new(cause, "testbed calls 10.0.0.1:7000 46 new:10");
    let front = args.next().unwrap_or_default();
    let address = front.parse().map_err(|e| bad(format!("FRONT {front:?}: {e}")))?;
    let class = |text: String| {
        let (new, dscp) = text.strip_prefix("new:").map_or((false, &text[..]), |dscp| (true, dscp));
        let dscp = dscp.parse().ok().filter(|dscp| *dscp < 64);
        dscp.map(|dscp| Class { dscp, new }).ok_or_else(|| bad(format!("DSCP {text:?} is not 0..=63")))
    };
    let found = args.map(class).collect::<Result<Vec<_>, _>>()?;
    match found.len() == classes && classes <= PATHS.len() {
        true => Ok((address, found)),
        false => Err(bad(format!(
            "{} DSCP for {classes} classes; valid: one for each class, at most 8",
            found.len()
        ))),
    }
}

/// Parameters of connections to the service.
#[derive(Clone)]
struct Target {
    front: SocketAddr,
    propagate: PropagateLayer,
    /// Maximum number of waiting calls.
    waiting: usize,
}

/// Client of one user class.
#[derive(Clone)]
enum Caller {
    /// Shared open connection.
    Connected(RpcClient),
    /// New connection per call.
    PerCall(Target, u8),
}

impl Target {
    async fn open(&self, dscp: u8) -> Result<RpcClient, Error> {
        RpcClient::connect_as(dscp, self.front, &self.propagate, self.waiting).await
    }

    /// Connects the clients of `classes`. Classes with new connections also connect once, to
    /// check that the service listens.
    async fn callers(&self, classes: &[Class]) -> Result<Vec<Caller>, Error> {
        let mut callers = Vec::new();
        for &Class { dscp, new } in classes {
            let client = self.open(dscp).await?;
            callers.push(if new { Caller::PerCall(self.clone(), dscp) } else { Caller::Connected(client) });
        }
        Ok(callers)
    }
}

impl Caller {
    /// `true` if a call of class `level` is answered within the task's budget.
    async fn call(self, level: usize, call: Request<Bytes>) -> bool {
        match self {
            Self::Connected(mut client) => client.call_as(level, call).await.is_ok(),
            Self::PerCall(target, dscp) => {
                // Connection setup may not take longer than the call's budget.
                let left = remaining().map_or(Span::ZERO, Remaining::left);
                let Ok(Ok(mut client)) = timeout(left.into(), target.open(dscp)).await else { return false };
                client.call_as(level, call).await.is_ok()
            }
        }
    }
}

/// Sends the plan and waits until all calls have ended; returns the largest send delay.
fn send(runtime: &Handle, setup: &SetupMessage, run: &Arc<Run>, callers: &[Caller]) -> Result<Span, Error> {
    let (done_tx, done_rx) = channel();
    let start = run.begin();
    let delay_max = open_loop::send_all(start, &run.plan, |request, planned| {
        let (run, caller, done_tx) = (Arc::clone(run), callers[planned.class].clone(), done_tx.clone());
        let slo = Span::from_nanos(setup.slos[planned.class].slo_ns);
        let (level, call) = (planned.class, call_with_times(&planned.service));
        runtime.spawn(async move {
            let budget = Budget::restored(slo, run.elapsed(request), &[]);
            let answered = scope(budget, caller.call(level, call)).await;
            let elapsed = run.elapsed(request);
            run.report(OutputLine::End { request, answered, elapsed, used: usize::from(answered), parts: 1 });
            let _ = done_tx.send(());
        });
    });
    drop(done_tx);
    wait_for_requests(&done_rx).map(|()| delay_max)
}

/// Shutdown timeout for the runtime, which may still notify peers.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_dscp_and_optional_new_connections() {
        let args = |text: &str| parse_arguments(text.split_whitespace().map(str::to_owned), 2);
        let (address, open) = ("10.0.0.1:7000".parse().unwrap(), Class { dscp: 46, new: false });
        assert_eq!(args("10.0.0.1:7000 46 10"), Ok((address, vec![open, Class { dscp: 10, new: false }])));
        assert_eq!(args("10.0.0.1:7000 46 new:10"), Ok((address, vec![open, Class { dscp: 10, new: true }])));
        for (text, says) in [
            ("", "FRONT \"\""),
            ("10.0.0.1 46 10", "FRONT \"10.0.0.1\""),
            ("10.0.0.1:7000 46 64", "DSCP \"64\" is not 0..=63"),
            ("10.0.0.1:7000 46 new:64", "DSCP \"new:64\" is not 0..=63"),
            ("10.0.0.1:7000 46", "1 DSCP for 2 classes"),
        ] {
            let error = args(text).unwrap_err().to_string();
            assert!(error.contains(says), "{says:?} is not in {error}");
        }
    }
}
