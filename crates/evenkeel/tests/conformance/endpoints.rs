//! Servers behind evenkeel: NGINX, Go and Node, each over HTTP/1 and over HTTP/2.

use crate::files::{self, Certificate, SOURCES};
use crate::support::{Folder, address, eventually};
use std::fs::File;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// Protocol that an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    H1,
    /// HTTP/2 without TLS.
    H2c,
    /// HTTP/2 over TLS.
    H2Tls,
}

/// A running server. Killed when dropped.
pub struct Endpoint {
    pub name: &'static str,
    pub addr: String,
    pub speaks: Speaks,
    /// Certificate of the server, if it speaks TLS.
    pub certificate: Option<Certificate>,
    /// True if it answers while a request is under way, and passes trailers.
    pub streams: bool,
    processes: Vec<Child>,
}

impl Endpoint {
    /// Name of the protocol of a request, as it prints it.
    pub fn seen(&self) -> &'static str {
        if self.speaks == Speaks::H1 { "HTTP/1.1" } else { "HTTP/2.0" }
    }

    /// A server of another kind, which listens already.
    pub fn of(name: &'static str, addr: String, speaks: Speaks, process: Child) -> Endpoint {
        Endpoint { name, addr, speaks, certificate: None, streams: true, processes: vec![process] }
    }

    pub fn go(folder: &Folder, speaks: Speaks) -> Endpoint {
        let (addr, program) = (address(), files::go("endpoints/endpoint.go"));
        let (name, word) = match speaks {
            Speaks::H1 => ("go-h1", "h1"),
            Speaks::H2c => ("go-h2c", "h2c"),
            Speaks::H2Tls => ("go-h2-tls", "h2"),
        };
        let mut command = Command::new(program);
        command.args([&addr, word]);
        let certificate = (speaks == Speaks::H2Tls).then(|| Certificate::make(folder, name, &[&addr]));
        if let Some(certificate) = &certificate {
            command.args([&certificate.cert, &certificate.key]);
        }
        let process = start(folder, name, &addr, &mut command);
        Endpoint { name, addr, speaks, certificate, streams: true, processes: vec![process] }
    }

    pub fn node(folder: &Folder, speaks: Speaks) -> Endpoint {
        let addr = address();
        let (name, word) = if speaks == Speaks::H1 { ("node-h1", "h1") } else { ("node-h2c", "h2c") };
        let mut command = Command::new("node");
        command.args([&format!("{SOURCES}/endpoints/endpoint.js"), &addr, word]);
        let process = start(folder, name, &addr, &mut command);
        Endpoint { name, addr, speaks, certificate: None, streams: true, processes: vec![process] }
    }

    /// NGINX passes requests on to Go: it cannot answer with what it got.
    pub fn nginx(folder: &Folder, speaks: Speaks) -> Endpoint {
        let mut behind = Endpoint::go(folder, Speaks::H1);
        let addr = address();
        let (name, word) = if speaks == Speaks::H1 { ("nginx-h1", "") } else { ("nginx-h2c", "http2") };
        let dir = folder.0.join(name);
        std::fs::create_dir_all(&dir).expect("a folder of ours");
        let config =
            folder.file(&format!("{name}.conf"), &nginx(&dir.display().to_string(), &addr, word, &behind.addr));
        let mut command = Command::new(evenkeel_peers::find("nginx").expect("the test looked"));
        let process = start(folder, name, &addr, command.args(["-e", "stderr", "-c", &config]));
        let mut processes = std::mem::take(&mut behind.processes);
        processes.push(process);
        Endpoint { name, addr, speaks, certificate: None, streams: false, processes }
    }
}

/// Starts a server, and waits until it listens.
pub fn start(folder: &Folder, name: &str, addr: &str, command: &mut Command) -> Child {
    let file = |kind: &str| File::create(folder.0.join(format!("{name}.{kind}"))).expect("a file of ours");
    let child = command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err")).spawn();
    let child = child.unwrap_or_else(|e| panic!("{name}: {e}; `make setup` installs what the tests need"));
    eventually(name, || TcpStream::connect(addr).ok());
    child
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn nginx(dir: &str, addr: &str, protocol: &str, behind: &str) -> String {
    format!(
        "daemon off; master_process off; pid {dir}/nginx.pid; error_log {dir}/error.log; user root;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; keepalive_requests 1000000;\n\
         client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f;\n\
         uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s; client_max_body_size 0;\n\
         server {{ listen {addr} {protocol}; location / {{ proxy_pass http://{behind}; proxy_http_version 1.1;\n\
         proxy_request_buffering off; proxy_hide_header x-seen; add_header x-seen $server_protocol; }} }} }}\n"
    )
}
