//! A scene: a live evenkeel in front of one endpoint, innocent clients that ask over and over, and an attack that runs in
//! threads meanwhile.

// Each attack uses a part of it.
#![allow(dead_code)]

use crate::support::{DEADLINE, Endpoint, Folder, Running, address, evenkeel, eventually, text};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Time for which the innocent clients ask once the attack is under way.
const LASTS: Duration = Duration::from_secs(2);

/// Longest wait that any innocent request may have. The goal is 100 ms with two workers on a machine of its own, and the
/// figure is printed; tests share theirs with other tests and run without optimisation, so that this finds stalls only.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Body of the endpoint's responses.
const BODY: &str = "innocent";

/// An evenkeel under attack. Its listener `web` and its admin listener are at addresses of its own.
pub struct Scene {
    pub listen: String,
    pub admin: String,
    pub running: Running,
    pub folder: Folder,
    pub endpoint: Endpoint,
}

impl Scene {
    /// Starts an evenkeel with so many workers. `listener`: more keys of its listener; `more`: more tables.
    #[track_caller]
    pub fn start(name: &str, workers: usize, listener: &str, more: &str) -> Scene {
        Scene::start_in(&[], name, workers, listener, more)
    }

    /// Starts a scene with more in its environment.
    #[track_caller]
    pub fn start_in(environment: &[(&str, &str)], name: &str, workers: usize, listener: &str, more: &str) -> Scene {
        Scene::begin(environment, "", name, workers, listener, more)
    }

    /// Starts a scene with more keys of `[runtime]`.
    #[track_caller]
    pub fn start_with(runtime: &str, name: &str, workers: usize, listener: &str, more: &str) -> Scene {
        Scene::begin(&[], runtime, name, workers, listener, more)
    }

    #[track_caller]
    fn begin(
        environment: &[(&str, &str)],
        runtime: &str,
        name: &str,
        workers: usize,
        listener: &str,
        more: &str,
    ) -> Scene {
        let (folder, listen, admin) = (Folder::new(&format!("attackers-{name}")), address(), address());
        let endpoint = Endpoint::start(BODY);
        let text = format!(
            "[runtime]\nworkers = {workers}\n{runtime}\n[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{admin}' }}\n\
             [listener.web]\nbind = ['{listen}']\n{listener}\n[pool.web]\nendpoints = ['{}']\n{more}\n",
            folder.0.join("admin.sock").display(),
            endpoint.addr
        );
        let file = folder.file("evenkeel.toml", &text);
        let running = Running::start_in(environment, &["run", "-c", &file]);
        Scene { listen, admin, running, folder, endpoint }
    }

    /// Reloads the configuration, which must have its answer.
    #[track_caller]
    pub fn reloads(&self) {
        let output = evenkeel(&["reload", "--socket", &self.folder.0.join("admin.sock").display().to_string()]);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    }

    /// Clients of the listener: on a new connection for each request, and on one that is kept.
    pub fn innocents(&self) -> Vec<Innocent> {
        vec![Innocent::fresh(&self.listen, "/innocent", BODY), Innocent::kept(&self.listen, "/innocent", BODY)]
    }

    /// A client of the admin listener that asks for `/livez` on new connections.
    pub fn innocent_of_admin(&self) -> Innocent {
        self.innocent_of_admin_at("/livez", "ok")
    }

    /// Starts an innocent client of another page of the admin, whose body contains this.
    pub fn innocent_of_admin_at(&self, path: &'static str, body: &'static str) -> Innocent {
        let admin = self.admin.clone();
        // It is asked by its own name, or refuses to answer.
        Innocent::new("fresh connections of the admin", move || Connection::open(&admin)?.get(&admin, path, body))
    }
}

/// A client that does no harm, and one request of it.
pub struct Innocent {
    name: String,
    ask: Box<dyn FnMut() -> Result<(), String> + Send>,
}

impl Innocent {
    /// A client whose request is anything that succeeds or fails.
    pub fn new(name: impl Into<String>, ask: impl FnMut() -> Result<(), String> + Send + 'static) -> Innocent {
        Innocent { name: name.into(), ask: Box::new(ask) }
    }

    /// A client with a new connection for each request. `body`: what the response contains.
    pub fn fresh(addr: &str, path: &str, body: &'static str) -> Innocent {
        let (addr, path) = (addr.to_owned(), path.to_owned());
        Innocent::new("fresh connections", move || Connection::open(&addr)?.get("innocent", &path, body))
    }

    /// A client that keeps its connection, and does not expect it to be closed.
    pub fn kept(addr: &str, path: &str, body: &'static str) -> Innocent {
        let (addr, path, mut kept) = (addr.to_owned(), path.to_owned(), None);
        Innocent::new("a kept connection", move || {
            let connection: &mut Connection = match &mut kept {
                Some(connection) => connection,
                none => none.insert(Connection::open(&addr)?),
            };
            connection.get("innocent", &path, body)
        })
    }
}

/// A connection of an innocent client.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(addr: &str) -> Result<Connection, String> {
        let stream = TcpStream::connect(addr).map_err(|error| format!("connect: {error}"))?;
        stream.set_read_timeout(Some(DEADLINE)).map_err(|error| error.to_string())?;
        Ok(Connection(BufReader::new(stream)))
    }

    fn get(&mut self, host: &str, path: &str, body: &str) -> Result<(), String> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).map_err(|error| format!("write: {error}"))?;
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let read = self.0.read_line(&mut head).map_err(|error| format!("read: {error}, after {head:?}"))?;
            if read == 0 {
                return Err(format!("closed after {head:?}"));
            }
            let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| format!("length of {head:?}"))?;
            }
        }
        let mut came = vec![0; length];
        self.0.read_exact(&mut came).map_err(|error| format!("body: {error}, after {head:?}"))?;
        let came = String::from_utf8_lossy(&came);
        if head.starts_with("HTTP/1.1 200 ") && came.contains(body) { Ok(()) } else { Err(format!("{head}{came}")) }
    }
}

/// A connection from another address than that of the innocent clients.
pub fn connect_from(from: &str, to: &str) -> Option<TcpStream> {
    let addr = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let client = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&client, &addr(from)).expect("all of 127/8 is this machine");
    connect(&client, &addr(to)).ok()?;
    Some(client.into())
}

/// An attack while it runs, as its threads see it.
#[derive(Default)]
pub struct Attack {
    is_over: AtomicBool,
    blows: AtomicU64,
}

impl Attack {
    /// True once its threads are to end. They must look at least every second or so.
    pub fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Counts something that hit: an attack under which nothing is ever counted proves nothing, and fails the test.
    pub fn hit(&self) {
        self.blows.fetch_add(1, SeqCst);
    }

    /// The attack is over when this is dropped, also by a panic of the test.
    pub fn until_dropped(&self) -> Over<'_> {
        Over(self)
    }

    /// Attacks that got through so far.
    pub fn hits(&self) -> u64 {
        self.blows.load(SeqCst)
    }
}

/// Results of innocent clients.
#[derive(Debug)]
pub struct Felt {
    pub requests: u64,
    pub worst: Duration,
    pub failures: Vec<String>,
}

/// Runs `attack` in so many threads, and the innocent clients beside it. Every request of theirs must succeed in
/// [`WAIT_MAX`]. `name`: of the attack, for the figures that are printed.
#[track_caller]
pub fn stay_unharmed(name: &str, innocents: Vec<Innocent>, threads: usize, attack: impl Fn(&Attack) + Sync) -> Felt {
    let felt = beside(name, innocents, threads, attack);
    assert!(felt.failures.is_empty(), "{name}: {:#?}", felt.failures);
    assert!(felt.worst < WAIT_MAX, "{name}: an innocent client waited for {:?}", felt.worst);
    felt
}

/// Like [`stay_unharmed`], without requirements.
#[track_caller]
pub fn beside(name: &str, innocents: Vec<Innocent>, threads: usize, attack: impl Fn(&Attack) + Sync) -> Felt {
    let state = Attack::default();
    let felt = std::thread::scope(|scope| {
        let over = state.until_dropped();
        for _ in 0..threads {
            scope.spawn(|| attack(&state));
        }
        eventually("the attack's first hit", || (state.hits() > 0).then_some(()));
        let until = Instant::now() + LASTS;
        let asking: Vec<_> = innocents.into_iter().map(|innocent| scope.spawn(move || ask(innocent, until))).collect();
        let felt: Vec<Felt> = asking.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        drop(over);
        felt
    });
    let mut all = Felt { requests: 0, worst: Duration::ZERO, failures: Vec::new() };
    for one in felt {
        all.requests += one.requests;
        all.worst = all.worst.max(one.worst);
        all.failures.extend(one.failures);
    }
    eprintln!("{name}: {} hits; {} innocent requests, worst wait {:?}", state.hits(), all.requests, all.worst);
    all
}

/// Ends the attack when dropped, also by a panic of the test.
pub struct Over<'a>(&'a Attack);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

/// Asks until the time is over, at least once. Ends early at the third failure.
fn ask(mut innocent: Innocent, until: Instant) -> Felt {
    let mut felt = Felt { requests: 0, worst: Duration::ZERO, failures: Vec::new() };
    while felt.failures.len() < 3 && (felt.requests == 0 || Instant::now() < until) {
        let began = Instant::now();
        let asked = (innocent.ask)();
        felt.requests += 1;
        felt.worst = felt.worst.max(began.elapsed());
        felt.failures.extend(asked.err().map(|error| format!("{}: {error}", innocent.name)));
        // Clients that never pause would keep the processor from the others.
        std::thread::park_timeout(Duration::from_millis(2));
    }
    felt
}
