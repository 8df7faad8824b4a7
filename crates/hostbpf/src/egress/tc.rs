//! The programs `tc` and `ip`, run as children.
//!
//! Both manage qdiscs, classes and links. They are installed together, support every attribute of
//! every kind, and report errors in text. Their output is read as JSON.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::error::FabricError;
use host::proc;

/// Runs `tc`; its stdout.
pub(super) fn run(args: &[&str]) -> Result<String, FabricError> {
    let out = command("tc", args).stdin(Stdio::null()).output().map_err(no_tc)?;
    finished(&out, || args.join(" "))?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs `ip`; its stdout.
pub(super) fn ip(args: &[&str]) -> Result<String, FabricError> {
    let out = command("ip", args).stdin(Stdio::null()).output().map_err(no_tc)?;
    finished(&out, || format!("(as ip) {}", args.join(" ")))?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// JSON output of `tc`; empty output is an empty list.
pub(super) fn show(args: &[&str]) -> Result<Vec<Value>, FabricError> {
    let text = run(&[&["-j"], args].concat())?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str(&text) {
        Ok(Value::Array(values)) => Ok(values),
        _ => Err(FabricError::Unreadable(format!("tc -j {} prints {:?}", args.join(" "), text.trim()))),
    }
}

/// Runs lines in order until one fails.
pub(super) fn batch(lines: &[String]) -> Result<(), FabricError> {
    let mut tc = command("tc", &["-batch", "-"]).stdin(Stdio::piped()).spawn().map_err(no_tc)?;
    let text = lines.join("\n") + "\n";
    let mut stdin = tc.stdin.take().expect("stdin is piped");
    // A `tc` that stops early reports the reason; the unread rest does not matter.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    let out = tc.wait_with_output().map_err(no_tc)?;
    finished(&out, || {
        let stderr = String::from_utf8_lossy(&out.stderr);
        // "Command failed -:5"
        let line = stderr
            .lines()
            .find_map(|line| line.strip_prefix("Command failed -:")?.trim().parse::<usize>().ok());
        line.and_then(|line| lines.get(line.checked_sub(1)?)).map_or("-batch".to_owned(), String::clone)
    })
}

/// Command `program`, killed when we die: nothing would undo its later changes.
fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    proc::end_with_us(&mut command, Signal::KILL);
    command
}

fn no_tc(e: std::io::Error) -> FabricError {
    FabricError::NoTc(match e.kind() {
        std::io::ErrorKind::NotFound => "it is not there".to_owned(),
        _ => e.to_string(),
    })
}

fn finished(out: &Output, command: impl FnOnce() -> String) -> Result<(), FabricError> {
    if out.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&out.stderr);
    let lines =
        stderr.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("Command failed"));
    let message =
        lines.map(|line| line.strip_prefix("Error: ").unwrap_or(line)).collect::<Vec<_>>().join("; ");
    if message.contains("Operation not permitted") {
        return Err(FabricError::NoPermission(message));
    }
    Err(FabricError::Tc { command: command(), message })
}
