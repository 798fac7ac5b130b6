//! `check` finds what would make a start fail, on a fake machine.

use evenkeel_config::{Found, Machine, Outcome, check, render_text};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// Kind of each path; an error is the result of inspecting or using it.
#[derive(Default)]
struct Fake {
    paths: BTreeMap<&'static str, Found>,
    secrets: BTreeMap<&'static str, Result<&'static str, ErrorKind>>,
    not_writable: Vec<&'static str>,
    no_ipv6: bool,
}

impl Fake {
    fn machine(self) -> Machine {
        let Fake { paths, secrets, not_writable, no_ipv6 } = self;
        let files = secrets.clone();
        let own = IpAddr::from(Ipv4Addr::new(10, 0, 0, 5));
        Machine {
            look: Box::new(move |path| {
                let path = path.to_str().expect("UTF-8");
                match files.contains_key(path) {
                    true => Ok(Found::File),
                    false => paths.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into()),
                }
            }),
            read: Box::new(move |path| {
                let key = secrets.get(path.to_str().expect("UTF-8")).copied().unwrap_or(Err(ErrorKind::NotFound));
                key.map(|key| key.as_bytes().to_vec()).map_err(io::Error::from)
            }),
            append: Box::new(move |path| {
                let may = !not_writable.iter().any(|p| Path::new(p) == path);
                if may { Ok(()) } else { Err(ErrorKind::PermissionDenied.into()) }
            }),
            has: Box::new(move |ip| match ip {
                IpAddr::V6(_) if no_ipv6 => Err(io::Error::from_raw_os_error(97)),
                ip if ip.is_loopback() || ip.is_unspecified() || ip == own => Ok(()),
                _ => Err(ErrorKind::AddrNotAvailable.into()),
            }),
            is_own: Box::new(move |ip| ip == own),
            ..Machine::this()
        }
    }
}

/// A file that is deleted when dropped.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("evenkeel-machine-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).expect("the temporary folder can be written");
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn with(name: &str, keys: &str, machine: &Machine) -> Outcome {
    let text = format!("{keys}\n[pool.p]\nendpoints = ['10.0.0.1:80', '10.0.0.5:8080']\n");
    check(&File::new(name, &text).0, &|_| None, machine)
}

const WEB: &str = "[listener.web]\nbind = ['127.0.0.1:8080']\n";

/// Asserts that the findings for a file with these keys contain all `parts`.
#[track_caller]
fn says(name: &str, keys: &str, machine: &Machine, parts: &[&str]) {
    let outcome = with(name, keys, machine);
    let said = render_text(&outcome.diagnostics, false);
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
    assert_eq!(said.is_empty(), parts.is_empty(), "{said}");
    let errors = outcome.diagnostics.iter().any(|d| d.code.as_str() < "EK03");
    assert_eq!(outcome.plan.is_none(), errors);
}

#[test]
fn folders_and_files_of_logs_are_looked_at() {
    let paths = BTreeMap::from([
        ("/var/log", Found::Folder),
        ("/var/log/a.log", Found::File),
        ("/var/log/dir", Found::Folder),
        (".", Found::Folder),
    ]);
    let machine = Fake { paths, not_writable: vec!["/var/log/a.log"], ..Fake::default() }.machine();
    let log = |path: &str| format!("{WEB}[telemetry]\naccess_log = {{ path = '{path}' }}");
    for path in ["/var/log/new.log", "new.log", "-", "stdout"] {
        says("log-good", &log(path), &machine, &[]);
    }
    says("log-folder", &log("/var/nope/a.log"), &machine, &["error[EK0212]: no such folder: /var/nope", "--elsewhere"]);
    says("log-file", &log("/var/log/a.log/b"), &machine, &["EK0212", "/var/log/a.log is not a folder"]);
    says("log-dir", &log("/var/log/dir"), &machine, &["/var/log/dir is not a writable file"]);
    says("log-mine", &log("/var/log/a.log"), &machine, &["warning[EK0310]", "cannot write to /var/log/a.log"]);
    let journal = "[runtime]\nworkers = 1\n[telemetry]\njournal = { path = '/var/nope/j', pool = 'p' }";
    says("journal", &format!("{WEB}{journal}"), &machine, &["EK0212", "no such folder: /var/nope"]);
}

#[test]
fn the_folder_of_the_admins_socket_is_looked_at() {
    let paths = BTreeMap::from([("/run", Found::Folder), ("/run/s", Found::Socket), ("/run/f", Found::File)]);
    let machine = Fake { paths, ..Fake::default() }.machine();
    let socket = |path: &str| format!("{WEB}[admin]\nbind = 'unix:{path}'");
    says("socket-new", &socket("/run/new"), &machine, &[]);
    says("socket-old", &socket("/run/s"), &machine, &[]);
    says("socket-file", &socket("/run/f"), &machine, &["EK0212", "/run/f exists and is not a socket"]);
    says(
        "socket-folder",
        &socket("/run/evenkeel/s"),
        &machine,
        &["no such folder: /run/evenkeel", "RuntimeDirectory="],
    );
}

#[test]
fn a_secret_is_read_and_measured() {
    let secrets = BTreeMap::from([
        ("/k/good", Ok("0123456789abcdef\n")),
        ("/k/short", Ok("0123456789abcde\n")),
        ("/k/theirs", Err(ErrorKind::PermissionDenied)),
    ]);
    let machine = Fake { secrets, ..Fake::default() }.machine();
    let sticky = |path: &str| {
        format!(
            "{WEB}pool = 'q'\n[pool.q]\nendpoints = ['10.0.0.1:80']\nsticky = {{ secret_file = '{path}' }}\n[[route]]\npool = 'p'\nmatch = {{ path = '/p' }}"
        )
    };
    says("secret-good", &sticky("/k/good"), &machine, &[]);
    says(
        "secret-short",
        &sticky("/k/short"),
        &machine,
        &["EK0212", "has 15 bytes; at least 16 are required", "/dev/urandom"],
    );
    says("secret-none", &sticky("/k/none"), &machine, &["EK0212", "cannot read /k/none: no such file"]);
    says("secret-theirs", &sticky("/k/theirs"), &machine, &["warning[EK0310]", "cannot read /k/theirs"]);
}

#[test]
fn an_address_that_only_passes_through_is_not_looked_for() {
    let listener = |plane: &str| {
        format!("[listener.vip]\nbind = ['192.0.2.10:80']\nmode = 'tcp'\npool = 'p'\nplane = '{plane}'\n[pool.p]\n")
    };
    let pools = "balance = { random = { draws = 1 } }\nendpoints = ['10.0.0.1:80']";
    for (plane, keys, found) in [
        ("nftables", pools, false),
        ("ebpf", pools, false),
        ("proxy", pools, true),
        ("ipvs", "balance = 'leastconn'\nsource = 'client'\nendpoints = ['10.0.0.1:80']", true),
    ] {
        let file = File::new(&format!("vip-{plane}"), &format!("{}{keys}\n", listener(plane)));
        let outcome = check(&file.0, &|_| None, &Fake::default().machine());
        let said = render_text(&outcome.diagnostics, false);
        assert_eq!(said.contains("does not have the address 192.0.2.10"), found, "{plane}: {said}");
        assert_eq!(outcome.plan.is_none(), found, "{plane}: {said}");
    }
}

#[test]
fn what_a_collector_needs_is_read() {
    let secrets = BTreeMap::from([("/t/good", Ok("Token: x")), ("/t/theirs", Err(ErrorKind::PermissionDenied))]);
    let machine = Fake { secrets, ..Fake::default() }.machine();
    let traces = |key: &str, path: &str| {
        format!("{WEB}[telemetry.traces]\nendpoint = 'https://collector.test'\n{key} = '{path}'")
    };
    says("traces-good", &traces("headers_file", "/t/good"), &machine, &[]);
    says("traces-none", &traces("ca", "/t/none"), &machine, &["EK0212", "cannot read /t/none: no such file"]);
    says(
        "traces-theirs",
        &traces("headers_file", "/t/theirs"),
        &machine,
        &["warning[EK0310]", "cannot read /t/theirs"],
    );
}

#[test]
fn what_registries_ask_for_is_read() {
    let secrets = BTreeMap::from([("/t/good", Ok("token"))]);
    let machine = Fake { secrets, ..Fake::default() }.machine();
    let server = |kind: &str, path: &str| {
        format!("{WEB}[discovery.{kind}]\nurl = 'https://{kind}.test'\nca = '{path}'\ntoken_file = '/t/good'\n")
    };
    for kind in ["consul", "nomad", "docker", "xds"] {
        says(&format!("{kind}-good"), &server(kind, "/t/good"), &machine, &[]);
        says(
            &format!("{kind}-none"),
            &server(kind, "/t/none"),
            &machine,
            &["EK0212", "cannot read /t/none: no such file"],
        );
    }
    let etcd = |path: &str| format!("{WEB}[discovery.etcd]\nuser = 'a'\npassword_file = '{path}'\n");
    says("etcd-good", &etcd("/t/good"), &machine, &[]);
    says("etcd-none", &etcd("/t/none"), &machine, &["EK0212", "cannot read /t/none: no such file"]);
    let list = |path: &str| {
        format!("{WEB}[pool.found]\ndiscover = {{ http = {{ url = 'http://lists.test/a', token_file = '{path}' }} }}\n")
    };
    says("list-none", &list("/t/none"), &machine, &["EK0212", "cannot read /t/none: no such file"]);
}

#[test]
fn error_pages_are_read_and_measured() {
    let large: &'static str = "x".repeat(256 * 1024 + 1).leak();
    let secrets = BTreeMap::from([
        ("/p/most", Ok(&large[1..])),
        ("/p/large", Ok(large)),
        ("/p/theirs", Err(ErrorKind::PermissionDenied)),
    ]);
    let machine = Fake { secrets, ..Fake::default() }.machine();
    for owner in ["", "[[route]]\npool = 'p'\n"] {
        let page = |path: &str| format!("{WEB}{owner}error_pages = [{{ status = [503], file = '{path}' }}]");
        says("page-most", &page("/p/most"), &machine, &[]);
        says("page-large", &page("/p/large"), &machine, &["EK0212", "has 262145 bytes; the limit is 262144"]);
        says("page-none", &page("/p/none"), &machine, &["EK0212", "cannot read /p/none: no such file"]);
        says("page-theirs", &page("/p/theirs"), &machine, &["warning[EK0310]", "cannot read /p/theirs"]);
    }
}

#[test]
fn lists_of_networks_are_read_and_their_lines_checked() {
    let secrets = BTreeMap::from([
        ("/n/good", Ok("# office\n10.0.0.0/8\n2001:db8::1\n")),
        ("/n/bad", Ok("10.0.0.0/8\n10.0.0.0/99\n")),
        ("/n/theirs", Err(ErrorKind::PermissionDenied)),
    ]);
    let paths = BTreeMap::from([("/n", Found::Folder), ("/n/pipe", Found::Other)]);
    let machine = Fake { secrets, paths, ..Fake::default() }.machine();
    for key in ["allow_files", "deny_files"] {
        let list = |path: &str| format!("{WEB}[[route]]\npool = 'p'\naccess = {{ {key} = ['/n/good', '{path}'] }}");
        says("networks-good", &list("/n/good"), &machine, &[]);
        says("networks-bad", &list("/n/bad"), &machine, &["EK0212", "/n/bad:2: \"10.0.0.0/99\" is not a network"]);
        says("networks-none", &list("/n/none"), &machine, &["EK0212", "cannot read /n/none: no such file"]);
        says("networks-pipe", &list("/n/pipe"), &machine, &["EK0212", "/n/pipe is not a regular file"]);
        says("networks-theirs", &list("/n/theirs"), &machine, &["warning[EK0310]", "cannot read /n/theirs"]);
    }
}

#[test]
fn files_of_users_are_read_and_their_lines_checked() {
    let secrets = BTreeMap::from([
        ("/u/good", Ok("ann:$2y$05$......................21jzCB1r6pN6rp5O2Ev0ejjTAboskKm\n")),
        ("/u/bad", Ok("# staff\nann:$apr1$abc$def\n")),
        ("/u/theirs", Err(ErrorKind::PermissionDenied)),
    ]);
    let machine = Fake { secrets, paths: BTreeMap::from([("/u/pipe", Found::Other)]), ..Fake::default() }.machine();
    let file = |path: &str| format!("{WEB}[[route]]\npool = 'p'\nbasic_auth = {{ file = '{path}' }}");
    says("users-good", &file("/u/good"), &machine, &[]);
    says("users-bad", &file("/u/bad"), &machine, &["EK0212", "/u/bad:2: MD5 is", "htpasswd -B"]);
    says("users-none", &file("/u/none"), &machine, &["EK0212", "cannot read /u/none: no such file"]);
    says("users-pipe", &file("/u/pipe"), &machine, &["EK0212", "/u/pipe is not a regular file"]);
    let set = format!("{WEB}[[route]]\npool = 'p'\nuse = ['s']\n[filters.s]\nbasic_auth = {{ file = '/u/bad' }}");
    says("users-set", &set, &machine, &["EK0212", "/u/bad:2: MD5 is"]);
    says("users-theirs", &file("/u/theirs"), &machine, &["warning[EK0310]", "cannot read /u/theirs"]);
}

#[test]
fn addresses_that_the_machine_does_not_have_are_named() {
    let listener = |bind: &str| format!("[listener.web]\nbind = ['{bind}']");
    let says_there =
        |name: &str, bind: &str, parts: &[&str]| says(name, &listener(bind), &Fake::default().machine(), parts);
    says_there("bind-own", "10.0.0.5:80", &[]);
    says_there("bind-other", "10.9.9.9:80", &["EK0212", "does not have the address 10.9.9.9", "\"0.0.0.0:80\""]);
    let old = Fake { no_ipv6: true, ..Fake::default() }.machine();
    says("bind-v6", &listener("[::]:80"), &old, &["error[EK0212]: the kernel has no IPv6", "\"0.0.0.0:80\""]);
    let admin = format!("{WEB}[admin]\nhttp = {{ bind = '10.9.9.9:9900' }}");
    says("bind-admin", &admin, &Fake::default().machine(), &["EK0212", "10.9.9.9"]);
}

#[test]
fn an_address_of_the_machine_is_evenkeel_where_it_listens_on_all() {
    let listener = |bind: &str| format!("[listener.web]\nbind = ['{bind}']");
    let machine = Fake::default().machine();
    for bind in ["0.0.0.0:8080", "[::]:8080"] {
        says("own", &listener(bind), &machine, &["error[EK0213]: endpoint 10.0.0.5:8080 is listener \"web\" itself"]);
    }
    says("own-port", &listener("0.0.0.0:8081"), &machine, &[]);
    says("own-loopback", &listener("127.0.0.1:8080"), &machine, &[]);
}

#[test]
fn this_machine_is_asked_without_disturbing_it() {
    // A listener that already uses the address does not matter to the check.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let bind = taken.local_addr().expect("an address");
    let text = format!("[listener.web]\nbind = ['{bind}']");
    says("this", &text, &Machine::this(), &[]);
    let log = format!("{text}\n[telemetry]\naccess_log = {{ path = '/nowhere/of/evenkeel/a.log' }}");
    says("this-log", &log, &Machine::this(), &["no such folder: /nowhere/of/evenkeel"]);
}
