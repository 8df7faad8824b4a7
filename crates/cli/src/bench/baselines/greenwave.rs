//! greenwave's server: one shard that serves on its own thread, mode `none`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use drivers::afxdp::{self, Claims, Mode as Xdp, Options};
use drivers::{Tap, packet};
use host::Monotonic;
use net::Device;
use net::stack::{Config as StackConfig, ListenOptions};
use runtime::app::{Echo, Http};
use runtime::mode::{Classifiers, Mode};
use runtime::shard::Config;
use runtime::threads::{self, ThreadSettings, WorkerThreads};
use runtime::{App, Shard};
use sched::dispatch::{Params, Steering};

use super::{Args, Bulk, PORT, Serves, ready};
use crate::Error;
use crate::options::secret;

/// Capacity of the event queue.
const TASKS: usize = 65_536;
/// Number of frames per direction of a socket.
const FRAMES: u32 = 8192;

/// Serves until killed.
pub fn serve(args: &Args) -> Result<(), Error> {
    let (kind, name) = args.device.split_once(':').unwrap_or((&args.device, ""));
    match kind {
        "tap" => on(args, Tap::create(name)?, [2, 0, 0, 0, 0, 2]),
        "xdp" | "xdp-native" => {
            let mode = if kind == "xdp" { Xdp::Generic } else { Xdp::Native };
            let options = Options { mode: Some(mode), frames: FRAMES, ..Options::default() };
            let claims = Claims { addresses: vec![args.addr.into()], ports: Vec::new() };
            let mut opened = afxdp::open(name, &options, &claims).map_err(|e| Error::new(e.to_string()))?;
            let mac = opened.interface.mac;
            let device = opened.devices.pop().ok_or_else(|| Error::new("the interface has no queue"))?;
            on(args, device, mac)
        }
        "packet" => {
            let options = packet::Options { frames: FRAMES, ..packet::Options::default() };
            let opened = packet::open(name, &options).map_err(|e| Error::new(e.to_string()))?;
            let (interface, mut devices) = opened;
            let device = devices.pop().ok_or_else(|| Error::new("no AF_PACKET socket"))?;
            on(args, device, interface.mac)
        }
        _ => Err(Error::new(format!("device {:?} is not tap:, packet:, xdp: or xdp-native:", args.device))),
    }
}

fn on<D: Device + Send>(args: &Args, device: D, mac: [u8; 6]) -> Result<(), Error>
where
    D::Frame: Send,
{
    match args.app {
        Serves::Echo => run(args, device, mac, Echo),
        Serves::Http => run(args, device, mac, Http),
        app => run(args, device, mac, Bulk(app)),
    }
}

fn run<D: Device + Send, A: App>(args: &Args, device: D, mac: [u8; 6], app: A) -> Result<(), Error>
where
    D::Frame: Send,
{
    let params = Params::new(1, TASKS);
    let policy = Mode::None.policy(Classifiers::default(), &params, Steering::all(1));
    let stack = StackConfig::new(mac, args.addr, 24, secret()?);
    let mut shard = Shard::new(Config::new(stack, policy, 1), Arc::new(app));
    let options = ListenOptions { backlog: args.connections.max(1024), ..ListenOptions::default() };
    shard.stack().listen(PORT, options).map_err(|e| Error::new(format!("port {PORT}: {e:?}")))?;
    ready();
    let never = Arc::new(AtomicBool::new(false));
    let threads = ThreadSettings {
        spin: args.busy_poll,
        hold: args.tx_coalesce,
        ..ThreadSettings::new(WorkerThreads::Inline)
    };
    threads::serve(vec![(shard, device)], Arc::new(Monotonic::new()), never, threads);
    Ok(())
}
