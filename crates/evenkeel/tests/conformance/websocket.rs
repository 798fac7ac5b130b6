//! WebSockets of HTTP/1 and HTTP/2 to endpoints of either, with the libraries wsproto and h2 on both sides.

use crate::doors::{Door, Subject};
use crate::endpoints::{self, Endpoint, Speaks};
use crate::files::{SOURCES, said};
use crate::support::{Folder, address};
use std::process::Command;

fn python(script: &str) -> Command {
    let mut command = Command::new(evenkeel_peers::find("conformance-python").expect("the test looked"));
    command.arg(format!("{SOURCES}/{script}"));
    command
}

fn endpoint(folder: &Folder, name: &'static str, speaks: Speaks, word: &str) -> Endpoint {
    let addr = address();
    let mut command = python("endpoints/websocket_endpoint.py");
    let process = endpoints::start(folder, name, &addr, command.args([&addr, word]));
    Endpoint::of(name, addr, speaks, process)
}

#[test]
#[ignore = "`make conformance` runs it"]
fn websockets_pass_from_every_door_to_endpoints_of_both_protocols() {
    crate::judges!("conformance-python", "openssl");
    let folder = Folder::new("websocket");
    let endpoints = [endpoint(&folder, "ws-h1", Speaks::H1, "h1"), endpoint(&folder, "ws-h2c", Speaks::H2c, "h2c")];
    let subject = Subject::start(&folder, &endpoints.iter().collect::<Vec<_>>());
    for (endpoint, doors) in endpoints.iter().zip(&subject.doors) {
        let seen = if endpoint.speaks == Speaks::H1 { "HTTP/1.1" } else { "HTTP/2" };
        for door in [Door::H1, Door::H1Tls, Door::H2, Door::H2c] {
            let opened = if door.version() == "2" { 200 } else { 101 };
            let mut command = python("clients/websocket_client.py");
            command.args([door.word(), doors.addr(door.has_tls()), &subject.certificate.ca]);
            let want = format!(
                "open {opened} {seen}\npieces 50\nbytes True\nping b'ball' pong\nclose 1000 close\nended\n\
                 left 4001 close\nrefused 403\n"
            );
            assert_eq!(said(&mut command), want, "{} to {}", door.word(), endpoint.name);
        }
    }
}
