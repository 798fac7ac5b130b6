//! Commands that find the running evenkeel by themselves, and their errors if there is none, or more than one.

use crate::support::{Adopted, Endpoint, Folder, Running, address, eventually, get, text};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A folder for sockets, and another one in which commands are typed.
struct Site {
    folder: Folder,
    typed_in: Folder,
}

impl Site {
    fn new(name: &str) -> Site {
        Site { folder: Folder::new(&format!("{name}-sockets")), typed_in: Folder::new(name) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(arguments).env("NO_COLOR", "1").env("RUNTIME_DIRECTORY", &self.folder.0);
        command.current_dir(&self.typed_in.0).stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Running {
        Running::from(self.command(&[&["run"], arguments].concat()))
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it can be started")
    }

    /// Runs a command, which has to succeed; its standard output.
    #[track_caller]
    fn does(&self, arguments: &[&str]) -> String {
        let done = self.output(arguments);
        assert_eq!(done.status.code(), Some(0), "{arguments:?}: {}", text(&done.stderr));
        text(&done.stdout)
    }

    /// Runs a command, which has to fail with this code; its standard error.
    #[track_caller]
    fn fails(&self, arguments: &[&str], code: i32) -> String {
        let done = self.output(arguments);
        assert_eq!(done.status.code(), Some(code), "{arguments:?}: {}", text(&done.stdout));
        text(&done.stderr)
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder.0).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    fn pid(&self) -> Pid {
        let status: Value = serde_json::from_str(&self.does(&["status", "--json"])).expect("JSON");
        Pid::from_raw(status["pid"].as_i64().expect("a number") as i32).expect("a process")
    }
}

#[test]
fn commands_find_the_process_that_runs_also_after_an_upgrade() {
    let (one, two, site) = (Endpoint::start("one"), Endpoint::start("two"), Site::new("found"));
    let (listen, admin) = (address(), address());
    let mut running = site.run(&[&one.addr, &two.addr, "--listen", &listen, "--admin", &admin]);
    let sockets = site.sockets();
    let said = running.said();
    assert_eq!(sockets.len(), 1);
    assert!(said.contains(&format!("over unix:{}", sockets[0].display())), "{said}");
    assert_eq!(fs::metadata(&sockets[0]).expect("a socket").permissions().mode() & 0o777, 0o660);
    assert!(site.does(&["status"]).contains(&one.addr));
    assert!(site.does(&["drain", "web", &one.addr]).starts_with(&format!("web  {}  draining", one.addr)));
    assert_eq!(get(&listen, "/").expect("an answer").1, "two");
    assert!(site.does(&["upgrade"]).contains("has taken over"));
    running.ends();
    let successor = Adopted(site.pid());
    assert_eq!(site.sockets(), sockets, "the socket is the same");
    assert!(site.does(&["events"]).contains("is draining"), "events of the process before are kept");
    site.does(&["undrain", "web"]);
    kill_process(successor.0, Signal::TERM).expect("it runs");
    eventually("it ends", || test_kill_process(successor.0).is_err().then_some(()));
    assert!(site.sockets().is_empty(), "it has removed its socket");
    let failed = site.fails(&["status"], 1);
    assert!(failed.contains("no evenkeel runs on this machine") && failed.contains("--admin HOST:PORT"), "{failed}");
}

#[test]
fn ready_fails_while_the_process_drains() {
    let (site, silent) = (Site::new("ready"), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let (listen, endpoint) = (address(), silent.local_addr().expect("an address").to_string());
    let running = site.run(&[&endpoint, "--listen", &listen, "--admin", &address()]);
    assert_eq!(site.does(&["ready"]), "ready\n");
    let mut client = TcpStream::connect(&listen).expect("it listens");
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it reads");
    let _request = silent.accept().expect("the request arrives");
    running.signal(Signal::TERM);
    let failed = eventually("it drains", || {
        let done = site.output(&["ready"]);
        (done.status.code() == Some(1)).then(|| text(&done.stderr))
    });
    assert!(failed.contains("not ready: draining"), "{failed}");
}

#[test]
fn of_two_processes_one_is_named() {
    let (one, site) = (Endpoint::start("one"), Site::new("two"));
    let (first, second) = (address(), address());
    let file = site.typed_in.file(
        "evenkeel.toml",
        &format!("[listener.web]\nbind = ['{second}']\n[pool.web]\nendpoints = ['{}']\n", one.addr),
    );
    let of_first = site.run(&[&one.addr, "--listen", &first, "--admin", &address()]);
    // Without an argument it takes the file of the folder.
    let of_second = site.run(&[]);
    assert_eq!(get(&second, "/").expect("an answer").1, "one");
    let failed = site.fails(&["status"], 1);
    assert!(failed.contains("2 evenkeels run on this machine"), "{failed}");
    for (running, listen, file) in [(&of_first, &first, "no file"), (&of_second, &second, "evenkeel.toml")] {
        let socket = site.folder.0.join(format!("{}.sock", running.pid()));
        let line =
            format!("--admin unix:{}  process {}, {file}, listening on {listen}", socket.display(), running.pid());
        assert!(failed.contains(&line), "no {line} in {failed}");
        let at = format!("unix:{}", socket.display());
        assert!(site.does(&["status", "--admin", &at]).contains(&format!("process {}", running.pid())));
        let named = site.command(&["status"]).env("EVENKEEL_ADMIN", &at).output().expect("it can be started");
        assert!(text(&named.stdout).contains(&format!("process {}", running.pid())), "{}", text(&named.stderr));
    }
    // The file was named relative to another folder.
    assert!(site.does(&["reload", "-c", &file]).starts_with("generation 1"));
    drop(of_first);
    let of_third = site.run(&[&one.addr, "--listen", &first, "--admin", &address()]);
    assert_eq!(site.sockets().len(), 2, "the socket of the killed process was removed");
    drop(of_third);
    let status = site.does(&["status"]);
    assert!(
        status.contains(&format!("process {}", of_second.pid())),
        "a process that was killed is not asked: {status}"
    );
}

#[test]
fn a_socket_that_is_switched_off_is_not_there_and_the_address_of_the_file_is_asked() {
    let (one, site, listen, admin) = (Endpoint::start("one"), Site::new("off"), address(), address());
    let text = |more: &str| {
        format!(
            "[admin]\nbind = 'off'\n{more}\n[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n",
            one.addr
        )
    };
    site.typed_in.file("evenkeel.toml", &text(&format!("http = {{ bind = '{admin}' }}")));
    let running = site.run(&["-c", "evenkeel.toml"]);
    assert!(site.sockets().is_empty());
    for words in
        [&["status"][..], &["status", "-c", "evenkeel.toml"], &["status", "--admin", &format!("http://{admin}/")]]
    {
        assert!(site.does(words).contains(&format!("process {}", running.pid())));
    }
    let failed = site.fails(&["drain", "web"], 1);
    assert!(failed.contains("--token-file FILE, or EVENKEEL_TOKEN"), "{failed}");
    let other = site.typed_in.file("other.toml", &text(""));
    let failed = site.fails(&["status", "-c", &other], 1);
    assert!(failed.contains("sets neither a socket nor an address for commands"), "{failed}");
    let nowhere = address();
    let failed = site.fails(&["status", "--admin", &nowhere], 1);
    assert!(failed.contains("connection refused") && failed.contains("nothing listens there"), "{failed}");
}

#[test]
fn a_token_comes_from_a_file_the_environment_or_a_terminal() {
    let (one, site, listen, admin) = (Endpoint::start("one"), Site::new("token"), address(), address());
    let token = site.typed_in.file("token", "a-token-that-may-write\n");
    let file = format!(
        "[admin]\nhttp = {{ bind = '{admin}', write_token = '{token}' }}\n[listener.web]\nbind = ['{listen}']\n\
         [pool.web]\nendpoints = ['{}']\n",
        one.addr
    );
    let _running = site.run(&["-c", &site.typed_in.file("evenkeel.toml", &file)]);
    let drain = ["drain", "web", "--admin", &admin];
    let by_file = site.does(&[&drain[..], &["--token-file", &token]].concat());
    assert!(by_file.contains("draining (drained by the write token"), "{by_file}");
    let of_environment =
        |token: &str| site.command(&drain).env("EVENKEEL_TOKEN", token).output().expect("it can be started");
    assert_eq!(of_environment("a-token-that-may-write").status.code(), Some(0));
    let wrong = text(&of_environment("another-token-of-16").stderr);
    assert!(wrong.contains("the token is not known") && wrong.contains("admin.http.write_token"), "{wrong}");

    let program = env!("CARGO_BIN_EXE_evenkeel");
    let mut terminal = Command::new("script")
        .args(["-qec", &format!("{program} drain web --admin {admin}"), "/dev/null"])
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux has it");
    let mut typed = terminal.stdin.take().expect("it is piped");
    typed.write_all(b"a-token-that-may-write\n").expect("it reads");
    let done = terminal.wait_with_output().expect("it ends");
    drop(typed);
    let shown = text(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{shown}");
    assert!(shown.contains(&format!("Token for {admin}: ")) && shown.contains("drained by the write token"), "{shown}");
}

#[test]
fn a_file_is_taken_from_the_folder_or_from_standard_input() {
    let site = Site::new("files");
    for words in [["check"], ["run"]] {
        let failed = site.fails(&words, 2);
        assert!(failed.contains("neither ./evenkeel.toml nor /etc/evenkeel/evenkeel.toml"), "{failed}");
    }
    let good = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nendpoints = ['127.0.0.1:8081']\n";
    let piped = |arguments: &[&str], given: &str| {
        let mut command = site.command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        child.stdin.take().expect("it is piped").write_all(given.as_bytes()).expect("it reads");
        child.wait_with_output().expect("it ends")
    };
    assert_eq!(text(&piped(&["check", "-"], good).stdout), "ok: 1 listener, 1 route, 1 pool, 1 endpoint\n");
    let wrong = piped(&["check", "-"], "[listener.web]\nbind = 1\n");
    assert_eq!(wrong.status.code(), Some(78));
    assert!(text(&wrong.stderr).contains("--> (standard input):2:8"), "{}", text(&wrong.stderr));
    site.typed_in.file("evenkeel.toml", good);
    assert_eq!(site.does(&["check"]), "ok: evenkeel.toml: 1 listener, 1 route, 1 pool, 1 endpoint\n");
}

#[test]
fn what_runs_from_addresses_is_printed_as_a_file_that_runs_the_same() {
    let (one, site, listen, admin) = (Endpoint::start("one"), Site::new("printed"), address(), address());
    let words: [&str; 5] = [&one.addr, "--listen", &listen, "--admin", &admin];
    let printed = site.does(&[&["run"], &words[..], &["--print-config"]].concat());
    assert!(printed.contains(&format!("[admin]\nhttp = {{ bind = \"{admin}\" }} # ")), "{printed}");
    assert!(printed.contains("errors = \"detailed\" # "), "{printed}");
    let file = site.typed_in.file("evenkeel.toml", &printed);
    assert!(site.does(&["check", &file]).starts_with("ok: "));
    let shown = |arguments: &[&str]| {
        let _running = site.run(arguments);
        site.does(&["config", "show"])
    };
    assert_eq!(shown(&words), shown(&["-c", &file]));
    let secret = "[pool.web]\nsticky = { secret = 'correct horse battery' }\nendpoints = ['127.0.0.1:8081']\n";
    let secret = site.typed_in.file("secret.toml", &format!("[listener.web]\nbind = ['{listen}']\n{secret}"));
    let printed = site.does(&["run", "-c", &secret, "--print-config"]);
    assert!(site.does(&["check", &site.typed_in.file("again.toml", &printed)]).starts_with("ok: "), "{printed}");
}

#[test]
fn an_error_in_an_applied_file_names_that_file() {
    let (one, site, listen) = (Endpoint::start("one"), Site::new("apply"), address());
    let good = format!("[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n", one.addr);
    site.typed_in.file("evenkeel.toml", &good);
    site.typed_in.file("bad.toml", &good.replace("[pool.web]", "[pool.web]\nbalance = 'rondom'"));
    site.typed_in
        .file("warned.toml", &format!("{good}[[route]]\npool = 'web'\n[pool.other]\nendpoints = ['{}']\n", one.addr));
    let (by_file, admin) = (["-c", "evenkeel.toml"], address());
    let by_addresses: [&str; 5] = [&one.addr, "--listen", &listen, "--admin", &admin];
    for started in [&by_file[..], &by_addresses] {
        let _running = site.run(started);
        let failed = site.fails(&["config", "apply", "bad.toml"], 78);
        assert!(failed.contains("--> bad.toml:4:11") && !failed.contains("(typed)"), "{failed}");
        let warned = site.does(&["config", "apply", "warned.toml", "--dry-run"]);
        assert!(warned.contains("--> warned.toml:7"), "{warned}");
    }
}

#[test]
fn patterns_take_several_endpoints_or_pools() {
    let (site, listen) = (Site::new("patterns"), address());
    let pool = |name: &str| {
        let endpoints = [1, 2, 10].map(|n| format!("{{ name = '{name}-{n}', addr = '{}' }}", address())).join(", ");
        format!("[pool.{name}]\nendpoints = [{endpoints}]\n")
    };
    let route = |pool: &str| format!("[[route]]\npool = '{pool}'\nmatch = {{ path = '/{pool}' }}\n");
    let pools = ["shop-a", "shop-b", "other"];
    let text =
        format!("[listener.web]\nbind = ['{listen}']\n{}{}", pools.map(route).concat(), pools.map(pool).concat());
    let _running = site.run(&["-c", &site.typed_in.file("evenkeel.toml", &text)]);
    let names = |said: &str| -> Vec<String> {
        said.lines().filter_map(|line| line.split("  ").nth(1).map(str::to_owned)).collect()
    };
    let of_shop_a = ["shop-a-1", "shop-a-2", "shop-a-10"];
    let drained = site.output(&["drain", "shop-a"]);
    assert_eq!(names(&crate::support::text(&drained.stdout)), of_shop_a);
    let note = crate::support::text(&drained.stderr);
    assert!(note.contains("all endpoints of pool \"shop-a\" are drained"), "{note}");
    assert_eq!(names(&site.does(&["undrain", "shop-?", "*-1*"])), ["shop-a-1", "shop-a-10", "shop-b-1", "shop-b-10"]);
    assert_eq!(names(&site.does(&["drain", "shop-*"])).len(), 6);
    assert_eq!(names(&site.does(&["endpoint", "down", "other", "*-1"])), ["other-1"]);
    assert_eq!(names(&site.does(&["auto", "other", "other-1"])), ["other-1"], "as before there was `endpoint`");
    assert_eq!(names(&site.does(&["weight", "other", "*", "7"])).len(), 3);
    for (words, want) in [
        (&["drain", "shop"][..], "unknown pool \"shop\"; pools: shop-a, shop-b, other"),
        (&["drain", "other-1"], "pool \"other\" has matching endpoints: write other 'other-1'"),
        (&["drain", "other", "shop*"], "no endpoint of pool \"other\" matches \"shop*\"; endpoints: other-1"),
    ] {
        let failed = site.fails(words, 1);
        assert!(failed.contains(want), "{failed}");
    }
    let help = site.does(&["--help"]);
    assert!(help.contains("\n  endpoint ") && !help.contains("\n  eject "), "{help}");
}
