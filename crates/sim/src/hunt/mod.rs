//! Search for workloads on which a default configuration loses against doing nothing.
//!
//! A case is drawn from stated families by a seed, and is the text of a world. The default and
//! arrival order run on the same trace in virtual time; the regret is the goodput that the
//! default lacks, as a share of that of arrival order.

pub mod deadline;
