//! M/G/1: one server, any law of service; with and without priorities.
//! Source: Pollaczek 1930, Khinchine 1932 (Kleinrock I §5.6); Cobham 1954
//! and White and Christie 1958 (Kleinrock II §3.4 to 3.6).

use super::load;
use crate::{Distribution, Span};

/// Mean wait, first come first served: λ E\[S²\] / 2 (1 − ρ).
#[must_use]
pub fn wait_mean(rate_per_s: f64, service: &Distribution) -> Option<Span> {
    wait_mean_of(rate_per_s, service.mean().as_secs_f64(), service.second_moment())
}

/// [`wait_mean`] of a law that is known by its first two moments: the mean in
/// s, that of the square in s².
#[must_use]
pub fn wait_mean_of(rate_per_s: f64, mean_s: f64, square_s2: f64) -> Option<Span> {
    let rho = rate_per_s * mean_s;
    (rho < 1.0).then(|| Span::from_secs_f64(rate_per_s * square_s2 / (2.0 * (1.0 - rho))))
}

/// How many times its service a request takes on average where all that are
/// present share the server evenly: 1 / (1 − ρ), whatever the law and however
/// long the request. Source: Kleinrock II §4.4.
#[must_use]
pub fn slowdown_shared(load: f64) -> Option<f64> {
    (load < 1.0).then(|| 1.0 / (1.0 - load))
}

/// Mean sojourn, first come first served.
#[must_use]
pub fn sojourn_mean(rate_per_s: f64, service: &Distribution) -> Option<Span> {
    Some(wait_mean(rate_per_s, service)? + service.mean())
}

/// A class of requests: what arrives per second, and its service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Arrivals per second.
    pub rate_per_s: f64,
    /// Its service time.
    pub service: Distribution,
}

impl Class {
    fn load(&self) -> f64 {
        load(self.rate_per_s, self.service.mean())
    }

    /// Mean service still to come, of the request in service, when someone
    /// arrives (counted as zero when another class or nobody is served), in s.
    fn residue_s(&self) -> f64 {
        self.rate_per_s * self.service.second_moment() / 2.0
    }
}

/// Mean wait of class `place` among `classes`, most urgent first, when a
/// service once begun runs to its end.
///
/// `None` when this class or a more urgent one cannot be served in time, or
/// the less urgent ones keep the server busy for ever.
///
/// # Panics
/// When `place` is outside `classes`.
#[must_use]
pub fn wait_mean_nonpreemptive(classes: &[Class], place: usize) -> Option<Span> {
    let spare = Spare::of(classes, place)?;
    let total: f64 = classes.iter().map(Class::load).sum();
    if total >= 1.0 {
        return None;
    }
    let residue_s: f64 = classes.iter().map(Class::residue_s).sum();
    Some(Span::from_secs_f64(residue_s / (spare.above * spare.with)))
}

/// Mean sojourn of class `place` among `classes`, most urgent first, when the
/// more urgent interrupts and the interrupted resumes where it was. Less
/// urgent classes do not matter.
///
/// # Panics
/// When `place` is outside `classes`.
#[must_use]
pub fn sojourn_mean_preemptive(classes: &[Class], place: usize) -> Option<Span> {
    let spare = Spare::of(classes, place)?;
    let residue_s: f64 = classes[..=place].iter().map(Class::residue_s).sum();
    let service_s = classes[place].service.mean().as_secs_f64();
    Some(Span::from_secs_f64(service_s / spare.above + residue_s / (spare.above * spare.with)))
}

/// Mean of the time that class `place` is present but not served, before its
/// first service and while interrupted: its sojourn less its service.
///
/// # Panics
/// When `place` is outside `classes`.
#[must_use]
pub fn wait_mean_preemptive(classes: &[Class], place: usize) -> Option<Span> {
    Some(sojourn_mean_preemptive(classes, place)? - classes[place].service.mean())
}

/// What is left of the server after the classes above one, and after it too.
struct Spare {
    above: f64,
    with: f64,
}

impl Spare {
    fn of(classes: &[Class], place: usize) -> Option<Self> {
        let above = 1.0 - classes[..place].iter().map(Class::load).sum::<f64>();
        let with = above - classes[place].load();
        (with > 0.0).then_some(Self { above, with })
    }
}
