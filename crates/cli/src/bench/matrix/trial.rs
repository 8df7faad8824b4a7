//! One cell of the matrix: a trial of a program and a feature.

use super::feature::Feature;
use super::harness::{Environment, Trial};
use super::program::TestedProgram;
use super::verdict::TrialResult;
use super::{connection_flood, http_checks, lifecycle_tests, load, suite};
use crate::programs::StackChoice;

/// Tests `feature` of `program` on greenwave's stack; a failure is repeated on the kernel's.
pub fn run_trial(environment: &Environment<'_>, program: TestedProgram, feature: Feature) -> TrialResult {
    if let Some(why) = feature.is_without(program) {
        return TrialResult::Without(why);
    }
    if let Some(why) = program.is_missing() {
        return TrialResult::Skipped(why);
    }
    let on = |stack| {
        let world = Trial::new(environment, stack)?;
        run(feature, program, &world).map_err(|why| match world.output() {
            output if output.is_empty() || why.contains(&output) => why,
            output => format!("{why}; its output: {output}"),
        })
    };
    match on(StackChoice::None) {
        Ok(results) => results,
        Err(why) => match on(StackChoice::Kernel) {
            Ok(_) => TrialResult::Fails(why),
            Err(kernel) => TrialResult::Limited(format!("{why}. Also fails on the kernel's TCP: {kernel}")),
        },
    }
}

/// Runs the trial on the stack of `world`; returns its result or the failure.
fn run(feature: Feature, program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
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
