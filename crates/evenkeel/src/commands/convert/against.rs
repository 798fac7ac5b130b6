//! `evenkeel convert FILE --against URL`: sends the same requests to a running original and to its conversion, which
//! runs in this process at loopback, and prints the differences. Only GET and HEAD are sent.

use crate::checking::environment;
use crate::failure::{Failure, color, reason};
use crate::output::print;
use evenkeel_config::plan::{Mode, Workers};
use evenkeel_config::{Plan, parse_str, render_text};
use evenkeel_convert::{Answer, Ask, Converted, asks, difference};
use evenkeel_proxy::{Command, Server};
use evenkeel_runtime::{Diagnostic, StartError};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Number of requests. A configuration of ten hosts and thirty paths has each of them several times.
const ASKS: usize = 200;

/// Seed of the requests, so that two runs send the same.
const SEED: u64 = 1;

/// Time limit of a connection, and of each read.
const LATE: Duration = Duration::from_secs(10);

/// Largest response that is compared, bytes.
const LARGEST: usize = 4 << 20;

/// Tries to start the conversion: another process may take a free port first.
const PORT_TRIES: usize = 20;

/// Times that the first 503 is asked for again, while names of endpoints are resolved, and the pause between.
const UNRESOLVED: (usize, Duration) = (10, Duration::from_millis(200));

/// Examples of a kind of difference.
const EXAMPLES: usize = 3;

/// A request, and the differences between the responses to it.
struct Differs {
    ask: Ask,
    there: String,
    here: String,
}

/// Runs the comparison. `text` is the original's configuration.
pub fn run(url: &str, text: &str, done: &Converted, json: bool) -> Result<(), Failure> {
    let there = original(url)?;
    let (server, here) = start(done, there.port())?;
    // Hosts and paths of included files are in the output only.
    let matches: String =
        done.toml.lines().filter(|line| line.starts_with("match")).flat_map(|line| ["\n", line]).collect();
    let asks: Vec<Ask> = asks(&format!("{text}{matches}"), ASKS, SEED).into_iter().map(read_only).collect();
    let found = compare(&asks, there, here);
    server.command(Command::Stop);
    server.join();
    let found = found?;
    print(&if json { to_json(&found) } else { to_text(&found, url) })?;
    if found.is_empty() { Ok(()) } else { Err(Failure::otherwise()) }
}

/// Resolves the URL of the original. It must be plain HTTP.
fn original(url: &str) -> Result<SocketAddr, Failure> {
    let plain = url.strip_prefix("http://").ok_or_else(|| {
        let help = "name a listener of the original without TLS, such as http://127.0.0.1:80";
        Failure::usage_error(format!("{url} does not begin with http://")).help(help)
    })?;
    let place = plain.split('/').next().unwrap_or_default();
    let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let place = if has_port { place.to_string() } else { format!("{place}:80") };
    let cannot = |why: String| Failure::running(format!("cannot find the original at {url}: {why}"));
    let mut addrs = place.to_socket_addrs().map_err(|error| cannot(reason(&error)))?;
    addrs.next().ok_or_else(|| cannot("the name has no address".into()))
}

/// A request that changes nothing: methods other than GET and HEAD become GET.
fn read_only(ask: Ask) -> Ask {
    let method = if ask.method == "HEAD" { ask.method } else { "GET".to_string() };
    Ask { method, body: String::new(), ..ask }
}

/// Starts the conversion at loopback; returns the address of the listener with this port, or of the only listener.
fn start(done: &Converted, port: u16) -> Result<(Server, SocketAddr), Failure> {
    let outcome = parse_str("evenkeel.toml", &done.toml, &environment);
    let Some(mut plan) = outcome.plan else {
        eprint!("{}", render_text(&outcome.diagnostics, color()));
        return Err(Failure::refused());
    };
    // Nothing is written, and nothing but these listeners is opened.
    plan.runtime.workers = Workers::Count(1);
    plan.runtime.state = None;
    plan.telemetry.access_log = None;
    plan.telemetry.journal = None;
    plan.cache.disk = None;
    plan.listeners.retain(|listener| listener.mode == Mode::Http && listener.tls.is_none());
    let wanted = plan.listeners.iter().position(|listener| listener.bind.iter().any(|addr| addr.port() == port));
    let Some(at) = wanted.or((plan.listeners.len() == 1).then_some(0)) else {
        let problem = format!("the conversion has no listener of HTTP without TLS at port {port}");
        return Err(Failure::usage_error(problem).help("--against takes the address of a listener of the original"));
    };
    let mut tries = PORT_TRIES;
    loop {
        let (plan, addr) = at_loopback(plan.clone(), at)?;
        tries -= 1;
        match Server::start(plan) {
            Err(StartError(why)) if tries > 0 && is_in_use(&why) => {}
            started => return Ok((started?, addr)),
        }
    }
}

fn is_in_use(why: &[Diagnostic]) -> bool {
    matches!(why, [Diagnostic::Listen(cannot)] if cannot.error.kind() == ErrorKind::AddrInUse)
}

/// Moves all listeners to free ports of loopback.
fn at_loopback(mut plan: Plan, wanted: usize) -> Result<(Plan, SocketAddr), Failure> {
    // Held until all are chosen, so that no two are the same.
    let mut held = Vec::new();
    for listener in &mut plan.listeners {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (addr, socket) = free.map_err(|error| Failure::running(format!("no free port: {}", reason(&error))))?;
        Arc::make_mut(listener).bind = vec![addr];
        held.push(socket);
    }
    let addr = plan.listeners[wanted].bind[0];
    Ok((plan, addr))
}

/// Differences by their kind.
fn compare(asks: &[Ask], there: SocketAddr, here: SocketAddr) -> Result<BTreeMap<String, Vec<Differs>>, Failure> {
    let mut found: BTreeMap<String, Vec<Differs>> = BTreeMap::new();
    let mut patience = UNRESOLVED.0;
    for ask in asks {
        let original = answer(ask, there).map_err(|error| {
            Failure::running(format!("the original at {there} does not answer: {}", reason(&error)))
        })?;
        let mut ours = answer(ask, here);
        while patience > 0 && matches!(&ours, Ok(Some(answer)) if answer.status == 503) {
            patience -= 1;
            std::thread::sleep(UNRESOLVED.1);
            ours = answer(ask, here);
        }
        let ours = ours.ok().flatten();
        let again = answer(ask, there).ok().flatten();
        let shown = |answer: &Option<Answer>| answer.as_ref().map_or("no response".to_string(), summary);
        let (was_there, was_here) = (shown(&original), shown(&ours));
        if let Some(kind) = differs(&ask.method, original, again, ours) {
            found.entry(kind).or_default().push(Differs { ask: ask.clone(), there: was_there, here: was_here });
        }
    }
    Ok(found)
}

/// Returns the kind of difference, if the responses differ. Parts that the original itself does not repeat are not compared.
fn differs(method: &str, there: Option<Answer>, again: Option<Answer>, here: Option<Answer>) -> Option<String> {
    let (mut there, mut here) = match (there, here) {
        (Some(there), Some(here)) => (there, here),
        (None, None) => return None,
        (Some(there), None) => return Some(format!("status {} there, no response here", there.status)),
        (None, Some(here)) => return Some(format!("no response there, status {} here", here.status)),
    };
    let again = again?;
    if again.status != there.status {
        return None;
    }
    if there.body != again.body {
        there.body.clear();
        here.body.clear();
    }
    let unsteady = |name: &str| {
        let values = |answer: &Answer| -> Vec<String> {
            answer.fields.iter().filter(|(n, _)| n == name).map(|(_, value)| value.clone()).collect()
        };
        values(&there) != values(&again)
    };
    here.fields.retain(|(name, _)| !unsteady(name));
    let steady: Vec<_> = there.fields.iter().filter(|(name, _)| !unsteady(name)).cloned().collect();
    there.fields = steady;
    if there.body != here.body || method == "HEAD" {
        // A page of the proxy itself. Pages of endpoints are the same on both sides.
        there.forget_own_page();
        here.forget_own_page();
    }
    difference(&there, &here)
}

/// Sends a request and reads the response; `None` if the connection ends before a response.
fn answer(ask: &Ask, to: SocketAddr) -> io::Result<Option<Answer>> {
    let ask = Ask { host: ask.host.replace("@P@", &to.port().to_string()), ..ask.clone() };
    let mut stream = TcpStream::connect_timeout(&to, LATE)?;
    stream.set_read_timeout(Some(LATE))?;
    stream.write_all(&ask.bytes(""))?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 16 * 1024]);
    while bytes.len() < LARGEST && !Answer::is_whole(&bytes, &ask.method) {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
        }
    }
    let mut answer = Answer::read(&bytes);
    if let Some(answer) = &mut answer {
        answer.normal(&[to]);
        if ask.method == "HEAD" {
            answer.body.clear();
        }
    }
    Ok(answer)
}

/// Status, target of a redirect and length of a response.
fn summary(answer: &Answer) -> String {
    let location = answer.fields.iter().find(|(name, _)| name == "location");
    let location = location.map_or(String::new(), |(_, value)| format!(" to {value}"));
    format!("{}{location}, {} bytes", answer.status, answer.body.len())
}

fn to_text(found: &BTreeMap<String, Vec<Differs>>, url: &str) -> String {
    let differing: usize = found.values().map(Vec::len).sum();
    let mut text = format!("{ASKS} requests (GET and HEAD) to {url} and to the conversion: {differing} differ\n");
    for (kind, all) in found {
        let _ = writeln!(text, "\n{kind} ({}):", all.len());
        for one in all.iter().take(EXAMPLES) {
            let _ =
                writeln!(text, "  {} http://{}{}", one.ask.method, one.ask.host.replace(":@P@", ""), one.ask.target);
            for (name, value) in &one.ask.fields {
                let _ = writeln!(text, "      {name}: {value}");
            }
            let _ = writeln!(text, "      there: {}\n      here:  {}", one.there, one.here);
        }
    }
    text
}

fn to_json(found: &BTreeMap<String, Vec<Differs>>) -> String {
    let each = |(kind, all): (&String, &Vec<Differs>)| {
        let requests = all.iter().map(|one| {
            let Differs { ask, there, here } = one;
            json!({
                "method": ask.method, "host": ask.host, "target": ask.target, "fields": ask.fields,
                "there": there, "here": here,
            })
        });
        json!({ "kind": kind, "requests": requests.collect::<Vec<_>>() })
    };
    format!("{:#}\n", json!({ "requests": ASKS, "differences": found.iter().map(each).collect::<Vec<_>>() }))
}
