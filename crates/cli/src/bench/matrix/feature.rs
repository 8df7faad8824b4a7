//! Features that programs are tested with.

use super::program::Program;

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
                "a few bytes are asked for and come, and ctrl-C ends all of it; of a client, that it gets them"
            }
            Self::KeepAlive => "a hundred requests on one connection; of curl, two",
            Self::Crowd => "1,000 connections are open at once, and each is answered, twice",
            Self::Download => "64 MB come from it, every byte as it is: to one client, then to four at once",
            Self::Upload => "64 MB go to it, and come back, or their SHA-256 does",
            Self::Load => {
                "load generators find no error: wrk, ab (with and without keep-alive) and h2load of web servers, \
                 redis-benchmark (alone and in pipelines of 16), memcslap; of clients, 200 downloads or 16 streams at once"
            }
            Self::Restart => {
                "SIGTERM while ten connections are open ends them and it, and started again at the same address, on the \
                 same stack, it serves"
            }
            Self::Reload => {
                "told to read its configuration anew while 64 MB are under way, it ends those as they are, and what it \
                 serves then is what the new configuration says"
            }
            Self::Kill => {
                "`kill -9` of its workers, or of it where it has none, ends their connections, and the next of them \
                 serve"
            }
            Self::Descriptors => {
                "150 clients come to a program that may have 64 descriptors, and when they have gone it serves"
            }
            Self::Suite => {
                "its own tests, from Debian's source package, on our stack and on the kernel's: redis's for servers \
                 that are there already (`runtest --host`, less those tagged slow, and less `CONFIG SET rollback on apply \
                 error`, which takes a port of the machine that it runs on, and not of the server's), memcached's `t/` \
                 with the servers that it starts put on the stack. What fails is run once more by itself, and that counts"
            }
        }
    }

    /// Reason why `program` does not have the feature, if so.
    pub const fn is_without(self, program: Program) -> Option<&'static str> {
        use Program as P;
        match (self, program) {
            (Self::KeepAlive, P::Iperf3) => Some("it makes no requests"),
            (
                Self::Serves | Self::KeepAlive | Self::Download | Self::Upload | Self::Load,
                P::Curl | P::Iperf3,
            ) => None,
            (_, P::Curl | P::Iperf3) => Some("it is a client"),
            (Self::Upload, P::HttpServer) => Some("it takes none"),
            (Self::Reload, P::Redis | P::Memcached | P::HttpServer | P::Asyncio | P::Node | P::Java) => {
                Some("it has no reload")
            }
            (Self::Suite, P::Redis | P::Memcached) => None,
            (Self::Suite, _) => Some("it has none that could be told an address"),
            _ => None,
        }
    }
}
