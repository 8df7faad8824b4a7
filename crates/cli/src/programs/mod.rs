//! Unmodified servers on the kernel's TCP and on ours, and clients beside them:
//! what comparisons of the two are made with.

mod server;
mod setup;

pub use server::{BULK, Item, Program, SMALL};
pub use setup::{Measured, Rig, SERVER, Setting, Stack, kernel_address, said};
