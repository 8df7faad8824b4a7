//! Build of the BPF programs of the guard and the core scheduler with feature `bpf`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "bpf")]
    bpf::build();
}

#[cfg(feature = "bpf")]
mod bpf {
    use std::process::Command;

    const FOLDER: &str = "src/bpf";
    const PROGRAMS: [&str; 2] = ["guard", "cores"];

    /// Compiles the programs; `CLANG` overrides the compiler `clang`.
    pub fn build() {
        println!("cargo::rerun-if-changed={FOLDER}");
        println!("cargo::rerun-if-env-changed=CLANG");
        let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
        let out = std::env::var("OUT_DIR").expect("cargo sets it");
        // Compare-and-exchange needs version 3 of the instruction set (Linux 5.12).
        let flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-nostdinc"];
        if PROGRAMS.iter().all(|program| compile(&clang, &flags, program, &out)) {
            return;
        }
        println!("cargo::error=  try: apt-get install clang libelf-dev zlib1g-dev pkg-config make");
    }

    /// Compiles `program`; false, with a message, if that fails.
    fn compile(clang: &str, flags: &[&str], program: &str, out: &str) -> bool {
        let done = Command::new(clang)
            .args(flags)
            // Otherwise the debug information, and with it the binary, contains the directory.
            .arg(
                "-fdebug-prefix-map=".to_owned()
                    + &std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")
                    + "=.",
            )
            .args(["-c", &format!("{FOLDER}/{program}.bpf.c"), "-o", &format!("{out}/{program}.bpf.o")])
            .output();
        let why = match done {
            Ok(out) if out.status.success() => return true,
            Ok(out) => String::from_utf8_lossy(&out.stderr).trim().replace('\n', "; "),
            Err(e) => e.to_string(),
        };
        println!("cargo::error=feature bpf: {clang}: {program}: {why}");
        false
    }
}
