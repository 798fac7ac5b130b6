//! Converted configurations beside their originals: HAProxy and NGINX run the fixtures of `crates/convert/tests`, evenkeel
//! runs what `evenkeel convert` makes of them, both in front of the same endpoints. A table of requests beside each fixture
//! has to get the same answers, except where the report of the conversion states a difference.
//!
//! A table (`NAME.requests`) begins with what is replaced, since fixtures have addresses and files of others:
//!
//! ```text
//! text bind *:80 => bind {listen www}       in the fixture; {listen NAME} is another address for each program
//! text 10.0.0.1:80 => {to web}              {to NAME} is the address of an endpoint, {to NAME/2} of another of its pool
//! toml /etc/evenkeel/key => {folder}/key    in the output of `convert`
//! file key => text of the file              {folder} has it, and a certificate with its key in `cert.pem`
//! ---
//! GET /path?query | Host: a.test | X-A: 1   a request to the first {listen}
//! @tls 30x POST / | from 127.0.0.9 | body 9 another {listen}, sent 30 times, by this client, with a body of 9 bytes
//!   differs: text that is in the report     the row before it gets other answers, and this is why
//! ```

mod endpoint;
mod program;
mod request;
mod table;

use crate::support::{Folder, Running, text};
use endpoint::Endpoints;
use evenkeel_peers::installed;
use program::{Kind, Original};
use request::Outcome;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use table::{Row, Table};

/// Least number of fixtures with a table for each program, and of rows in each table.
const FIXTURES: usize = 15;
const ROWS: usize = 8;

#[test]
fn a_converted_haproxy_cfg_answers_as_haproxy_does() {
    compare(Kind::Haproxy);
}

#[test]
fn a_converted_nginx_conf_answers_as_nginx_does() {
    compare(Kind::Nginx);
}

fn compare(kind: Kind) {
    if !installed(&[kind.name(), "curl", "openssl"]) {
        return;
    }
    let tables = tables(kind);
    assert!(tables.len() >= FIXTURES, "{} tables for {}", tables.len(), kind.name());
    let mut problems = String::new();
    // One alone, while it is written: EVENKEEL_ORIGINAL=rules
    let only = std::env::var("EVENKEEL_ORIGINAL").ok();
    for path in tables.iter().filter(|path| only.as_ref().is_none_or(|name| stem(path) == *name)) {
        let table = Table::read(path);
        assert!(table.rows.len() >= ROWS, "{}: {} rows", path.display(), table.rows.len());
        let fixture = std::panic::AssertUnwindSafe(Fixture { kind, path, table });
        // The others are compared, even if one cannot be run.
        match std::panic::catch_unwind(|| fixture.compare()) {
            Ok(found) => problems.push_str(&found),
            Err(_) => problems.push_str(&format!("{}: it cannot be run, as above\n", path.display())),
        }
    }
    assert!(problems.is_empty(), "\n{problems}");
}

fn tables(kind: Kind) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../convert/tests").join(kind.name());
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "requests"));
    paths.sort();
    paths
}

fn stem(path: &Path) -> String {
    path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_string()
}

struct Fixture<'t> {
    kind: Kind,
    path: &'t Path,
    table: Table,
}

/// Names in a text, and the addresses that stand for them.
type Addresses = BTreeMap<String, String>;

impl Fixture<'_> {
    /// Runs both programs, and lists the rows that are not as they should be.
    fn compare(&self) -> String {
        let name = format!("{}/{}", self.kind.name(), stem(self.path));
        let folder = Folder::new(&format!("originals-{}", stem(self.path)));
        certificate(&folder);
        for (file, content) in &self.table.files {
            folder.file(file, content);
        }
        let endpoints = Endpoints::start(&self.table.endpoints());
        let source = std::fs::read_to_string(self.path.with_extension(self.kind.end())).expect("the fixture is there");
        let fill = |text: &str, listens: &Addresses| {
            table::fill(text, listens, &endpoints.addresses, &folder.0.display().to_string())
        };
        let (theirs, ours) = (self.table.listens(), self.table.listens());
        let replaced = self.table.replace_text(&source, &name);
        // What the original needs to run on its own, and `convert` must not see.
        let original = Original::start(self.kind, &folder, &fill(&replaced, &theirs), &theirs);
        let input = folder.file(&format!("input.{}", self.kind.end()), &fill(&replaced, &ours));
        let (toml, report) = converted(self.kind, &input, &folder);
        let toml = fill(&self.table.replace_toml(&toml, &name), &ours);
        let config = folder.file("evenkeel.toml", &toml);
        let evenkeel = Running::start(&["run", "--config", &config]);
        let mut problems = String::new();
        for (number, row) in self.table.rows.iter().enumerate() {
            let at = |listens: &Addresses| listens[row.listener.as_ref().unwrap_or(&self.table.first_listen())].clone();
            let expected = Outcome::of(row, number, &at(&theirs), &endpoints, self.kind);
            let got = Outcome::of(row, number, &at(&ours), &endpoints, self.kind).without_own_fields(&expected);
            judge(&name, row, &expected, &got, &report, &mut problems);
        }
        if !problems.is_empty() {
            let _ = writeln!(problems, "--- {name} as evenkeel.toml\n{toml}\n{}\n{}", evenkeel.said(), original.said());
        }
        problems
    }
}

fn judge(name: &str, row: &Row, expected: &Outcome, got: &Outcome, report: &str, problems: &mut String) {
    let is_same = expected == got;
    let mut say = |what: &str| {
        let _ =
            writeln!(problems, "{name}:{}: {}: {what}\n  original: {expected}\n  evenkeel: {got}", row.line, row.text);
    };
    match &row.differs {
        None if !is_same => say("other answers"),
        Some(_) if is_same => say("marked as different, and is not"),
        Some(reason) if !report.contains(reason.as_str()) => say(&format!("the report does not state \"{reason}\"")),
        _ => {}
    }
}

/// A certificate and its key in one file, as HAProxy reads them.
fn certificate(folder: &Folder) {
    let path = |name: &str| folder.0.join(name).display().to_string();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=test", "-addext", "subjectAltName=DNS:test,DNS:*.example.com"])
        .args(["-keyout", &path("key.pem"), "-out", &path("only.pem")])
        .output()
        .expect("it is installed");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).expect("it was made");
    folder.file("cert.pem", &format!("{}{}", read("only.pem"), read("key.pem")));
}

/// Output and report of `evenkeel convert`.
fn converted(kind: Kind, input: &str, folder: &Folder) -> (String, String) {
    let report = folder.0.join("report.txt").display().to_string();
    let arguments = ["convert", input, "--from", kind.name(), "--report", &report];
    let output = crate::support::evenkeel(&arguments);
    assert!(matches!(output.status.code(), Some(0 | 10)), "{}", text(&output.stderr));
    (text(&output.stdout), std::fs::read_to_string(report).expect("it was written"))
}
