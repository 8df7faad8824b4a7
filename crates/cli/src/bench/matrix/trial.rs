//! One field of the matrix: a program and a feature, tried.

use super::came::Came;
use super::feature::Feature;
use super::program::Program;
use super::world::{Place, World};
use super::{crowd, ends, load, serves, suite};
use crate::programs::Stack;

/// Tries `feature` of `program` on our stack, and what goes wrong there on the kernel's.
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
            said => format!("{why}; it said: {said}"),
        })
    };
    match on(Stack::None) {
        Ok(came) => came,
        Err(why) => match on(Stack::Kernel) {
            Ok(_) => Came::Fails(why),
            Err(there) => Came::Limited(format!("{why}. On the kernel's TCP it goes wrong, too: {there}")),
        },
    }
}

/// What comes of it on the stack of `world`, or what did not go as it should.
fn run(feature: Feature, program: Program, world: &World<'_>) -> Result<Came, String> {
    match feature {
        _ if program.is_client() => serves::client(feature, program, world),
        Feature::Serves => serves::serves(program, world),
        Feature::KeepAlive => serves::is_kept(program, world),
        Feature::Download => serves::download(program, world),
        Feature::Upload => serves::upload(program, world),
        Feature::Crowd => crowd::many(program, world),
        Feature::Descriptors => crowd::few_descriptors(program, world),
        Feature::Load => load::load(program, world),
        Feature::Restart => ends::restart(program, world),
        Feature::Reload => ends::reload(program, world),
        Feature::Kill => ends::kill(program, world),
        Feature::Suite => suite::suite(program, world),
    }
}
