//! Parts that all sources share that ask a registry over HTTP.

use crate::kept::Answer;
use crate::out::Out;
use evenkeel_config::plan::Credentials;
use evenkeel_fetch::{Fault, Server};
use hyper::StatusCode;
use std::fmt::Write;

/// Bytes of an error of the server that are logged.
const REASON_MAX: usize = 200;

/// Returns the server that a plan names, with its credentials.
pub fn server_of(url: &str, credentials: &Credentials) -> Result<Server, Fault> {
    let identity = credentials.cert.clone().zip(credentials.key.clone());
    Ok(Server::at(url)?.trusting(credentials.ca.clone()).presenting(identity))
}

/// Reports an error that no later try can mend, and waits for another plan.
pub async fn never(error: Fault, mut out: Out) -> ! {
    out.put(Answer::Failed(error.to_string()));
    loop {
        std::future::pending::<()>().await;
    }
}

/// Text as a part of a URL: all but letters, digits, `-`, `.`, `_` and `~` in hexadecimal.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            // A `String` takes all that is written.
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}

/// Reason of a server that refuses.
pub fn refusal(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body.get(..REASON_MAX).unwrap_or(body));
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.trim() {
        "" => format!("it answered {status}"),
        text => format!("it answered {status}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_one_short_line() {
        assert_eq!(refusal(StatusCode::FORBIDDEN, b"ACL\nnot found\n"), "it answered 403 Forbidden: ACL not found");
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, b" \n"), "it answered 502 Bad Gateway");
        assert!(refusal(StatusCode::BAD_GATEWAY, &[b'a'; 5000]).len() < REASON_MAX + 60);
    }

    #[test]
    fn nothing_breaks_out_of_a_part_of_a_url() {
        assert_eq!(encoded("a-Z_0.9~"), "a-Z_0.9~");
        assert_eq!(encoded("a/b?c&d=e#f %\u{e9}"), "a%2Fb%3Fc%26d%3De%23f%20%25%C3%A9");
    }
}
