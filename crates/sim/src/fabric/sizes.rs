//! Flow size distributions.

use std::fmt;
use std::str::FromStr;

use queueing::theory::feedback::SizeDistribution;

use super::packet::MSS;

/// Distribution of flow sizes, in full segments.
///
/// Written as `websearch`, `datamining`, or a list that repeats: `list 50000*8 1000000*3`
/// (bytes*times).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Queries and background traffic of a search cluster (DCTCP, SIGCOMM '10, as used by PIAS,
    /// NSDI '15): mean 1,141 segments.
    WebSearch,
    /// Data mining cluster (VL2, SIGCOMM '09): mean 5,117 segments.
    DataMining,
    /// Fixed sequence, in segments, repeated.
    List(Vec<u32>),
}

/// CDF points: segments, and fraction of flows of at most this size; linear in between.
type Points = [(f64, f64)];

const WEB_SEARCH: [(f64, f64); 12] = [
    (6.0, 0.0),
    (6.0, 0.15),
    (13.0, 0.2),
    (19.0, 0.3),
    (33.0, 0.4),
    (53.0, 0.53),
    (133.0, 0.6),
    (667.0, 0.7),
    (1333.0, 0.8),
    (3333.0, 0.9),
    (6667.0, 0.97),
    (20000.0, 1.0),
];

const DATA_MINING: [(f64, f64); 9] = [
    (1.0, 0.0),
    (1.0, 0.5),
    (2.0, 0.6),
    (3.0, 0.7),
    (7.0, 0.8),
    (267.0, 0.9),
    (2107.0, 0.95),
    (66667.0, 0.99),
    (666667.0, 1.0),
];

impl Sizes {
    /// Segments of flow `n`; `unit` in 0..1 selects the quantile.
    #[must_use]
    pub fn size(&self, n: u64, unit: f64) -> u32 {
        match self {
            Self::WebSearch => quantile(&WEB_SEARCH, unit),
            Self::DataMining => quantile(&DATA_MINING, unit),
            Self::List(sizes) => sizes[(n % sizes.len() as u64) as usize],
        }
    }

    /// Distribution in segments, before rounding up.
    #[must_use]
    pub fn demand(&self) -> SizeDistribution {
        let points = match self {
            Self::WebSearch => WEB_SEARCH.to_vec(),
            Self::DataMining => DATA_MINING.to_vec(),
            Self::List(sizes) => even(sizes),
        };
        SizeDistribution::new(points).expect("sizes are above 0 and shares go from 0 to 1")
    }

    /// Mean number of segments.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let mean = |points: &Points| {
            let of = |((from, low), (to, high)): ((f64, f64), (f64, f64))| {
                // Uniform over from + 1 ..= to, or exactly `to`.
                (high - low) * if from < to { (from + to + 1.0) / 2.0 } else { to }
            };
            points.windows(2).map(|pair| of((pair[0], pair[1]))).sum()
        };
        match self {
            Self::WebSearch => mean(&WEB_SEARCH),
            Self::DataMining => mean(&DATA_MINING),
            Self::List(sizes) => sizes.iter().map(|&size| f64::from(size)).sum::<f64>() / sizes.len() as f64,
        }
    }
}

/// CDF of equally likely sizes.
fn even(sizes: &[u32]) -> Vec<(f64, f64)> {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let share = |count: usize| count as f64 / sorted.len() as f64;
    let step = |(n, &size): (usize, &u32)| [(f64::from(size), share(n)), (f64::from(size), share(n + 1))];
    sorted.iter().enumerate().flat_map(step).collect()
}

/// Quantile `unit` of a CDF, rounded up.
fn quantile(points: &Points, unit: f64) -> u32 {
    let after = points.partition_point(|&(_, share)| share <= unit).clamp(1, points.len() - 1);
    let ((from, low), (to, high)) = (points[after - 1], points[after]);
    (from + (to - from) * (unit - low) / (high - low)).ceil() as u32
}

/// Text that names no distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSizes(String);

impl std::error::Error for BadSizes {}

impl fmt::Display for BadSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sizes {:?} is not one of websearch, datamining, list BYTES*TIMES …", self.0)
    }
}

impl FromStr for Sizes {
    type Err = BadSizes;

    fn from_str(text: &str) -> Result<Self, BadSizes> {
        let bad = || BadSizes(text.to_owned());
        match text {
            "websearch" => return Ok(Self::WebSearch),
            "datamining" => return Ok(Self::DataMining),
            _ => {}
        }
        let mut sizes = Vec::new();
        for item in text.strip_prefix("list ").ok_or_else(bad)?.split_whitespace() {
            let (bytes, times) = item.split_once('*').unwrap_or((item, "1"));
            let bytes: u64 = bytes.parse().ok().filter(|&bytes| bytes > 0).ok_or_else(bad)?;
            let segments = u32::try_from(bytes.div_ceil(MSS)).map_err(|_| bad())?;
            let times: usize =
                times.parse().ok().filter(|times| (1..=1_000_000).contains(times)).ok_or_else(bad)?;
            sizes.extend(std::iter::repeat_n(segments, times));
        }
        if sizes.is_empty() { Err(bad()) } else { Ok(Self::List(sizes)) }
    }
}

//~ fabric: flow sizes follow the published tables
#[cfg(test)]
mod tests {
    use queueing::Rng;

    use super::*;

    #[test]
    fn samples_match_the_published_mean_and_quantiles() {
        for (sizes, published, short, share) in
            [(Sizes::WebSearch, 1141.0, 68, 0.543), (Sizes::DataMining, 5117.0, 7, 0.8)]
        {
            assert!((sizes.mean() / published - 1.0).abs() < 0.001, "{sizes:?}: {}", sizes.mean());
            let mut rng = Rng::seeded(1);
            let drawn: Vec<_> = (0..200_000).map(|n| sizes.size(n, rng.unit())).collect();
            let found = drawn.iter().filter(|&&size| size <= short).count() as f64 / drawn.len() as f64;
            assert!((found - share).abs() < 0.005, "{sizes:?}: {found} are short");
            assert!((sizes.demand().mean() + 0.5 - sizes.mean()).abs() < 0.3, "{sizes:?}");
        }
    }

    #[test]
    fn a_list_of_sizes_is_used_cyclically() {
        let sizes: Sizes = "list 50000*2 1000".parse().unwrap();
        let drawn: Vec<_> = (0..4).map(|n| sizes.size(n, 0.5)).collect();
        assert_eq!(drawn, [35, 35, 1, 35]);
        assert!((sizes.demand().mean() - sizes.mean()).abs() < 1e-9, "{sizes:?}");
        for bad in ["", "list", "list 0", "list 5*0", "list x", "weibull"] {
            assert!(bad.parse::<Sizes>().is_err(), "{bad:?}");
        }
    }
}
