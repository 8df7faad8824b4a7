//! The program under test.

use std::process::{Command, Output};

pub fn greenwave(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_greenwave")).args(args).output().expect("greenwave starts")
}
