//! Check of PostgreSQL: starts a session and ends it. A server that is starting up, shutting down or out of connections
//! refuses. A server that asks for a password passes. Source: "Message Flow" and "Message Formats" of PostgreSQL's
//! documentation (protocol 3.0).

use super::failure::Failure;
use super::stream::{BODY_MAX, Carries, exactly, send, text};

const PROTOCOL: u32 = 3 << 16;

/// Role of the session if none is configured. Need not exist.
const USER: &str = "evenkeel";

/// Maximum messages before a server is ready: notices, parameters and the like.
const MESSAGES_MAX: usize = 200;

/// Starts a session and ends it. A configured `user` must not be rejected. Without a user, a denied session passes.
pub(super) async fn ask(stream: &mut Box<dyn Carries>, user: Option<&str>, database: &str) -> Result<(), Failure> {
    send(stream, &startup(user.unwrap_or(USER), database)).await?;
    for _ in 0..MESSAGES_MAX {
        let head = exactly(stream, 5).await?;
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=BODY_MAX).contains(&len) {
            return Err(Failure::NotSpoken("PostgreSQL"));
        }
        let body = exactly(stream, len - 4).await?;
        match head[0] {
            // Authentication request; 0 means that none is needed. A server that waits for a password expects a close,
            // not a `Terminate`.
            b'R' if body.get(..4) != Some(&[0; 4]) => return Ok(()),
            b'Z' => {
                // `Terminate`. The result does not depend on it.
                let _ = send(stream, b"X\0\0\0\x04").await;
                return Ok(());
            }
            b'E' => {
                let (state, why) = refusal(&body);
                // The role or database is unknown or denied.
                let is_denied = ["28", "3D", "42501"].iter().any(|class| state.starts_with(class.as_bytes()));
                return if user.is_none() && is_denied { Ok(()) } else { Err(why) };
            }
            b'R' | b'S' | b'K' | b'N' | b'v' => {}
            _ => return Err(Failure::NotSpoken("PostgreSQL")),
        }
    }
    Err(Failure::NotSpoken("PostgreSQL"))
}

/// Encoded `StartupMessage` (protocol 3.0).
fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for part in ["user", user, "database", database, "application_name", "evenkeel-check"] {
        body.extend_from_slice(part.as_bytes());
        body.push(0);
    }
    body.push(0);
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

/// SQLSTATE (may be missing) and text of an `ErrorResponse`.
fn refusal(body: &[u8]) -> (Vec<u8>, Failure) {
    let fields = body.split(|byte| *byte == 0);
    let field = |kind| fields.clone().find_map(|field| field.strip_prefix(&[kind])).unwrap_or_default();
    let (state, message) = (field(b'C'), field(b'M'));
    (state.to_vec(), Failure::Says(format!("{} {}", text(state), text(message))))
}
