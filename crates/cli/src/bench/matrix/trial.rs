//! One cell of the matrix: a trial of a program and a feature.

use super::feature::Feature;
use super::harness::{Place, World};
use super::program::Program;
use super::verdict::Came;
use super::{connection_flood, http_checks, lifecycle_tests, load, suite};
use crate::programs::Stack;

/// Tests `feature` of `program` on greenwave's stack; a failure is repeated on the kernel's.
pub fn tried(place: &Place<'_>, program: Program, feature: Feature) -> Came {
    if let Some(why) = feature.is_without(program) {
        return Came::Without(why);
    }
    if let Some(why) = program.is_missing() {
        return Came::Skipped(why);
    }
    let on = |stack| {
        let world = World::new(place, stack)?;
        run(feature, program, &world).map_err(|why| match world.said() {
            said if said.is_empty() || why.contains(&said) => why,
            said => format!("{why}; its output: {said}"),
        })
    };
    match on(Stack::None) {
        Ok(came) => came,
        Err(why) => match on(Stack::Kernel) {
            Ok(_) => Came::Fails(why),
            Err(there) => Came::Limited(format!("{why}. Also fails on the kernel's TCP: {there}")),
        },
    }
}

/// Runs the trial on the stack of `world`; returns its result or the failure.
fn run(feature: Feature, program: Program, world: &World<'_>) -> Result<Came, String> {
    match feature {
        _ if program.is_client() => http_checks::client(feature, program, world),
        Feature::Serves => http_checks::serves(program, world),
        Feature::KeepAlive => http_checks::is_kept(program, world),
        Feature::Download => http_checks::download(program, world),
        Feature::Upload => http_checks::upload(program, world),
        Feature::Crowd => connection_flood::many(program, world),
        Feature::Descriptors => connection_flood::few_descriptors(program, world),
        Feature::Load => load::load(program, world),
        Feature::Restart => lifecycle_tests::restart(program, world),
        Feature::Reload => lifecycle_tests::reload(program, world),
        Feature::Kill => lifecycle_tests::kill(program, world),
        Feature::Suite => suite::suite(program, world),
    }
}
