//! Machines of the tests: a namespace with evenkeel, an endpoint for it, and daemons beside it.

use super::namespace::Namespace;
use super::support::{Folder, Running, eventually};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Patience of a client that tries again soon, and of one that does not.
pub const SHORT: Duration = Duration::from_millis(50);
pub const LONG: Duration = Duration::from_secs(3);

/// True if the tests can run here. If not, says so.
pub fn able(programs: &[&str]) -> bool {
    if !rustix::process::geteuid().is_root() {
        evenkeel_peers::skip("namespaces need root");
        return false;
    }
    evenkeel_peers::installed(&[&["ip"], programs].concat())
}

/// Balancer: evenkeel with its daemons.
pub struct Machine {
    pub space: Namespace,
    pub folder: Folder,
    pub running: Option<Running>,
    daemons: Vec<Child>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.die();
    }
}

impl Machine {
    pub fn new(name: &str) -> Machine {
        Machine {
            space: Namespace::new(),
            folder: Folder::new(&format!("ha-{name}")),
            running: None,
            daemons: Vec::new(),
        }
    }

    /// Starts evenkeel with a configuration; its commands find it by the socket in the folder.
    pub fn run(&mut self, config: &str) {
        let socket = self.socket();
        let file = self.folder.file("evenkeel.toml", &format!("[admin]\nbind = 'unix:{socket}'\n{config}"));
        self.running = Some(self.space.within(|| Running::start(&["run", "-c", &file])));
    }

    fn socket(&self) -> String {
        self.folder.0.join("admin.sock").display().to_string()
    }

    /// Command line that asks this evenkeel.
    pub fn asking(&self, what: &str) -> String {
        format!("{} {what} --admin unix:{}", env!("CARGO_BIN_EXE_evenkeel"), self.socket())
    }

    /// Starts a daemon in the namespace.
    pub fn daemon(&mut self, mut command: Command) {
        self.daemons.push(start(&self.space, &mut command));
    }

    /// Ends all at once, as a machine does that loses its power.
    pub fn die(&mut self) {
        self.daemons.drain(..).for_each(end);
        self.running = None;
    }
}

/// Starts a program in a namespace, in a group of its own with those that it starts.
pub fn start(space: &Namespace, command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).process_group(0);
    space.within(|| command.spawn().expect("it is installed"))
}

/// Ends a program with its group.
pub fn end(mut program: Child) {
    let group = i32::try_from(program.id()).ok().and_then(Pid::from_raw).expect("it was started");
    // It may have ended.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = program.wait();
}

/// Answers each connection with a name, for as long as the process lives.
pub fn endpoint(space: &Namespace, addr: &str, name: &'static str) {
    let listener = space.within(|| TcpListener::bind(addr).expect("it has the address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut byte = [0];
                while stream.read(&mut byte).is_ok_and(|n| n > 0) && stream.write_all(name.as_bytes()).is_ok() {}
            });
        }
    });
}

/// Asks once over a new connection, and returns it with the name of the endpoint; `None` without an answer within `patience`.
pub fn ask(addr: SocketAddr, patience: Duration) -> Option<(TcpStream, String)> {
    let mut stream = TcpStream::connect_timeout(&addr, patience).ok()?;
    let name = again(&mut stream)?;
    Some((stream, name))
}

/// Asks once more over a connection.
pub fn again(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
    stream.write_all(b"?").ok()?;
    let mut name = [0; 1];
    stream.read_exact(&mut name).ok()?;
    Some(String::from_utf8_lossy(&name).into_owned())
}

/// Asks until there is an answer again, and returns the time since `began`.
pub fn outage(client: &Namespace, addr: SocketAddr, began: Instant) -> Duration {
    client.within(|| {
        eventually("an answer", || ask(addr, SHORT).map(drop));
        began.elapsed()
    })
}

/// Path of a file of `deploy/ha`.
pub fn deployed_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/ha").join(name)
}

/// Text of a file of `deploy/ha`, with other words in it.
pub fn deployed(name: &str, with: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(deployed_path(name)).expect("it is there");
    with.iter().fold(text, |text, (word, other)| {
        assert!(text.contains(word), "{name} has no {word:?}");
        text.replace(word, other)
    })
}
