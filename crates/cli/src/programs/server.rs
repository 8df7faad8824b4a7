//! The servers: programs of Debian's packages as they are, one thread each,
//! and what is asked of them.

use std::net::Ipv4Addr;

use host::netlab::{LabError, TempDir};
use load::closed_loop::Answer;
use queueing::CoreId;

/// Where they listen.
pub const PORT: u16 = 80;

/// One of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Lighttpd,
    Nginx,
    Redis,
    Memcached,
}

/// Something to ask for: the file's or the key's name, one letter, and how
/// many bytes come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: &'static str,
    pub bytes: usize,
}

/// A small one,
pub const SMALL: Item = Item { key: "s", bytes: 100 };
/// and one that is not.
pub const BULK: Item = Item { key: "b", bytes: 32 * 1024 };

impl Item {
    fn value(self) -> Vec<u8> {
        vec![b'x'; self.bytes]
    }
}

impl Program {
    pub const ALL: [Self; 4] = [Self::Lighttpd, Self::Nginx, Self::Redis, Self::Memcached];

    /// The program's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lighttpd => "lighttpd",
            Self::Nginx => "nginx",
            Self::Redis => "redis-server",
            Self::Memcached => "memcached",
        }
    }

    /// How it is started so that it serves `items` at `at`, in the foreground:
    /// alone on one thread, or with a worker for each of these `cores`, of those that can.
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
        let here = folder.path().display();
        let file = |text: String| Ok(folder.write("server.conf", text.as_bytes())?.display().to_string());
        let words = match self {
            Self::Lighttpd => {
                // Connections last through a run, whatever their requests.
                let config = format!(
                    "server.document-root = \"{here}\"\nserver.bind = \"{at}\"\nserver.port = {PORT}\n\
                     server.max-keep-alive-requests = 65535\nserver.max-keep-alive-idle = 600\n"
                );
                format!("lighttpd -D -f {}", file(config)?)
            }
            Self::Nginx => {
                let (crew, port) = match cores {
                    None => ("master_process off;".to_owned(), PORT.to_string()),
                    Some(cores) => (crew(cores), format!("{PORT} reuseport")),
                };
                let config = format!(
                    "daemon off; {crew} pid {here}/pid; error_log stderr crit;\n\
                     events {{ worker_connections 4096; }}\n\
                     http {{ access_log off; sendfile on; keepalive_requests 1000000000;\n\
                     client_body_temp_path {here}/t1; proxy_temp_path {here}/t2; fastcgi_temp_path {here}/t3;\n\
                     uwsgi_temp_path {here}/t4; scgi_temp_path {here}/t5;\n\
                     server {{ listen {at}:{port}; root {here}; }} }}\n"
                );
                format!("nginx -e stderr -c {}", file(config)?)
            }
            Self::Redis => {
                format!("redis-server --bind {at} --port {PORT} --save  --protected-mode no --dir {here}")
            }
            Self::Memcached => {
                let threads = cores.map_or(1, <[CoreId]>::len);
                format!("memcached -u root -l {at} -p {PORT} -U 0 -t {threads} -c 4096")
            }
        };
        Ok(words.split(' ').map(str::to_owned).collect())
    }

    /// A request, and what comes back.
    pub fn ask(self, item: Item) -> (Vec<u8>, Answer) {
        let Item { key, bytes } = item;
        let (request, answer) = match self {
            Self::Lighttpd | Self::Nginx => {
                (format!("GET /{key} HTTP/1.1\r\nHost: server\r\n\r\n"), Answer::Http)
            }
            Self::Redis => {
                let head = format!("${bytes}\r\n").len();
                (format!("*2\r\n$3\r\nGET\r\n$1\r\n{key}\r\n"), Answer::Bytes((head + bytes + 2) as u64))
            }
            Self::Memcached => {
                let frame = format!("VALUE {key} 0 {bytes}\r\n\r\nEND\r\n").len();
                (format!("get {key}\r\n"), Answer::Bytes((frame + bytes) as u64))
            }
        };
        (request.into_bytes(), answer)
    }

    /// What puts the value there that is asked for, and what comes back; web
    /// servers, which have files, are asked for the small one.
    pub fn store(self, item: Item) -> (Vec<u8>, Answer) {
        let Item { key, bytes } = item;
        let (head, answer) = match self {
            Self::Lighttpd | Self::Nginx => return self.ask(SMALL),
            Self::Redis => (format!("*3\r\n$3\r\nSET\r\n$1\r\n{key}\r\n${bytes}\r\n"), "+OK\r\n"),
            Self::Memcached => (format!("set {key} 0 0 {bytes}\r\n"), "STORED\r\n"),
        };
        ([head.as_bytes(), &item.value(), b"\r\n"].concat(), Answer::Bytes(answer.len() as u64))
    }

    /// The policy by which [`SMALL`] is urgent and [`BULK`] is not.
    pub fn policy(self) -> String {
        // Where the two requests differ.
        let (small, bulk) = (self.ask(SMALL).0, self.ask(BULK).0);
        let offset = small.iter().zip(&bulk).take_while(|(a, b)| a == b).count();
        format!(
            "default = 7\n[[rule]]\nname = \"small\"\nlayer = \"driver\"\nport = {PORT}\n\
             bytes = {{ offset = {offset}, equals = \"{}\" }}\npriority = 0\n",
            SMALL.key
        )
    }
}

/// What nginx is told of workers, each on one of these cores.
fn crew(cores: &[CoreId]) -> String {
    let mask = |core: &CoreId| format!(" 1{}", "0".repeat(core.0.into()));
    let masks: String = cores.iter().map(mask).collect();
    format!("user root; worker_processes {}; worker_cpu_affinity{masks};", cores.len())
}

#[cfg(test)]
mod tests {
    use net::classify::rules::Policy;

    use super::*;

    #[test]
    fn the_policy_looks_at_the_byte_that_tells_small_from_bulk() {
        for program in Program::ALL {
            let policy = program.policy();
            assert!(Policy::parse(&policy).is_ok(), "{policy}");
            let offset: String =
                policy.split_once("offset = ").unwrap().1.chars().take_while(char::is_ascii_digit).collect();
            let at = |item| program.ask(item).0[offset.parse::<usize>().unwrap()];
            assert_eq!((at(SMALL), at(BULK)), (b's', b'b'), "{program:?}");
        }
    }
}
