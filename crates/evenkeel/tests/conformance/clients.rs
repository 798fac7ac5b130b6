//! Clients of other projects: what each can do, and how it is started.

use crate::doors::Door;
use crate::files::{self, SOURCES};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// A client that others wrote. Its program gets the door, the URL, the CA, the file to send and the cases, and prints a line for
/// each case.
pub struct Client {
    pub name: &'static str,
    /// Programs that the client needs.
    pub needs: &'static [&'static str],
    /// True if `make setup` installs those.
    pub ordinary: bool,
    pub doors: &'static [Door],
    pub cases: &'static [Case],
    /// Its command, up to the arguments.
    pub command: fn() -> Command,
    /// Case that it cannot do at a door, with any server.
    pub cannot: Option<(Door, Case)>,
    /// Its word for a door, if that differs from the word of all others.
    pub door: Option<&'static str>,
}

/// Task that a client is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Requests a short text with GET.
    Get,
    /// Posts the whole content, with its length.
    Post,
    /// Posts the whole content without a length, and gets it back meanwhile.
    Echo,
    /// Posts 100,000 bytes, with a client that reads when it has sent.
    Small,
    /// Sends 20 requests over one connection.
    Kept,
    /// Sends a piece when it has got the one before back, fifty times.
    Stream,
    /// Sends trailers and gets trailers.
    Trailers,
}

impl Case {
    pub fn word(self) -> &'static str {
        match self {
            Case::Get => "get",
            Case::Post => "post",
            Case::Echo => "echo",
            Case::Small => "small",
            Case::Kept => "kept",
            Case::Stream => "stream",
            Case::Trailers => "trailers",
        }
    }
}

use Case::{Echo, Get, Kept, Post, Small, Stream, Trailers};
use Door::{H1, H1Tls, H2, H2c, H3};

pub static ALL: &[Client] = &[
    Client {
        name: "curl",
        needs: &["curl", "sha256sum"],
        ordinary: true,
        doors: &[H1, H1Tls, H2, H2c],
        cases: &[Get, Post, Echo, Kept],
        command: || script("bash", "curl.sh"),
        // curl 7.88 takes its own connection for broken when it uses it again.
        cannot: Some((H2c, Kept)),
        door: None,
    },
    Client {
        name: "go",
        needs: &["go"],
        ordinary: true,
        doors: &[H1, H1Tls, H2, H2c],
        cases: &[Get, Post, Echo, Kept, Stream, Trailers],
        command: || {
            static BUILT: OnceLock<std::path::PathBuf> = OnceLock::new();
            Command::new(BUILT.get_or_init(|| files::go("clients/client.go")))
        },
        cannot: None,
        door: None,
    },
    Client {
        name: "node",
        needs: &["node"],
        ordinary: true,
        doors: &[H1, H1Tls, H2, H2c],
        cases: &[Get, Post, Echo, Kept, Stream, Trailers],
        command: || script("node", "node.js"),
        cannot: None,
        door: None,
    },
    Client {
        name: "node-fetch",
        needs: &["node"],
        ordinary: true,
        doors: &[H1, H1Tls],
        cases: &[Get, Post, Echo, Kept],
        command: || script("node", "fetch.mjs"),
        cannot: None,
        door: None,
    },
    Client {
        name: "nghttp",
        needs: &["nghttp"],
        ordinary: false,
        doors: &[H2, H2c],
        cases: &[Get, Post],
        command: || script("bash", "nghttp.sh"),
        cannot: None,
        door: None,
    },
    Client {
        name: "python-httpx",
        needs: &["conformance-python"],
        ordinary: false,
        doors: &[H1, H1Tls, H2, H2c],
        cases: &[Get, Post, Small, Kept],
        command: || script("conformance-python", "httpx_client.py"),
        cannot: None,
        door: None,
    },
    Client {
        name: "python-requests",
        needs: &["conformance-python"],
        ordinary: false,
        doors: &[H1, H1Tls],
        cases: &[Get, Post, Small, Kept],
        command: || script("conformance-python", "requests_client.py"),
        cannot: None,
        door: None,
    },
    Client {
        name: "quic-go",
        needs: &["conformance-quic-go"],
        ordinary: false,
        doors: &[H3],
        cases: &[Get, Post, Echo, Kept, Stream, Trailers],
        command: || Command::new(evenkeel_peers::find("conformance-quic-go").expect("the test looked")),
        // It sends no trailers.
        cannot: Some((H3, Trailers)),
        door: None,
    },
    Client {
        name: "aioquic",
        needs: &["conformance-python"],
        ordinary: false,
        doors: &[H3],
        cases: &[Get, Post, Echo, Kept, Stream, Trailers],
        command: || script("conformance-python", "aioquic_client.py"),
        cannot: None,
        door: None,
    },
    Client {
        name: "java",
        needs: &["java", "javac"],
        ordinary: false,
        doors: &[H1, H1Tls, H2],
        cases: &[Get, Post, Small, Kept],
        command: java,
        cannot: None,
        door: None,
    },
    // An offer that evenkeel leaves unanswered, as RFC 9113 wishes.
    Client {
        name: "java-upgrade",
        needs: &["java", "javac"],
        ordinary: false,
        doors: &[H1],
        cases: &[Get, Post, Kept],
        command: java,
        cannot: None,
        door: Some("upgrade"),
    },
];

/// A client's script, run by a program.
fn script(program: &str, name: &str) -> Command {
    let mut command = Command::new(evenkeel_peers::find(program).expect("the test looked"));
    command.arg(format!("{SOURCES}/clients/{name}"));
    command
}

fn java() -> Command {
    static BUILT: OnceLock<String> = OnceLock::new();
    let classes = BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance-java");
        files::said(Command::new("javac").arg("-d").arg(&folder).arg(format!("{SOURCES}/clients/Client.java")));
        folder.display().to_string()
    });
    let mut command = Command::new("java");
    command.args(["-Xmx1500m", "-cp", classes, "Client"]);
    command
}
