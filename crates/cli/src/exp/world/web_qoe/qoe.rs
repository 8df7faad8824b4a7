//! Quality of experience (QoE) of a response time: 0 to 1.
//!
//! A decreasing function of the response time alone. The paper prints eight points; the function
//! interpolates between them. Below the first point it rises to 1 at time 0; beyond the last it
//! extends the last segment. Source: ADPS Table 1; its model is E2E's (SIGCOMM 2019).

/// Seconds and QoE.
const POINTS: [(f64, f64); 9] = [
    (0.0, 1.0),
    (1.16, 0.98),
    (2.08, 0.96),
    (2.21, 0.82),
    (3.61, 0.60),
    (4.22, 0.56),
    (4.36, 0.54),
    (6.02, 0.39),
    (6.25, 0.38),
];

/// QoE of a response after `seconds`.
pub fn qoe(seconds: f64) -> f64 {
    let after = POINTS.iter().position(|(at, _)| *at > seconds).unwrap_or(POINTS.len() - 1).max(1);
    let ((from, a), (to, b)) = (POINTS[after - 1], POINTS[after]);
    (a + (b - a) * (seconds - from) / (to - from)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_points_are_on_it_and_it_falls() {
        for (seconds, worth) in POINTS {
            assert!((qoe(seconds) - worth).abs() < 1e-9, "{seconds}");
        }
        let values: Vec<f64> = (0..2000).map(|n| qoe(f64::from(n) / 100.0)).collect();
        assert!(values.is_sorted_by(|a, b| a >= b));
        assert_eq!((qoe(-1.0), qoe(1000.0)), (1.0, 0.0));
    }
}
