//! Programs under test: the command line of each as in normal use, with workers, threads and
//! uploads, and their requests.
//!
//! [`crate::programs`] has some of them in a setup for measurements: alone on a core.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::harness::{Trial, because};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestedProgram {
    Lighttpd,
    Nginx,
    Apache,
    Redis,
    Memcached,
    HttpServer,
    Asyncio,
    Node,
    Java,
    Curl,
    Iperf3,
}

/// Variant of a program's setup in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupVariant {
    Usual,
    /// With workers, if the program has any.
    Workers,
    /// Limited to [`DESCRIPTORS`] descriptors.
    Few,
    /// Serves another folder, `next`.
    Next,
}

pub const DESCRIPTORS: usize = 64;
/// Size of the large file or value.
pub const BIG: usize = 64 << 20;
/// Content of `/small`, and the same after a reload.
pub const SMALL: &str = "hello\n";
pub const AGAIN: &str = "again\n";
/// Key of the value.
const KEY: &str = "k";

const LIGHTTPD: &str = "server.document-root = \"ROOT\"\nserver.bind = \"ADDRESS\"\nserver.port = 80\n\
    server.errorlog = \"FOLDER/error.log\"\nserver.pid-file = \"FOLDER/pid\"\n\
    server.upload-dirs = ( \"FOLDER\" )\nserver.modules = ( \"mod_cgi\" )\n\
    cgi.assign = ( \".cgi\" => \"/bin/sh\" )\nserver.max-keep-alive-requests = 10000\n\
    server.max-keep-alive-idle = 60\nserver.max-fds = FDS\nserver.max-connections = CONNECTIONS\n";
const NGINX: &str = "daemon off;\nworker_processes 2;\nuser root;\npid FOLDER/pid;\nerror_log FOLDER/error.log;\n\
    events { worker_connections 2048; }\nhttp {\n  access_log off;\n  client_max_body_size 200m;\n\
    keepalive_requests 10000;\n  client_body_temp_path FOLDER/t1; proxy_temp_path FOLDER/t2;\n\
    fastcgi_temp_path FOLDER/t3; uwsgi_temp_path FOLDER/t4; scgi_temp_path FOLDER/t5;\n\
    server { listen ADDRESS:80; root ROOT; dav_methods PUT; }\n}\n";
const APACHE: &str = "ServerRoot FOLDER\nServerName a\nPidFile FOLDER/pid\nListen ADDRESS:80\nUser www-data\n\
    Group www-data\nLoadModule mpm_event_module MODULES/mod_mpm_event.so\nErrorLog FOLDER/error.log\n\
    LoadModule authz_core_module MODULES/mod_authz_core.so\nLoadModule cgi_module MODULES/mod_cgi.so\n\
    DocumentRoot ROOT\nDefaultRuntimeDir FOLDER\nStartServers 2\nServerLimit 4\nThreadLimit 256\n\
    ThreadsPerChild 256\nMaxRequestWorkers 1024\nMinSpareThreads 1\nMaxSpareThreads 1024\n\
    MaxKeepAliveRequests 0\nKeepAliveTimeout 60\n\
    <Directory FOLDER>\nRequire all granted\nOptions ExecCGI\n</Directory>\n\
    <Files up.cgi>\nSetHandler cgi-script\n</Files>\n";
const MODULES: &str = "/usr/lib/apache2/modules";
const ASYNCIO: &str = include_str!("serve.py");
const NODE: &str = include_str!("serve.js");
const JAVA: &str = include_str!("Serve.java");
/// Debian's Python, which may not be the first in PATH.
const PYTHON: &str = "/usr/bin/python3";
/// Script that returns the checksum of an upload.
const SUM: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\nexec sha256sum\n";

impl TestedProgram {
    pub const ALL: [Self; 11] = [
        Self::Lighttpd,
        Self::Nginx,
        Self::Apache,
        Self::Redis,
        Self::Memcached,
        Self::HttpServer,
        Self::Asyncio,
        Self::Node,
        Self::Java,
        Self::Curl,
        Self::Iperf3,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Lighttpd => "lighttpd",
            Self::Nginx => "nginx",
            Self::Apache => "Apache",
            Self::Redis => "redis-server",
            Self::Memcached => "memcached",
            Self::HttpServer => "http.server",
            Self::Asyncio => "asyncio",
            Self::Node => "node",
            Self::Java => "java",
            Self::Curl => "curl",
            Self::Iperf3 => "iperf3",
        }
    }

    /// Executable.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Apache => "apache2",
            Self::HttpServer | Self::Asyncio => PYTHON,
            _ => self.name(),
        }
    }

    /// Name of the program's source package.
    pub const fn upstream(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            _ => self.file(),
        }
    }

    /// Name of the program's processes.
    pub const fn process(self) -> &'static str {
        match self {
            Self::HttpServer | Self::Asyncio => "python3",
            _ => self.file(),
        }
    }

    /// Requirement that is missing on this machine, if any.
    pub fn is_missing(self) -> Option<String> {
        let file = self.file();
        if !netlab::is_installed(file) {
            return Some(format!("the program {file} is not installed"));
        }
        if self == Self::Java && !netlab::is_installed("javac") {
            return Some("no JDK: the program javac is not installed".to_owned());
        }
        let modules = self == Self::Apache && !Path::new(MODULES).exists();
        modules.then(|| format!("no Apache modules in {MODULES}"))
    }

    /// Version that the program prints.
    pub fn version(self) -> Option<String> {
        let flag = match self {
            Self::Lighttpd | Self::Nginx | Self::Apache | Self::Redis | Self::Node | Self::Iperf3 => "-v",
            Self::Java => "-version",
            _ => "-V",
        };
        let out = Command::new(self.file()).arg(flag).stdin(Stdio::null()).output().ok()?;
        version_in(&String::from_utf8_lossy(&[out.stdout, out.stderr].concat()))
    }

    pub const fn port(self) -> u16 {
        match self {
            Self::Redis => 6379,
            Self::Memcached => 11_211,
            _ => 80,
        }
    }

    pub const fn is_http(self) -> bool {
        !matches!(self, Self::Redis | Self::Memcached)
    }

    pub const fn is_client(self) -> bool {
        matches!(self, Self::Curl | Self::Iperf3)
    }

    /// True if worker processes serve, not the first process.
    pub const fn has_workers(self) -> bool {
        matches!(self, Self::Lighttpd | Self::Nginx | Self::Apache)
    }

    /// Command line that starts the program at `addr`, in the foreground.
    ///
    /// # Errors
    /// One of its files cannot be written.
    pub fn words(self, world: &Trial<'_>, addr: &str, shape: SetupVariant) -> Result<Vec<String>, String> {
        let folder = world.folder().display().to_string();
        let root = if shape == SetupVariant::Next { format!("{folder}/next") } else { folder.clone() };
        let (fds, connections) = if shape == SetupVariant::Few { (DESCRIPTORS, 24) } else { (4000, 1500) };
        let config = |text: &str| {
            let text = text.replace("ADDRESS", addr).replace("FOLDER", &folder).replace("ROOT", &root);
            let text = text.replace("FDS", &fds.to_string()).replace("CONNECTIONS", &connections.to_string());
            world.write("config", text.replace("MODULES", MODULES).as_bytes())
        };
        let file = match self {
            Self::Lighttpd if shape == SetupVariant::Workers => {
                config(&format!("{LIGHTTPD}server.max-worker = 2\n"))?
            }
            Self::Lighttpd => config(LIGHTTPD)?,
            Self::Nginx => config(NGINX)?,
            Self::Apache => config(APACHE)?,
            Self::Asyncio => world.write("serve.py", ASYNCIO.as_bytes())?,
            Self::Node => world.write("serve.js", NODE.as_bytes())?,
            Self::Java => world.write("Serve.java", JAVA.as_bytes())?,
            _ => String::new(),
        };
        let most = if shape == SetupVariant::Few { "40" } else { "2000" };
        let words: &[&str] = match self {
            Self::Lighttpd => &["lighttpd", "-D", "-f", &file],
            Self::Nginx => &["nginx", "-e", "stderr", "-c", &file],
            Self::Apache => &["apache2", "-DFOREGROUND", "-f", &file],
            Self::Redis => &[
                "redis-server",
                "--bind",
                addr,
                "--port",
                "6379",
                "--save",
                "",
                "--protected-mode",
                "no",
                "--enable-debug-command",
                "yes",
                "--enable-protected-configs",
                "yes",
                "--dir",
                &folder,
            ],
            Self::Memcached => &[
                "memcached",
                "-u",
                "root",
                "-l",
                addr,
                "-p",
                "11211",
                "-U",
                "0",
                "-t",
                "4",
                "-c",
                most,
                "-I",
                "128m",
                "-m",
                "1024",
            ],
            Self::HttpServer => &[
                PYTHON,
                "-m",
                "http.server",
                "80",
                "--bind",
                addr,
                "--directory",
                &folder,
                "--protocol",
                "HTTP/1.1",
            ],
            Self::Asyncio => &[PYTHON, &file, addr, &folder],
            Self::Node => &["node", &file, addr, &folder],
            Self::Java => &["java", &file, addr, &folder],
            Self::Curl => &["curl", "--silent", "--show-error", "--fail", "--max-time", "60"],
            Self::Iperf3 => &["iperf3", "--client", addr, "--connect-timeout", "20000"],
        };
        Ok(words.iter().map(|&word| word.to_owned()).collect())
    }

    /// Writes the served files; for programs with values see [`store`](Self::store).
    pub fn files(self, world: &Trial<'_>, big: &[u8]) -> Result<(), String> {
        let next = world.folder().join("next");
        // Does not create parent folders: they are gone after an interruption.
        if !next.exists() {
            std::fs::create_dir(&next).map_err(because("a folder"))?;
        }
        std::fs::write(next.join("small"), AGAIN).map_err(because("a file"))?;
        world.write("small", SMALL.as_bytes())?;
        world.write("big", big)?;
        let script = world.write("up.cgi", SUM.as_bytes())?;
        let may = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(script, may).map_err(because("a file"))
    }

    /// Stores `value` over `stream`; only for programs with values.
    pub fn store(self, stream: &mut TcpStream, value: &[u8]) -> Result<(), String> {
        let len = value.len();
        let (head, done) = match self {
            Self::Redis => (format!("*3\r\n$3\r\nSET\r\n$1\r\n{KEY}\r\n${len}\r\n"), "+OK\r\n"),
            _ => (format!("set {KEY} 0 0 {len}\r\n"), "STORED\r\n"),
        };
        for piece in [head.as_bytes(), value, b"\r\n"] {
            stream.write_all(piece).map_err(because("it takes a value"))?;
        }
        ends_with(stream, done.as_bytes()).map(drop)
    }

    /// Requests the file `path` and reads the beginning of the answer; the server closes the
    /// connection at its end.
    pub fn begin(self, stream: &mut TcpStream, path: &str) -> Result<Vec<u8>, String> {
        let request = format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(because("it reads"))?;
        let mut begin = vec![0; 1000];
        stream.read_exact(&mut begin).map_err(because("it begins to answer")).map(|()| begin)
    }

    /// Requests the value or the file `path`, and reads until the connection ends: the answer must
    /// be exactly `value`.
    pub fn fetch(self, mut stream: TcpStream, path: &str, value: &[u8]) -> Result<(), String> {
        let request = match self {
            Self::Redis => format!("*2\r\n$3\r\nGET\r\n$1\r\n{KEY}\r\n*1\r\n$4\r\nQUIT\r\n"),
            Self::Memcached => format!("get {KEY}\r\nquit\r\n"),
            _ => format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n"),
        };
        stream.write_all(request.as_bytes()).map_err(because("it reads"))?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map_err(because("it answers"))?;
        self.check_response(&answer, value)
    }

    /// Checks that `answer` contains `value`.
    pub fn check_response(self, answer: &[u8], value: &[u8]) -> Result<(), String> {
        let len = value.len();
        let (head, tail) = match self {
            Self::Redis => (format!("${len}\r\n"), &b"\r\n+OK\r\n"[..]),
            Self::Memcached => (format!("VALUE {KEY} 0 {len}\r\n"), &b"\r\nEND\r\n"[..]),
            _ => ("HTTP/1.".to_owned(), &b""[..]),
        };
        let body = answer.strip_prefix(head.as_bytes()).and_then(|rest| rest.strip_suffix(tail));
        let same = body.is_some_and(|body| match (self.is_http(), body.strip_suffix(value)) {
            (true, Some(head)) => head.ends_with(b"\r\n\r\n") && head[1..].starts_with(b" 200"),
            (false, Some(head)) => head.is_empty(),
            (_, None) => false,
        });
        let begin = String::from_utf8_lossy(&answer[..answer.len().min(60)]).into_owned();
        same.then_some(()).ok_or_else(|| format!("{} bytes for {len}, or others: {begin:?}", answer.len()))
    }

    /// Sends a small request; the connection stays open.
    pub fn ask(self, stream: &mut TcpStream) -> Result<(), String> {
        let (request, end) = match self {
            Self::Redis => ("PING\r\n", "+PONG\r\n"),
            Self::Memcached => ("version\r\n", "\r\n"),
            _ => ("GET /small HTTP/1.1\r\nHost: a\r\n\r\n", SMALL),
        };
        stream.write_all(request.as_bytes()).map_err(because("it reads"))?;
        ends_with(stream, end.as_bytes()).map(drop)
    }
}

/// Reads until the input ends with `end`.
pub fn ends_with(stream: &mut TcpStream, end: &[u8]) -> Result<Vec<u8>, String> {
    let mut answer = Vec::new();
    let mut bytes = [0; 4096];
    while !answer.ends_with(end) {
        let len = stream.read(&mut bytes).map_err(because("it answers"))?;
        if len == 0 {
            return Err(format!("it ends after {:?}", String::from_utf8_lossy(&answer)));
        }
        answer.extend_from_slice(&bytes[..len]);
    }
    Ok(answer)
}

/// First word that looks like a version.
fn version_in(output: &str) -> Option<String> {
    let words = output.split(|c: char| c.is_whitespace() || "/=\"".contains(c));
    let mut words = words.map(|word| word.trim_start_matches('v'));
    words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_programs_say() {
        // Only installed programs are tested, with the output of their version flags, such as
        // `nginx -v`.
        use TestedProgram::{Apache, Iperf3, Java, Lighttpd, Memcached, Nginx, Node, Redis};
        for program in [Apache, Iperf3, Java, Lighttpd, Memcached, Nginx, Node, Redis] {
            if let Some(why) = program.is_missing() {
                errln!("skipped: a_version_is_found_in_what_programs_say: {why}");
                continue;
            }
            let version = program.version().unwrap_or_else(|| panic!("{program:?} has no version"));
            let parts = version.split(|c: char| !c.is_ascii_digit());
            assert!(parts.filter(|part| !part.is_empty()).count() >= 2, "{program:?}: {version}");
        }
        assert_eq!(version_in("usage: no version\n"), None);
    }

    #[test]
    fn a_response_has_exactly_the_value() {
        let good: [(TestedProgram, &[u8]); 3] = [
            (TestedProgram::Redis, b"$3\r\nabc\r\n+OK\r\n"),
            (TestedProgram::Memcached, b"VALUE k 0 3\r\nabc\r\nEND\r\n"),
            (TestedProgram::Nginx, b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nabc"),
        ];
        for (program, answer) in good {
            assert_eq!(program.check_response(answer, b"abc"), Ok(()));
            for wrong in [&answer[..answer.len() - 1], &answer[1..], b""] {
                assert!(program.check_response(wrong, b"abc").is_err(), "{program:?}: {wrong:?}");
            }
            assert!(program.check_response(answer, b"abd").is_err());
        }
    }
}
