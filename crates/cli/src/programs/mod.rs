//! Unmodified servers on the kernel's TCP and on greenwave's, and their clients, for comparisons.

mod server;
mod setup;

pub use server::{BULK, Item, Program, SMALL};
pub use setup::{Measured, ProgramSetup, SERVER, Setting, Stack, kernel_address, read_stderr};
