//! Build of the C parts: the DPDK shim with feature `dpdk`, the BPF programs of the guard and the core
//! scheduler with feature `bpf`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::build();
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

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::process::Command;

    const SHIM: &str = "src/dpdk/shim.c";
    /// Libraries called from Rust and the shim; EAL loads drivers at its start.
    const LIBRARIES: [&str; 4] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"];

    pub fn build() {
        println!("cargo::rerun-if-changed={SHIM}");
        println!("cargo::rerun-if-changed=src/dpdk/shim.h");
        println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
        let (Some(flags), Some(folders)) = (pkg_config("--cflags"), pkg_config("--libs-only-L")) else {
            println!("cargo::error=feature dpdk: there is no libdpdk 22.11 or newer");
            println!("cargo::error=  try: apt-get install libdpdk-dev pkg-config");
            return;
        };
        // DPDK's headers need all its flags, not only its include paths.
        let mut shim = cc::Build::new();
        for flag in flags.split_whitespace() {
            shim.flag(flag);
        }
        shim.file(SHIM).warnings(true).flag("-Wno-unused-parameter").compile("gw_dpdk");
        for folder in folders.split_whitespace().filter_map(|word| word.strip_prefix("-L")) {
            println!("cargo::rustc-link-search=native={folder}");
        }
        LIBRARIES.iter().for_each(|library| println!("cargo::rustc-link-lib=dylib={library}"));
    }

    /// Output of pkg-config for libdpdk; `None` if it is missing or too old.
    fn pkg_config(question: &str) -> Option<String> {
        let mut command = Command::new("pkg-config");
        let out = command.args([question, "libdpdk >= 22.11"]).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    }
}
