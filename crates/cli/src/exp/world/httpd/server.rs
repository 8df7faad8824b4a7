//! Servers under test: Debian's packages, each with its own configuration in its own folder.
//! Settings outside the configuration are the package's defaults.

use std::net::Ipv4Addr;
use std::path::Path;

use netlab::TempDir;
use netlab::{self, LabError};
use queueing::Rng;
use serde::Deserialize;

use super::Config;

/// Server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpdServer {
    /// One worker process with an event loop.
    Nginx,
    /// One process with an event loop.
    Lighttpd,
    /// Multi-threaded processes, one request per thread (`mpm_event`).
    Apache,
}

/// Listening port.
pub const PORT: u16 = 80;
/// Requested file.
const FILE: &str = "file.txt";
/// Debian's folder of Apache's modules.
const MODULES: &str = "/usr/lib/apache2/modules";

/// Request of every visit.
pub fn request() -> Vec<u8> {
    let head = ["GET /", FILE, " HTTP/1.1\r\nHost: server\r\nAccept-Encoding: gzip\r\n\r\n"];
    head.concat().into_bytes()
}

impl HttpdServer {
    /// Name of the executable.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Lighttpd => "lighttpd",
            Self::Apache => "apache2",
        }
    }

    /// Debian package.
    pub const fn package(self) -> &'static str {
        match self {
            Self::Nginx => "nginx-light",
            other => other.program(),
        }
    }

    /// Writes content and configuration into `folder`; returns the arguments that start it in the
    /// foreground.
    pub fn prepare(self, config: &Config, at: Ipv4Addr, folder: &TempDir) -> Result<Vec<String>, LabError> {
        folder.write(FILE, &text(config.setup.bytes))?;
        let path = folder.path();
        let configuration = match self {
            Self::Nginx => nginx(config, at, path),
            Self::Lighttpd => lighttpd(config, at, path),
            Self::Apache => apache(config, at, path),
        };
        let file = folder.write("server.conf", configuration.as_bytes())?.display().to_string();
        let words: &[&str] = match self {
            Self::Nginx => &["-e", "stderr", "-c", &file],
            Self::Lighttpd => &["-D", "-f", &file],
            Self::Apache => &["-DFOREGROUND", "-f", &file],
        };
        Ok(words.iter().map(|&word| word.to_owned()).collect())
    }
}

fn nginx(config: &Config, at: Ipv4Addr, folder: &Path) -> String {
    let folder = folder.display();
    let backlog = config.backlog.map(|backlog| format!(" backlog={backlog}")).unwrap_or_default();
    let gzip = match config.setup.gzip {
        true => "gzip on; gzip_comp_level 9; gzip_types text/plain;",
        false => "",
    };
    format!(
        "daemon off; worker_processes 1; user www-data; pid {folder}/pid; error_log stderr crit;
        events {{ worker_connections 4096; }}
        http {{
            types {{ text/plain txt; }}
            access_log off; sendfile on; {gzip}
            client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
            server {{ listen {at}:{PORT}{backlog}; root {folder}; }}
        }}\n"
    )
}

fn lighttpd(config: &Config, at: Ipv4Addr, folder: &Path) -> String {
    let folder = folder.display();
    let backlog = config.backlog.map(|backlog| format!("server.listen-backlog = {backlog}\n"));
    let gzip = match config.setup.gzip {
        true => {
            "server.modules = (\"mod_deflate\")\ndeflate.mimetypes = (\"text/plain\")\n\
             deflate.allowed-encodings = (\"gzip\")\ndeflate.params = (\"gzip-level\" => 9)\n"
        }
        false => "",
    };
    format!(
        "server.document-root = \"{folder}\"\nserver.bind = \"{at}\"\nserver.port = {PORT}\n\
         mimetype.assign = (\".txt\" => \"text/plain\")\n{gzip}{}",
        backlog.unwrap_or_default()
    )
}

fn apache(config: &Config, at: Ipv4Addr, folder: &Path) -> String {
    let folder = folder.display();
    let backlog = config.backlog.map(|backlog| format!("ListenBacklog {backlog}\n"));
    let gzip = match config.setup.gzip {
        true => format!(
            "LoadModule filter_module {MODULES}/mod_filter.so\nLoadModule deflate_module {MODULES}/mod_deflate.so\n\
             AddOutputFilterByType DEFLATE text/plain\nDeflateCompressionLevel 9\n"
        ),
        false => String::new(),
    };
    // Values of Debian's mpm_event.conf.
    format!(
        "LoadModule mpm_event_module {MODULES}/mod_mpm_event.so\n\
         LoadModule authz_core_module {MODULES}/mod_authz_core.so\n\
         LoadModule mime_module {MODULES}/mod_mime.so\n\
         ServerRoot {folder}\nDefaultRuntimeDir {folder}\nPidFile {folder}/pid\nServerName server\n\
         ErrorLog /dev/stderr\nLogLevel crit\nUser www-data\nGroup www-data\nListen {at}:{PORT}\n\
         DocumentRoot {folder}\nTypesConfig /dev/null\nAddType text/plain .txt\n\
         StartServers 2\nMinSpareThreads 25\nMaxSpareThreads 75\nThreadLimit 64\nThreadsPerChild 25\n\
         MaxRequestWorkers 150\nMaxConnectionsPerChild 0\n{gzip}{}",
        backlog.unwrap_or_default()
    )
}

/// `len` bytes that compress about as well as prose.
fn text(len: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(2002);
    let words: Vec<Vec<u8>> = (0..500)
        .map(|_| (0..2 + rng.below(8)).map(|_| b'a' + rng.below(26) as u8).chain([b' ']).collect())
        .collect();
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        text.extend_from_slice(&words[rng.below(500) as usize]);
    }
    text.truncate(len);
    text
}
