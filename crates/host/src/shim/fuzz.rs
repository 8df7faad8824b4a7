//! Fuzz targets: requests and datagrams of programs, and the memory shared with them.

mod desk;
mod messages;

pub(crate) use desk::desk;
pub(crate) use messages::messages;
