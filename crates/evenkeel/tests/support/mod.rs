//! Shared parts of the tests: evenkeel as a process, small servers behind it, and addresses that nobody else uses.
// Each test uses a part of it.
#![allow(dead_code)]

pub mod notify_socket;
pub mod streams;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time that anything may take before a test fails: generous, since many tests may share few cores.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// An address of its own, as text.
pub fn address() -> String {
    evenkeel_peers::own_addr().to_string()
}

/// Polls until there is something.
#[track_caller]
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, look).unwrap_or_else(|| panic!("in {DEADLINE:?} there was not: {what}"))
}

/// Looks until there is something or `deadline` is over.
pub fn within<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if began.elapsed() >= deadline {
            return None;
        }
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A command that ends by itself.
pub fn evenkeel(arguments: &[&str]) -> Output {
    command(arguments).output().expect("evenkeel can be started")
}

/// Runs a command that has to end with this code and to print these texts; its standard output.
#[track_caller]
pub fn ends(arguments: &[&str], code: i32, says: &[&str]) -> String {
    let output = evenkeel(arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{err}");
    for part in says {
        assert!(out.contains(part) || err.contains(part), "{arguments:?} does not say {part:?}\n{out}\n{err}");
    }
    out
}

fn command(arguments: &[&str]) -> Command {
    // Figures of `attackers` are those of a release build, which tests do not make.
    let program = std::env::var_os("EVENKEEL_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_evenkeel").into());
    let mut command = Command::new(program);
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    in_own_folder(&mut command);
    command
}

/// Keeps the sockets of processes under test away from those of this machine, unless the test names a folder.
fn in_own_folder(command: &mut Command) {
    if command.get_envs().all(|(name, _)| name != "RUNTIME_DIRECTORY") {
        command.env("RUNTIME_DIRECTORY", std::env::temp_dir().join("evenkeel-tests"));
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An evenkeel that serves. Killed when dropped.
pub struct Running {
    child: Child,
    said: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts it and waits until it says that it serves.
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Running {
        Running::from(command(arguments))
    }

    /// Starts it with more in its environment.
    #[track_caller]
    pub fn start_in(environment: &[(&str, &str)], arguments: &[&str]) -> Running {
        let mut command = command(arguments);
        command.envs(environment.iter().copied());
        Running::from(command)
    }

    /// Starts it from any command that becomes an evenkeel.
    #[track_caller]
    pub fn from(mut command: Command) -> Running {
        command.stdout(Stdio::null());
        Running::from_all_of(command)
    }

    /// Starts it from a command, with the standard output of that.
    #[track_caller]
    pub fn from_all_of(mut command: Command) -> Running {
        command.env("NO_COLOR", "1");
        in_own_folder(&mut command);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let said = Arc::new(Mutex::new(String::new()));
        let (stderr, into) = (child.stderr.take().expect("it is piped"), said.clone());
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                into.lock().expect("no panic while held").push_str(&format!("{line}\n"));
            }
        });
        let mut running = Running { child, said, reader: Some(reader) };
        eventually("a greeting", || {
            assert_eq!(running.child.try_wait().expect("it is ours"), None, "it ended: {}", running.said());
            running.said().contains("  end  ").then_some(())
        });
        running
    }

    /// All of its standard error so far.
    pub fn said(&self) -> String {
        self.said.lock().expect("no panic while held").clone()
    }

    /// The newest process that says in its log that it took over, if there is one but the first.
    pub fn successor(&self) -> Option<Pid> {
        let said = self.said();
        let pid = said.rsplit_once("the new process serves pid=")?.1;
        Pid::from_raw(pid.split_whitespace().next()?.parse().ok()?)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process id is not 0");
        kill_process(pid, signal).expect("it runs");
    }

    /// From now on it may have so many files open.
    pub fn allow_files(&self, files: u64) {
        let pid = Pid::from_raw(self.child.id() as i32);
        let limit = Rlimit { current: Some(files), maximum: Some(files) };
        rustix::process::prlimit(pid, Resource::Nofile, limit).expect("a limit can be lowered");
    }

    /// From now on it may open so many more files than it has open now.
    pub fn allow_more_files(&self, more: usize) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs");
        let open: Vec<u64> = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        // The limit is one of numbers, of which the lowest that is free is taken.
        let limit = (0..).filter(|number| !open.contains(number)).nth(more).expect("there is no end of them");
        self.allow_files(limit);
    }

    /// Waits for its end, and for its last words; the exit code.
    #[track_caller]
    pub fn code(&mut self) -> Option<i32> {
        let code = self.ends();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no panic in there");
        }
        code
    }

    /// Waits for its end; the exit code. Its last words may come from a process that took over.
    #[track_caller]
    pub fn ends(&mut self) -> Option<i32> {
        eventually("its end", || self.child.try_wait().expect("it is ours")).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that took over: nobody's child any more. Killed when dropped.
pub struct Adopted(pub Pid);

impl Drop for Adopted {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// A server that answers every request with its name, once the gate lets it.
pub struct Endpoint {
    pub addr: String,
    served: Arc<AtomicUsize>,
    began: Arc<AtomicUsize>,
    gate: Arc<Mutex<()>>,
}

impl Endpoint {
    pub fn start(name: &'static str) -> Endpoint {
        Endpoint::slow(name, Duration::ZERO)
    }

    /// Starts an endpoint that takes this long for each request, however many there are.
    pub fn slow(name: &'static str, takes: Duration) -> Endpoint {
        let addr = address();
        let listener = TcpListener::bind(&addr).expect("nobody else uses it");
        let (served, began, gate) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<Mutex<()>>::default());
        let endpoint = Endpoint { addr, served: served.clone(), began: began.clone(), gate: gate.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (served, began, gate) = (served.clone(), began.clone(), gate.clone());
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    while let Some(head) = head(&mut stream) {
                        began.fetch_add(1, SeqCst);
                        drop(gate.lock());
                        std::thread::sleep(takes);
                        let length = name.len();
                        let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}");
                        served.fetch_add(1, SeqCst);
                        let closes = head.to_ascii_lowercase().contains("\r\nconnection: close\r\n");
                        if stream.get_mut().write_all(response.as_bytes()).is_err() || closes {
                            return;
                        }
                    }
                });
            }
        });
        endpoint
    }

    /// Number of requests that came in.
    pub fn began(&self) -> usize {
        self.began.load(SeqCst)
    }

    /// Requests that were answered.
    pub fn served(&self) -> usize {
        self.served.load(SeqCst)
    }

    /// Holds all answers while the guard is held.
    pub fn hold(&self) -> std::sync::MutexGuard<'_, ()> {
        self.gate.lock().expect("no panic while held")
    }
}

/// The next head with its empty line; `None` at the end of the stream.
pub fn head(stream: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// The response to these bytes, over a connection of its own, which the other side has to close.
pub fn ask(addr: &str, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Status and body of one request over a connection of its own.
pub fn get(addr: &str, path: &str) -> std::io::Result<(u16, String)> {
    // The admin wants a name of its own machine.
    let is_of_admin = ["/metrics", "/livez", "/readyz", "/v1/", "/ui"].iter().any(|begin| path.starts_with(begin));
    let host = if is_of_admin { "localhost" } else { "test" };
    let response = ask(addr, &format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"))?;
    let status = response.get(9..12).and_then(|s| s.parse().ok()).unwrap_or(0);
    let body = response.split_once("\r\n\r\n").map(|(_, body)| body.to_string()).unwrap_or_default();
    Ok((status, body))
}

/// A folder of the test's own. Removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let (pid, number) = (std::process::id(), NUMBER.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(format!("evenkeel-test-{pid}-{number}-{name}"));
        std::fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    /// A file in it, as an argument.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
