//! Packet scripts in packetdrill's dialect against the sans-IO stack.
//!
//! `tests/scripts/README.md` is the dialect's reference. From the text:
//! [`parse`] makes an [`ast::Script`], [`settings`] a stack, [`run`] plays one
//! on the other, [`report`] shows what went wrong.

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

/// Plays the script `text`, which lies at `path`.
///
/// # Errors
/// What to print: why it cannot be read, or where it does not hold.
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
