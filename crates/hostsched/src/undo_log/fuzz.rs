//! Body of a fuzz target: the undo log after a crash or an edit by another program.

use std::path::Path;

use queueing::CoreId;

use super::{CUT, SchedPolicy, Was, author, made, process_of, signal_page_line, was};
use crate::cpulist;
use crate::fuzz::input::Input;

/// Any text is read without a panic, and what is read is written the same. A log that was cut anywhere,
/// and continued or not, yields exactly its complete lines.
pub(crate) fn journal(data: &[u8]) {
    any(data);
    cut(&mut Input(data));
}

fn any(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(author) = author(&text, true) {
        let cores = cpulist::text(&author.cores);
        assert_eq!(cpulist::parse(&cores), Ok(author.cores));
    }
    for line in text.lines() {
        if let Some(thread) = was(line) {
            assert_eq!(was(&thread.line()), Some(thread));
        }
        if let Some((process, began)) = process_of(line) {
            assert_eq!(process_of(&signal_page_line(process, began)), Some((process, began)));
        }
        if let Some((task, path)) = made(line) {
            assert_eq!(made(&format!("made {task} {}", path.display())), Some((task, path)));
        }
        if let Ok(cores) = cpulist::parse(line) {
            assert_eq!(cpulist::parse(&cpulist::text(&cores)), Ok(cores.clone()), "{line:?}");
            assert_eq!(cpulist::of_set(&cpulist::set_of(cores.clone())), cores);
        }
    }
}

fn cut(input: &mut Input<'_>) -> Option<()> {
    let (at, goes_on) = (input.u16()?, input.byte()? % 2 == 0);
    let mut lines = Vec::new();
    while let Some(line) = line(input).filter(|_| lines.len() < 64) {
        lines.push(line);
    }
    let head = "greenwave sched 1 77 4242 0-1\n".to_owned();
    let text = lines.iter().fold(head, |text, line| text + &line.line() + "\n");
    let at = usize::from(at) % (text.len() + 1);
    let complete = text[..at].matches('\n').count().saturating_sub(1).min(lines.len());
    let mut truncated = text[..at].to_owned();
    let mut expected = lines[..complete].to_vec();
    if goes_on && let Some(line) = lines.first() {
        // As `Journal::write` after a line that was cut short.
        let end = if truncated.ends_with('\n') { "" } else { CUT };
        truncated += &format!("{end}{}\n", line.line());
        expected.push(line.clone());
    }
    // As `restore` reads.
    let read = truncated.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let threads: Vec<Was> = read.lines().filter_map(was).collect();
    assert_eq!(threads, expected, "{truncated:?}");
    assert!(truncated.lines().filter_map(process_of).next().is_none());
    assert!(truncated.lines().filter_map(made).next().is_none() && !Path::new(&truncated).is_absolute());
    Some(())
}

/// A line of one thread.
fn line(input: &mut Input<'_>) -> Option<Was> {
    let task = usize::from(input.byte()? % 4);
    let (process, thread) = (u32::from(input.u16()?), u32::from(input.u16()?));
    let began = u64::from(input.u16()?) << (input.byte()? % 48);
    let class =
        SchedPolicy { policy: i32::from(input.byte()? % 8), priority: i32::from(input.byte()? % 100) };
    let bits = input.u16()?;
    let cores = (0..16).filter(|core| bits >> core & 1 == 1).map(CoreId).collect::<Vec<_>>();
    let cores = if cores.is_empty() { vec![CoreId(0)] } else { cores };
    Some(Was { task, process, thread, began, class, cores })
}
