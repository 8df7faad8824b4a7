//! Features that programs are tested with.

use super::program::TestedProgram;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    Serves,
    KeepAlive,
    Crowd,
    Download,
    Upload,
    Load,
    Restart,
    Reload,
    Kill,
    Descriptors,
    Suite,
}

impl Feature {
    pub const ALL: [Self; 11] = [
        Self::Serves,
        Self::KeepAlive,
        Self::Crowd,
        Self::Download,
        Self::Upload,
        Self::Load,
        Self::Restart,
        Self::Reload,
        Self::Kill,
        Self::Descriptors,
        Self::Suite,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serves => "serves",
            Self::KeepAlive => "keep-alive",
            Self::Crowd => "crowd",
            Self::Download => "download",
            Self::Upload => "upload",
            Self::Load => "load",
            Self::Restart => "restart",
            Self::Reload => "reload",
            Self::Kill => "kill",
            Self::Descriptors => "descriptors",
            Self::Suite => "suite",
        }
    }

    /// Meaning of the feature.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Serves => {
                "a small request is answered, and ctrl-C ends all its processes; a client receives a small response"
            }
            Self::KeepAlive => "100 requests on one connection; for curl, two",
            Self::Crowd => "1,000 connections are open at once, and each is answered twice",
            Self::Download => "64 MB are downloaded unchanged, by one client and then by four at once",
            Self::Upload => "64 MB are uploaded and returned unchanged, or their SHA-256 is returned",
            Self::Load => {
                "load generators report no error: wrk, ab (with and without keep-alive) and h2load for web servers, \
                 redis-benchmark (single requests and pipelines of 16), memcslap; for clients, 200 downloads or 16 streams at once"
            }
            Self::Restart => {
                "SIGTERM with ten open connections ends them and the program; restarted at the same address on the same \
                 stack, it serves again"
            }
            Self::Reload => {
                "a reload of its configuration during a transfer of 64 MB completes the transfer unchanged; afterwards the \
                 new configuration is in force"
            }
            Self::Kill => {
                "`kill -9` of its workers, or of the program if it has none, ends their connections; new workers serve"
            }
            Self::Descriptors => {
                "150 clients connect to a program limited to 64 descriptors; after they leave serves again"
            }
            Self::Suite => {
                "the program's own tests from Debian's source package, on greenwave's stack and on the kernel's: redis's tests of a \
                 running server (`runtest --host`, without those tagged slow and without `CONFIG SET rollback on apply \
                 error`, which takes a port of its own machine instead of the server's), memcached's `t/` with its \
                 servers on the stack. A failed test is repeated alone, and that result counts"
            }
        }
    }

    /// Reason why `program` does not have the feature, if so.
    pub const fn is_without(self, program: TestedProgram) -> Option<&'static str> {
        use TestedProgram as P;
        match (self, program) {
            (Self::KeepAlive, P::Iperf3) => Some("makes no requests"),
            (
                Self::Serves | Self::KeepAlive | Self::Download | Self::Upload | Self::Load,
                P::Curl | P::Iperf3,
            ) => None,
            (_, P::Curl | P::Iperf3) => Some("is a client"),
            (Self::Upload, P::HttpServer) => Some("accepts no uploads"),
            (Self::Reload, P::Redis | P::Memcached | P::HttpServer | P::Asyncio | P::Node | P::Java) => {
                Some("has no reload")
            }
            (Self::Suite, P::Redis | P::Memcached) => None,
            (Self::Suite, _) => Some("has no tests that accept a server's address"),
            _ => None,
        }
    }
}
