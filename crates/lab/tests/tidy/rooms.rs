//! The rooms of the house: crates, the question that each answers, and what each may import. The drawing and the table
//! of ARCHITECTURE.md are generated from them.

use crate::committed::same_as_committed;
use std::fmt::Write;

pub struct Room {
    pub name: &'static str,
    /// Question that the crate answers, and other hints for newcomers.
    answers: &'static str,
    /// Crates that it may import, its tests included.
    pub imports: &'static [&'static str],
}

/// Row of [`ROOMS`].
const fn room(name: &'static str, imports: &'static [&'static str], answers: &'static str) -> Room {
    Room { name, answers, imports }
}

/// Crates that only tests import.
const FOR_TESTS: &[&str] = &["cluster", "peers"];

/// Imports that only tests of a crate use.
const IN_TESTS: &[(&str, &str)] = &[("convert", "proxy")];

/// Rooms from the ground up. Planes (`proxy`, `dns`, `kernel`) never import each other.
#[rustfmt::skip] // rows of a table
pub const ROOMS: &[Room] = &[
    room("balance", &[],
        "which endpoint gets this request? may it wait, try again, go twice? no I/O, no clock, std only"),
    room("wire", &[],
        "what do these bytes mean, and how is that written? no I/O, no clock"),
    room("draw", &[],
        "how do figures look to a person? pages, plots and tables as HTML and SVG"),
    room("logs", &["peers"],
        "which requests does the access log of a load balancer have, and what does it lack?"),
    room("cache", &["wire"],
        "may this response be stored, is it fresh, and for which request? rules without I/O and clock, and the store"),
    room("disk", &["cache", "wire"],
        "what does a cache have on disk, and where? one file, its threads, and its index"),
    room("compress", &["wire"],
        "which content coding does a client get, and what changes with it? tags, `Vary`, compressors; no I/O"),
    room("config", &["balance", "wire"],
        "what did the user ask for, and is it possible? a text becomes a checked plan"),
    room("envoy", &["balance", "config"],
        "what does a configuration of Envoy mean in our language? one translation, of messages of a control plane and of files; no I/O"),
    room("convert", &["config", "envoy", "peers", "proxy"],
        "what is the configuration of another program in our language, and what is lost?"),
    room("tls", &["config", "peers"],
        "who proves their identity, and how? certificates and keys from files become configurations of handshakes"),
    room("fetch", &["tls"],
        "what does a server respond to the process itself? HTTP to registries, issuers and collectors"),
    room("acme", &["config", "fetch", "tls"],
        "who issues our certificates? orders at an authority, kept in a folder"),
    room("tokens", &["balance", "config", "fetch"],
        "which tokens of requests are valid? keys from files and URLs, signatures, claims"),
    room("net", &["balance", "peers", "wire"],
        "how do bytes move on this machine? event loop, sockets and timers: all I/O of the data path, and its unsafe code"),
    room("view", &["balance"],
        "what do operators see? types of the API, which runtime and planes fill in; history; words"),
    room("runtime", &["balance", "config", "net", "peers", "view", "wire"],
        "how are the endpoints now, and what is in use? plans in all planes, shared pools, checks"),
    room("discovery", &["balance", "cluster", "config", "envoy", "fetch", "peers", "tls"],
        "which endpoints exist, and which plan is wanted? sources and providers"),
    room("proxy", &["balance", "cache", "compress", "config", "disk", "net", "peers", "runtime", "tls", "tokens", "view", "wire"],
        "how do bytes get there and back? the plane of HTTP, TCP and UDP"),
    room("dns", &["balance", "config", "net", "peers", "runtime", "view"],
        "what does a resolver get? the plane of DNS"),
    room("kernel", &["balance", "config", "net", "peers", "runtime", "view"],
        "how does the kernel balance? drivers of its mechanisms, and the thread that has them follow the pools"),
    room("admin", &["compress", "config", "draw", "view"],
        "what is happening, and how is it changed? the API and the dashboard; the binary implements what it asks (`api/running.rs`)"),
    room("sim", &["balance", "config", "draw"],
        "what would happen? scenarios and replay in virtual time"),
    room("whatif", &["balance", "draw", "logs", "sim"],
        "how would the traffic of a log have done otherwise? answers with intervals, or refusals"),
    room("advise", &["balance", "config", "logs", "sim", "view", "whatif"],
        "what should be changed? advice on a configuration, with evidence from the simulator, a log or a running instance"),
    room("tower", &["balance"],
        "the same algorithms inside a tower stack"),
    room("evenkeel",
        &["acme", "admin", "advise", "balance", "cluster", "config", "convert", "discovery", "dns", "fetch", "kernel", "logs", "net", "peers", "proxy",
            "runtime", "sim", "tls", "tokens", "view", "whatif"],
        "the program: arguments, signals, wiring, demo"),
    room("lab", &["balance", "draw", "peers", "sim", "tower"],
        "what does happen, next to the rivals? experiments; it starts evenkeel as a process, and imports `sim` for logs whose truth is known"),
    room("cluster", &["peers"],
        "how does it behave in Kubernetes? a cluster on one machine, whose pods are processes; for tests and `make cluster-up`"),
    room("peers", &[],
        "what do tests find on this machine? programs of others, and addresses of their own"),
];

impl Room {
    fn is_for_tests(&self) -> bool {
        FOR_TESTS.contains(&self.name)
    }

    fn supports(&self) -> impl Iterator<Item = &'static Room> {
        let named = |name: &&str| ROOMS.iter().find(|room| room.name == *name);
        let in_tests = |room: &&'static Room| IN_TESTS.contains(&(self.name, room.name));
        self.imports.iter().filter_map(named).filter(move |room| !room.is_for_tests() && !in_tests(room))
    }

    /// Storey: one above the highest import.
    fn storey(&self) -> usize {
        self.supports().map(|room| room.storey() + 1).max().unwrap_or(0)
    }

    fn reaches(&self, name: &str) -> bool {
        self.supports().any(|room| room.name == name || room.reaches(name))
    }

    /// Imports that no other import has already.
    fn direct(&self) -> Vec<&'static str> {
        let is_direct = |room: &&Room| !self.supports().any(|other| other.reaches(room.name));
        self.supports().filter(is_direct).map(|room| room.name).collect()
    }
}

/// Rooms by storey, each with its direct imports.
fn drawing() -> String {
    let mut out = String::new();
    let top = ROOMS.iter().map(Room::storey).max().unwrap_or(0);
    for storey in (0..=top).rev() {
        for room in ROOMS.iter().filter(|room| room.storey() == storey && !room.is_for_tests()) {
            let supports = room.direct().join(", ");
            let line =
                if supports.is_empty() { room.name.to_string() } else { format!("{:<10}─ {supports}", room.name) };
            let _ = writeln!(out, "{line}");
        }
        out.push_str(if storey > 0 { "\n" } else { "" });
    }
    out
}

fn table() -> String {
    let mut out = "| crate | answers | may import |\n|---|---|---|\n".to_string();
    for room in ROOMS {
        let imports = room.supports().map(|room| room.name).collect::<Vec<_>>().join(", ");
        let imports = if imports.is_empty() { "none of ours" } else { &imports };
        let _ = writeln!(out, "| `{}` | {} | {imports} |", room.name, room.answers);
    }
    out
}

/// Text with everything between two marks replaced by the generated text.
fn between(page: &str, begin: &str, end: &str, generated: &str) -> Option<String> {
    let (above, rest) = page.split_once(begin)?;
    let (_, below) = rest.split_once(end)?;
    Some(format!("{above}{begin}\n\n{generated}\n{end}{below}"))
}

const BEGIN: &str = "<!-- Generated from crates/lab/tests/tidy/rooms.rs. `make bless` writes it anew. -->";
const END: &str = "<!-- /generated -->";

#[test]
fn the_committed_drawing_of_crates_is_generated() {
    let path = "ARCHITECTURE.md";
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md")).expect("the page");
    let generated = format!("```text\n{}```\n\n{}", drawing(), table());
    let page = between(&page, BEGIN, END, &generated).expect("the page has both marks");
    same_as_committed(&[(path.into(), page)]);
}

#[test]
fn every_room_is_drawn_above_its_imports() {
    let storey = |name| ROOMS.iter().find(|room| room.name == name).map(Room::storey);
    for room in ROOMS {
        assert!(room.supports().all(|below| below.storey() < room.storey()), "{}", room.name);
        let lines = drawing().lines().filter(|line| line.split(' ').next() == Some(room.name)).count();
        assert_eq!(lines, usize::from(!room.is_for_tests()), "{}", room.name);
    }
    assert_eq!(storey("balance"), Some(0));
    assert_eq!(storey("config"), Some(1));
}
