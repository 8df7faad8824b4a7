//! `greenwave top`: live view of a command with `--ui`, on a terminal.
//!
//! Fetches the same snapshot as the page, in its own thread, and draws it ([`screen`]). Without an
//! answer it reports that, keeps the last snapshot, and retries. `--once` prints the tables and
//! ends.

mod fetch;
mod screen;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use host::Monotonic;
use queueing::{Clock, Span};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::Error;
use crate::error::plain;
use crate::ui::window::{WINDOW_MAX_S, WINDOW_S};
use crate::ui::{self, snapshot::Snapshot, tables};
use screen::Screen;

/// Show a command that runs with --ui, live.
///
/// Keys: q quits, space pauses, + and - change the window, arrows scroll.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the command, from its --ui.
    #[arg(default_value = "127.0.0.1:9900", value_parser = ui::address)]
    address: SocketAddr,
    /// Time window of rates and percentiles, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = WINDOW_S, value_parser = clap::value_parser!(u64).range(1..=WINDOW_MAX_S))]
    window: u64,
    /// Refresh interval.
    #[arg(long, value_name = "SPAN", default_value = "1s")]
    interval: Span,
    /// Print the tables once, 80 columns wide, and exit.
    #[arg(long)]
    once: bool,
    /// Print the snapshot as JSON; needs --once.
    #[arg(long, requires = "once")]
    json: bool,
}

/// Interval of checks for keys.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Windows for `+` and `-`, in seconds.
const WINDOWS_S: [u64; 6] = [1, 5, 10, 20, 30, 60];

/// Shows the view until the user ends it.
///
/// # Errors
/// No answer (`--once`), or no terminal.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let bounds = Span::from_millis(100)..=Span::from_secs(60);
    if !bounds.contains(&args.interval) {
        let (least, most) = (bounds.start(), bounds.end());
        return Err(Error::new(format!("interval {} is outside {least}..={most}", args.interval))
            .advice("--interval 1s"));
    }
    if args.once {
        return once(args);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let advice = format!("greenwave top --once {}", args.address);
        return Err(Error::new("stdout is not a terminal").advice(advice));
    }
    let interrupted = host::signals::flag();
    let window_s = Arc::new(AtomicU64::new(args.window));
    let answers = ask(args, window_s.clone());
    let mut terminal = ratatui::try_init()
        .map_err(|e| Error::new(format!("terminal: {}", plain(&e.to_string()))).advice("--once"))?;
    let done = show(&mut terminal, Screen::new(args.address, args.window), &answers, &window_s, interrupted);
    ratatui::restore();
    done.map_err(|e| Error::new(format!("terminal: {}", plain(&e.to_string()))).advice("--once"))?;
    Ok(ExitCode::SUCCESS)
}

fn once(args: &Args) -> Result<ExitCode, Error> {
    let text = fetch::snapshot(args.address, args.window).map_err(|why| silent(args.address, &why))?;
    if args.json {
        outln!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    out!("{}", tables::text(&read(&text).map_err(|why| silent(args.address, &why))?));
    Ok(ExitCode::SUCCESS)
}

fn silent(address: SocketAddr, why: &str) -> Error {
    Error::new(format!("{address}: {why}")).advice(format!("greenwave serve … --ui {address}"))
}

/// Parses a snapshot.
fn read(text: &str) -> Result<Snapshot, String> {
    let of_ours =
        |e: serde_json::Error| format!("the answer is not from greenwave, or from another version: {e}");
    serde_json::from_str(text).map_err(of_ours)
}

/// A snapshot, or the reason there is none.
type Answer = Result<Box<Snapshot>, String>;

/// Fetches periodically, in a thread that ends with the process.
fn ask(args: &Args, window_s: Arc<AtomicU64>) -> Receiver<Answer> {
    let (answers, taken) = sync_channel(1);
    let (address, every) = (args.address, Duration::from(args.interval));
    std::thread::spawn(move || {
        loop {
            let text = fetch::snapshot(address, window_s.load(Ordering::Relaxed));
            let answer = text.and_then(|text| read(&text)).map(Box::new);
            if answers.send(answer).is_err() {
                return;
            }
            std::thread::sleep(every);
        }
    });
    taken
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut screen: Screen,
    answers: &Receiver<Answer>,
    window_s: &AtomicU64,
    interrupted: &AtomicBool,
) -> std::io::Result<()> {
    let clock = Monotonic::new();
    let mut is_new = true;
    while !interrupted.load(Ordering::Relaxed) {
        while let Ok(answer) = answers.try_recv() {
            screen.on_answer(clock.now(), answer);
            is_new = true;
        }
        if is_new || screen.is_lost() {
            let now = clock.now();
            terminal.draw(|frame| screen.draw(frame, now))?;
            is_new = false;
        }
        if !event::poll(LOOK_EVERY)? {
            continue;
        }
        is_new = true;
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match act(key) {
                Act::End => return Ok(()),
                Act::Pause => screen.pause(),
                Act::Window(step) => {
                    screen.window_s = step_from(screen.window_s, step);
                    window_s.store(screen.window_s, Ordering::Relaxed);
                }
                Act::Scroll(rows) => screen.scroll(rows),
                Act::Nothing => {}
            }
        }
    }
    Ok(())
}

/// Action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    End,
    Pause,
    Window(isize),
    Scroll(i32),
    Nothing,
}

fn act(key: KeyEvent) -> Act {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Act::End,
        KeyCode::Char('q') | KeyCode::Esc => Act::End,
        KeyCode::Char(' ') => Act::Pause,
        KeyCode::Char('+' | '=') => Act::Window(1),
        KeyCode::Char('-') => Act::Window(-1),
        KeyCode::Down | KeyCode::Char('j') => Act::Scroll(1),
        KeyCode::Up | KeyCode::Char('k') => Act::Scroll(-1),
        KeyCode::PageDown => Act::Scroll(10),
        KeyCode::PageUp => Act::Scroll(-10),
        KeyCode::Home => Act::Scroll(i32::MIN),
        _ => Act::Nothing,
    }
}

/// The next of [`WINDOWS_S`] from `window_s`, up or down.
fn step_from(window_s: u64, step: isize) -> u64 {
    let next = match step {
        1 => WINDOWS_S.into_iter().find(|next| *next > window_s),
        _ => WINDOWS_S.into_iter().rev().find(|next| *next < window_s),
    };
    next.unwrap_or(window_s)
}

#[cfg(test)]
mod tests;
