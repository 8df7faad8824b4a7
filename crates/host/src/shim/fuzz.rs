//! Bodies of fuzz targets: what programs may say to the desk, and leave in
//! memory that they share with it.

mod desk;
mod messages;

pub(crate) use desk::desk;
pub(crate) use messages::messages;
