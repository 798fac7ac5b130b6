//! The reference page that is generated from the tables.

use super::h2_requests;
use super::requests::{self, Does};
use super::responses::{self, Asked, Ends};
use std::fmt::Write;

const INTRO: &str = "\
# Strictness

<!-- Generated from crates/proxy/tests/strictness. `make bless` writes it anew. -->

Handling of odd, ambiguous or invalid HTTP. If two servers read a message differently, a client can smuggle requests past the \
first server. So evenkeel refuses messages that could be read in two ways, and frames forwarded messages so that they can be \
read in only one way. An endpoint never sees a request that was not routed and counted.

Each row is a test: its bytes pass through a worker over sockets, and the bytes that the client and the endpoint get are \
compared. `⏎` is a CRLF, `\\r` and `\\n` are bare; `{x*9}` is nine times `x`; `‖` waits until the endpoint has all bytes before \
it. The RFC column has the RFC and its section. Requests of other connections are never affected; after a refusal, the \
client's connection is closed.
";

/// Formats bytes as the tables of the page show them.
pub fn code(text: &str) -> String {
    let text = text.replace("\r\n", "⏎");
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' => out.push_str("\\|"),
            '⏎' | '‖' => out.push(c),
            c if c.is_control() => write!(out, "{}", c.escape_default()).expect("a String takes everything"),
            c => out.push(c),
        }
    }
    format!("`{out}`")
}

fn all(requests: &[&str], sent: &str) -> String {
    let as_sent = requests.concat() == sent;
    if as_sent { "unchanged".into() } else { requests.iter().map(|r| code(r)).collect::<Vec<_>>().join(" and ") }
}

/// The whole page, in Markdown.
pub fn write() -> String {
    let mut out = INTRO.to_string();
    out.push_str("\n## Requests\n\nThe `X-Forwarded-*` fields and the `CDN-Loop` that evenkeel adds to each request are not shown.\nThe client connects to 192.0.2.1:8080.\n");
    for (title, rows) in requests::SECTIONS {
        let _ =
            write!(out, "\n### {title}\n\n| Sent | Client gets | Endpoint gets | RFC | Why |\n|---|---|---|---|---|\n");
        for row in *rows {
            let (client, endpoint) = match &row.does {
                Does::Passes(passed) => ("the response".to_string(), all(passed, row.sent)),
                Does::Answers(answer) => (code(answer), "nothing".into()),
                Does::Refuses(reject) => (format!("{}: {reject}", reject.status()), "nothing".into()),
                Does::PassesThenRefuses(passed, reject) => {
                    (format!("the response; {}: {reject}", reject.status()), all(passed, row.sent))
                }
                Does::Cuts(begun, reject) => {
                    (format!("{}: {reject}", reject.status()), format!("{}, and a close", code(begun)))
                }
            };
            let _ = writeln!(out, "| {} | {client} | {endpoint} | {} | {} |", code(row.sent), row.rfc, row.why);
        }
    }
    write_h2(&mut out);
    out.push_str("\n## Responses\n\n`tolerate` of a pool accepts some of the responses that are refused here. If a response is refused, the client gets a 502.\n");
    for (title, rows) in responses::SECTIONS {
        let head = "| To | Endpoint sends | Client gets | Endpoint's connection | RFC | Why |";
        let _ = write!(out, "\n### {title}\n\n{head}\n|---|---|---|---|---|---|\n");
        for row in *rows {
            let asked = match row.asked {
                Asked::Get => "GET",
                Asked::Head => "HEAD",
                Asked::Post => "POST before its body has arrived",
                Asked::Switch => "GET with `Upgrade: websocket`",
            };
            let sent = code(row.sent) + if row.ends == Ends::Closes { ", and closes" } else { "" };
            let (client, connection) = match row.does {
                responses::Does::Passes(got) => (all(&[got], row.sent), "kept"),
                responses::Does::PassesLast(got) => (all(&[got], row.sent), "closed"),
                responses::Does::Cuts(begun) => (format!("{}, and a close", code(begun)), "closed"),
                responses::Does::Refuses(reject) => (format!("502: {reject}"), "closed"),
            };
            let _ = writeln!(out, "| {asked} | {sent} | {client} | {connection} | {} | {} |", row.rfc, row.why);
        }
    }
    out
}

/// Formats the fields of an HTTP/2 request for the page.
pub fn h2_code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

const H2_INTRO: &str = "
## Requests of HTTP/2

Each line is a field of the compressed head. Each request is sent in three ways: with one frame per part, with a head cut in \
two, and with its end in a separate frame. A reset is a `RST_STREAM` with `PROTOCOL_ERROR`; the connection and its other \
streams continue.
";

fn write_h2(out: &mut String) {
    use h2_requests::Does;
    out.push_str(H2_INTRO);
    for (title, rows) in h2_requests::SECTIONS {
        let _ =
            write!(out, "\n### {title}\n\n| Sent | Client gets | Endpoint gets | RFC | Why |\n|---|---|---|---|---|\n");
        for row in *rows {
            let (client, endpoint) = match row.does {
                Does::Passes(passed) => ("the response".to_string(), code(passed)),
                Does::Answers(status) => (status.to_string(), "nothing".into()),
                Does::Resets => ("a reset".into(), "nothing".into()),
                Does::Cuts(begun) => ("a reset".into(), format!("{}, at most, and a close", code(begun))),
            };
            let _ = writeln!(out, "| {} | {client} | {endpoint} | {} | {} |", h2_code(row.sent), row.rfc, row.why);
        }
    }
}
