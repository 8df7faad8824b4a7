//! Unmodified servers on the kernel's TCP and on greenwave's, and their clients, for comparisons.

mod server;
mod setup;

pub use server::{BULK, Item, Program, SMALL};
pub use setup::{
    ProgramExchange, ProgramSettings, ProgramSetup, SERVER, StackChoice, kernel_address, read_stderr,
};
