//! Plots as inline SVG. The legend is beside the plot, never on it.

mod axes;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use axes::{DECADES, NINES_MAX, Nines, extent, larger_unit, log_range, marks, number, range, spread};

/// Width of a plot in pixels; a page scales it.
const WIDTH: u32 = 900;
/// Width of the legend on the right.
const LEGEND: u32 = 170;
/// Approximate width of a label's character.
const LETTER: u32 = 8;

/// Colours distinguishable for colour-blind readers (Okabe and Ito), and five more.
const COLOURS: [RGBColor; 12] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(140, 81, 10),
    RGBColor(127, 184, 0),
    RGBColor(126, 87, 194),
    RGBColor(231, 41, 138),
    RGBColor(60, 150, 160),
];

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// Colour of part `index`; part colours differ in meaning from line colours.
fn part_colour(index: usize) -> RGBColor {
    const PARTS: [RGBColor; 7] = [
        RGBColor(170, 170, 170),
        RGBColor(0, 90, 140),
        RGBColor(120, 190, 230),
        RGBColor(220, 90, 40),
        RGBColor(245, 190, 90),
        RGBColor(0, 130, 95),
        RGBColor(90, 90, 90),
    ];
    PARTS[index % PARTS.len()]
}

/// True if line `index` repeats a colour and is therefore dashed.
fn is_dashed(index: usize) -> bool {
    index / COLOURS.len() % 2 == 1
}

/// Marker of line `index`, at its points and in the legend.
fn mark(index: usize) -> ShapeStyle {
    if is_dashed(index) { colour(index).stroke_width(2) } else { colour(index).filled() }
}

/// Marker of part `index`.
fn part_mark(index: usize) -> ShapeStyle {
    part_colour(index).filled()
}

/// Width of line `index` of `count`: earlier lines are wider, so that covered lines stay visible.
fn width(index: usize, count: usize) -> u32 {
    2 + count.saturating_sub(index + 1).min(5) as u32
}

/// Distribution functions: latency in µs on a logarithmic axis, the share answered within it on an
/// axis with equal space per nine, so that the tail is visible. A share is 0.0..=1.0.
#[must_use]
pub fn cdf_plot(title: &str, series: &[(String, Vec<(f64, f64)>)]) -> String {
    let nines = |share: f64| (-(1.0 - share).max(1e-12).log10()).clamp(0.0, NINES_MAX);
    let lines: Vec<(String, Vec<(f64, f64)>)> = series
        .iter()
        .map(|(name, points)| {
            let points = points.iter().filter(|p| p.0 > 0.0).map(|&(us, share)| (us, nines(share)));
            (name.clone(), points.collect())
        })
        .collect();
    let (from, to) = log_range(lines.iter().flat_map(|(_, points)| points.iter().map(|p| p.0)));
    let (x_title, x_mark) = marks("latency, µs", to);
    draw(360, &names(series), mark, |plot| {
        let mut chart = frame(plot, title, 75)
            .build_cartesian_2d((from..to).log_scale(), Nines)
            .map_err(|e| e.to_string())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .label_style(text_style())
            .axis_desc_style(text_style())
            .x_desc(x_title)
            .y_desc("answered within")
            .x_label_formatter(&|us| x_mark(*us))
            .draw()
            .map_err(|e| e.to_string())?;
        lines
            .iter()
            .enumerate()
            .try_for_each(|(i, (_, points))| draw_line(&mut chart, points.iter().copied(), (i, lines.len())))
    })
}

/// Lines through points. The y axis is logarithmic if `log_y`, without values ≤ 0; the x axis is
/// logarithmic if its values span decades.
#[must_use]
pub fn line_plot(
    title: &str,
    x_label: &str,
    y_label: &str,
    log_y: bool,
    series: &[(String, Vec<(f64, f64)>)],
) -> String {
    let is_visible = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite() && (!log_y || p.1 > 0.0);
    let points = || series.iter().flat_map(|(_, points)| points.iter().filter(is_visible));
    let log_x = spread(points().map(|p| p.0)) >= DECADES;
    let (x_title, x_mark) = marks(x_label, extent(points().map(|p| p.0)).1);
    let (y_title, y_mark) = marks(y_label, extent(points().map(|p| p.1)).1);
    draw(360, &names(series), mark, |plot| {
        let mut builder = frame(plot, title, 75);
        macro_rules! lines {
            ($x:expr, $y:expr) => {{
                let mut chart = builder.build_cartesian_2d($x, $y).map_err(|e| e.to_string())?;
                chart
                    .configure_mesh()
                    .light_line_style(TRANSPARENT)
                    .label_style(text_style())
                    .axis_desc_style(text_style())
                    .x_desc(x_title)
                    .y_desc(y_title)
                    .x_label_formatter(&|x| x_mark(*x))
                    .y_label_formatter(&|y| y_mark(*y))
                    .draw()
                    .map_err(|e| e.to_string())?;
                for (i, (_, points)) in series.iter().enumerate() {
                    let points = || points.iter().filter(is_visible).copied();
                    draw_line(&mut chart, points(), (i, series.len()))?;
                    let dots = points().map(|p| Circle::new(p, width(i, series.len()) + 1, mark(i)));
                    chart.draw_series(dots).map_err(|e| e.to_string())?;
                }
                Ok(())
            }};
        }
        let (x_from, x_to) = range(points().map(|p| p.0), 0.03);
        let (x_low, x_high) = log_range(points().map(|p| p.0));
        let (y_low, y_high) = log_range(points().map(|p| p.1));
        let (_, y_to) = range(points().map(|p| p.1), 0.05);
        match (log_x, log_y) {
            (false, false) => lines!(x_from..x_to, 0.0..y_to),
            (false, true) => lines!(x_from..x_to, (y_low..y_high).log_scale()),
            (true, false) => lines!((x_low..x_high).log_scale(), 0.0..y_to),
            (true, true) => lines!((x_low..x_high).log_scale(), (y_low..y_high).log_scale()),
        }
    })
}

/// One horizontal bar per label, divided into parts in `unit`; parts of the same name have the same
/// colour. The sum follows the bar. If there are several parts and the shortest bars would be
/// unreadable, all bars have the same length and show shares.
#[must_use]
pub fn stacked_bars(title: &str, unit: &str, bars: &[(String, Vec<(String, f64)>)]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (name, _) in bars.iter().flat_map(|(_, parts)| parts) {
        if !parts.contains(name) {
            parts.push(name.clone());
        }
    }
    let sum = |parts: &[(String, f64)]| parts.iter().map(|p| p.1.max(0.0)).sum::<f64>();
    let as_shares = parts.len() > 1 && spread(bars.iter().map(|(_, parts)| sum(parts))) >= DECADES;
    let (shortest, longest) = extent(bars.iter().map(|(_, parts)| sum(parts)));
    // With shares, the unit suits the shortest bar, so that its sum is readable.
    let (unit, length) = larger_unit(unit, if as_shares { shortest } else { longest });
    let scale = |parts: &[(String, f64)]| if as_shares { 100.0 / sum(parts).max(1e-9) } else { length };
    let longest = bars.iter().map(|(_, parts)| sum(parts) * scale(parts)).fold(0.0, f64::max);
    // Space after the longest bar for its sum.
    let to = longest.max(1e-3) * 1.15;
    let height = 110 + 34 * bars.len() as u32;
    let longest_label = bars.iter().map(|(label, _)| label.chars().count()).max().unwrap_or_default();
    let label = (16 + LETTER * longest_label as u32).clamp(120, WIDTH / 3);
    let x_title =
        if as_shares { format!("share, %; at the right: the sum in {unit}") } else { unit.to_owned() };
    draw(height, &parts, part_mark, |plot| {
        let rows = bars.len() as f64;
        let mut chart =
            frame(plot, title, label).build_cartesian_2d(0.0..to, 0.0..rows).map_err(|e| e.to_string())?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .label_style(text_style())
            .axis_desc_style(text_style())
            .y_labels(0)
            .x_desc(x_title)
            .x_label_formatter(&|x| if as_shares && *x > 100.5 { String::new() } else { number(*x) })
            .draw()
            .map_err(|e| e.to_string())?;
        for (row, (label, cuts)) in bars.iter().enumerate() {
            // The first bar is the top one.
            let (low, high) = (rows - row as f64 - 0.85, rows - row as f64 - 0.15);
            let mut x = 0.0;
            for (name, value) in cuts {
                let index = parts.iter().position(|p| p == name).unwrap_or_default();
                let end = x + value.max(0.0) * scale(cuts);
                let bar = Rectangle::new([(x, low), (end, high)], part_mark(index));
                chart.draw_series([bar]).map_err(|e| e.to_string())?;
                x = end;
            }
            let middle = (low + high) / 2.0;
            let (x_px, y_px) = chart.backend_coord(&(x, middle));
            let (left_px, _) = chart.backend_coord(&(0.0, middle));
            let area = chart.plotting_area().strip_coord_spec();
            let (base_x, base_y) = area.get_base_pixel();
            let (x_px, y_px, left_px) = (x_px - base_x, y_px - base_y, left_px - base_x);
            let style = |h| text_style().pos(Pos::new(h, VPos::Center));
            area.draw_text(&number(sum(cuts) * length), &style(HPos::Left), (x_px + 6, y_px))
                .map_err(|e| e.to_string())?;
            area.draw_text(label, &style(HPos::Right), (left_px - 8, y_px)).map_err(|e| e.to_string())?;
        }
        Ok(())
    })
}

/// Line `index` of `count`.
fn draw_line<C: CoordTranslate<From = (f64, f64)>>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, C>,
    points: impl Iterator<Item = (f64, f64)> + Clone,
    (index, count): (usize, usize),
) -> Result<(), String> {
    let style = colour(index).stroke_width(width(index, count));
    let result = if is_dashed(index) {
        chart.draw_series(DashedLineSeries::new(points, 8, 5, style)).map(drop)
    } else {
        chart.draw_series(LineSeries::new(points, style)).map(drop)
    };
    result.map_err(|e| e.to_string())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Frame of a plot, with `label` pixels for the y axis's labels.
fn frame<'a, 'b>(area: &'a Area<'b>, title: &str, label: u32) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut frame = ChartBuilder::on(area);
    frame.caption(title, ("sans-serif", 18)).margin(8).margin_right(20);
    frame.x_label_area_size(46).y_label_area_size(label);
    frame
}

fn text_style() -> TextStyle<'static> {
    ("sans-serif", 13).into_font().color(&BLACK)
}

/// Draws a plot with a legend to its right.
fn draw(
    height: u32,
    names: &[String],
    mark: fn(usize) -> ShapeStyle,
    plot: impl FnOnce(&Area<'_>) -> Result<(), String>,
) -> String {
    let mut svg = String::new();
    let result = (|| {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(|e| e.to_string())?;
        let (left, right) = root.split_horizontally(WIDTH - LEGEND);
        plot(&left)?;
        for (i, name) in names.iter().enumerate() {
            let y = 50 + 22 * i as i32;
            let mark = Rectangle::new([(4, y), (18, y + 12)], mark(i));
            right.draw(&mark).map_err(|e| e.to_string())?;
            let style = text_style().pos(Pos::new(HPos::Left, VPos::Center));
            right.draw_text(name, &style, (26, y + 6)).map_err(|e| e.to_string())?;
        }
        root.present().map_err(|e| e.to_string())
    })();
    match result {
        Ok(()) => svg,
        // Only a bug in fonts or coordinates can cause this; the page keeps the tables.
        Err(e) => format!("<p class=\"note\">no plot: {}</p>\n", super::escape(&e)),
    }
}

fn names(series: &[(String, Vec<(f64, f64)>)]) -> Vec<String> {
    series.iter().map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests;
