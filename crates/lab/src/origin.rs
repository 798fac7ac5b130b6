//! Endpoints behind the proxies: a single NGINX at two ports, which serves a few files from the page cache and counts
//! connections and requests, to check that a proxy reuses connections as intended.

use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::hosts::listens;
use crate::http;
use crate::procfs;
use crate::scratch::Scratch;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

/// Files by path, with their size in bytes.
pub const FILES: [(&str, usize); 4] = [("/1k", 1 << 10), ("/4k", 4 << 10), ("/64k", 64 << 10), ("/1m", 1 << 20)];

/// Fields of a request that `/fields` answers with, in the notation of NGINX.
const FIELDS: [&str; 10] = ["x_m0", "x_m1", "x_m2", "x_m3", "x_m4", "x_m5", "x_m6", "x_m7", "x_m8", "x_m9"];

/// Further addresses of this machine at which the first endpoint listens too.
pub const ELSEWHERE: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];

/// Running endpoints, stopped when dropped.
pub struct Origin {
    /// Ports of the two endpoints.
    pub ports: [u16; 2],
    /// Ports for HTTP/2 without TLS only.
    pub h2_ports: [u16; 2],
    nginx: Child,
    _folder: Scratch,
}

/// Counts of both endpoints together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Number of accepted connections.
    pub connections: u64,
    /// Number of answered requests.
    pub requests: u64,
}

impl Origin {
    /// Starts the endpoints on the cores of the load.
    ///
    /// # Errors
    /// If NGINX is missing or does not start.
    pub fn start() -> Result<Origin> {
        let folder = Scratch::new()?;
        for (path, size) in FILES {
            folder.write(&path[1..], content(size))?;
        }
        let [first, second, ports @ ..] = held_ports::<4>()?;
        let h2_ports = [first, second];
        let lines = lines(folder.path(), ports, h2_ports);
        let nginx = start_nginx(Vec::new(), folder.path(), 1, &lines, ports[1])?;
        let origin = Origin { ports, h2_ports, nginx, _folder: folder };
        for port in origin.ports {
            verify(port, "")?;
        }
        Ok(origin)
    }

    /// Process ids of the endpoints.
    pub fn pids(&self) -> Vec<u32> {
        let master = self.nginx.pid();
        procfs::children_of(master).into_iter().chain([master]).collect()
    }

    /// Reads the counts; they include the request that reads them.
    ///
    /// # Errors
    /// If the endpoints do not answer.
    pub fn seen(&self) -> Result<Seen> {
        let text = http::get(&mut http::connect(self.ports[0])?, "/status", "1.0")?;
        let text = String::from_utf8_lossy(&text);
        parse_seen(&text).ok_or_else(|| Error::Wrong(format!("NGINX returned an unknown status:\n{text}")))
    }
}

/// The third line of NGINX's `stub_status` holds connections accepted, connections handled, and requests.
fn parse_seen(text: &str) -> Option<Seen> {
    let counts: Vec<u64> = text.lines().nth(2)?.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect();
    let [accepted, _, requests] = counts[..] else { return None };
    Some(Seen { connections: accepted, requests })
}

/// Content of the file of this size: numbered lines, so that lost, duplicated or moved bytes are detected.
pub fn content(size: usize) -> Vec<u8> {
    let lines = (0_u32..).map(|number| format!("{number} {:08x}\n", number.wrapping_mul(0x9e37_79b9)));
    let mut bytes = Vec::with_capacity(size + 32);
    for line in lines {
        bytes.extend_from_slice(line.as_bytes());
        if bytes.len() >= size {
            break;
        }
    }
    bytes.truncate(size);
    bytes
}

/// Requests each file below a prefix over HTTP/1.0 and HTTP/1.1, and compares the content.
///
/// # Errors
/// If an answer is not byte for byte as expected.
pub fn verify(port: u16, prefix: &str) -> Result<()> {
    for (path, size) in FILES {
        let path = [prefix, path].concat();
        for version in ["1.0", "1.1"] {
            let body = http::get(&mut http::connect(port)?, &path, version)?;
            if body != content(size) {
                return Err(Error::Refused(format!("port {port} answers {path} over HTTP/{version} with other bytes")));
            }
        }
    }
    Ok(())
}

/// Two free ports.
///
/// # Errors
/// If the system has none.
pub fn free_ports() -> Result<[u16; 2]> {
    held_ports()
}

/// Finds free ports. All are held until all are known, or they might be equal.
///
/// # Errors
/// If the system has too few.
pub fn held_ports<const N: usize>() -> Result<[u16; N]> {
    let held: Vec<_> = (0..N).map(|_| listen_anywhere(Ipv4Addr::LOCALHOST)).collect::<Result<_>>()?;
    Ok(std::array::from_fn(|number| held[number].1.port()))
}

/// Listens on a free port of `ip`. Returns the listener and its address.
///
/// # Errors
/// If the system has none.
pub fn listen_anywhere(ip: Ipv4Addr) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((ip, 0)).or_say(|| format!("cannot find a free port of {ip}"))?;
    let address = listener.local_addr().or_say(|| "cannot read a port".into())?;
    Ok((listener, address))
}

/// Starts an NGINX with these lines in its `http` block, and waits until it listens. `at`: command prefix, for a
/// namespace.
///
/// # Errors
/// If NGINX is missing or does not start.
pub fn start_nginx(mut at: Vec<String>, folder: &Path, workers: usize, lines: &str, port: u16) -> Result<Child> {
    let config = folder.join("nginx.conf");
    let text = format!(
        "{}http {{\n{}  access_log off;\n  keepalive_requests 1000000000;\n{lines}}}\n",
        nginx_process(folder, workers),
        nginx_folders(folder)
    );
    std::fs::write(&config, text).or_say(|| format!("cannot write {}", config.display()))?;
    at.push(child::find("nginx")?);
    at.extend(nginx_arguments(folder, &config.display().to_string()));
    Child::start("the endpoints' nginx", &at, None, &folder.join("said"), |pid| listens(pid, "tcp", port))
}

/// Arguments of an NGINX that ignores the system's configuration.
pub fn nginx_arguments(folder: &Path, config: &str) -> Vec<String> {
    ["-p", &folder.display().to_string(), "-c", config, "-e", "stderr"].map(str::to_owned).to_vec()
}

/// Main configuration of an NGINX that runs in the foreground and writes only to its folder.
pub fn nginx_process(folder: &Path, workers: usize) -> String {
    let folder = folder.display();
    // As root, NGINX would run its workers as a user that cannot read the folder; for other users the directive is not
    // allowed.
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    format!(
        "{user}daemon off;\nworker_processes {workers};\npid {folder}/nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 24000; multi_accept on; }}\n"
    )
}

/// Lines of `http` that keep NGINX's temporary files in a folder.
pub fn nginx_folders(folder: &Path) -> String {
    let named = |kind: &str| format!("  {kind}_temp_path {}/{kind};\n", folder.display());
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(named).concat()
}

fn lines(folder: &Path, ports: [u16; 2], h2_ports: [u16; 2]) -> String {
    let listen = |port: &u16, more: &str| format!("listen 127.0.0.1:{port} backlog=4096{more}; ");
    // Also at the addresses that DNS answers contain, on the same port.
    let elsewhere = ELSEWHERE.map(|ip| format!("listen {ip}:{} backlog=4096; ", ports[0]));
    let plain = ports.iter().map(|port| listen(port, "")).chain(elsewhere);
    let listen: String = plain.chain(h2_ports.iter().map(|port| listen(port, " http2"))).collect();
    format!(
        "  sendfile on;
  tcp_nopush on;
  keepalive_timeout 3600s;
  http2_max_concurrent_streams 1024;
  open_file_cache max=16 inactive=1h;
  open_file_cache_valid 1h;
  server {{
    {listen}
    root {};
    default_type text/plain;
    location = /status {{ stub_status; }}
    location = /fields {{ return 200 '{}'; }}
  }}
",
        folder.display(),
        FIELDS.map(|name| format!("$http_{name} ")).concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells_connections_and_requests() {
        let text =
            "Active connections: 3 \nserver accepts handled requests\n 7 7 120 \nReading: 0 Writing: 1 Waiting: 2 \n";
        assert_eq!(parse_seen(text), Some(Seen { connections: 7, requests: 120 }));
        assert_eq!(parse_seen("Active connections: 3"), None);
    }

    #[test]
    fn contents_have_their_size_and_no_early_repetition() {
        for (_, size) in FILES {
            assert_eq!(content(size).len(), size);
        }
        let bytes = content(64 << 10);
        let mut blocks: Vec<&[u8]> = bytes.chunks(256).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 256);
    }
}
