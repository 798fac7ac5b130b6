//! Clients of every kind, at every door, before every endpoint: each has to get its bytes through.

use crate::clients::{ALL, Case, Client};
use crate::doors::{Door, Subject};
use crate::endpoints::{Endpoint, Speaks};
use crate::files::{Content, sum};
use crate::support::{Folder, eventually};
use evenkeel_peers::installed;
use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// For one client with all its cases: 100 MB and more by a slow language through a binary that checks itself.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn clients_that_every_machine_has_get_their_bytes_through() {
    let needs = ["nginx", "node", "go", "openssl", "curl"];
    if installed(&needs) {
        run("ordinary", 10, |client| client.ordinary);
    }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn every_client_gets_100_megabytes_through() {
    let needs = [
        "nginx",
        "node",
        "go",
        "openssl",
        "curl",
        "nghttp",
        "java",
        "javac",
        "conformance-python",
        "conformance-quic-go",
    ];
    if installed(&needs) {
        run("every", megabytes(), |_| true);
    }
}

/// Size of what clients send, which is less where time is short.
pub fn megabytes() -> usize {
    std::env::var("EVENKEEL_MEGABYTES").ok().map_or(100, |text| text.parse().expect("a number"))
}

/// Combination of a client, a door and an endpoint.
struct Combination<'a> {
    client: &'a Client,
    door: Door,
    endpoint: usize,
}

fn run(name: &str, megabytes: usize, takes_part: fn(&Client) -> bool) {
    let folder = Folder::new(&format!("matrix-{name}"));
    let endpoints = [
        Endpoint::go(&folder, Speaks::H1),
        Endpoint::go(&folder, Speaks::H2c),
        Endpoint::go(&folder, Speaks::H2Tls),
        Endpoint::nginx(&folder, Speaks::H1),
        Endpoint::nginx(&folder, Speaks::H2c),
        Endpoint::node(&folder, Speaks::H1),
        Endpoint::node(&folder, Speaks::H2c),
    ];
    let subject = Subject::start(&folder, &endpoints.iter().collect::<Vec<_>>());
    let content = [Content::make(&folder, megabytes), Content::make_small(&folder)];
    let mut combinations = Vec::new();
    // To look into what one of them meets: EVENKEEL_CLIENTS=java,curl.
    let only = std::env::var("EVENKEEL_CLIENTS").unwrap_or_default();
    let is_meant = |client: &&Client| only.is_empty() || only.split(',').any(|name| name == client.name);
    for client in ALL.iter().filter(|client| takes_part(client)).filter(is_meant) {
        for (endpoint, _) in endpoints.iter().enumerate() {
            combinations.extend(client.doors.iter().map(|&door| Combination { client, door, endpoint }));
        }
    }
    let text = folder.file("trailers", "with trailers");
    let (left, wrong, trailers) = (Mutex::new(combinations.iter()), Mutex::new(Vec::new()), sum(&text));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(next) = left.lock().expect("no panic while held").next() else { return };
                    let endpoint = &endpoints[next.endpoint];
                    // The largest only to Go: what it shows has nothing to do with the endpoint.
                    let content = &content[usize::from(!endpoint.name.starts_with("go-h") || next.door == Door::H1Tls)];
                    if let Err(what) = one(&folder, &subject, next, endpoint, content, &trailers) {
                        let (client, door) = (next.client.name, next.door.word());
                        let what = format!("{client} at {door} to {}:\n{what}", endpoint.name);
                        wrong.lock().expect("no panic while held").push(what);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic while held");
    assert!(
        wrong.is_empty(),
        "{} of {} failed:\n{}\n{}",
        wrong.len(),
        combinations.len(),
        wrong.join("\n"),
        subject.said()
    );
}

fn one(
    folder: &Folder,
    subject: &Subject,
    combination: &Combination,
    endpoint: &Endpoint,
    content: &Content,
    trailers: &str,
) -> Result<(), String> {
    let Combination { client, door, endpoint: number } = combination;
    let cases: Vec<Case> = client
        .cases
        .iter()
        .copied()
        .filter(|&case| client.cannot != Some((*door, case)))
        .filter(|case| endpoint.streams || matches!(case, Case::Get | Case::Post | Case::Kept))
        .collect();
    let want: Vec<String> = cases
        .iter()
        .map(|case| match case {
            Case::Get => format!("get 200 {} hello {}", door.version(), endpoint.seen()),
            Case::Post => format!("post 200 {}", content.sum),
            Case::Echo => format!("echo 200 {}", content.sum),
            Case::Small => format!("small 200 {}", content.small_sum),
            Case::Kept => "kept 20".to_string(),
            Case::Stream => "stream 200 50 0".to_string(),
            Case::Trailers => format!("trailers 200 {trailers} {trailers}"),
        })
        .collect();
    let words: Vec<&str> = cases.iter().map(|case| case.word()).collect();
    let name = format!("{}-{}-{}", client.name, door.word(), endpoint.name);
    let mut command = (client.command)();
    command.arg(client.door.unwrap_or(door.word())).arg(subject.doors[*number].url(*door));
    command.args([&subject.certificate.ca, &content.path, &words.join(",")]);
    command.env("NODE_EXTRA_CA_CERTS", &subject.certificate.ca).env_remove("http_proxy").env_remove("https_proxy");
    prints(folder, &name, command, &want, PATIENCE)
}

/// Runs a client, which has to print these lines in time. Its output is kept in the folder under `name`.
pub fn prints(
    folder: &Folder,
    name: &str,
    mut command: Command,
    want: &[String],
    patience: Duration,
) -> Result<(), String> {
    let file = |kind: &str| folder.0.join(format!("{name}.{kind}"));
    let create = |kind: &str| File::create(file(kind)).expect("a file of ours");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(create("out"))
        .stderr(create("err"))
        .spawn()
        .map_err(|error| format!("it does not start: {error}"))?;
    let began = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break Some(status);
        }
        if began.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    };
    let read = |kind: &str| String::from_utf8_lossy(&std::fs::read(file(kind)).expect("it was made")).into_owned();
    let (out, err) = (read("out"), read("err"));
    let got: Vec<&str> = out.lines().collect();
    if got == want && ended.is_some_and(|status| status.success()) {
        return Ok(());
    }
    let ended = ended.map_or_else(|| format!("it did not end in {patience:?}"), |status| status.to_string());
    // Both ends of it: what went wrong, and where.
    let said: Vec<&str> = err.lines().collect();
    let (head, tail) = said.split_at(said.len().min(8));
    let tail = &tail[tail.len().saturating_sub(8)..];
    Err(format!("  expected {want:?}\n  got      {got:?}\n  {ended}; {}", [head, tail].concat().join("\n  ")))
}

/// A client that keeps its connection is not made to open another for each of its twenty requests.
#[test]
fn kept_connections_stay_open() {
    if !installed(&["go", "openssl", "curl"]) {
        return;
    }
    let folder = Folder::new("kept");
    let endpoint = Endpoint::go(&folder, Speaks::H1);
    let subject = Subject::start(&folder, &[&endpoint]);
    let content = Content::make_small(&folder);
    for client in ALL.iter().filter(|client| client.ordinary && installed(client.needs)) {
        for &door in client.doors.iter().filter(|&&door| client.cannot != Some((door, Case::Kept))) {
            let Some(before) = subject.connections(&endpoint) else { return };
            let mut command = (client.command)();
            command.args([door.word(), &subject.doors[0].url(door), &subject.certificate.ca, &content.path, "kept"]);
            command.env("NODE_EXTRA_CA_CERTS", &subject.certificate.ca);
            let said = crate::files::said(&mut command);
            assert_eq!(said, "kept 20\n", "{} at {}", client.name, door.word());
            let opened = eventually("its connections", || {
                let opened = subject.connections(&endpoint)? - before;
                (opened > 0).then_some(opened)
            });
            // Node's fetch may open a second before the first is free again.
            assert!(opened <= 2, "{} at {}: {opened}", client.name, door.word());
        }
    }
}
