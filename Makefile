# The commands of the README. Each does the set-up it needs; none needs root.

SHELL := /bin/bash
# A toolchain that rustup installed but no shell has picked up yet.
export PATH := $(HOME)/.cargo/bin:$(PATH)

CARGO ?= cargo
# Property tests draw the same cases each time here; `cargo test` draws new ones.
export PROPTEST_RNG_SEED ?= 20261121
# Where cargo puts what it builds.
TARGET = $(or $(CARGO_TARGET_DIR),target)
GREENWAVE = $(TARGET)/release/greenwave

.PHONY: demo test test-built miri test-dpdk clippy clippy-bpf test-search test-vm test-container test-static test-programs test-java reference ci bench fuzz deb exp-smoke exp-host results testbed workloads site clean build build-static toolchain tools programs dpdk bpf java

# The mixed workload under none, lns, darc and adps: a table, and report.html.
demo: build
	@$(GREENWAVE) demo

# What meets tower, tokio and hyper: off by default, and nothing but Rust is needed for it.
TOWER := --features deadline/opentelemetry,guard/tower,runtime/tokio,runtime/hyper

# Every test, the guard's in the kernel where its programs can be built. One that
# cannot run here prints a line "skipped: NAME: why".
test: toolchain tools bpf
	@$(HAVE_BPF) || echo "skipped: the guard in the kernel: clang, a C compiler, libelf or zlib is not there"
	$(CARGO) test --workspace --locked $(TOWER) $$($(HAVE_BPF) && echo "$(BPF)")

# The programs of `test`, for who runs them elsewhere: what cargo says of them, as JSON.
test-built:
	@$(CARGO) test --workspace --locked $(TOWER) $$($(HAVE_BPF) && echo "$(BPF)") --no-run --message-format=json

# The tests of the feature `dpdk`, on DPDK's virtual devices; they need root. With
# the features of `test`, so that only what knows DPDK is built again.
test-dpdk: toolchain tools bpf dpdk
	@if ! $(HAVE_DPDK); then echo "skipped: test-dpdk: libdpdk 22.11 is not there"; exit 0; fi; \
	bpf="$$($(HAVE_BPF) && echo "$(BPF)")"; \
	$(CARGO) clippy --workspace --lib --bins --locked $(TOWER) $$bpf $(DPDK) -- -D warnings && \
	$(CARGO) test --workspace --locked $(TOWER) $$bpf $(DPDK) --test drivers --test interface -- dpdk

# What Miri can run of the code that shares memory or is handed pointers: the cells that are lock-free, and what
# the library does to a program's structures. Not what makes system calls that Miri does not know (sockets, memfd and
# mmap, epoll, futex), nor what loom runs. Needs a nightly toolchain with miri and rust-src; not among `test`.
MIRI_TOOLCHAIN ?= nightly-2026-10-29
miri:
	@if ! cargo +$(MIRI_TOOLCHAIN) miri --version >/dev/null 2>&1; then \
	  echo "error: there is no miri in toolchain $(MIRI_TOOLCHAIN)" >&2; \
	  echo "  try: rustup toolchain install $(MIRI_TOOLCHAIN) --profile minimal --component miri,rust-src" >&2; \
	  exit 2; \
	fi
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=8 $(CARGO) +$(MIRI_TOOLCHAIN) miri test --locked -p shim --lib -- \
	  shm_send::buffer socket_name datagram_header protocol tcp_sockopt udp_table \
	  --skip interleavings
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=8 $(CARGO) +$(MIRI_TOOLCHAIN) miri test --locked -p capi -- \
	  cmsg:: socket_address:: memory:: epoll_index:: recv::tests::each_of_several

# What clippy says of all that builds anywhere.
clippy: toolchain
	$(CARGO) clippy --workspace --all-targets --locked $(TOWER) -- -D warnings

# And of the feature `bpf`, which that builds without.
clippy-bpf: toolchain bpf
	@if ! $(HAVE_BPF); then echo "skipped: clippy-bpf: clang, a C compiler, libelf or zlib is not there"; exit 0; fi; \
	$(CARGO) clippy --workspace --all-targets --locked $(TOWER) $(BPF) -- -D warnings

# The search split over real workers, on a small made corpus; tantivy takes
# minutes to build, so it is not among `test`.
test-search: toolchain tools
	$(CARGO) test -p testbed --locked --features search

# On kernels of Debian's in QEMU: `greenwave egress` on one that has qdiscs, `greenwave
# sched` on one that has sched_ext, where this one may lack them; a few minutes, and
# no measure of speed. Not among `test`; `tests/vm/run scheduler` is in continuous integration.
test-vm: toolchain tools bpf
	tests/vm/run

# The container file, built and run with few privileges or none; some minutes. Needs
# root, podman, runc and debootstrap. Not among `test`.
test-container: toolchain tools bpf
	tests/container/run

# What unmodified programs bear on our stack, their own tests among it, and
# docs/guide/programs-matrix.md, which says so: some twenty minutes. Needs root. Not
# among `test`.
test-programs: build tools programs
	@tests/programs/sources $(TARGET)/programs
	@$(GREENWAVE) bench matrix --sources $(TARGET)/programs --page docs/guide/programs-matrix.md
	@GREENWAVE_DIFFERENTIAL=whole $(CARGO) test --locked -p cli --test run differential

# The same flows through `sim fabric` and through ns-3, where that is installed.
reference: build
	experiments/fish/reference/run

# The tests of java/: the core held to spec/, the plug-ins on real Dubbo and Storm over loopback.
test-java: java
	@if ! $(HAVE_JAVA); then echo "skipped: java: JDK 17 or Maven is not there"; exit 0; fi; \
	mkdir -p $(TARGET) && log=$(abspath $(TARGET))/test-java.log; \
	timeout 900 mvn -B -ntp -T 2 -f java/pom.xml test > $$log 2>&1; rc=$$?; \
	if [ $$rc -ne 0 ] && grep -qE 'Could not transfer artifact|Cannot access .* in offline mode' $$log; then \
	  echo "skipped: java: Maven cannot fetch what the build needs, see $$log"; exit 0; \
	fi; \
	if [ $$rc -ne 0 ]; then cat $$log; exit $$rc; fi; \
	grep -E 'Tests run:|BUILD' $$log

# What continuous integration runs.
ci: toolchain
	.ci/run

# Every benchmark; docs/benchmarks.md says what the figures mean.
bench: toolchain
	$(CARGO) bench --workspace --locked $(TOWER) --benches

# Every fuzz target for FUZZ_SECONDS (20) each, with cargo-fuzz.
fuzz: toolchain
	fuzz/run

# Every experiment in virtual time, small. All run; then a claim that failed
# fails this: the same seed gives the same figures everywhere. An undecided claim
# (exit status 3) does not: few seeds give wide intervals.
exp-smoke: build
	@$(GREENWAVE) exp run all --world sim --scale smoke --out $(TARGET)/exp-smoke || [ $$? = 3 ]

# Every experiment on real services, at the paper's scale, into out/: best on a
# machine that does nothing else. One that cannot run says why, and the others go on.
exp-host: build testbed workloads
	@$(GREENWAVE) exp run all --world host --scale paper --out out || [ $$? = 3 ]

# docs/results.md: every claim of the results that lie in out/, and their figures; of real services
# also what is kept in docs/results/host, as another machine gives other results; of all other
# experiments what docs/results/record.json has of them.
results: build
	@mkdir -p out && $(GREENWAVE) exp table out docs/results/host --markdown --out docs

# The runners of experiments on real services: tonic's, a search engine's among
# them (some minutes), and Dubbo's and Storm's where Java is.
testbed: toolchain java
	@$(CARGO) build --release --locked -p testbed --features search
	@if ! $(HAVE_JAVA); then echo "note: JDK 17 or Maven is not there, and so no runner in Java"; exit 0; fi; \
	rm -f java/testbed/target/testbed.classpath java/testbed-storm/target/testbed.classpath; \
	timeout 900 mvn -B -ntp -q -f java/pom.xml -pl testbed,testbed-storm -am process-classes \
	|| echo "note: Maven could not build the runners in Java"

# The programs that experiments run beside each other, and what they take of Debian.
workloads: toolchain tools
	@$(CARGO) build --release --locked -p workloads
	@if { command -v memcached && command -v x264 && [ -e /usr/include/gc.h ]; } >/dev/null 2>&1 || [ "$$(id -u)" != 0 ] \
	|| ! command -v apt-get >/dev/null; then exit 0; fi; \
	apt-get update -qq && \
	RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	  memcached x264 libgc-dev gcc libc6-dev >/dev/null \
	|| echo "note: apt-get could not install memcached, x264 and libgc-dev"

# The guide, and the pages that it links to, as a site in target/guide. mdBook is built from crates.io where this
# version is not installed: some minutes.
MDBOOK_VERSION ?= 0.5.4
site: toolchain
	@$(CARGO) run --quiet --locked -p xtask -- site
	@book=$$(command -v mdbook); \
	if [ "$$("$${book:-false}" --version 2>/dev/null)" != "mdbook v$(MDBOOK_VERSION)" ]; then \
	  book=$(TARGET)/tools/bin/mdbook; \
	  $(CARGO) install --quiet --locked mdbook@$(MDBOOK_VERSION) --no-default-features --features search \
	    --root $(TARGET)/tools; \
	fi; \
	"$$book" build $(TARGET)/site && echo "site: $(TARGET)/guide/index.html"

clean: toolchain
	$(CARGO) clean
	rm -rf report.html out

# With the guard's programs where they can be built.
build: toolchain
	@$(CARGO) build --release --locked -p cli -p capi $$($(HAVE_BPF) && echo --features bpf)

# A program that takes no library of the system, for `xtask dist --static`; beside
# it the library that `run` preloads, which is glibc's. Compilers and the programs
# that cargo runs are built as ever.
STATIC = $(shell uname -m)-unknown-linux-gnu
build-static: toolchain
	@$(CARGO) build --release --locked -p capi
	@RUSTFLAGS='-C target-feature=+crt-static' LIBBPF_SYS_LIBRARY_PATH=$$(pkg-config --variable=libdir libelf) \
	  $(CARGO) build --release --locked -p cli --target $(STATIC) $$($(HAVE_BPF) && echo --features bpf-static)
	@install -m 644 $(TARGET)/release/libgreenwave.so $(TARGET)/$(STATIC)/release/

# The static program where there is nothing else; some minutes. Not among `test`.
test-static: toolchain tools bpf
	tests/static/run

# The Debian package with its debug symbols, and a tarball, in target/dist; lintian has nothing to say.
deb: build
	@$(MAKE) --no-print-directory tools TOOLS=lintian
	@$(CARGO) run --quiet --locked -p xtask -- dist
	@if command -v lintian >/dev/null; then lintian --fail-on error,warning $(TARGET)/dist/*.deb; \
	else echo "note: lintian is not there; the packages are not checked"; fi

toolchain:
	@command -v $(CARGO) >/dev/null || { \
	  echo "error: cargo is not there" >&2; \
	  echo "  try: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2; \
	  exit 2; }

# What the tests against the kernel's TCP run; they need root. Servers among
# them are installed as if in runlevel 1, where the system starts none.
TOOLS := curl wrk dnsmasq:dnsmasq-base unshare:util-linux ip:iproute2 ping:iputils-ping ethtool iperf3 nc:netcat-openbsd iptables \
  nginx:nginx-light lighttpd apache2:apache2-bin vsftpd gcc musl-gcc:musl-tools setcap:libcap2-bin mandoc \
  promtool:prometheus
tools:
	@if [ "$$(id -u)" != 0 ]; then \
	  echo "note: not root, so the tests against the kernel's TCP will be skipped"; exit 0; \
	fi; \
	missing=; \
	for tool in $(TOOLS); do command -v $${tool%:*} >/dev/null || missing="$$missing $${tool#*:}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
	  echo "note: not there, and neither is apt-get:$$missing; tests that need them will be skipped"; exit 0; \
	fi; \
	apt-get update -qq && \
	RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null \
	|| echo "note: apt-get could not install$$missing; tests that need them will be skipped"

# Programs that are tried, and what tries them.
PROGRAMS := redis-server redis-benchmark:redis-tools memcached memcslap:libmemcached-tools ab:apache2-utils \
  h2load:nghttp2-client tclsh:tcl prove:perl nsenter:util-linux node:nodejs javac:default-jdk-headless
programs:
	@$(MAKE) --no-print-directory tools TOOLS="$(PROGRAMS)"

# What the feature `bpf` takes: clang for the guard's and the core scheduler's programs, and what libbpf is built with.
BPF := --features hostbpf/bpf,hostsched/bpf,cli/bpf
HAVE_BPF := { command -v clang && command -v cc && command -v make && pkg-config --exists libelf zlib; } >/dev/null 2>&1
bpf:
	@if $(HAVE_BPF) || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi; \
	apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	  clang libelf-dev zlib1g-dev pkg-config make gcc libc6-dev >/dev/null \
	|| echo "note: apt-get could not install clang and libelf-dev"

# DPDK's headers and libraries, which a build with the feature `dpdk` takes.
DPDK := --features drivers/dpdk,cli/dpdk
HAVE_DPDK := pkg-config --exists 'libdpdk >= 22.11'
dpdk:
	@if $(HAVE_DPDK) || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi; \
	apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	  libdpdk-dev pkg-config gcc libc6-dev >/dev/null \
	|| echo "note: apt-get could not install libdpdk-dev"

# A JDK of 17 or later and Maven, which java/ is built with.
HAVE_JAVA := { command -v mvn && javac --release 17 -version; } >/dev/null 2>&1
java:
	@if $(HAVE_JAVA) || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi; \
	timeout 120 apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -qq --no-install-recommends \
	  openjdk-17-jdk-headless maven >/dev/null \
	|| echo "note: apt-get could not install a JDK and Maven"
