//! Unmodified servers on the kernel's TCP and on ours, and clients beside them:
//! what comparisons of the two are made with.

mod program;
mod rig;

pub use program::{BULK, Item, Program, SMALL};
pub use rig::{Measured, Rig, SERVER, Setting, Stack, kernel_address, said};
