//! Rebuilds the program when an experiment changes: they are part of it.

fn main() {
    println!("cargo:rerun-if-changed=../../experiments");
}
