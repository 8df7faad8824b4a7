//! Builds the shim to DPDK when the feature `dpdk` asks for it, the guard's
//! program and the core scheduler's when `bpf` does, and nothing else.

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

    /// Compiles the programs; `CLANG` names another compiler than `clang`.
    pub fn build() {
        println!("cargo::rerun-if-changed={FOLDER}");
        println!("cargo::rerun-if-env-changed=CLANG");
        let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
        let out = std::env::var("OUT_DIR").expect("cargo says where");
        // Compare-and-exchange comes with the third set of instructions (Linux 5.12).
        let flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-nostdinc"];
        if PROGRAMS.iter().all(|program| compile(&clang, &flags, program, &out)) {
            return;
        }
        println!("cargo::error=  try: apt-get install clang libelf-dev zlib1g-dev pkg-config make");
    }

    /// Whether `program` could be compiled; why not is said.
    fn compile(clang: &str, flags: &[&str], program: &str, out: &str) -> bool {
        let done = Command::new(clang)
            .args(flags)
            // The folder would be in the debug information, and with it in the binary.
            .arg(
                "-fdebug-prefix-map=".to_owned()
                    + &std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where")
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
    /// What Rust and the shim call; drivers are loaded when EAL starts.
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
        // DPDK's headers need its flags all, not only its folders.
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

    /// What pkg-config says of libdpdk; `None` when there is none, or none new enough.
    fn pkg_config(question: &str) -> Option<String> {
        let mut command = Command::new("pkg-config");
        let out = command.args([question, "libdpdk >= 22.11"]).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    }
}
