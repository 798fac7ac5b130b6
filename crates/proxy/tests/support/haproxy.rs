//! HAProxy with any configuration.

use super::nginx::Directory;
use super::{listening, own_addr};
use std::net::SocketAddr;
use std::process::Child;

/// A running HAProxy, killed on drop.
pub struct Haproxy {
    pub addr: SocketAddr,
    process: Child,
    _dir: Directory,
}

impl Haproxy {
    /// Starts HAProxy with these lines, in which `$BIND` stands for its address.
    pub fn start(lines: &str) -> Haproxy {
        let (dir, addr) = (Directory::new(), own_addr());
        let file = dir.0.join("haproxy.cfg");
        let lines = lines.replace("$BIND", &addr.to_string());
        let timeouts = "timeout connect 5s\ntimeout client 20s\ntimeout server 20s";
        std::fs::write(&file, format!("defaults\nmode http\n{timeouts}\n{lines}\n")).expect("a file of ours");
        let mut haproxy = super::tool("haproxy");
        haproxy.args(["-db", "-f"]).arg(&file);
        Haproxy { addr, process: listening(haproxy, addr), _dir: dir }
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
