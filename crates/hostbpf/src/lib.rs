//! BPF on Linux: programs that greenwave loads into the kernel, and their loaders.
//!
//! [`guard`] sheds new connections in an XDP program. [`egress`] classifies leaving packets into HTB
//! leaves. [`xdp`] attaches XDP programs and lists those of an interface. [`bpf`] has what they share:
//! system calls, maps, an assembler for small programs and, with the feature `bpf`, the objects that
//! clang compiles from `src/bpf/*.c`.
//!
//! The decisions are in `guard` and `queueing`; this crate carries them out.

pub mod bpf;
pub mod egress;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod guard;
#[cfg(all(test, feature = "bpf"))]
#[path = "../../host/src/soon.rs"]
mod soon;
pub mod xdp;
