//! Man pages and shell completions, from the same definitions as `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

use crate::error::Error;
use crate::{egress, exp};

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
pub fn completions(args: &CompletionsArgs, command: Command) -> Result<ExitCode, Error> {
    out!("{}", script(args.shell, command));
    Ok(ExitCode::SUCCESS)
}

/// Stands for the interfaces of the machine, which only the shell knows when it completes.
const INTERFACES: &str = "@INTERFACES@";

/// The completions of `command`, with the names of experiments and policies where the shell's script
/// completes positional arguments (not fish), and of interfaces; bash alone asks
/// for the interfaces.
fn script(shell: Shell, command: Command) -> String {
    let policies = || PossibleValuesParser::new(egress::NAMES);
    let device = |command: Command| match shell {
        Shell::Bash => command.mut_arg("device", |arg| arg.value_parser([INTERFACES])),
        _ => command,
    };
    // Clap's values are static, and the command ends after its script.
    let experiments: Vec<&'static str> = exp::names().into_iter().map(|name| &*name.leak()).collect();
    let experiments = PossibleValuesParser::new(experiments);
    let mut command = command
        .mut_subcommand("exp", |command| {
            command.mut_subcommand("run", |run| run.mut_arg("names", |arg| arg.value_parser(experiments)))
        })
        .mut_subcommand("egress", |command| {
            let policy = |command: Command, name| command.mut_arg(name, |arg| arg.value_parser(policies()));
            let command = ["status", "detach"]
                .into_iter()
                .fold(command, |command, name| command.mut_subcommand(name, device));
            command
                .mut_subcommand("attach", |attach| policy(device(attach), "policy"))
                .mut_subcommand("policy", |below| policy(below, "name"))
        })
        .mut_subcommand("guard", |command| {
            let below = ["attach", "status", "detach"].into_iter();
            below.fold(command, |command, name| command.mut_subcommand(name, device))
        });
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "greenwave", &mut script);
    String::from_utf8_lossy(&script).replace(INTERFACES, "$(ls /sys/class/net)")
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ cli: completions of bash and zsh know experiments and policies, and those of bash the interfaces
    #[test]
    fn completions_know_experiments_policies_and_interfaces() {
        for shell in [Shell::Bash, Shell::Zsh] {
            let script = script(shell, crate::commands());
            let all = exp::names();
            assert!(all.len() > 40 && all.iter().all(|name| script.contains(name.as_str())), "{shell}");
            assert!(egress::NAMES.iter().all(|name| script.contains(name)), "{shell}");
            assert!(!script.contains(INTERFACES), "{shell}");
            assert_eq!(script.contains("$(ls /sys/class/net)"), shell == Shell::Bash);
        }
    }
}
