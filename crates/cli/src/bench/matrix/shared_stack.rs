//! One stack for many programs, each started by whoever likes, and side by side.
//!
//! `greenwave run` starts a program that does nothing but say what its
//! environment is; whoever has that environment, in the same network namespace, is on
//! the stack. So a program's own tests start it, signal it and wait for it as they
//! always do, while its peers are on the kernel's TCP. On the kernel's stack there is
//! nothing to join.

use std::os::unix::fs::MetadataExt;

use host::proc;
use host::shim::VARIABLE;
use rustix::process::Signal;

use super::harness::{Server, World, because, signal};
use crate::programs::Stack;

/// A stack that programs can join; they and it end when this is dropped.
pub struct Shared<'a> {
    world: &'a World<'a>,
    keeper: Option<Server<'a>>,
    variables: Vec<String>,
}

/// Says in `$0` what others need, and stays.
const KEEPER: &str = "printenv LD_PRELOAD \"$1\" >\"$0.new\" && mv \"$0.new\" \"$0\" && exec sleep infinity";

impl<'a> Shared<'a> {
    /// # Errors
    /// Our stack does not start; with what it said.
    pub fn new(world: &'a World<'_>) -> Result<Self, String> {
        if world.stack == Stack::Kernel {
            return Ok(Self { world, keeper: None, variables: Vec::new() });
        }
        let path = world.folder().join("environment");
        let place = path.display().to_string();
        // Of another that was here.
        let _ = std::fs::remove_file(&path);
        let words = ["sh", "-c", KEEPER, &place, VARIABLE].map(str::to_owned);
        let mut keeper = world.start(&words, 0)?;
        keeper.wait_until("it does not start", |_| path.exists())?;
        let said = std::fs::read_to_string(&path).map_err(because("its environment"))?;
        let names = ["LD_PRELOAD", VARIABLE];
        let variables = names.iter().zip(said.lines()).map(|(name, value)| format!("{name}={value}"));
        Ok(Self { world, variables: variables.collect(), keeper: Some(keeper) })
    }

    /// The words that run `program` on the stack, from any namespace, as the process that runs them.
    pub fn words(&self, program: &str) -> Vec<String> {
        let enter = ["nsenter".to_owned(), format!("--net={}", self.world.ours.path()), "env".to_owned()];
        [&enter[..], &self.variables, &[program.to_owned()]].concat()
    }

    /// Ends it.
    ///
    /// # Errors
    /// Our stack has not served to the end.
    pub fn stop(mut self) -> Result<(), String> {
        self.keeper.take().map_or(Ok(()), Server::stop)
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.keeper = None;
        // Who is still there is somebody's daemon: the namespace is ours alone.
        let place = |path: &str| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        let Some(ours) = place(&self.world.ours.path()) else { return };
        for id in proc::processes().filter(|id| place(&format!("/proc/{id}/ns/net")) == Some(ours)) {
            signal(id, Signal::KILL);
        }
    }
}
