//! Man pages and shell completions, from the same definitions as `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::error::Error;

mod page;

/// Generate the man pages: greenwave.1 and one for each subcommand.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Output folder; created if missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Print a shell completion script.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the pages of `command` and its subcommands.
///
/// # Errors
/// The folder or a page cannot be written.
pub fn man(args: &ManArgs, command: Command) -> Result<ExitCode, Error> {
    std::fs::create_dir_all(&args.folder).map_err(|e| Error::file(&args.folder, &e))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    pages(command, &args.folder)?;
    outln!("read one: man {}", args.folder.join("greenwave.1").display());
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of `command` and its subcommands into `folder`, where another user may have put
/// links.
fn pages(command: Command, folder: &Path) -> Result<(), Error> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages(below.clone(), folder)?;
    }
    let (name, text) = page::of(command, &host::day());
    crate::report::whole(&folder.join(name), &text)
}

/// Prints the completions of `command` for `shell`.
///
/// # Errors
/// None; every command has this signature.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "greenwave", &mut script);
    out!("{}", String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}
