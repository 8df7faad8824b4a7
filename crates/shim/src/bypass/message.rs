//! Messages of the watcher process, one per line, and the one message to it.

use std::net::{IpAddr, SocketAddr};

use super::{BypassingSocket, Routes, SocketProtocol, Use};

/// Report of the watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatcherEvent {
    /// A kernel socket that should be on the stack.
    Found(BypassingSocket),
    /// A process uses io_uring.
    Ring {
        /// Process ID.
        process: u32,
        /// Process name.
        name: String,
    },
    /// A process that may not be inspected.
    Unseen {
        /// Process ID.
        process: u32,
        /// Process name.
        name: String,
        /// Error of the kernel.
        why: String,
    },
    /// The watcher has failed; no more events follow.
    Blind {
        /// Error of the kernel.
        why: String,
    },
}

impl WatcherEvent {
    /// Encoded line.
    pub(super) fn line(&self) -> String {
        let words = match self {
            Self::Found(BypassingSocket { process, name, protocol, used, addr, why }) => vec![
                "found".to_owned(),
                process.to_string(),
                plain(name),
                protocol.name().to_owned(),
                used.name().to_owned(),
                addr.to_string(),
                plain(why),
            ],
            Self::Ring { process, name } => vec!["ring".to_owned(), process.to_string(), plain(name)],
            Self::Unseen { process, name, why } => {
                vec!["unseen".to_owned(), process.to_string(), plain(name), plain(why)]
            }
            Self::Blind { why } => vec!["blind".to_owned(), plain(why)],
        };
        words.join("\t") + "\n"
    }

    /// Decodes a line, without its newline.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split('\t').collect();
        let text = |at: usize| words.get(at).map(|word| (*word).to_owned());
        let process = || words.get(1)?.parse().ok();
        Some(match words[0] {
            "found" => {
                let protocol = [SocketProtocol::Tcp, SocketProtocol::Udp]
                    .into_iter()
                    .find(|it| words.get(3) == Some(&it.name()))?;
                let used =
                    [Use::Listens, Use::Connects].into_iter().find(|it| words.get(4) == Some(&it.name()))?;
                let addr = words.get(5)?.parse::<SocketAddr>().ok()?;
                Self::Found(BypassingSocket {
                    process: process()?,
                    name: text(2)?,
                    protocol,
                    used,
                    addr,
                    why: text(6)?,
                })
            }
            "ring" => Self::Ring { process: process()?, name: text(2)? },
            "unseen" => Self::Unseen { process: process()?, name: text(2)?, why: text(3)? },
            "blind" => Self::Blind { why: text(1)? },
            _ => return None,
        })
    }
}

/// Replaces control characters in `text`.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Line with the stack's addresses and routes.
pub(super) fn encode_routes(routes: &Routes) -> String {
    let addrs = routes.addrs.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
    let subnets = routes.subnets.iter().map(|(addr, prefix)| format!("{addr}/{prefix}"));
    let subnets = subnets.collect::<Vec<_>>().join(",");
    let Routes { beyond4, beyond6, interface, meets_kernel, .. } = routes;
    format!("{addrs}\t{subnets}\t{beyond4}\t{beyond6}\t{interface}\t{meets_kernel}\n")
}

/// Decodes the line of [`of_place`].
pub(super) fn decode_routes(line: &str) -> Option<Routes> {
    let words: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
    let [addrs, subnets, beyond4, beyond6, interface, meets_kernel] = words[..] else { return None };
    let list =
        |text: &str| text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let subnet = |word: String| {
        let (addr, prefix) = word.split_once('/')?;
        Some((addr.parse().ok()?, prefix.parse().ok()?))
    };
    Some(Routes {
        addrs: list(addrs).into_iter().map(|word| word.parse().ok()).collect::<Option<_>>()?,
        subnets: list(subnets).into_iter().map(subnet).collect::<Option<_>>()?,
        beyond4: beyond4.parse().ok()?,
        beyond6: beyond6.parse().ok()?,
        interface: interface.parse().ok()?,
        meets_kernel: meets_kernel.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_put_into_it() {
        let events = [
            WatcherEvent::Found(BypassingSocket {
                process: 7,
                name: "a (b".to_owned(),
                protocol: SocketProtocol::Udp,
                used: Use::Connects,
                addr: "[2001:db8::1]:53".parse().unwrap(),
                why: "it is linked statically".to_owned(),
            }),
            WatcherEvent::Ring { process: 8, name: "ring".to_owned() },
            WatcherEvent::Unseen { process: 9, name: "x".to_owned(), why: "no".to_owned() },
            WatcherEvent::Blind { why: "no".to_owned() },
        ];
        for event in events {
            assert_eq!(WatcherEvent::parse(event.line().trim_end()), Some(event));
        }
        let odd = WatcherEvent::Ring { process: 8, name: "a\tb\nc".to_owned() }.line();
        assert_eq!(odd, "ring\t8\ta?b?c\n");
        for line in ["", "ring", "ring\tx\ty", "found\t1"] {
            assert!(
                std::panic::catch_unwind(|| WatcherEvent::parse(line)).is_ok_and(|event| event.is_none()),
                "{line}"
            );
        }
    }

    #[test]
    fn a_place_says_where_the_stack_is() {
        let there = Routes {
            addrs: vec!["10.7.0.2".parse().unwrap(), "2001:db8::2".parse().unwrap()],
            subnets: vec![("10.7.0.2".parse().unwrap(), 24), ("2001:db8::2".parse().unwrap(), 64)],
            beyond4: true,
            interface: 3,
            ..Routes::default()
        };
        assert_eq!(decode_routes(&encode_routes(&there)), Some(there));
        assert_eq!(decode_routes(&encode_routes(&Routes::default())), Some(Routes::default()));
        assert_eq!(decode_routes(""), None);
    }
}
