//! Check of PostgreSQL: starts a session and ends it. A server that starts up, shuts down or has no connection left refuses that;
//! one that only asks for a password serves.
//! Source: "Message Flow" and "Message Formats" of PostgreSQL's documentation (protocol 3.0).

use super::failure::Failure;
use super::stream::{BODY_MAX, Carries, exactly, send, text};

const PROTOCOL: u32 = 3 << 16;

/// The role that starts a session if none is configured. It need not exist.
const USER: &str = "evenkeel";

/// Most messages before a server is ready: notices, parameters and the like.
const MESSAGES_MAX: usize = 200;

/// Starts a session and ends it. A `user` that is configured must not be refused.
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
            // The method of logging in, 0 for none. A server that waits for a password expects a close, not a `Terminate`.
            b'R' if body.get(..4) != Some(&[0; 4]) => return Ok(()),
            b'Z' => {
                // `Terminate`. The verdict does not depend on it.
                let _ = send(stream, b"X\0\0\0\x04").await;
                return Ok(());
            }
            b'E' => {
                let (state, why) = refusal(&body);
                // Role or database are unknown or denied.
                let is_denied = ["28", "3D", "42501"].iter().any(|class| state.starts_with(class.as_bytes()));
                return if user.is_none() && is_denied { Ok(()) } else { Err(why) };
            }
            b'R' | b'S' | b'K' | b'N' | b'v' => {}
            _ => return Err(Failure::NotSpoken("PostgreSQL")),
        }
    }
    Err(Failure::NotSpoken("PostgreSQL"))
}

/// `StartupMessage`.
fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for part in ["user", user, "database", database, "application_name", "evenkeel-check"] {
        body.extend_from_slice(part.as_bytes());
        body.push(0);
    }
    body.push(0);
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

/// State (may be missing) and text of an `ErrorResponse`.
fn refusal(body: &[u8]) -> (Vec<u8>, Failure) {
    let fields = body.split(|byte| *byte == 0);
    let field = |kind| fields.clone().find_map(|field| field.strip_prefix(&[kind])).unwrap_or_default();
    let (state, message) = (field(b'C'), field(b'M'));
    (state.to_vec(), Failure::Says(format!("{} {}", text(state), text(message))))
}
