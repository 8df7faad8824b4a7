//! Axes of plots: ranges, units and tick labels.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// End of the axis of nines: the share 1 - 10⁻⁵.
pub(super) const NINES_MAX: f64 = 5.0;

/// Ratio of the largest to the smallest value above which a linear scale hides the small ones.
pub(super) const DECADES: f64 = 20.0;

/// Smallest and largest value; if there are none, the first is larger.
pub(super) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// Ratio of the largest to the smallest value; 1.0 unless all are positive.
pub(super) fn spread(values: impl Iterator<Item = f64>) -> f64 {
    let (low, high) = extent(values);
    if low > 0.0 && high >= low { high / low } else { 1.0 }
}

/// Time in µs above which another unit is used.
const LONG: f64 = 1e5;

/// Title and tick format of an axis with the largest value `to`. Long times in µs have their unit
/// at each tick instead of in the title.
pub(super) fn marks(title: &str, to: f64) -> (&str, fn(f64) -> String) {
    match title.strip_suffix(", µs") {
        Some(quantity) if to > LONG => (quantity, time),
        _ => (title, number),
    }
}

/// A time in µs, formatted in a suitable unit.
fn time(us: f64) -> String {
    if us == 0.0 {
        return number(us);
    }
    let (unit, length) = unit_of(us.abs(), 1e3);
    format!("{} {unit}", number(us * length))
}

/// Larger unit for bars of `value` in `unit`, and its size in `unit`.
pub(super) fn larger_unit(unit: &str, value: f64) -> (&str, f64) {
    if unit == "µs" { unit_of(value, LONG) } else { (unit, 1.0) }
}

/// Suitable unit of a time in µs, milliseconds from `ms_from` on, and its size in µs.
fn unit_of(us: f64, ms_from: f64) -> (&'static str, f64) {
    match us {
        v if v >= 1e6 => ("s", 1e-6),
        v if v >= ms_from => ("ms", 1e-3),
        _ => ("µs", 1.0),
    }
}

/// Axis of shares in nines: 0 %, 90 %, 99 %, …
pub(super) struct Nines;

impl Ranged for Nines {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = value / NINES_MAX;
        limit.0 + (f64::from(limit.1 - limit.0) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        (0..=NINES_MAX as u32).map(f64::from).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..NINES_MAX
    }
}

impl ValueFormatter<f64> for Nines {
    fn format_ext(&self, value: &f64) -> String {
        match value.round() as u32 {
            0 => "0 %".to_owned(),
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            n => format!("99.{} %", "9".repeat(n as usize - 2)),
        }
    }
}

/// Smallest and largest value, extended by `margin` of the width on both sides.
pub(super) fn range(values: impl Iterator<Item = f64>, margin: f64) -> (f64, f64) {
    let (low, high) = extent(values);
    if low > high {
        return (0.0, 1.0);
    }
    let width = if high > low { high - low } else { high.abs().max(1.0) };
    (low - margin * width, high + margin * width)
}

/// Whole decades around the values, which are positive.
pub(super) fn log_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = extent(values);
    if low > high {
        return (1.0, 10.0);
    }
    let decade = |exponent: f64| 10f64.powf(exponent);
    let (from, to) = (low.log10().floor(), high.log10().ceil());
    (decade(from), decade(if to > from { to } else { from + 1.0 }))
}

/// A number without insignificant digits; five digits and more in groups of three.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 9_999.5 => {
            let digits = format!("{v:.0}");
            let group = |(i, digit): (usize, char)| {
                let gap = (i > 0 && (digits.len() - i).is_multiple_of(3)).then_some('\u{202f}');
                gap.into_iter().chain([digit])
            };
            let grouped: String = digits.chars().enumerate().flat_map(group).collect();
            if value < 0.0 { format!("-{grouped}") } else { grouped }
        }
        v if v >= 100.0 || v == 0.0 || (v >= 1.0 && v.fract() < 1e-9) => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => {
            let text = format!("{value:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => format!("{value}"),
    }
}
