//! NGINX as an endpoint, with a directory of its own.

use super::{listening, own_addr};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A running NGINX, which serves the files in [`www`](Self::www) and accepts uploads to it.
pub struct Nginx {
    pub addr: SocketAddr,
    dir: Directory,
    process: Child,
}

/// A directory that is removed on drop.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("evenkeel-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a new directory");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Nginx {
    pub fn start() -> Nginx {
        Nginx::with("listen $BIND; location / { dav_methods PUT; }")
    }

    /// Starts NGINX with these lines in its server block, in which `$BIND` stands for its address.
    pub fn with(server: &str) -> Nginx {
        Nginx::http(&format!("server {{ {server} }}"))
    }

    /// Starts NGINX with these lines in its http block, in which `$BIND` stands for its address.
    pub fn http(lines: &str) -> Nginx {
        let (dir, addr) = (Directory::new(), own_addr());
        fs::create_dir(dir.0.join("www")).expect("a new directory");
        let file = dir.0.join("nginx.conf");
        fs::write(&file, config(&dir.0, &lines.replace("$BIND", &addr.to_string()))).expect("a file of ours");
        let mut nginx = super::tool("nginx");
        nginx.args(["-e", "stderr", "-p"]).arg(&dir.0).arg("-c").arg(file);
        Nginx { addr, process: listening(nginx, addr), dir }
    }

    /// Directory of the files that it serves.
    pub fn www(&self) -> PathBuf {
        self.dir.0.join("www")
    }

    /// Writes a file to [`www`](Self::www).
    pub fn put(&self, name: &str, content: &[u8]) {
        fs::write(self.www().join(name), content).expect("a file of ours");
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn config(dir: &Path, lines: &str) -> String {
    let dir = dir.display();
    // One process, so that killing it leaves no other; load generators would exceed the default of
    // `keepalive_requests`.
    format!(
        "daemon off; master_process off; pid {dir}/pid; error_log stderr crit; user root;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; keepalive_requests 1000000;\n\
         client_body_temp_path {dir}/body; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;\n\
         uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s; client_max_body_size 0;\n\
         root {dir}/www;\n{lines}\n}}\n"
    )
}
