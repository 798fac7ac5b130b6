//! The reference page that is generated from the tables.

use super::h2_requests;
use super::requests::{self, Does};
use super::responses::{self, Asked, Ends};
use std::fmt::Write;

const INTRO: &str = "\
# Strictness

<!-- Generated from crates/proxy/tests/strictness. `make bless` writes it anew. -->

What evenkeel makes of HTTP/1 that is odd, ambiguous or wrong. Two servers that read a message differently let a client smuggle \
requests past the first; so whatever could be read in two ways is refused, and what goes on is framed so that it can be \
read in one way only. An endpoint never sees a request that was not routed and counted.

Each row is a test: its bytes go over sockets through a worker, and what the client and the endpoint get is compared \
byte for byte. `⏎` is a CRLF, `\\r` and `\\n` are bare; `{x*9}` is nine of it; `‖` waits until the endpoint has what stands \
before. Sections are those of the RFCs. Requests of another connection are never touched; after a refusal the client's \
connection is closed.
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
    if as_sent { "as it came".into() } else { requests.iter().map(|r| code(r)).collect::<Vec<_>>().join(" and ") }
}

/// The whole page, in Markdown.
pub fn write() -> String {
    let mut out = INTRO.to_string();
    out.push_str("\n## Requests\n\nThe `X-Forwarded-*` fields and the `CDN-Loop` that evenkeel adds to each request are left out.\nThe client connects to 192.0.2.1:8080.\n");
    for (title, rows) in requests::SECTIONS {
        let _ =
            write!(out, "\n### {title}\n\n| Sent | Client gets | Endpoint gets | RFC | Why |\n|---|---|---|---|---|\n");
        for row in *rows {
            let (client, endpoint) = match &row.does {
                Does::Passes(passed) => ("the answer".to_string(), all(passed, row.sent)),
                Does::Answers(answer) => (code(answer), "nothing".into()),
                Does::Refuses(reject) => (format!("{}: {reject}", reject.status()), "nothing".into()),
                Does::PassesThenRefuses(passed, reject) => {
                    (format!("the answer; {}: {reject}", reject.status()), all(passed, row.sent))
                }
                Does::Cuts(begun, reject) => {
                    (format!("{}: {reject}", reject.status()), format!("{}, and a close", code(begun)))
                }
            };
            let _ = writeln!(out, "| {} | {client} | {endpoint} | {} | {} |", code(row.sent), row.rfc, row.why);
        }
    }
    write_h2(&mut out);
    out.push_str("\n## Responses\n\n`tolerate` of a pool lets some of those through that are refused here. A response that is refused is a 502 for the client.\n");
    for (title, rows) in responses::SECTIONS {
        let head = "| To | Endpoint sends | Client gets | Endpoint's connection | RFC | Why |";
        let _ = write!(out, "\n### {title}\n\n{head}\n|---|---|---|---|---|---|\n");
        for row in *rows {
            let asked = match row.asked {
                Asked::Get => "GET",
                Asked::Head => "HEAD",
                Asked::Post => "POST whose body has not come",
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

A line is a field, as it stands in the compressed head. A request is sent in three ways: in a frame for each part, with a head \
that is cut in two, and with its end in a frame of its own. A reset is a `RST_STREAM` with `PROTOCOL_ERROR`; the connection, and \
what else runs on it, goes on.
";

fn write_h2(out: &mut String) {
    use h2_requests::Does;
    out.push_str(H2_INTRO);
    for (title, rows) in h2_requests::SECTIONS {
        let _ =
            write!(out, "\n### {title}\n\n| Sent | Client gets | Endpoint gets | RFC | Why |\n|---|---|---|---|---|\n");
        for row in *rows {
            let (client, endpoint) = match row.does {
                Does::Passes(passed) => ("the answer".to_string(), code(passed)),
                Does::Answers(status) => (status.to_string(), "nothing".into()),
                Does::Resets => ("a reset".into(), "nothing".into()),
                Does::Cuts(begun) => ("a reset".into(), format!("{}, at most, and a close", code(begun))),
            };
            let _ = writeln!(out, "| {} | {client} | {endpoint} | {} | {} |", h2_code(row.sent), row.rfc, row.why);
        }
    }
}
