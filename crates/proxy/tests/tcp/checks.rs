//! Health checks for databases and mail servers: they behave like a client and leave no trace. With MariaDB,
//! PostgreSQL, Redis and Python's mail server, each started here at an address of its own.

use super::peers::{Server, as_nobody, is_root, postgresql, says, serve};
use crate::support::tls::{Authority, BOTH, endpoint, to_pool};
use crate::support::{Endpoint, Proxy, wait_until};
use evenkeel_balance::EndpointId;
use evenkeel_peers::{find, installed};
use std::fmt::Display;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

/// A proxy whose pool checks this endpoint ten times a second.
fn checking(addr: impl Display, health: &str) -> Proxy {
    Proxy::start(&config(addr, health))
}

fn config(addr: impl Display, health: &str) -> String {
    format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nmode = \"tcp\"\npool = \"web\"\n[pool.web]\n\
         endpoints = [\"{addr}\"]\nhealth = {{ {health}, interval = \"100ms\", timeout = \"100ms\", initial = \"unhealthy\" }}"
    )
}

/// Numbers of passed and failed checks of an endpoint.
fn results(proxy: &Proxy, endpoint: SocketAddr) -> (u64, u64) {
    let pools = proxy.server().control().pools();
    let id = EndpointId::of(&endpoint.to_string());
    let counts = pools["web"].history().endpoint(id).expect("an endpoint of the pool").counts;
    (counts.passed, counts.failed)
}

/// Waits until `times` checks have passed.
fn passes(addr: SocketAddr, health: &str, times: u64) {
    let proxy = checking(addr, health);
    wait_until(&format!("{health} passes"), || results(&proxy, addr).0 >= times);
    proxy.becomes(addr, "up");
}

/// Waits until two checks have failed.
fn fails(addr: SocketAddr, health: &str) {
    let proxy = checking(addr, health);
    wait_until(&format!("{health} fails"), || results(&proxy, addr).1 >= 2);
    assert_eq!(results(&proxy, addr).0, 0, "{health}");
}

/// MariaDB with a user `check_me` without a password, and `app` with one. Its log is in its folder.
fn mariadb() -> Option<Server> {
    if !installed(&["mariadbd"]) {
        return None;
    }
    let mariadbd = find("mariadbd")?;
    Some(serve(move |addr, folder| {
        let data = folder.join("data");
        std::fs::create_dir_all(&data).expect("a folder of its own");
        std::fs::write(
            folder.join("users.sql"),
            "CREATE USER check_me@'%';\nCREATE USER app@'%' IDENTIFIED BY 'secret';\n",
        )
        .expect("it can be written");
        if is_root() {
            says(Command::new("chown").args(["-R", "nobody"]).arg(folder));
        }
        let command = || {
            let mut command = as_nobody(&mariadbd);
            command.arg("--no-defaults").arg(format!("--datadir={}", data.display())).current_dir(folder);
            command
        };
        let mut bootstrap = command();
        bootstrap.arg("--bootstrap").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut bootstrap = bootstrap.spawn().expect("it runs");
        let mut tables = b"create database mysql;\nuse mysql;\nset @auth_root_socket=NULL;\n".to_vec();
        for part in ["mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data"] {
            tables.extend(std::fs::read(format!("/usr/share/mysql/{part}.sql")).expect("the package has it"));
        }
        bootstrap.stdin.take().expect("it was asked for").write_all(&tables).expect("it reads");
        assert!(bootstrap.wait().expect("it ends").success());
        let mut server = command();
        server.arg(format!("--port={}", addr.port())).arg(format!("--bind-address={}", addr.ip()));
        server.arg(format!("--socket={}", folder.join("socket").display()));
        server.arg(format!("--init-file={}", folder.join("users.sql").display()));
        server.arg(format!("--log-error={}", folder.join("log.err").display()));
        server.args(["--log-warnings=2", "--innodb-buffer-pool-size=8M"]);
        server
    }))
}

/// Line in MariaDB's log about a client that closes after the greeting. Each also counts as an error of its host, which
/// is locked out after `max_connect_errors` (error 1129); loopback is exempt.
const ABORTED: &str = "closed normally without authentication";
const DENIED: &str = "Access denied";

#[test]
fn a_check_of_mariadb_does_not_count_as_an_aborted_connection() {
    let Some(server) = mariadb() else { return };
    let log = || std::fs::read_to_string(server.folder.join("log.err")).unwrap_or_default();
    // The connection by which `listening` found the server has sent nothing.
    let count = |what: &str| log().matches(what).count();
    wait_until("that connection is noted", || count(ABORTED) > 0);
    let before = (count(ABORTED), count(DENIED));
    passes(server.addr, "mysql = \"check_me\"", 10);
    assert_eq!((count(ABORTED), count(DENIED)), before, "nothing is left behind");
    passes(server.addr, "mysql = {}", 10);
    assert_eq!(count(ABORTED), before.0, "a denied login is not an aborted connection");
    assert_ne!(count(DENIED), before.1);
    for denied in ["app", "nobody_knows"] {
        fails(server.addr, &format!("mysql = \"{denied}\""));
    }
    assert_eq!(count(ABORTED), before.0);
    passes(server.addr, "tcp = {}", 3);
    wait_until("a bare connection is an aborted one", || count(ABORTED) >= before.0 + 3);
}

#[test]
fn a_check_of_postgresql_starts_a_session_and_ends_it() {
    let Some(server) = postgresql() else { return };
    passes(server.addr, "postgres = \"tester\"", 5);
    let log = || std::fs::read_to_string(server.folder.join("log/log")).unwrap_or_default();
    // Connections may have come before the server was ready.
    let unexpected = |line: &&str| line.contains("FATAL") && !line.contains("starting up");
    assert_eq!(log().lines().filter(unexpected).collect::<Vec<_>>(), [""; 0], "{}", log());
    passes(server.addr, "postgres = {}", 5);
    assert!(log().contains("role \"evenkeel\" does not exist"), "{}", log());
    fails(server.addr, "postgres = \"nobody_knows\"");
    fails(server.addr, "postgres = { user = \"tester\", database = \"missing\" }");
}

#[test]
fn a_check_of_redis_passes_with_and_without_a_password() {
    if !installed(&["redis-server"]) {
        return;
    }
    for password in [None, Some("secret")] {
        let server = serve(|addr, folder| {
            let mut command = Command::new("redis-server");
            let (ip, port) = (addr.ip().to_string(), addr.port().to_string());
            command.args(["--port", &port, "--bind", &ip, "--save", "", "--dir"]).arg(folder);
            if let Some(password) = password {
                command.args(["--requirepass", password]);
            }
            command
        });
        passes(server.addr, "redis = {}", 5);
    }
    let loading = Endpoint::start(|conn| {
        if conn.next_line().trim_end() == "PING" {
            conn.send("-LOADING Redis is loading the dataset in memory\r\n");
            conn.rest();
        }
    });
    fails(loading.addr, "redis = {}");
}

#[test]
fn a_check_of_a_mail_server_ends_with_quit() {
    if !installed(&["python3"]) {
        return;
    }
    let server = serve(|addr, _| {
        let mut command = Command::new("python3");
        command.args(["-W", "ignore", "-m", "smtpd", "-n", "-c", "DebuggingServer", &addr.to_string()]);
        command
    });
    passes(server.addr, "smtp = {}", 5);
    let (said, words) = channel();
    let busy = Endpoint::start(move |conn| {
        conn.send("421-try\r\n421 later\r\n");
        let _ = said.send(conn.rest());
    });
    fails(busy.addr, "smtp = {}");
    assert_eq!(words.recv().expect("a check came"), b"QUIT\r\n");
}

#[test]
fn a_check_sends_and_expects_the_configured_bytes() {
    let (said, words) = channel();
    let server = Endpoint::start(move |conn| {
        let asked = conn.next_line();
        conn.send("it is ");
        conn.send("ready\n");
        let _ = said.send((asked, conn.rest()));
    });
    let health = "tcp = { send = \"how are you\\n\", expect = \"is ready\", quit = \"bye\\n\" }";
    passes(server.addr, health, 3);
    let (asked, rest) = words.recv().expect("a check came");
    assert_eq!((asked.trim_end(), rest.as_slice()), ("how are you", &b"bye\n"[..]));
    fails(server.addr, "tcp = { send = \"how are you\\n\", expect = \"is broken\" }");
}

#[test]
fn a_check_over_tls_ends_with_a_close_notify() {
    let ca = Authority::new("ca");
    let (ended, ends) = channel();
    let server = endpoint(ca.server("b.test", &[], |_| ()), move |conn| {
        // An end without close_notify is an error here.
        let _ = ended.send(conn.read_to_end(&mut Vec::new()).is_ok());
    });
    let config = config(server.addr, "tcp = {}");
    let proxy = Proxy::start_secured(&config, &to_pool(ca.client(BOTH), "b.test"));
    proxy.becomes(server.addr, "up");
    for _ in 0..3 {
        assert!(ends.recv().expect("a check came"), "no close_notify at the end of the connection");
    }
}
