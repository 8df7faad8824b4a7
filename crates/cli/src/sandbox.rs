//! `--user`, `--no-sandbox`: privileges that a daemon drops after its setup, common to all daemons.

use host::sandbox::{Duty, User};

use crate::Error;
use crate::ui::Ui;

/// The arguments.
// clap groups arguments by type name, and the command's own arguments have the same one.
#[derive(clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Switch to this user after start-up: name, UID, or UID:GID.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    #[command(flatten)]
    kept: NoSandbox,
}

/// Flags of a command that cannot change its user.
#[derive(clap::Args)]
#[group(skip)]
pub struct NoSandbox {
    /// Do not drop capabilities or filter system calls.
    #[arg(long)]
    no_sandbox: bool,
}

impl NoSandbox {
    /// True if any privilege is to be dropped.
    pub fn is_on(&self) -> bool {
        !self.no_sandbox
    }

    /// As [`Flags::plan`].
    pub fn plan(&self, duty: Duty, kept: Option<&'static str>) -> Sandbox {
        Sandbox { duty, user: None, kept: self.no_sandbox.then_some("--no-sandbox").or(kept) }
    }

    /// Confines only the thread of `ui`, which serves strangers, where the command itself has to
    /// keep its privileges.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn confine_view(&self, ui: &Ui) -> Result<(), Error> {
        if self.no_sandbox {
            errln!(
                "note: no sandbox (--no-sandbox): the --ui thread keeps its capabilities and all system calls"
            );
            return Ok(());
        }
        Ok(ui.confine(host::sandbox::enter_thread)?)
    }
}

impl Flags {
    /// The privileges to drop for `duty`, before anything is opened; `kept` is the reason to keep
    /// them all, if any.
    ///
    /// # Errors
    /// There is no such user, or we may not become it.
    pub fn plan(&self, duty: Duty, kept: Option<&'static str>) -> Result<Sandbox, Error> {
        let sandbox = self.kept.plan(duty, kept);
        let Some(text) = &self.user else { return Ok(sandbox) };
        let user = User::find(text)
            .map_err(|e| Error::new(e.to_string()).advice("--user nobody, or a dedicated user"))?;
        match (user.is_ours(), User::can_be_changed()) {
            (true, _) => Ok(sandbox),
            (false, true) => Ok(Sandbox { user: Some(user), ..sandbox }),
            (false, false) => {
                let what = format!("--user {text}: only root can switch to another user");
                Err(Error::new(what).advice("sudo, or omit --user"))
            }
        }
    }
}

/// Privileges to drop.
pub struct Sandbox {
    duty: Duty,
    user: Option<User>,
    /// Reason for which capabilities and system calls are kept, if any.
    kept: Option<&'static str>,
}

impl Sandbox {
    /// Drops the privileges in all threads, including that of `ui`. Other threads start after this.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn enter(&self, ui: Option<&Ui>) -> Result<(), Error> {
        if let Some(user) = &self.user {
            // Changes all threads together, which takes a capability that each still has.
            host::sandbox::become_user(user, self.duty)?;
        }
        match self.kept {
            Some(why) => {
                let kept = if self.user.is_some() { "" } else { "capabilities and " };
                errln!("note: no sandbox, the process keeps {kept}all system calls: {why}");
            }
            None => {
                ui.map_or(Ok(()), |ui| ui.confine(host::sandbox::drop_capabilities))?;
                host::sandbox::enter(self.duty)?;
            }
        }
        Ok(())
    }

    /// A sandbox that drops nothing, and reports so.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { duty: Duty::Serve, user: None, kept: Some("a test") }
    }
}
