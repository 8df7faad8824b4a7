//! Builds the shim to DPDK when the feature `dpdk` asks for it, and nothing else.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::build();
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
