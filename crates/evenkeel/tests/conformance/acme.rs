//! Certificates from Pebble, the authority that Let's Encrypt is tested with, by both challenges.

use crate::files::Certificate;
use crate::support::{Adopted, Endpoint, Folder, Running, address, eventually, get, within};
use rustix::process::Signal;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// An authority and the name server that it asks. Killed when dropped.
pub struct Authority {
    directory: String,
    /// Address at which the test changes its records.
    management: String,
    pub ca: String,
    processes: Vec<Child>,
}

impl Authority {
    /// Starts one that looks at these ports of a name, and whose certificates are valid for so many seconds.
    pub fn start(
        folder: &Folder,
        listen: &str,
        (http, tls): (u16, u16),
        valid: u32,
        environment: &[(&str, &str)],
    ) -> Authority {
        let ip = ip_of(listen);
        let certificate = Certificate::make(folder, "authority", &[listen]);
        let [dns, management, admin] = [(); 3].map(|()| address());
        let config = serde_json::json!({ "pebble": {
            "listenAddress": listen, "managementListenAddress": management,
            "certificate": certificate.cert, "privateKey": certificate.key,
            "httpPort": http, "tlsPort": tls, "retryAfter": { "authz": 1, "order": 1 },
            "profiles": { "default": { "description": "one", "validityPeriod": valid } },
        } });
        let config = folder.file("pebble.json", &config.to_string());
        let mut names = Command::new(evenkeel_peers::find("pebble-challtestsrv").expect("the test looked"));
        names.args(["-dnsserver", &dns, "-management", &admin, "-defaultIPv4", &ip, "-defaultIPv6", ""]);
        names.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        let names = spawn(folder, "names", &admin, &mut names);
        let mut pebble = Command::new(evenkeel_peers::find("pebble").expect("the test looked"));
        pebble.args(["-config", &config, "-dnsserver", &dns, "-strict"]);
        pebble.env("PEBBLE_VA_NOSLEEP", "1").envs(environment.iter().copied());
        let pebble = spawn(folder, "pebble", listen, &mut pebble);
        let directory = format!("https://{listen}/dir");
        Authority { directory, management, ca: certificate.ca, processes: vec![pebble, names] }
    }

    /// Has it suggest to renew a certificate that it has issued: long ago.
    fn suggest_now(&self, setting: &Setting, name: &str) {
        let window = serde_json::json!({ "suggestedWindow": { "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z" } });
        let stored = fs::read_to_string(setting.stored(&format!("{name}.pem"))).expect("it is kept");
        let wanted = serde_json::json!({ "Certificate": stored, "ARIResponse": window.to_string() }).to_string();
        let said = Command::new("curl")
            .args(["-sSfk", "--noproxy", "*", "--data-binary", &wanted])
            .arg(format!("https://{}/set-renewal-info/", self.management))
            .output()
            .expect("it can be started");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn ip_of(addr: &str) -> String {
    addr.parse::<SocketAddr>().expect("an address").ip().to_string()
}

fn port_of(addr: &str) -> u16 {
    addr.parse::<SocketAddr>().expect("an address").port()
}

fn spawn(folder: &Folder, name: &str, addr: &str, command: &mut Command) -> Child {
    let file = |kind: &str| File::create(folder.0.join(format!("{name}.{kind}"))).expect("a file of ours");
    let child =
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err")).spawn().expect("it can be started");
    eventually(name, || TcpStream::connect(addr).ok());
    child
}

/// Addresses of evenkeel, and the folder with its state.
pub struct Setting {
    pub folder: Folder,
    endpoint: Endpoint,
    plain: String,
    tls: String,
    admin: String,
    pub authority: String,
}

impl Setting {
    pub fn new(name: &str) -> Setting {
        let [plain, tls, admin, authority] = [(); 4].map(|()| address());
        Setting { folder: Folder::new(name), endpoint: Endpoint::start("a"), plain, tls, admin, authority }
    }

    pub fn ports(&self) -> (u16, u16) {
        (port_of(&self.plain), port_of(&self.tls))
    }

    pub fn run(&self, challenge: &str, names: &[&str], ca: &str) -> Running {
        let Setting { folder, endpoint, plain, tls, admin, authority } = self;
        let state = folder.0.join("state");
        let config = format!(
            "[admin]\nhttp = {{ bind = '{admin}' }}\n\
             [acme]\ndirectory = 'https://{authority}/dir'\nca = '{ca}'\nstate = '{}'\nchallenge = '{challenge}'\n\
             email = 'ops@evenkeel.example'\n\
             [listener.plain]\nbind = ['{plain}']\nredirect_https = true\n\
             [listener.web]\nbind = ['{tls}']\n[listener.web.tls]\ncertificates = [{{ acme = {names:?} }}]\n\
             [[route]]\nmatch = {{ listener = ['web', 'plain'] }}\npool = 'web'\n[pool.web]\nendpoints = ['{}']\n",
            state.display(),
            endpoint.addr
        );
        Running::start(&["run", "--config", &folder.file("evenkeel.toml", &config)])
    }

    /// The subject and the names of the certificate that a client sees, its issuer, and its serial number.
    pub fn shown(&self, name: &str) -> String {
        let shown = Command::new("sh")
            .arg("-c")
            .arg(
                "openssl s_client -connect \"$0\" -servername \"$1\" </dev/null 2>/dev/null | \
                  openssl x509 -noout -issuer -serial -ext subjectAltName 2>/dev/null",
            )
            .args([&self.tls, name])
            .output()
            .expect("it can be started");
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    /// Waits for a certificate of the authority, and shows it.
    pub fn issued(&self, name: &str, running: &Running) -> String {
        let look = || Some(self.shown(name)).filter(|shown| shown.contains("Pebble Intermediate"));
        // An order that failed is tried again after a minute.
        let shown = within(Duration::from_secs(180), look);
        shown.unwrap_or_else(|| panic!("no certificate: {}\n{}", running.said(), self.said_by_authority()))
    }

    /// Path of a file in the folder of certificates.
    fn stored(&self, name: &str) -> PathBuf {
        let folders = fs::read_dir(self.folder.0.join("state/acme")).expect("it was made");
        let mut folders: Vec<_> = folders.map(|folder| folder.expect("an entry").path()).collect();
        assert_eq!(folders.len(), 1, "one for a directory: {folders:?}");
        folders.remove(0).join(name)
    }

    fn said_by_authority(&self) -> String {
        fs::read_to_string(self.folder.0.join("pebble.out")).unwrap_or_default()
    }

    pub fn metric(&self, series: &str) -> f64 {
        let (_, metrics) = get(&self.admin, "/metrics").expect("it serves its metrics");
        metrics.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok()).unwrap_or_default()
    }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn certificates_are_issued_by_handshake_and_by_request() {
    crate::judges!("pebble", "pebble-challtestsrv", "openssl", "curl");
    for challenge in ["tls-alpn-01", "http-01"] {
        let setting = Setting::new(&format!("acme-{challenge}"));
        // Every fifth nonce is refused, as authorities may.
        let nonces = [("PEBBLE_WFE_NONCEREJECT", "20")];
        let authority = Authority::start(&setting.folder, &setting.authority, setting.ports(), 7_776_000, &nonces);
        assert!(authority.directory.ends_with("/dir"));
        let names = ["a.evenkeel.example", "b.evenkeel.example"];
        let running = setting.run(challenge, &names, &authority.ca);
        // Before it has one, a client sees one that nothing believes, and a plain one is redirected.
        let (status, _) = get(&setting.plain, "/").expect("an answer");
        assert_eq!(status, 308);
        let shown = setting.issued(names[1], &running);
        assert!(names.iter().all(|name| shown.contains(&format!("DNS:{name}"))), "{shown}");
        assert_eq!(
            (
                setting.metric("evenkeel_acme_issued_total "),
                setting.metric("evenkeel_acme_due_timestamp_seconds{name=\"a.evenkeel.example\"} ") > 0.0
            ),
            (1.0, true)
        );
        // What is asked of any token that is not waited for goes its usual way.
        assert_eq!(get(&setting.plain, "/.well-known/acme-challenge/x").expect("an answer").0, 308);
        drop(running);
        // It is kept: the next process shows it at once, whether there is an authority or not.
        drop(authority);
        let running = setting.run(challenge, &names, &setting.folder.0.join("authority.ca.crt").display().to_string());
        assert_eq!(setting.shown(names[0]), shown, "{}", running.said());
    }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn certificates_are_renewed_before_they_expire() {
    crate::judges!("pebble", "pebble-challtestsrv", "openssl");
    let setting = Setting::new("acme-renewal");
    let authority = Authority::start(&setting.folder, &setting.authority, setting.ports(), 20, &[]);
    let running = setting.run("tls-alpn-01", &["a.evenkeel.example"], &authority.ca);
    let first = setting.issued("a.evenkeel.example", &running);
    let next = || Some(setting.shown("a.evenkeel.example")).filter(|shown| *shown != first && shown.contains("Pebble"));
    eventually("another certificate", next);
    assert!(setting.metric("evenkeel_acme_issued_total ") >= 2.0);
}

#[test]
#[ignore = "`make conformance` runs it"]
fn a_failure_says_why_and_leaves_what_is_there() {
    crate::judges!("pebble", "pebble-challtestsrv", "openssl");
    let setting = Setting::new("acme-failure");
    // It looks where nothing answers.
    let nowhere = port_of(&address());
    let authority = Authority::start(&setting.folder, &setting.authority, (nowhere, nowhere), 20, &[]);
    let running = setting.run("http-01", &["a.evenkeel.example"], &authority.ca);
    let said = eventually("a failure", || Some(running.said()).filter(|said| said.contains("could not validate")));
    assert!(
        said.contains("could not validate \\\"a.evenkeel.example\\\"")
            || said.contains("could not validate \"a.evenkeel.example\""),
        "{said}"
    );
    assert!(said.contains("http://a.evenkeel.example:80/"), "{said}");
    assert!(setting.metric("evenkeel_acme_failures_total{cause=\"challenge\"} ") >= 1.0);
    // Requests are served by the certificate that stands in.
    let shown = setting.shown("a.evenkeel.example");
    assert!(shown.contains("DNS:a.evenkeel.example") && !shown.contains("Pebble"), "{shown}");
    drop(running);
    drop(authority);
    // A process that starts again leaves it alone for a while, unless that is not known.
    fs::remove_file(setting.stored("a.evenkeel.example.failed.json")).expect("it is kept");
    // Nor is an authority that is not there more than a line in the log.
    let running = setting.run(
        "http-01",
        &["a.evenkeel.example"],
        &setting.folder.0.join("authority.ca.crt").display().to_string(),
    );
    eventually("a failure", || Some(running.said()).filter(|said| said.contains("cannot reach https://")));
    assert!(setting.metric("evenkeel_acme_failures_total{cause=\"unreachable\"} ") >= 1.0);
}

#[test]
#[ignore = "`make conformance` runs it"]
fn a_renewal_that_fails_leaves_the_certificate_of_before_and_a_forgotten_account_is_made_anew() {
    crate::judges!("pebble", "pebble-challtestsrv", "openssl");
    let (setting, name) = (Setting::new("acme-lost"), "a.evenkeel.example");
    let authority = Authority::start(&setting.folder, &setting.authority, setting.ports(), 30, &[]);
    let running = setting.run("http-01", &[name], &authority.ca);
    let first = setting.issued(name, &running);
    drop(authority);
    eventually("a failure", || {
        (setting.metric("evenkeel_acme_failures_total{cause=\"unreachable\"} ") >= 1.0).then_some(())
    });
    assert_eq!(setting.shown(name), first, "{}", running.said());
    assert!(setting.metric("evenkeel_acme_due_timestamp_seconds{name=\"a.evenkeel.example\"} ") > 0.0);
    drop(running);
    // One that knows nothing any more.
    let authority = Authority::start(&setting.folder, &setting.authority, setting.ports(), 30, &[]);
    let running = setting.run("http-01", &[name], &authority.ca);
    eventually("another certificate", || {
        Some(setting.shown(name)).filter(|shown| *shown != first && shown.contains("Pebble"))
    });
    assert!(running.said().contains("with a new account"), "{}", running.said());
}

#[test]
#[ignore = "`make conformance` runs it"]
fn the_authority_is_asked_when_to_renew_what_another_account_has_ordered() {
    crate::judges!("pebble", "pebble-challtestsrv", "openssl", "curl");
    let (setting, name) = (Setting::new("acme-window"), "a.evenkeel.example");
    let authority = Authority::start(&setting.folder, &setting.authority, setting.ports(), 7_776_000, &[]);
    let mut running = setting.run("tls-alpn-01", &[name], &authority.ca);
    let mut shown = setting.issued(name, &running);
    for has_account in [true, false] {
        authority.suggest_now(&setting, name);
        drop(running);
        if !has_account {
            // Then what is replaced was ordered by another one.
            fs::remove_file(setting.stored("account.json")).expect("it is kept");
        }
        running = setting.run("tls-alpn-01", &[name], &authority.ca);
        let next = || Some(setting.shown(name)).filter(|next| *next != shown && next.contains("Pebble"));
        shown = eventually("another certificate", next);
        assert!(running.said().contains("suggests renewing earlier"), "{}", running.said());
        assert_eq!(setting.metric("evenkeel_acme_issued_total "), 1.0, "one, and not one after the other");
    }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn an_upgrade_hands_the_orders_over() {
    crate::judges!("pebble", "pebble-challtestsrv", "openssl");
    let (setting, name) = (Setting::new("acme-upgrade"), "a.evenkeel.example");
    let authority = Authority::start(&setting.folder, &setting.authority, setting.ports(), 7_776_000, &[]);
    let mut running = setting.run("http-01", &[name], &authority.ca);
    let shown = setting.issued(name, &running);
    running.signal(Signal::USR2);
    let _next = Adopted(eventually("a process that took over", || running.successor()));
    assert_eq!(running.ends(), Some(0));
    // It has the folder now: it knows when the next one is due.
    let due = "evenkeel_acme_due_timestamp_seconds{name=\"a.evenkeel.example\"} ";
    eventually("what is due", || (setting.metric(due) > 0.0).then_some(()));
    assert_eq!(setting.metric("evenkeel_acme_issued_total "), 0.0);
    assert_eq!(setting.shown(name), shown, "{}", running.said());
}
