//! A stack shared by many programs, each started by any process.
//!
//! `greenwave run` starts a program that only exports its environment. A process with that
//! environment in the same network namespace uses the stack. A program's own tests can so start it,
//! signal it and wait for it as usual, while its peers are on the kernel's TCP. On the kernel's
//! stack this is a no-op.

use std::os::unix::fs::MetadataExt;

use host::proc;
use rustix::process::Signal;
use shim::VARIABLE;

use super::harness::{ListeningServer, Trial, because, signal};
use crate::programs::StackChoice;

/// A stack that programs can join; they and it end on drop.
pub struct SharedStack<'a> {
    world: &'a Trial<'a>,
    keeper: Option<ListeningServer<'a>>,
    variables: Vec<String>,
}

/// Writes the environment to `$0`, and keeps running.
const KEEPER: &str = "printenv LD_PRELOAD \"$1\" >\"$0.new\" && mv \"$0.new\" \"$0\" && exec sleep infinity";

impl<'a> SharedStack<'a> {
    /// # Errors
    /// greenwave's stack does not start; with its output.
    pub fn new(world: &'a Trial<'_>) -> Result<Self, String> {
        if world.stack == StackChoice::Kernel {
            return Ok(Self { world, keeper: None, variables: Vec::new() });
        }
        let path = world.folder().join("environment");
        let environment = path.display().to_string();
        // Left by an earlier instance.
        let _ = std::fs::remove_file(&path);
        let words = ["sh", "-c", KEEPER, &environment, VARIABLE].map(str::to_owned);
        let mut keeper = world.start(&words, 0)?;
        keeper.wait_until("it does not start", |_| path.exists())?;
        let output = std::fs::read_to_string(&path).map_err(because("its environment"))?;
        let names = ["LD_PRELOAD", VARIABLE];
        let variables = names.iter().zip(output.lines()).map(|(name, value)| format!("{name}={value}"));
        Ok(Self { world, variables: variables.collect(), keeper: Some(keeper) })
    }

    /// Command line that runs `program` on the stack from any namespace, by exec.
    pub fn words(&self, program: &str) -> Vec<String> {
        let enter = ["nsenter".to_owned(), format!("--net={}", self.world.ours.path()), "env".to_owned()];
        [&enter[..], &self.variables, &[program.to_owned()]].concat()
    }

    /// Ends the stack.
    ///
    /// # Errors
    /// greenwave's stack did not serve to the end.
    pub fn stop(mut self) -> Result<(), String> {
        self.keeper.take().map_or(Ok(()), ListeningServer::stop)
    }
}

impl Drop for SharedStack<'_> {
    fn drop(&mut self) {
        self.keeper = None;
        // Remaining processes in the namespace are daemons of the tests: no other program uses it.
        let environment = |path: &str| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        let Some(ours) = environment(&self.world.ours.path()) else { return };
        for id in proc::processes().filter(|id| environment(&format!("/proc/{id}/ns/net")) == Some(ours)) {
            signal(id, Signal::KILL);
        }
    }
}
