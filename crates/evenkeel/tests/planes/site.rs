//! An endpoint of every plane at one address: over TCP, in HTTP and by datagram it says where it is. DNS names it without
//! asking.

use crate::support::eventually;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

/// Site that serves until the tests end.
pub struct Site {
    pub addr: SocketAddr,
    well: Arc<AtomicBool>,
}

impl Site {
    pub fn start(addr: SocketAddr) -> Site {
        // Whoever can connect finds both.
        let udp = UdpSocket::bind(addr).expect("nobody else uses it");
        let tcp = TcpListener::bind(addr).expect("nobody else uses it");
        let (well, name) = (Arc::new(AtomicBool::new(true)), addr.ip().to_string());
        let site = Site { addr, well: well.clone() };
        let to_tcp = name.clone();
        thread::spawn(move || {
            for stream in tcp.incoming().map_while(Result::ok) {
                let (name, well) = (to_tcp.clone(), well.clone());
                thread::spawn(move || serve(BufReader::new(stream), &name, &well));
            }
        });
        thread::spawn(move || {
            while let Ok((_, from)) = udp.recv_from(&mut [0; 64]) {
                let _ = udp.send_to(name.as_bytes(), from);
            }
        });
        site
    }

    /// Has its health check pass or fail; it serves either way.
    pub fn is(&self, well: bool) {
        self.well.store(well, SeqCst);
    }
}

/// Answers requests, and whoever says something else, until the other side is done.
fn serve(mut stream: BufReader<TcpStream>, name: &str, well: &AtomicBool) -> Option<()> {
    loop {
        let first = line(&mut stream)?;
        if !first.starts_with("GET ") {
            return stream.get_mut().write_all(name.as_bytes()).ok();
        }
        while line(&mut stream)? != "\r\n" {}
        let status = if first.contains("/healthz") && !well.load(SeqCst) { "503 Not Well" } else { "200 OK" };
        let response = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{name}", name.len());
        stream.get_mut().write_all(response.as_bytes()).ok()?;
    }
}

fn line(stream: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    (stream.read_line(&mut line).ok()? > 0).then_some(line)
}

/// Variable with the address at which a process has to serve.
const AT: &str = "EVENKEEL_TEST_SITE";

/// A site that can be killed and stopped. Killed when dropped.
pub struct Process(Child);

impl Process {
    pub fn start(addr: SocketAddr) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("it runs"));
        command.args(["--exact", "planes::site::serves_as_an_endpoint", "--ignored"]).env(AT, addr.to_string());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        eventually("a site that serves", || TcpStream::connect(addr).ok());
        Process(child)
    }

    /// Ends it at once, with all of its connections.
    pub fn kill(mut self) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it is ours");
    }

    /// From now on it does nothing, or goes on: the kernel still takes connections and datagrams for it.
    pub fn hang(&self, hangs: bool) {
        let pid = Pid::from_raw(self.0.id() as i32).expect("a process id is not 0");
        kill_process(pid, if hangs { Signal::STOP } else { Signal::CONT }).expect("it runs");
        if hangs {
            // Each of its threads has stopped then.
            waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is ours");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "no test: an endpoint, which tests start as a process of its own"]
fn serves_as_an_endpoint() {
    let Some(addr) = std::env::var(AT).ok().and_then(|addr| addr.parse().ok()) else { return };
    let _site = Site::start(addr);
    // Until whoever has started it is gone.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
