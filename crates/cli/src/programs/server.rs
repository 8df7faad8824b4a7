//! Servers under test: unmodified Debian packages with one thread each, and their requests.

use std::net::Ipv4Addr;

use load::closed_loop::ExpectedResponse;
use netlab::LabError;
use netlab::TempDir;
use queueing::CoreId;

/// Listening port.
pub const PORT: u16 = 80;

/// A server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Lighttpd,
    Nginx,
    Redis,
    Memcached,
}

/// Requested content: the name of its file or key, one letter, and its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: &'static str,
    pub bytes: usize,
}

/// Small item,
pub const SMALL: Item = Item { key: "s", bytes: 100 };
/// and large item.
pub const BULK: Item = Item { key: "b", bytes: 32 * 1024 };

impl Item {
    fn value(self) -> Vec<u8> {
        vec![b'x'; self.bytes]
    }
}

impl Program {
    pub const ALL: [Self; 4] = [Self::Lighttpd, Self::Nginx, Self::Redis, Self::Memcached];

    /// Name of the executable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lighttpd => "lighttpd",
            Self::Nginx => "nginx",
            Self::Redis => "redis-server",
            Self::Memcached => "memcached",
        }
    }

    /// Command line that serves `items` at `at`, in the foreground: with one thread, or with one
    /// worker for each of `cores`, if the server has workers.
    pub fn command(
        self,
        at: Ipv4Addr,
        cores: Option<&[CoreId]>,
        items: &[Item],
        folder: &TempDir,
    ) -> Result<Vec<String>, LabError> {
        for item in items {
            folder.write(item.key, &item.value())?;
        }
        let dir = folder.path().display();
        let file = |text: String| Ok(folder.write("server.conf", text.as_bytes())?.display().to_string());
        let words = match self {
            Self::Lighttpd => {
                // Connections last for the whole run, for any number of requests.
                let config = format!(
                    "server.document-root = \"{dir}\"\nserver.bind = \"{at}\"\nserver.port = {PORT}\n\
                     server.max-keep-alive-requests = 65535\nserver.max-keep-alive-idle = 600\n"
                );
                format!("lighttpd -D -f {}", file(config)?)
            }
            Self::Nginx => {
                let (workers, port) = match cores {
                    None => ("master_process off;".to_owned(), PORT.to_string()),
                    Some(cores) => (workers(cores), format!("{PORT} reuseport")),
                };
                let config = format!(
                    "daemon off; {workers} pid {dir}/pid; error_log stderr crit;\n\
                     events {{ worker_connections 4096; }}\n\
                     http {{ access_log off; sendfile on; keepalive_requests 1000000000;\n\
                     client_body_temp_path {dir}/t1; proxy_temp_path {dir}/t2; fastcgi_temp_path {dir}/t3;\n\
                     uwsgi_temp_path {dir}/t4; scgi_temp_path {dir}/t5;\n\
                     server {{ listen {at}:{port}; root {dir}; }} }}\n"
                );
                format!("nginx -e stderr -c {}", file(config)?)
            }
            Self::Redis => {
                format!("redis-server --bind {at} --port {PORT} --save  --protected-mode no --dir {dir}")
            }
            Self::Memcached => {
                let threads = cores.map_or(1, <[CoreId]>::len);
                format!("memcached -u root -l {at} -p {PORT} -U 0 -t {threads} -c 4096")
            }
        };
        Ok(words.split(' ').map(str::to_owned).collect())
    }

    /// A request and its answer.
    pub fn request(self, item: Item) -> (Vec<u8>, ExpectedResponse) {
        let Item { key, bytes } = item;
        let (request, answer) = match self {
            Self::Lighttpd | Self::Nginx => {
                (format!("GET /{key} HTTP/1.1\r\nHost: server\r\n\r\n"), ExpectedResponse::Http)
            }
            Self::Redis => {
                let head = format!("${bytes}\r\n").len();
                (
                    format!("*2\r\n$3\r\nGET\r\n$1\r\n{key}\r\n"),
                    ExpectedResponse::Bytes((head + bytes + 2) as u64),
                )
            }
            Self::Memcached => {
                let frame = format!("VALUE {key} 0 {bytes}\r\n\r\nEND\r\n").len();
                (format!("get {key}\r\n"), ExpectedResponse::Bytes((frame + bytes) as u64))
            }
        };
        (request.into_bytes(), answer)
    }

    /// Request that stores the item, and its answer; for web servers, which have files, a request
    /// for the small item.
    pub fn store(self, item: Item) -> (Vec<u8>, ExpectedResponse) {
        let Item { key, bytes } = item;
        let (head, answer) = match self {
            Self::Lighttpd | Self::Nginx => return self.request(SMALL),
            Self::Redis => (format!("*3\r\n$3\r\nSET\r\n$1\r\n{key}\r\n${bytes}\r\n"), "+OK\r\n"),
            Self::Memcached => (format!("set {key} 0 0 {bytes}\r\n"), "STORED\r\n"),
        };
        ([head.as_bytes(), &item.value(), b"\r\n"].concat(), ExpectedResponse::Bytes(answer.len() as u64))
    }

    /// Policy that makes [`SMALL`] urgent and [`BULK`] not.
    pub fn policy(self) -> String {
        // Offset at which the two requests differ.
        let (small, bulk) = (self.request(SMALL).0, self.request(BULK).0);
        let offset = small.iter().zip(&bulk).take_while(|(a, b)| a == b).count();
        format!(
            "default = 7\n[[rule]]\nname = \"small\"\nlayer = \"driver\"\nport = {PORT}\n\
             bytes = {{ offset = {offset}, equals = \"{}\" }}\npriority = 0\n",
            SMALL.key
        )
    }
}

/// Worker configuration of nginx, one worker per core of `cores`.
fn workers(cores: &[CoreId]) -> String {
    let mask = |core: &CoreId| format!(" 1{}", "0".repeat(core.0.into()));
    let masks: String = cores.iter().map(mask).collect();
    format!("user root; worker_processes {}; worker_cpu_affinity{masks};", cores.len())
}

#[cfg(test)]
mod tests {
    use classify::rules::Policy;

    use super::*;

    #[test]
    fn the_policy_reads_the_byte_that_separates_small_from_bulk() {
        for program in Program::ALL {
            let policy = program.policy();
            assert!(Policy::parse(&policy).is_ok(), "{policy}");
            let offset: String =
                policy.split_once("offset = ").unwrap().1.chars().take_while(char::is_ascii_digit).collect();
            let at = |item| program.request(item).0[offset.parse::<usize>().unwrap()];
            assert_eq!((at(SMALL), at(BULK)), (b's', b'b'), "{program:?}");
        }
    }
}
