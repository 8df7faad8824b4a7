//! Fuzz target: settings of simulations and load plans as text.
//!
//! Properties: no panic, and no text takes long; a trailing comment does not change the
//! meaning; an error has a reason.

use std::fmt::Debug;

use sim::CostModel;
use sim::fabric::{Sizes, TraceFlow};
use sim::world::services::ServiceTimeRecord;
use sim::world::{overload, overloaded_stack, platform, server, services, web};
use sim::{cores, fabric};

/// Entry point; the first byte selects the parser of the remaining text.
pub fn settings(data: &[u8]) {
    let Some((which, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match which % 11 {
        0 => check(text, cores::Config::from_toml),
        1 => check(text, fabric::Config::from_toml),
        2 => check(text, overloaded_stack::Config::from_toml),
        3 => check(text, server::Config::from_toml),
        4 => check(text, platform::Config::from_toml),
        5 => check(text, services::Config::from_toml),
        6 => check(text, web::Config::from_toml),
        7 => check(text, overload::Config::from_toml),
        8 => check(text, |text| toml::from_str::<load::Plan>(text)),
        9 => {
            check(text, CostModel::from_toml);
            if let Ok(model) = CostModel::from_toml(text) {
                assert_eq!(CostModel::from_toml(&model.to_toml("a", "b", "c")), Ok(model));
            }
        }
        _ => {
            let _ = (ServiceTimeRecord::parse(text, 1), text.parse::<Sizes>(), TraceFlow::list(text, 4));
        }
    }
}

fn check<T: Debug, E: ToString>(text: &str, read: impl Fn(&str) -> Result<T, E>) {
    let commented = format!("{text}\n# a comment\n");
    match (read(text), read(&commented)) {
        (Ok(one), Ok(other)) => assert_eq!(format!("{one:?}"), format!("{other:?}")),
        (Err(why), Err(_)) => assert!(!why.to_string().trim().is_empty(), "a reason is given"),
        // An open string or comment may swallow the appended comment.
        (Ok(_), Err(why)) => panic!("a comment spoils it: {}", why.to_string()),
        (Err(_), Ok(_)) => {}
    }
}
