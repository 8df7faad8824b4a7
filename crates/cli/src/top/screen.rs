//! Screen of `top`. Pure, so that a test can inspect it.

use std::net::SocketAddr;

use queueing::Time;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Sparkline, Wrap};

use super::Answer;
use crate::table::wrapped;
use crate::ui::snapshot::Snapshot;
use crate::ui::tables;

/// Smallest terminal with room for a table.
const LEAST: (u16, u16) = (60, 12);

/// State of the screen.
pub struct Screen {
    address: SocketAddr,
    /// The requested window, in seconds.
    pub window_s: u64,
    shown: Option<Box<Snapshot>>,
    /// The reason for missing answers, and its beginning.
    lost: Option<(String, Time)>,
    paused: bool,
    /// Rows scrolled off above the screen.
    above: u16,
}

impl Screen {
    /// A screen without data.
    pub const fn new(address: SocketAddr, window_s: u64) -> Self {
        Self { address, window_s, shown: None, lost: None, paused: false, above: 0 }
    }

    /// Takes the answer of `now`.
    pub fn on_answer(&mut self, now: Time, answer: Answer) {
        match answer {
            Ok(snapshot) => {
                self.lost = None;
                if !self.paused {
                    self.shown = Some(snapshot);
                }
            }
            Err(why) => {
                let since = self.lost.as_ref().map_or(now, |(_, since)| *since);
                self.lost = Some((why, since));
            }
        }
    }

    /// Toggles the pause.
    pub const fn pause(&mut self) {
        self.paused = !self.paused;
    }

    /// True if the command does not answer.
    pub const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Scrolls `rows` down, or up if negative.
    pub fn scroll(&mut self, rows: i32) {
        self.above = i32::from(self.above).saturating_add(rows).clamp(0, i32::from(u16::MAX)) as u16;
    }

    /// Draws the state at `now`.
    pub fn draw(&mut self, frame: &mut Frame<'_>, now: Time) {
        let area = frame.area();
        if area.width < LEAST.0 || area.height < LEAST.1 {
            let text = format!(
                "{}x{} is too small: {}x{} at least, or greenwave top --once",
                area.width, area.height, LEAST.0, LEAST.1
            );
            return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        }
        let head_lines = self.head(usize::from(area.width), now);
        let head_rows = u16::try_from(head_lines.len()).unwrap_or(u16::MAX);
        let parts = Layout::vertical([
            Constraint::Length(head_rows),
            Constraint::Length(3),
            Constraint::Min(1),
            Constraint::Length(1),
        ]);
        let [head, rate, tables, foot] = parts.areas(area);
        frame.render_widget(Paragraph::new(head_lines), head);
        if let Some(snapshot) = &self.shown {
            let values = snapshot.history.iter().map(|point| point.rate.round() as u64);
            let width = usize::from(rate.width);
            let values: Vec<u64> = values.collect();
            let latest = &values[values.len().saturating_sub(width)..];
            frame.render_widget(Sparkline::default().data(latest).style(Color::Green), rate);
            let text = text(snapshot, usize::from(tables.width));
            let rows = u16::try_from(text.lines.len()).unwrap_or(u16::MAX);
            self.above = self.above.min(rows.saturating_sub(tables.height));
            frame.render_widget(Paragraph::new(text).scroll((self.above, 0)), tables);
        }
        let keys = "q quits · space pauses · + - window · ↑ ↓ scroll";
        frame.render_widget(Line::styled(keys, Style::new().fg(Color::DarkGray)), foot);
    }

    /// The command's description and warnings, in lines of at most `columns`.
    fn head(&self, columns: usize, now: Time) -> Vec<Line<'static>> {
        let (program, what) = match &self.shown {
            Some(snapshot) => (tables::headline(snapshot), tables::rate(snapshot)),
            None => (format!("greenwave top {}", self.address), "waiting for the first snapshot".to_owned()),
        };
        let warn = Style::new().fg(Color::Black).bg(Color::Yellow);
        let (second, style) = match (&self.lost, self.shown.as_deref().and_then(tables::caution)) {
            (Some((why, since)), _) => {
                let span = now.since(*since).as_secs_f64();
                let old = if self.shown.is_some() { "; the tables below are old" } else { "" };
                let text = format!("{}: {why}, for {span:.0} s{old}; retrying", self.address);
                (text, warn)
            }
            (None, _) if self.paused => (format!("paused; {what}"), warn),
            (None, Some(caution)) => (caution, warn),
            (None, None) => (what, Style::new()),
        };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let lines =
            |text: &str, style| wrapped(text, columns).into_iter().map(move |line| Line::styled(line, style));
        lines(&program, bold).chain(lines(&second, style)).collect()
    }
}

/// The tables, one below the other, in lines of at most `columns`: columns that do not fit follow below.
fn text(snapshot: &Snapshot, columns: usize) -> Text<'static> {
    let title = Style::new().fg(Color::Green).add_modifier(Modifier::BOLD);
    let mut lines = Vec::new();
    for tables::TitledTable { title: name, table } in tables::sections(snapshot) {
        lines.push(Line::styled(name, title));
        lines.extend(table.within(columns).into_iter().map(Line::raw));
        lines.push(Line::raw(""));
    }
    Text::from(lines)
}
