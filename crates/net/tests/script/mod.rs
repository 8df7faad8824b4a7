//! Packet scripts in packetdrill's dialect against the sans-IO stack.
//!
//! `tests/scripts/README.md` is the dialect's reference. [`parse`] turns the text into an
//! [`ast::Script`], [`settings`] configures a stack, [`run`] executes the script on it, [`report`]
//! describes a failure.

pub mod ast;
mod calls;
mod codec;
mod compare;
mod cursor;
mod datagrams;
mod flow;
mod observe;
pub mod parse;
mod parse_packet;
mod report;
mod run;
mod settings;
mod sockopts;
pub mod tests;

/// Runs the script `text` from `path`.
///
/// # Errors
/// Text to print: the syntax error, or the failed line.
pub fn play(path: &str, text: &str) -> Result<(), String> {
    let script = parse::script(path, text)?;
    let mut runner = run::Runner::new(settings::settings(&script)?);
    let mut line = 0;
    let outcome = script.events.iter().try_for_each(|event| {
        line = event.line;
        runner.play(event)
    });
    outcome.and_then(|()| runner.finish()).map_err(|failure| {
        runner.note_rest();
        report::report(&script, line, &failure, &runner.exchange)
    })
}
