//! Contents of the terminal.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::ui::fixture::{at, sched, serve};

const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9900);

/// The lines of a terminal of the given size.
fn drawn(screen: &mut Screen, (width, height): (u16, u16), now: queueing::Time) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| screen.draw(frame, now)).expect("it draws");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn answered(live: &crate::ui::window::Live, now: f64) -> Answer {
    Ok(Box::new(live.snapshot(at(now), 10)))
}

#[test]
fn a_server_s_figures_stand_on_the_terminal() {
    let mut screen = Screen::new(HERE, 10);
    let empty = drawn(&mut screen, (80, 24), at(0.0));
    assert_eq!(empty[..2], ["greenwave top 127.0.0.1:9900", "waiting for the first snapshot"]);
    screen.on_answer(at(12.0), answered(&serve(12), 12.0));
    let lines = drawn(&mut screen, (80, 40), at(12.0));
    assert!(lines[0].starts_with("greenwave serve, http on tap:gw0"), "{lines:#?}");
    assert_eq!(lines[1], "1000 responses a second, 5.00 shed, over 10 s");
    assert!(lines[2].starts_with("████"), "a steady rate: {lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("7      event")), "{lines:#?}");
    assert!(lines[39].starts_with("q quits · space pauses"), "{lines:#?}");
}

#[test]
fn a_pause_keeps_what_was_there() {
    let mut screen = Screen::new(HERE, 10);
    screen.on_answer(at(12.0), answered(&serve(12), 12.0));
    screen.pause();
    screen.on_answer(at(13.0), answered(&sched(), 2.0));
    let lines = drawn(&mut screen, (80, 24), at(13.0));
    assert!(lines[0].contains("serve") && lines[1].starts_with("paused; 1000 responses"), "{lines:#?}");
    screen.pause();
    screen.on_answer(at(14.0), answered(&sched(), 2.0));
    assert!(drawn(&mut screen, (80, 24), at(14.0))[0].contains("sched"));
}

#[test]
fn an_unreachable_server_is_named_until_it_answers() {
    let mut screen = Screen::new(HERE, 10);
    screen.on_answer(at(12.0), answered(&serve(12), 12.0));
    screen.on_answer(at(13.0), Err("Connection refused".to_owned()));
    screen.on_answer(at(14.0), Err("Connection refused".to_owned()));
    let lines = drawn(&mut screen, (100, 24), at(18.0));
    let expected = "127.0.0.1:9900: Connection refused, for 5 s; the tables below are old; retrying";
    assert_eq!(lines[1], expected);
    assert!(screen.is_lost() && lines.iter().any(|line| line.starts_with("7      event")), "{lines:#?}");
    screen.on_answer(at(19.0), answered(&serve(13), 13.0));
    assert!(drawn(&mut screen, (80, 24), at(19.0))[1].starts_with("1000 responses"));
}

#[test]
fn a_terminal_that_is_too_small_is_reported_and_a_low_one_scrolls() {
    let mut screen = Screen::new(HERE, 10);
    screen.on_answer(at(12.0), answered(&serve(12), 12.0));
    let small = drawn(&mut screen, (40, 10), at(12.0)).join(" ");
    assert!(small.starts_with("40x10 is too small: 60x12 at least, or"), "{small}");
    let top = drawn(&mut screen, (80, 12), at(12.0));
    assert_eq!(top[5], "Request time by stage, µs");
    screen.scroll(i32::MAX);
    let end = drawn(&mut screen, (80, 12), at(12.0));
    assert!(end.iter().any(|line| line.starts_with("connections")), "the last table: {end:#?}");
    screen.scroll(i32::MIN);
    assert_eq!(drawn(&mut screen, (80, 12), at(12.0)), top);
}

//~ cli: `top` shows every number on a terminal of 60 columns
#[test]
fn a_narrow_terminal_cuts_no_number() {
    let numbers = |width: u16, live: &crate::ui::window::Live, now: f64| {
        let mut screen = Screen::new(HERE, 10);
        screen.on_answer(at(now), answered(live, now));
        let text = drawn(&mut screen, (width, 400), at(now)).join("\n");
        let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        let mut all: Vec<String> = text.split_whitespace().filter(is_number).map(str::to_owned).collect();
        all.sort();
        all
    };
    for (live, now) in [(serve(12), 12.0), (sched(), 2.0)] {
        let wide = numbers(200, &live, now);
        let mut narrow = numbers(60, &live, now);
        assert!(wide.len() > 10, "{wide:?}");
        // Columns that follow below repeat the text columns, which may be numbers.
        for number in wide {
            let at = narrow.iter().position(|other| *other == number);
            let at = at.unwrap_or_else(|| panic!("{number} is not among {narrow:?}"));
            narrow.remove(at);
        }
    }
}

#[test]
fn keys_do_what_the_last_line_says() {
    let press = |code| act(KeyEvent::new(code, KeyModifiers::NONE));
    assert_eq!(press(KeyCode::Char('q')), Act::End);
    assert_eq!(act(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Act::End);
    assert_eq!((press(KeyCode::Char(' ')), press(KeyCode::Char('c'))), (Act::Pause, Act::Nothing));
    assert_eq!((press(KeyCode::Char('+')), press(KeyCode::Down)), (Act::Window(1), Act::Scroll(1)));
    assert_eq!((step_from(10, 1), step_from(10, -1), step_from(60, 1), step_from(1, -1)), (20, 5, 60, 1));
    assert_eq!((step_from(7, 1), step_from(7, -1)), (10, 5));
}
