//! HTTP/3 of other projects' clients over paths that lose and reorder datagrams, and through a NAT that forgets them.
#![allow(clippy::disallowed_macros, reason = "a test prints its figures")]

use crate::clients::{ALL, Case};
use crate::doors::{Door, Subject};
use crate::endpoints::{Endpoint, Speaks};
use crate::files::Content;
use crate::lossy::Lossy;
use crate::matrix::{megabytes, prints};
use crate::support::Folder;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time between two ports of the NAT.
const REBINDS: Duration = Duration::from_secs(1);

/// For all of a client's requests over a path, and for each MB of them: aioquic needs 15 s for it where 20 % are lost.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(30));

/// Paths: name, datagrams of a thousand that are lost and that come late, and whether the port changes.
const PATHS: [(&str, u64, u64, bool); 4] =
    [("1 %", 10, 50, false), ("5 %", 50, 50, false), ("20 %", 200, 50, false), ("rebinding", 10, 10, true)];

#[test]
#[ignore = "`make conformance` runs it"]
fn uploads_and_downloads_are_whole_over_bad_paths() {
    crate::judges!("go", "openssl", "conformance-python", "conformance-quic-go");
    let folder = Folder::new("http3-paths");
    let endpoint = Endpoint::go(&folder, Speaks::H1);
    let subject = Subject::start(&folder, &[&endpoint]);
    let (usual, bad) = (Content::make(&folder, megabytes()), Content::make(&folder, megabytes().div_ceil(5)));
    let server = subject.doors[0].addr(true).parse().expect("an address");
    let patience = PATIENCE.0 + PATIENCE.1 * megabytes().div_ceil(5) as u32;
    // To measure one of them: EVENKEEL_CLIENTS=quic-go EVENKEEL_PATHS="20 %".
    let is_meant = |of: &str, name: &str| {
        std::env::var(of).map_or(true, |only| only.is_empty() || only.split(',').any(|meant| meant == name))
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let clients = ALL.iter().filter(|client| client.doors.contains(&Door::H3)).enumerate();
        let clients = clients.filter(|(_, client)| is_meant("EVENKEEL_CLIENTS", client.name));
        let runs: Vec<_> = clients
            .map(|(seed, client)| {
                let (folder, subject, usual, bad, endpoint) = (&folder, &subject, &usual, &bad, &endpoint);
                scope.spawn(move || {
                    let mut wrong = Vec::new();
                    for (path, lost, late, rebinds) in
                        PATHS.iter().filter(|path| is_meant("EVENKEEL_PATHS", path.0)).copied()
                    {
                        let relay = Lossy::start(server, seed as u64 + 1, lost, late);
                        // Clients are slow where a fifth is lost, and send a fifth.
                        let content = if lost >= 200 { bad } else { usual };
                        let cases = [Case::Get, Case::Post, Case::Echo];
                        let words = cases.map(|case| case.word()).join(",");
                        let mut command = (client.command)();
                        command.args([
                            "h3",
                            &format!("https://{}", relay.addr),
                            &subject.certificate.ca,
                            &content.path,
                        ]);
                        command.arg(words);
                        let want = [
                            format!("get 200 3 hello {}", endpoint.seen()),
                            format!("post 200 {}", content.sum),
                            format!("echo 200 {}", content.sum),
                        ];
                        let began = Instant::now();
                        let printed = while_rebinding(&relay, rebinds, || {
                            prints(folder, &format!("{}-{lost}-{rebinds}", client.name), command, &want, patience)
                        });
                        let [lost, late] = relay.counts();
                        println!("{} at {path}: {:?}, {lost} lost, {late} late", client.name, began.elapsed());
                        if let Err(what) = printed {
                            wrong.push(format!("{} at {path}:\n{what}", client.name));
                        }
                    }
                    wrong
                })
            })
            .collect();
        runs.into_iter().flat_map(|run| run.join().expect("it reports failures")).collect()
    });
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), subject.said());
}

/// Runs `work`, during which the port towards the server changes again and again.
pub fn while_rebinding<T>(relay: &Lossy, rebinds: bool, work: impl FnOnce() -> T) -> T {
    let (ended, ends) = channel::<()>();
    std::thread::scope(|scope| {
        if rebinds {
            scope.spawn(move || {
                while ends.recv_timeout(REBINDS) == Err(RecvTimeoutError::Timeout) {
                    relay.rebind();
                }
            });
        }
        let done = work();
        drop(ended);
        done
    })
}
