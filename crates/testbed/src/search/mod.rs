//! Search over a real index, split over workers: the paper's second experiment.

pub mod corpus;
pub mod index;
pub mod record;
