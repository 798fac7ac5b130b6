//! A configuration of a program, judged: run beside its conversion, with the same requests for both.

use crate::client::answer;
use crate::endpoints::Endpoints;
use crate::grammars::Grammar;
use crate::originals::{Original, file_name};
use crate::ours::{Ours, Refused};
use crate::tree::{Node, Text, without};
use crate::verdict::{Side, difference, is_opened};
use evenkeel_convert::{Ask, Item, asks};
use evenkeel_peers::own_addr;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Kinds of findings: an output that `check` refuses, and an output without a listener.
const REFUSED: &str = "`check` refuses the conversion";
const EMPTY: &str = "the conversion has no listener";

/// Number of requests of a configuration.
pub const ASKS: usize = 30;

/// Outcome for a configuration.
pub enum Judged {
    /// The original does not accept the configuration, with its message.
    Invalid(String),
    /// Both do the same. `named` has the reasons of lines that the report named and that were taken out until it was.
    Same {
        named: Vec<String>,
    },
    Finding(Finding),
}

pub struct Finding {
    /// Short description. Configurations are made smaller while it stays the same.
    pub kind: String,
    /// Configuration, request, responses and report.
    pub text: String,
}

/// A folder that is removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("evenkeel-judge-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("logs")).expect("a new folder");
        Folder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The configuration of a side, at addresses of its own.
struct Placed {
    text: String,
    listens: Vec<SocketAddr>,
}

impl Placed {
    fn new(text: &str, endpoints: &Endpoints, dir: &Path) -> Placed {
        let mut text = endpoints.fill(text).replace("@DIR@", &dir.display().to_string());
        let mut listens = Vec::new();
        for n in 0..4 {
            let addr = own_addr();
            let parts = [("L", addr.to_string()), ("H", addr.ip().to_string()), ("P", addr.port().to_string())];
            let filled =
                parts.into_iter().fold(text.clone(), |text, (name, part)| text.replace(&format!("@{name}{n}@"), &part));
            if filled != text {
                text = filled;
                listens.push(addr);
            }
        }
        Placed { text, listens }
    }
}

/// Judges a configuration: without the lines that its report names, if there is a difference with them.
pub fn judge(grammar: &Grammar, nodes: &[Node], seed: u64, endpoints: &Endpoints) -> Judged {
    let mut nodes = nodes.to_vec();
    let mut named: Vec<String> = Vec::new();
    loop {
        let text = Text::of(&nodes, grammar.style);
        let (finding, lines) = match once(grammar, &text.text, seed, endpoints) {
            Once::Invalid(why) if named.is_empty() => return Judged::Invalid(why),
            // What is left of it is no configuration.
            Once::Invalid(_) | Once::Same => return Judged::Same { named },
            Once::Always(finding) if !named.is_empty() && finding.kind == EMPTY => return Judged::Same { named },
            Once::Always(finding) => return Judged::Finding(finding),
            Once::Differs(finding, lines) => (finding, lines),
        };
        let gone = text.nodes_at(&lines.keys().copied().collect());
        if gone.is_empty() {
            return Judged::Finding(finding);
        }
        let at: BTreeSet<usize> = gone.iter().flat_map(|node| text.lines_of(*node)).collect();
        named.push(format!("differs: {}", finding.kind));
        named.extend(lines.into_iter().filter(|(line, _)| at.contains(line)).map(|(_, reason)| reason));
        nodes = without(&nodes, &gone);
        if Text::of(&nodes, grammar.style).len() == 0 {
            return Judged::Same { named };
        }
    }
}

enum Once {
    Invalid(String),
    Same,
    /// A difference that no line of a report allows.
    Always(Finding),
    /// A difference, and the lines that the report names.
    Differs(Finding, BTreeMap<usize, String>),
}

/// Runs a configuration on both sides. A second attempt is made if another process held an address, or if a machine under
/// load did not answer in time.
fn once(grammar: &Grammar, text: &str, seed: u64, endpoints: &Endpoints) -> Once {
    let may_pass =
        |finding: &Finding| ["Address already in use", "os error 11"].iter().any(|of| finding.text.contains(of));
    match attempt(grammar, text, seed, endpoints) {
        Once::Always(finding) | Once::Differs(finding, _) if may_pass(&finding) => {
            attempt(grammar, text, seed, endpoints)
        }
        outcome => outcome,
    }
}

fn attempt(grammar: &Grammar, text: &str, seed: u64, endpoints: &Endpoints) -> Once {
    let (dir_there, dir_here) = (Folder::new(), Folder::new());
    for (name, content) in grammar.files {
        fs::write(dir_there.path().join(name), endpoints.fill(content)).expect("a folder of ours");
        fs::write(dir_here.path().join(name), endpoints.fill(content)).expect("a folder of ours");
    }
    let there = Placed::new(&grammar.whole(text), endpoints, dir_there.path());
    let here = Placed::new(text, endpoints, dir_here.path());
    if there.listens.is_empty() {
        return Once::Invalid("it listens nowhere".into());
    }
    let mut original = match Original::start(grammar.from, &there.text, dir_there.path(), &there.listens) {
        Ok(original) => original,
        Err(why) => return Once::Invalid(why),
    };
    let ours = match Ours::start(grammar.from, &here.text, dir_here.path()) {
        Ok(ours) => ours,
        Err(Refused(why)) => {
            let code = why.split_once("error[").and_then(|(_, rest)| rest.split(']').next()).unwrap_or("at its start");
            let kind = if why.contains(
                "
[listener.",
            ) {
                format!("{REFUSED}: {code}")
            } else {
                EMPTY.to_string()
            };
            return Once::Always(Finding { text: format!("{kind}:\n{why}\nof\n{text}"), kind });
        }
    };
    let mut first = None;
    for (id, mut ask) in asks(text, ASKS, seed).into_iter().enumerate() {
        ask.fields.extend(extra(text, endpoints, id, seed));
        (grammar.ask)(&mut ask, id);
        let listener = id % there.listens.len();
        let there_at = there.listens[listener];
        let sides = [&there, &here].map(|placed| {
            let ask = placed_ask(&ask, placed.listens[listener]);
            let answer = answer(placed.listens[listener], &ask, id);
            Side { answer, seen: endpoints.take(id) }.normal(&placed.listens)
        });
        let [mut there, mut here] = sides;
        if there.answer.is_err() && original.has_ended() {
            return Once::Invalid("it ends by a request".into());
        }
        // Before differences are taken away, which could hide it.
        let opened = is_opened(&there, &here) && !is_served_without_question(&ask, there_at, id, endpoints);
        (grammar.settle)(&ask, &mut there, &mut here);
        let Some(what) = opened
            .then(|| "is refused there and reaches an endpoint here".to_string())
            .or_else(|| difference(&there, &here))
        else {
            continue;
        };
        let text = format!(
            "{what}\nrequest: {ask:?}\nthere: {there:?}\nhere:  {here:?}\n\n{text}\n{}\n{}",
            ours.toml,
            ours.report.to_text()
        );
        let finding = Finding { kind: what, text };
        if opened {
            return Once::Always(finding);
        }
        first.get_or_insert(finding);
    }
    drop(original);
    match first {
        None => Once::Same,
        Some(finding) => {
            // Lines of included files are not of the tree.
            let is_own = |item: &&Item| item.file.ends_with(file_name(grammar.from));
            let named = ours.report.named().filter(is_own);
            Once::Differs(finding, named.map(|item| (item.line, item.reason.clone())).collect())
        }
    }
}

/// Fields that have endpoints answer otherwise than with 200, and that give a password where there is one.
fn extra(text: &str, endpoints: &Endpoints, id: usize, seed: u64) -> Vec<(String, String)> {
    const STATUSES: [&str; 4] = ["404", "500", "302", "201"];
    const SAID: [&str; 4] = ["Location: /moved/x", "Location: http://@A@/moved", "X-Say: 1", "Set-Cookie: s=1; Path=/"];
    let field = |name: &str, value: String| (name.to_string(), value);
    let mut fields = Vec::new();
    if id % 3 == 2 {
        fields.push(field("X-Say-Status", STATUSES[id / 3 % 4].into()));
        // An endpoint that names its own address is rare.
        let said = match SAID[(id / 3 % 4) ^ 2] {
            said if said.contains('@') && !seed.is_multiple_of(6) => "X-Say: 2",
            said => said,
        };
        fields.push(field("X-Say-Field", endpoints.fill(said)));
    }
    if id % 2 == 1 && text.contains("auth_basic ") {
        // The user `u` with the password `p`.
        fields.push(field("Authorization", "Basic dTpw".into()));
    }
    fields
}

/// True for a lone question mark, without which the original serves the request. evenkeel takes both for the same request.
fn is_served_without_question(ask: &Ask, to: SocketAddr, id: usize, endpoints: &Endpoints) -> bool {
    let Some(target) = ask.target.strip_suffix('?') else { return false };
    let ask = Ask { target: target.to_string(), ..placed_ask(ask, to) };
    let answer = answer(to, &ask, id);
    answer.is_ok() && endpoints.take(id).is_some()
}

/// A request as it is sent to an address: `@P@` in its host stands for the port.
fn placed_ask(ask: &Ask, to: SocketAddr) -> Ask {
    Ask { host: ask.host.replace("@P@", &to.port().to_string()), ..ask.clone() }
}
