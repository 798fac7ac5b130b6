//! Malformed exchanges and attacks over HTTP/3, by h3i: `evenkeel-h3i-attacks ADDR` sends them to a server, one connection each,
//! beside a client that behaves. Prints a line for each, and fails if one of them has another end than it must have.

#![allow(clippy::disallowed_macros, reason = "a program prints what it found")]

mod rows;

use h3i::actions::h3::{Action, StreamEvent, StreamEventType, WaitType, send_headers_frame};
use h3i::client::connection_summary::ConnectionSummary;
use h3i::client::sync_client::connect;
use h3i::config::Config;
use h3i::frame::H3iFrame;
use quiche::ConnectionError;
use rows::{End, OK, Row, get};
use std::fmt::Write as _;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Longest time that a response to the client that behaves may take.
const PATIENCE: Duration = Duration::from_millis(1000);

/// Requests of the client that behaves, on one connection.
const REQUESTS: u64 = 60;

fn config(addr: &str) -> Config {
    let config = Config::new().with_host_port(addr.to_owned()).verify_peer(false).with_idle_timeout(3000);
    config.build().expect("an address")
}

/// Waits, and then ends the connection.
fn leave(actions: &mut Vec<Action>, wait: WaitType) {
    actions.push(Action::Wait { wait_type: wait });
    let error = ConnectionError { is_app: true, error_code: 0x100, reason: Vec::new() };
    actions.push(Action::ConnectionClose { error });
}

/// End of a row's connection, as far as its client has seen it.
fn end(summary: &ConnectionSummary, stream: u64) -> End {
    if let Some(error) = summary.conn_close_details.peer_error() {
        return End::Closed(error.error_code);
    }
    let frames = summary.stream_map.stream(stream);
    let reset = frames.iter().find_map(|frame| match frame {
        H3iFrame::ResetStream(reset) => Some(reset.error_code),
        _ => None,
    });
    if let Some(code) = reset {
        return End::Reset(code);
    }
    let heads = summary.stream_map.headers_on_stream(stream);
    let status = heads.iter().find_map(|head| std::str::from_utf8(head.status_code()?).ok()?.parse().ok());
    status.map_or(End::Open, End::Status)
}

/// Sends what a row has. Returns an error if its end is another.
fn run(addr: &str, row: Row) -> Result<String, String> {
    let Row { name, mut actions, stream, want } = row;
    leave(&mut actions, WaitType::WaitDuration(Duration::from_millis(300)));
    let config = config(addr);
    let summary = catch_unwind(|| connect(config, actions, None));
    let got = match summary {
        Ok(Ok(summary)) => end(&summary, stream),
        Ok(Err(error)) => return Err(format!("{name}: {error:?}")),
        Err(_) => return Err(format!("{name}: h3i could not send all of it")),
    };
    if want.contains(&got) { Ok(format!("{name}: {got}")) } else { Err(format!("{name}: {got} instead of {want:?}")) }
}

/// Sends requests, one after another, and returns what is wrong with the responses.
fn behave(addr: &str) -> String {
    let mut wrong = String::new();
    let mut actions = rows::begin();
    for n in 0..REQUESTS {
        actions.push(send_headers_frame(4 * n, true, get()));
        let event = StreamEvent { stream_id: 4 * n, event_type: StreamEventType::Finished };
        actions.push(Action::Wait { wait_type: WaitType::StreamEvent(event) });
        actions.push(Action::Wait { wait_type: WaitType::WaitDuration(Duration::from_millis(100)) });
    }
    leave(&mut actions, WaitType::WaitDuration(Duration::ZERO));
    let began = Instant::now();
    match connect(config(addr), actions, None) {
        Ok(summary) => {
            for (n, got) in (0..REQUESTS).map(|n| (n, end(&summary, 4 * n))).filter(|(_, got)| *got != OK) {
                let _ = writeln!(wrong, "request {n} of a client that behaves: {got}");
            }
        }
        Err(error) => drop(writeln!(wrong, "a client that behaves failed: {error:?}")),
    }
    let longest = PATIENCE + Duration::from_millis(100 + 20) * REQUESTS as u32;
    if began.elapsed() > longest {
        let _ = writeln!(wrong, "a client that behaves waited: {:?} for {REQUESTS} requests", began.elapsed());
    }
    wrong
}

fn main() -> ExitCode {
    let Some(addr) = std::env::args().nth(1) else {
        eprintln!("error: no address; usage: evenkeel-h3i-attacks ADDR");
        return ExitCode::FAILURE;
    };
    let only = std::env::args().nth(2);
    let mut wrong = Vec::new();
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| behave(&addr));
        for row in rows::all().into_iter().filter(|row| only.as_ref().is_none_or(|only| row.name.contains(only))) {
            match run(&addr, row) {
                Ok(line) => println!("ok    {line}"),
                Err(line) => {
                    println!("wrong {line}");
                    wrong.push(line);
                }
            }
        }
        let said = beside.join().expect("no panic");
        if said.is_empty() {
            println!("ok    a client that behaves beside them: {REQUESTS} responses");
        } else {
            println!("wrong {said}");
            wrong.push(said);
        }
    });
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
