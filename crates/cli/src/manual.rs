//! Man pages and shell completions, from the same definitions as `--help`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::error::Error;

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

/// Writes the pages of `command` and of all below it.
///
/// # Errors
/// When the folder or a page cannot be written.
pub fn man(args: &ManArgs, command: Command) -> Result<ExitCode, Error> {
    let failed = |e: std::io::Error| Error::file(&args.folder, &e);
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(command, &args.folder).map_err(failed)?;
    println!("read one: man {}", args.folder.join("greenwave.1").display());
    Ok(ExitCode::SUCCESS)
}

/// Prints what `shell` needs to complete `command`.
///
/// # Errors
/// Never; it has the shape of every command.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<ExitCode, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "greenwave", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}
