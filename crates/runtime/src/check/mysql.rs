//! Check of MySQL and MariaDB: reads the greeting, logs in without a password and quits. A client that closes before
//! login counts against its host (`sum_connect_errors`), which is locked out after `max_connect_errors`; a denied login
//! does not count. Source: "Connection Phase" of MySQL's protocol documentation (version 4.1 and later).

use super::failure::Failure;
use super::stream::{BODY_MAX, Carries, exactly, send, text};

/// Capabilities of the check's client: `LONG_PASSWORD`, `PROTOCOL_41`, `SECURE_CONNECTION` and `PLUGIN_AUTH`.
const CAPABILITIES: u32 = 0x1 | 0x200 | 0x8000 | 0x8_0000;
/// Number of the character set `utf8`.
const CHARACTER_SET: u8 = 33;
const PACKET_MAX: u32 = 1 << 24;
const COM_QUIT: u8 = 1;

/// User of the login if none is configured. Need not exist.
const USER: &str = "evenkeel";

/// Error code: the client does not support the authentication method of this user. The server itself works.
const NOT_SUPPORTED_AUTH_MODE: u16 = 1251;

/// Maximum messages of the server during a login: method switches and method data.
const STEPS_MAX: usize = 8;

struct Packet {
    number: u8,
    payload: Vec<u8>,
}

/// Logs in and quits. A configured `user` must be accepted. Without a user, a denied login passes.
pub(super) async fn ask(stream: &mut Box<dyn Carries>, user: Option<&str>) -> Result<(), Failure> {
    let greeting = receive(stream).await?;
    match greeting.payload.first() {
        Some(10) => {}
        Some(0xff) => return Err(refusal(&greeting.payload).2),
        _ => return Err(Failure::NotSpoken("MySQL")),
    }
    transmit(stream, greeting.number.wrapping_add(1), &login(user.unwrap_or(USER))).await?;
    for _ in 0..STEPS_MAX {
        let answer = receive(stream).await?;
        match answer.payload.first() {
            Some(0) => {
                // The result does not depend on it.
                let _ = transmit(stream, 0, &[COM_QUIT]).await;
                return Ok(());
            }
            Some(0xff) => {
                let (code, state, why) = refusal(&answer.payload);
                // SQLSTATE class 28: invalid authorization.
                let is_denied = state.starts_with(b"28") || code == NOT_SUPPORTED_AUTH_MODE;
                return if user.is_none() && is_denied { Ok(()) } else { Err(why) };
            }
            // Switch to another authentication method: all of them send nothing for an empty password.
            Some(0xfe) => transmit(stream, answer.number.wrapping_add(1), &[]).await?,
            // `caching_sha2_password` asks for the full password: send an empty password.
            Some(1) if answer.payload.get(1) == Some(&4) => {
                transmit(stream, answer.number.wrapping_add(1), &[0]).await?;
            }
            Some(1) => {}
            _ => return Err(Failure::NotSpoken("MySQL")),
        }
    }
    Err(Failure::NotSpoken("MySQL"))
}

/// Encoded `HandshakeResponse41` with an empty password.
fn login(user: &str) -> Vec<u8> {
    let mut payload = CAPABILITIES.to_le_bytes().to_vec();
    payload.extend_from_slice(&PACKET_MAX.to_le_bytes());
    payload.push(CHARACTER_SET);
    payload.extend_from_slice(&[0; 23]);
    payload.extend_from_slice(user.as_bytes());
    payload.extend_from_slice(&[0, 0]); // end of the user name, length of the empty password
    payload.extend_from_slice(b"mysql_native_password\0");
    payload
}

/// Code, SQLSTATE (may be missing) and text of an error packet.
fn refusal(payload: &[u8]) -> (u16, Vec<u8>, Failure) {
    let code = payload.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    let rest = payload.get(3..).unwrap_or_default();
    let (state, message) = match rest {
        [b'#', rest @ ..] if rest.len() >= 5 => rest.split_at(5),
        _ => (&[][..], rest),
    };
    (code, state.to_vec(), Failure::Says(format!("{code} {}", text(message))))
}

async fn receive(stream: &mut Box<dyn Carries>) -> Result<Packet, Failure> {
    let head = exactly(stream, 4).await?;
    let len = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
    if len > BODY_MAX {
        return Err(Failure::NotSpoken("MySQL"));
    }
    Ok(Packet { number: head[3], payload: exactly(stream, len).await? })
}

async fn transmit(stream: &mut Box<dyn Carries>, number: u8, payload: &[u8]) -> Result<(), Failure> {
    let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
    send(stream, &[&[a, b, c, number], payload].concat()).await
}
