//! Multi-level feedback: mean sojourn, and the thresholds that minimise it.
//!
//! A request starts at the most urgent level and is demoted to the next when it
//! has been served for a threshold. Each level is first come first served; more
//! urgent levels preempt. Under M/G/1, with thresholds a₁ < … < a₍ₖ₋₁₎, a₀ = 0
//! and aₖ = ∞, a request of size x, a₍ᵢ₋₁₎ < x ≤ aᵢ, has the mean sojourn
//!
//! ```text
//! T(x) = (W(aᵢ) + x) / (1 − ρ(a₍ᵢ₋₁₎))
//! W(a) = λ E[min(X, a)²] / 2 (1 − ρ(a)),   ρ(a) = λ E[min(X, a)]
//! ```
//!
//! since it waits for the work present at levels 1 to i, and for the arrivals at
//! levels above its own. The mean over the distribution F,
//!
//! ```text
//! T = Σᵢ [ (F(aᵢ) − F(a₍ᵢ₋₁₎)) W(aᵢ) + ∫ x dF ] / (1 − ρ(a₍ᵢ₋₁₎)),   ∫ from a₍ᵢ₋₁₎ to aᵢ
//! ```
//!
//! is the sum of ratios that PIAS (NSDI '15 §4.2) minimises, except for the delay
//! of a level: PIAS uses M/M/1's and adds up those of all levels that a flow
//! passes, which is a bound; this is exact. A term depends on two neighbouring
//! thresholds only, so dynamic programming finds the global minimum.
//! Source: Kleinrock II (1976) §4.7, multilevel processor sharing.

/// Distribution of request sizes, in any unit: piecewise linear between points.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeDistribution {
    points: Vec<(f64, f64)>,
    /// Share and partial moments up to each point.
    sums: Vec<Partial>,
}

/// Share and partial moments of the requests up to some size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Partial {
    /// Share of requests.
    share: f64,
    /// Integrals of x dF and x² dF.
    first: f64,
    second: f64,
}

impl SizeDistribution {
    /// Distribution through points of a size above 0 and the share of requests up
    /// to it. Neither may decrease. Two points of equal size are a share of requests
    /// of exactly that size.
    ///
    /// `None` unless the shares go from 0 to 1.
    #[must_use]
    pub fn new(points: Vec<(f64, f64)>) -> Option<Self> {
        let rises = points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let (first, last) = (points.first()?, points.last()?);
        let is_complete = first.1 == 0.0 && last.1 == 1.0 && first.0 > 0.0 && last.0.is_finite();
        let mut sum = Partial::default();
        let add = |pair: &[(f64, f64)]| {
            sum = sum.and(pair[0], pair[1], 1.0);
            sum
        };
        let sums = std::iter::once(Partial::default()).chain(points.windows(2).map(add)).collect();
        (rises && is_complete).then_some(Self { points, sums })
    }

    /// Mean size.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.partial(self.max()).first
    }

    /// Second moment.
    #[must_use]
    pub fn second_moment(&self) -> f64 {
        self.partial(self.max()).second
    }

    /// Largest size.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.points.last().map_or(0.0, |last| last.0)
    }

    fn partial(&self, amount: f64) -> Partial {
        let passed = self.points.partition_point(|point| point.0 <= amount);
        match (passed.checked_sub(1), self.points.get(passed)) {
            (None, _) => Partial::default(),
            (Some(last), None) => self.sums[last],
            (Some(last), Some(&next)) => {
                let from = self.points[last];
                self.sums[last].and(from, next, (amount - from.0) / (next.0 - from.0))
            }
        }
    }
}

impl Partial {
    /// Adds the lower `part` (0 to 1) of the segment between two points.
    fn and(self, (from, low): (f64, f64), (to, high): (f64, f64), part: f64) -> Self {
        let (share, to) = ((high - low) * part, from + (to - from) * part);
        Self {
            share: self.share + share,
            first: self.first + share * (from + to) / 2.0,
            second: self.second + share * (from * from + from * to + to * to) / 3.0,
        }
    }
}

/// Threshold between two levels, with the terms of the sum at this threshold.
#[derive(Clone, Copy, Debug)]
struct Edge {
    share: f64,
    first: f64,
    wait: f64,
    idle: f64,
}

impl Edge {
    const NONE: Self = Self { share: 0.0, first: 0.0, wait: 0.0, idle: 1.0 };

    fn at(sizes: &SizeDistribution, rate: f64, amount: f64) -> Self {
        let Partial { share, first, second } = sizes.partial(amount);
        let over = (1.0 - share).max(0.0);
        let idle = 1.0 - rate * (first + over * amount);
        Self { share, first, wait: rate * (second + over * amount * amount) / (2.0 * idle), idle }
    }

    /// Term of the level between this threshold and `next`.
    fn term(&self, next: &Self) -> f64 {
        ((next.share - self.share) * next.wait + next.first - self.first) / self.idle
    }
}

/// Mean sojourn at `load` (above 0 and below 1) of a server that serves one unit
/// of `sizes` per unit of time; in that unit.
///
/// `None` if the load is out of range, or `thresholds` do not increase from above
/// 0.
#[must_use]
pub fn sojourn_mean(sizes: &SizeDistribution, load: f64, thresholds: &[f64]) -> Option<f64> {
    let rises = thresholds.windows(2).all(|pair| pair[0] < pair[1]) && thresholds.iter().all(|&t| t > 0.0);
    if !(load > 0.0 && load < 1.0 && rises) {
        return None;
    }
    let rate = load / sizes.mean();
    let inner = thresholds.iter().map(|&amount| amount.min(sizes.max()));
    let edges = inner.chain([sizes.max()]).map(|amount| Edge::at(sizes, rate, amount));
    let (sum, _) = edges.fold((0.0, Edge::NONE), |(sum, from), to| (sum + from.term(&to), to));
    Some(sum)
}

/// Integer thresholds that minimise [`sojourn_mean`] with at most `levels`
/// levels. Fewer are best if requests that were served for long are about to
/// finish: there a further level lets longer requests overtake.
///
/// `None` if the load is not above 0 and below 1, or `levels` is 0.
#[must_use]
pub fn thresholds_best(sizes: &SizeDistribution, load: f64, levels: usize) -> Option<Vec<u64>> {
    if !(load > 0.0 && load < 1.0) || levels == 0 {
        return None;
    }
    let (rate, last) = (load / sizes.mean(), sizes.max().ceil() as u64);
    let mut candidates = coarse(sizes, last);
    let mut best = minimise(sizes, rate, &candidates, levels);
    for _ in 0..ROUNDS {
        let finer = refine(&candidates, &best);
        if finer.iter().all(|amount| candidates.binary_search(amount).is_ok()) {
            break;
        }
        candidates = finer;
        best = minimise(sizes, rate, &candidates, levels);
    }
    Some(best)
}

/// Sizes from 1 to below `last` in steps of a few per cent, and the points of
/// the distribution.
fn coarse(sizes: &SizeDistribution, last: u64) -> Vec<u64> {
    let mut amounts: Vec<u64> = sizes.points.iter().map(|point| point.0 as u64).collect();
    let mut next = 1;
    while next < last {
        amounts.push(next);
        next += 1 + next / COARSE;
    }
    amounts.retain(|amount| (1..last).contains(amount));
    amounts.sort_unstable();
    amounts.dedup();
    amounts
}

/// Number of candidates per factor of e in the first search.
const COARSE: u64 = 24;
/// Maximum number of refinements; about five reach steps of one unit.
const ROUNDS: usize = 32;
/// Number of candidates between two neighbours of each threshold in a refinement.
const FINE: u64 = 8;

/// Finer candidates: for each of `best`, the range between its neighbours in
/// `candidates`.
fn refine(candidates: &[u64], best: &[u64]) -> Vec<u64> {
    let mut finer = Vec::new();
    for amount in best {
        let index = candidates.binary_search(amount).expect("the best are candidates");
        let from = candidates[index.saturating_sub(1)];
        let to = candidates[(index + 1).min(candidates.len() - 1)];
        finer.extend((from..=to).step_by(((to - from) / (2 * FINE)).max(1) as usize));
        finer.push(*amount);
    }
    finer.sort_unstable();
    finer.dedup();
    finer
}

/// Thresholds among `candidates` with the least sum for at most `levels` levels.
fn minimise(sizes: &SizeDistribution, rate: f64, candidates: &[u64], levels: usize) -> Vec<u64> {
    let inner = candidates.iter().map(|&amount| amount as f64);
    let edges = std::iter::once(Edge::NONE)
        .chain(inner.chain([sizes.max()]).map(|amount| Edge::at(sizes, rate, amount)));
    let edges: Vec<Edge> = edges.collect();
    let end = edges.len() - 1;
    // Per threshold, the least sum up to it at a given level, and the previous threshold.
    let mut sums: Vec<f64> = edges.iter().map(|edge| Edge::NONE.term(edge)).collect();
    let mut before: Vec<Vec<usize>> = Vec::new();
    let (mut least, mut parts) = (sums[end], 0);
    for level in 1..levels.min(end) {
        let best = |to: usize| {
            let sum = |from: usize| (sums[from] + edges[from].term(&edges[to]), from);
            (level..to).map(sum).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
        };
        let (next, from): (Vec<f64>, Vec<usize>) = (0..=end).map(best).unzip();
        sums = next;
        before.push(from);
        if sums[end] < least {
            (least, parts) = (sums[end], level);
        }
    }
    let mut edge = end;
    let mut chosen: Vec<u64> = before[..parts]
        .iter()
        .rev()
        .map(|from| {
            edge = from[edge];
            candidates[edge - 1]
        })
        .collect();
    chosen.reverse();
    chosen
}
