//! `--dry-run` of daemons: the checks before the first action, and the plan as a table.
//!
//! Reads arguments, files and the state of the machine; opens, creates and changes nothing. What only
//! an attempt can show, such as a permission, is left to `greenwave doctor`. `guard attach --dry-run` is
//! different: it observes connections, and sheds none.

use crate::Error;
use crate::table::Table;

/// The flag.
// clap groups arguments by type name, and the command's own arguments have the same one.
#[derive(clap::Args)]
#[group(skip)]
pub struct Flag {
    /// Check arguments, files and devices, print the plan, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Flag {
    /// Prints the rows of `plan` if the flag is given; `None` if it is not.
    ///
    /// # Errors
    /// The errors of `plan`.
    pub fn print(
        &self,
        area: &str,
        plan: impl FnOnce() -> Result<Vec<PlanRow>, Error>,
    ) -> Option<Result<(), Error>> {
        self.dry_run.then(|| {
            let mut table = Table::new(2, &["setting", "value"]);
            plan()?.into_iter().for_each(|(what, value)| table.row(vec![what.to_owned(), value]));
            out!("{table}");
            outln!("dry run: valid, and nothing was changed; greenwave doctor {area} tests the mechanisms");
            Ok(())
        })
    }
}

/// A part of a plan: its name and its value.
pub type PlanRow = (&'static str, String);

/// `values` as one text, or a dash.
pub fn list(values: impl IntoIterator<Item = String>) -> String {
    let values: Vec<String> = values.into_iter().collect();
    if values.is_empty() { "–".to_owned() } else { values.join(", ") }
}
