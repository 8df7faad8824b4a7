//! M/G/1: one server, any distribution of service; with and without priorities.
//! Source: Pollaczek 1930, Khinchine 1932 (Kleinrock I §5.6); Cobham 1954
//! and White and Christie 1958 (Kleinrock II §3.4 to 3.6).

use super::load;
use crate::{Distribution, Span};

/// Mean wait, first come first served: λ E\[S²\] / 2 (1 − ρ).
#[must_use]
pub fn wait_mean(rate_per_s: f64, service: &Distribution) -> Option<Span> {
    wait_mean_of(rate_per_s, service.mean().as_secs_f64(), service.second_moment())
}

/// [`wait_mean`] for a distribution given by its first two moments, in s and s².
#[must_use]
pub fn wait_mean_of(rate_per_s: f64, mean_s: f64, square_s2: f64) -> Option<Span> {
    let rho = rate_per_s * mean_s;
    (rho < 1.0).then(|| Span::from_secs_f64(rate_per_s * square_s2 / (2.0 * (1.0 - rho))))
}

/// Mean slowdown (sojourn over service) under processor sharing: 1 / (1 − ρ),
/// for any distribution and any service time. Source: Kleinrock II §4.4.
#[must_use]
pub fn slowdown_shared(load: f64) -> Option<f64> {
    (load < 1.0).then(|| 1.0 / (1.0 - load))
}

/// Mean sojourn, first come first served.
#[must_use]
pub fn sojourn_mean(rate_per_s: f64, service: &Distribution) -> Option<Span> {
    Some(wait_mean(rate_per_s, service)? + service.mean())
}

/// Class of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mg1Class {
    /// Arrivals per second.
    pub rate_per_s: f64,
    /// Service time.
    pub service: Distribution,
}

impl Mg1Class {
    fn load(&self) -> f64 {
        load(self.rate_per_s, self.service.mean())
    }

    /// Mean residual service of this class at an arrival, in s; zero while another
    /// class or no request is served.
    fn residue_s(&self) -> f64 {
        self.rate_per_s * self.service.second_moment() / 2.0
    }
}

/// Mean wait of class `index` among `classes`, most urgent first, without
/// preemption.
///
/// `None` if this class or a more urgent one has no steady state, or the total
/// load is 1 or more.
///
/// # Panics
/// If `index` is outside `classes`.
#[must_use]
pub fn wait_mean_nonpreemptive(classes: &[Mg1Class], index: usize) -> Option<Span> {
    let spare = Spare::of(classes, index)?;
    let total: f64 = classes.iter().map(Mg1Class::load).sum();
    if total >= 1.0 {
        return None;
    }
    let residue_s: f64 = classes.iter().map(Mg1Class::residue_s).sum();
    Some(Span::from_secs_f64(residue_s / (spare.above * spare.with)))
}

/// Mean sojourn of class `index` among `classes`, most urgent first, with
/// preemptive resume. Less urgent classes do not matter.
///
/// # Panics
/// If `index` is outside `classes`.
#[must_use]
pub fn sojourn_mean_preemptive(classes: &[Mg1Class], index: usize) -> Option<Span> {
    let spare = Spare::of(classes, index)?;
    let residue_s: f64 = classes[..=index].iter().map(Mg1Class::residue_s).sum();
    let service_s = classes[index].service.mean().as_secs_f64();
    Some(Span::from_secs_f64(service_s / spare.above + residue_s / (spare.above * spare.with)))
}

/// Mean time that class `index` is present but not served, before its first
/// service and while preempted: sojourn minus service.
///
/// # Panics
/// If `index` is outside `classes`.
#[must_use]
pub fn wait_mean_preemptive(classes: &[Mg1Class], index: usize) -> Option<Span> {
    Some(sojourn_mean_preemptive(classes, index)? - classes[index].service.mean())
}

/// Share of the server left by the classes above one, without and with that class.
struct Spare {
    above: f64,
    with: f64,
}

impl Spare {
    fn of(classes: &[Mg1Class], index: usize) -> Option<Self> {
        let above = 1.0 - classes[..index].iter().map(Mg1Class::load).sum::<f64>();
        let with = above - classes[index].load();
        (with > 0.0).then_some(Self { above, with })
    }
}
