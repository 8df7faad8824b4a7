//! Build of the C shim of DPDK with feature `dpdk`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::build();
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
