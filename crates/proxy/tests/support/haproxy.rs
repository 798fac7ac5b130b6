//! HAProxy as whatever a configuration says.

use super::nginx::Directory;
use super::wait_until;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};

/// A running HAProxy.
pub struct Haproxy {
    pub addr: SocketAddr,
    process: Child,
    _dir: Directory,
}

impl Haproxy {
    /// With these lines, in which `$BIND` stands for an address that is free.
    pub fn start(lines: &str) -> Haproxy {
        let dir = Directory::new();
        for _ in 0..20 {
            let addr = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
            let file = dir.0.join("haproxy.cfg");
            let lines = lines.replace("$BIND", &addr.to_string());
            let timeouts = "timeout connect 5s\ntimeout client 20s\ntimeout server 20s";
            std::fs::write(&file, format!("defaults\nmode http\n{timeouts}\n{lines}\n")).expect("a file of ours");
            let mut process = super::tool("/usr/sbin/haproxy")
                .args(["-db", "-f"])
                .arg(&file)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("HAProxy starts");
            let mut ended = false;
            wait_until("HAProxy listens", || {
                ended = process.try_wait().expect("a child of ours").is_some();
                ended || TcpStream::connect(addr).is_ok()
            });
            if !ended {
                return Haproxy { addr, process, _dir: dir };
            }
            // Somebody took the port.
        }
        panic!("HAProxy does not stay");
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
