//! Interoperation with PostgreSQL, Redis, iperf3, nc and socat, each started here at an address of its own. Programs
//! that are not installed are skipped with a message.

use crate::support::{Proxy, listening, noise, own_addr, wait_until};
use evenkeel_peers::installed;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server process and its folder, ended and removed on drop.
pub(super) struct Server {
    pub(super) addr: SocketAddr,
    process: Child,
    pub(super) folder: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM and not SIGKILL, so that PostgreSQL ends its children.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Starts the command for an address and a folder of its own, and waits until it listens.
pub(super) fn serve(command: impl Fn(&SocketAddr, &PathBuf) -> Command) -> Server {
    let addr = own_addr();
    let folder = std::env::temp_dir().join(format!("evenkeel-peer-{}-{}", std::process::id(), addr.port()));
    std::fs::create_dir_all(&folder).expect("a folder of its own");
    Server { addr, process: listening(command(&addr, &folder), addr), folder }
}

fn before(server: &Server) -> Proxy {
    Proxy::start(&format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"web\"\n\
         [pool.web]\nendpoints = [\"{}\"]",
        server.addr
    ))
}

#[track_caller]
pub(super) fn says(command: &mut Command) -> String {
    let out = command.output().expect("it runs");
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

pub(super) fn is_root() -> bool {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A command that runs as an unprivileged user, as PostgreSQL refuses to run as root.
pub(super) fn as_nobody(program: &PathBuf) -> Command {
    let root = is_root();
    let mut command = Command::new(if root { "runuser".into() } else { program.clone() });
    if root {
        command.args(["-u", "nobody", "--"]).arg(program);
    }
    command
}

/// PostgreSQL that accepts every role without a password; there is `tester`. Its log is in its folder.
pub(super) fn postgresql() -> Option<Server> {
    let folder = std::fs::read_dir("/usr/lib/postgresql");
    let versions: Vec<PathBuf> = folder.into_iter().flatten().flatten().map(|version| version.path()).collect();
    let find = |program| versions.iter().map(|v| v.join("bin").join(program)).find(|path| path.exists());
    let (Some(initdb), Some(postgres)) = (find("initdb"), find("postgres")) else {
        evenkeel_peers::skip("PostgreSQL's server is not installed");
        return None;
    };
    Some(serve(|addr, folder| {
        if is_root() {
            says(Command::new("chown").arg("nobody").arg(folder));
        }
        let data = folder.join("data");
        says(as_nobody(&initdb).args(["-A", "trust", "-U", "tester", "-N", "-D"]).arg(&data).current_dir(folder));
        let mut command = as_nobody(&postgres);
        command.arg("-D").arg(&data).args(["-p", &addr.port().to_string(), "-h", &addr.ip().to_string(), "-k", ""]);
        command.args(["-c", "logging_collector=on", "-c", "log_directory=../log", "-c", "log_filename=log"]);
        command.current_dir(folder);
        command
    }))
}

#[test]
fn postgresql_serves_its_clients() {
    if !installed(&["psql"]) {
        return;
    }
    let Some(server) = postgresql() else { return };
    let proxy = before(&server);
    let mut client = Command::new("psql");
    client.args(["-X", "-A", "-t", "-h", &proxy.addr().ip().to_string()]);
    client.args(["-p", &proxy.addr().port().to_string(), "-U", "tester"]);
    client.args(["-d", "postgres", "-v", "ON_ERROR_STOP=1"]);
    client.args(["-c", "create table t as select n, repeat('x', 1000) as text from generate_series(1, 5000) n"]);
    client.args(["-c", "select count(*), sum(length(text)) from t", "-c", "select * from t"]);
    // The server may listen before it serves.
    let mut answer = String::new();
    wait_until("it answers", || {
        let out = client.output().expect("psql runs");
        answer = String::from_utf8_lossy(&out.stdout).into_owned();
        out.status.success()
    });
    assert!(answer.contains("5000|5000000"));
    assert_eq!(answer.lines().filter(|line| line.ends_with("xxx")).count(), 5000);
}

#[test]
fn redis_serves_its_clients() {
    if !installed(&["redis-server", "redis-cli", "redis-benchmark"]) {
        return;
    }
    let server = serve(|addr, folder| {
        let mut command = Command::new("redis-server");
        let (ip, port) = (addr.ip().to_string(), addr.port().to_string());
        command.args(["--port", &port, "--bind", &ip, "--save", "", "--dir"]).arg(folder);
        command
    });
    let proxy = before(&server);
    let [ip, port] = [proxy.addr().ip().to_string(), proxy.addr().port().to_string()];
    let at = ["-h", &ip, "-p", &port];
    let ask = |arguments: &[&str]| says(Command::new("redis-cli").args(at).args(arguments));
    assert_eq!(ask(&["set", "key", "value"]).trim(), "OK");
    assert_eq!(ask(&["get", "key"]).trim(), "value");
    // Many small writes in a pipeline.
    let load = ["-n", "2000", "-c", "20", "-P", "4", "-t", "set,get", "-q"];
    let told = says(Command::new("redis-benchmark").args(at).args(load));
    assert!(told.contains("requests per second"), "{told}");
}

#[test]
fn iperf3_measures_both_directions() {
    if !installed(&["iperf3"]) {
        return;
    }
    let server = serve(|addr, _| {
        let mut command = Command::new("iperf3");
        command.args(["-s", "-B", &addr.ip().to_string(), "-p", &addr.port().to_string()]);
        command
    });
    let proxy = before(&server);
    let [ip, port] = [proxy.addr().ip().to_string(), proxy.addr().port().to_string()];
    for direction in [&[][..], &["-R"]] {
        let mut client = Command::new("iperf3");
        client.args(["-c", &ip, "-p", &port, "-n", "64M", "-P", "2"]).args(direction);
        // The server runs one test at a time, and is busy for a moment after it.
        wait_until("it is served", || client.output().expect("iperf3 runs").status.success());
    }
}

#[test]
fn nc_and_socat_pass_a_file_and_its_end() {
    if !installed(&["nc", "socat"]) {
        return;
    }
    let server = serve(|addr, _| {
        let mut command = Command::new("socat");
        command.args([&format!("TCP-LISTEN:{},bind={},fork,reuseaddr", addr.port(), addr.ip()), "EXEC:cksum"]);
        command
    });
    let proxy = before(&server);
    let bytes = noise(300_000);
    let sum = |mut command: Command| {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        child.stdin.take().expect("it is piped").write_all(&bytes).expect("it reads");
        String::from_utf8_lossy(&child.wait_with_output().expect("it ends").stdout).into_owned()
    };
    let wanted = sum(Command::new("cksum"));
    let mut by_nc = Command::new("nc");
    by_nc.args(["-N", &proxy.addr().ip().to_string(), &proxy.addr().port().to_string()]);
    assert_eq!(sum(by_nc), wanted);
    let mut by_socat = Command::new("socat");
    by_socat.args(["-t", "20", "-", &format!("TCP:{}", proxy.addr())]);
    assert_eq!(sum(by_socat), wanted);
}
