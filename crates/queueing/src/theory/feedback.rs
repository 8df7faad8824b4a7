//! Levels that requests sink through: how long that takes, and the thresholds
//! that make the mean least.
//!
//! A request starts at the most urgent level and sinks to the next when it has
//! been served for a threshold. Each level is first come first served, and a
//! more urgent one interrupts. Under M/G/1, with thresholds a₁ < … < a₍ₖ₋₁₎,
//! a₀ = 0 and aₖ = ∞, who needs x, with a₍ᵢ₋₁₎ < x ≤ aᵢ, takes on average
//!
//! ```text
//! T(x) = (W(aᵢ) + x) / (1 − ρ(a₍ᵢ₋₁₎))
//! W(a) = λ E[min(X, a)²] / 2 (1 − ρ(a)),   ρ(a) = λ E[min(X, a)]
//! ```
//!
//! since it waits for what is there of levels 1 to i, and for what comes
//! meanwhile and stays above. The mean over the distribution F,
//!
//! ```text
//! T = Σᵢ [ (F(aᵢ) − F(a₍ᵢ₋₁₎)) W(aᵢ) + ∫ x dF ] / (1 − ρ(a₍ᵢ₋₁₎)),   ∫ from a₍ᵢ₋₁₎ to aᵢ
//! ```
//!
//! is the sum of ratios that PIAS (NSDI '15 §4.2) minimises, but for the delay
//! of a level: PIAS has that of M/M/1 and adds up those of all levels that a
//! flow has seen, which is a bound; this is exact. A term knows two
//! neighbouring thresholds only, so that dynamic programming finds the least
//! sum and no search can miss it.
//! Source: Kleinrock II (1976) §4.7, multilevel processor sharing.

/// How much requests need: a distribution whose share grows evenly between
/// given points, in any unit.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeDistribution {
    points: Vec<(f64, f64)>,
    /// What is known up to each point.
    sums: Vec<Below>,
}

/// What is known of the requests that need no more than some amount.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Below {
    /// Their share.
    share: f64,
    /// The integrals of x dF and x² dF up to there.
    first: f64,
    second: f64,
}

impl SizeDistribution {
    /// Amounts above 0, and the share of requests that need no more; neither
    /// may fall from one point to the next. Two points of one amount are that
    /// share of requests that all need it.
    ///
    /// `None` unless shares go from 0 to 1.
    #[must_use]
    pub fn new(points: Vec<(f64, f64)>) -> Option<Self> {
        let rises = points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1);
        let (first, last) = (points.first()?, points.last()?);
        let whole = first.1 == 0.0 && last.1 == 1.0 && first.0 > 0.0 && last.0.is_finite();
        let mut sum = Below::default();
        let add = |pair: &[(f64, f64)]| {
            sum = sum.and(pair[0], pair[1], 1.0);
            sum
        };
        let sums = std::iter::once(Below::default()).chain(points.windows(2).map(add)).collect();
        (rises && whole).then_some(Self { points, sums })
    }

    /// The mean amount.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.below(self.max()).first
    }

    /// The mean of its square.
    #[must_use]
    pub fn second_moment(&self) -> f64 {
        self.below(self.max()).second
    }

    /// The largest amount.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.points.last().map_or(0.0, |last| last.0)
    }

    fn below(&self, amount: f64) -> Below {
        let passed = self.points.partition_point(|point| point.0 <= amount);
        match (passed.checked_sub(1), self.points.get(passed)) {
            (None, _) => Below::default(),
            (Some(last), None) => self.sums[last],
            (Some(last), Some(&next)) => {
                let from = self.points[last];
                self.sums[last].and(from, next, (amount - from.0) / (next.0 - from.0))
            }
        }
    }
}

impl Below {
    /// With the lower `part` (0 to 1) of those between two points.
    fn and(self, (from, low): (f64, f64), (to, high): (f64, f64), part: f64) -> Self {
        let (share, to) = ((high - low) * part, from + (to - from) * part);
        Self {
            share: self.share + share,
            first: self.first + share * (from + to) / 2.0,
            second: self.second + share * (from * from + from * to + to * to) / 3.0,
        }
    }
}

/// One edge between levels, and what the sum needs to know there.
#[derive(Clone, Copy, Debug)]
struct Edge {
    share: f64,
    first: f64,
    wait: f64,
    spare: f64,
}

impl Edge {
    const NONE: Self = Self { share: 0.0, first: 0.0, wait: 0.0, spare: 1.0 };

    fn at(demand: &SizeDistribution, rate: f64, amount: f64) -> Self {
        let Below { share, first, second } = demand.below(amount);
        let over = (1.0 - share).max(0.0);
        let spare = 1.0 - rate * (first + over * amount);
        Self { share, first, wait: rate * (second + over * amount * amount) / (2.0 * spare), spare }
    }

    /// The term of the level from this edge to `next`.
    fn term(&self, next: &Self) -> f64 {
        ((next.share - self.share) * next.wait + next.first - self.first) / self.spare
    }
}

/// Mean sojourn at `load` (0 to 1, neither included) of a server that serves
/// one unit of `demand` in a unit of time; in that.
///
/// `None` when the load is 1 or more, or `thresholds` do not increase from
/// above 0.
#[must_use]
pub fn sojourn_mean(demand: &SizeDistribution, load: f64, thresholds: &[f64]) -> Option<f64> {
    let rises = thresholds.windows(2).all(|pair| pair[0] < pair[1]) && thresholds.iter().all(|&t| t > 0.0);
    if !(load > 0.0 && load < 1.0 && rises) {
        return None;
    }
    let rate = load / demand.mean();
    let inner = thresholds.iter().map(|&amount| amount.min(demand.max()));
    let edges = inner.chain([demand.max()]).map(|amount| Edge::at(demand, rate, amount));
    let (sum, _) = edges.fold((0.0, Edge::NONE), |(sum, from), to| (sum + from.term(&to), to));
    Some(sum)
}

/// The thresholds, whole units, that make [`sojourn_mean`] least with at most
/// so many `levels`. Fewer are best where those who have got much are soon
/// done: there a further level lets others pass who take longer.
///
/// `None` when the load is not above 0 and below 1, or there is no level.
#[must_use]
pub fn thresholds_best(demand: &SizeDistribution, load: f64, levels: usize) -> Option<Vec<u64>> {
    if !(load > 0.0 && load < 1.0) || levels == 0 {
        return None;
    }
    let (rate, last) = (load / demand.mean(), demand.max().ceil() as u64);
    let mut candidates = coarse(demand, last);
    let mut best = cheapest(demand, rate, &candidates, levels);
    for _ in 0..ROUNDS {
        let finer = refine(&candidates, &best);
        if finer.iter().all(|amount| candidates.binary_search(amount).is_ok()) {
            break;
        }
        candidates = finer;
        best = cheapest(demand, rate, &candidates, levels);
    }
    Some(best)
}

/// Amounts from 1 to below `last`, each a few per cent above the one before,
/// and the distribution's own points.
fn coarse(demand: &SizeDistribution, last: u64) -> Vec<u64> {
    let mut amounts: Vec<u64> = demand.points.iter().map(|point| point.0 as u64).collect();
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

/// A first look has about this many candidates per factor e.
const COARSE: u64 = 24;
/// Closer looks at most; a handful reaches steps of one unit.
const ROUNDS: usize = 32;
/// A closer one has so many between two neighbours of each threshold.
const FINE: u64 = 8;

/// Around each of `best` the stretch to its neighbours in `candidates`, in
/// finer steps.
fn refine(candidates: &[u64], best: &[u64]) -> Vec<u64> {
    let mut finer = Vec::new();
    for amount in best {
        let place = candidates.binary_search(amount).expect("the best are candidates");
        let from = candidates[place.saturating_sub(1)];
        let to = candidates[(place + 1).min(candidates.len() - 1)];
        finer.extend((from..=to).step_by(((to - from) / (2 * FINE)).max(1) as usize));
        finer.push(*amount);
    }
    finer.sort_unstable();
    finer.dedup();
    finer
}

/// Of `candidates` those that part at most `levels` levels at the least sum.
fn cheapest(demand: &SizeDistribution, rate: f64, candidates: &[u64], levels: usize) -> Vec<u64> {
    let inner = candidates.iter().map(|&amount| amount as f64);
    let edges = std::iter::once(Edge::NONE)
        .chain(inner.chain([demand.max()]).map(|amount| Edge::at(demand, rate, amount)));
    let edges: Vec<Edge> = edges.collect();
    let end = edges.len() - 1;
    // Per edge, the least sum up to it with so many levels above, and the edge before.
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
