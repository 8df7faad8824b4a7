//! Screen of `top`. Pure, so that a test can inspect it.

use std::net::SocketAddr;

use queueing::Time;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Sparkline, Wrap};

use super::Answer;
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
        let parts = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(3),
            Constraint::Min(1),
            Constraint::Length(1),
        ]);
        let [head, rate, tables, foot] = parts.areas(area);
        self.head(frame, head, now);
        if let Some(snapshot) = &self.shown {
            let values = snapshot.history.iter().map(|point| point.rate.round() as u64);
            let width = usize::from(rate.width);
            let values: Vec<u64> = values.collect();
            let latest = &values[values.len().saturating_sub(width)..];
            frame.render_widget(Sparkline::default().data(latest).style(Color::Green), rate);
            let text = text(snapshot);
            let rows = u16::try_from(text.lines.len()).unwrap_or(u16::MAX);
            self.above = self.above.min(rows.saturating_sub(tables.height));
            frame.render_widget(Paragraph::new(text).scroll((self.above, 0)), tables);
        }
        let keys = "q quits · space pauses · + - window · ↑ ↓ scroll";
        frame.render_widget(Line::styled(keys, Style::new().fg(Color::DarkGray)), foot);
    }

    /// Draws the command's description and warnings.
    fn head(&self, frame: &mut Frame<'_>, area: Rect, now: Time) {
        let (program, what) = match &self.shown {
            Some(snapshot) => (tables::headline(snapshot), tables::rate(snapshot)),
            None => (format!("greenwave top {}", self.address), "waiting for the first snapshot".to_owned()),
        };
        let warn = Style::new().fg(Color::Black).bg(Color::Yellow);
        let second = match (&self.lost, self.shown.as_deref().and_then(tables::caution)) {
            (Some((why, since)), _) => {
                let span = now.since(*since).as_secs_f64();
                let old = if self.shown.is_some() { "; the tables below are old" } else { "" };
                let text = format!("{}: {why}, for {span:.0} s{old}; retrying", self.address);
                Line::styled(text, warn)
            }
            (None, _) if self.paused => Line::styled(format!("paused; {what}"), warn),
            (None, Some(caution)) => Line::styled(caution, warn),
            (None, None) => Line::raw(what),
        };
        let first = Line::styled(program, Style::new().add_modifier(Modifier::BOLD));
        frame.render_widget(Paragraph::new(vec![first, second]), area);
    }
}

/// The tables, one below the other.
fn text(snapshot: &Snapshot) -> Text<'static> {
    let title = Style::new().fg(Color::Green).add_modifier(Modifier::BOLD);
    let mut lines = Vec::new();
    for tables::TitledTable { title: name, table } in tables::sections(snapshot) {
        lines.push(Line::styled(name, title));
        lines.extend(table.to_string().lines().map(|line| Line::raw(line.to_owned())));
        lines.push(Line::raw(""));
    }
    Text::from(lines)
}
