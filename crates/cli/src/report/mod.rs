//! Pages that hold a result: one HTML file, plots included, nothing fetched.

mod html;
mod plots;

pub use html::{Section, escape, page};
pub use plots::{cdf_plot, line_plot, stacked_bars};
