//! Health check of a gRPC server: a call of `grpc.health.v1.Health/Check` over HTTP/2 (doc/health-checking.md of gRPC).
//! Both messages have a single field, so they are encoded and decoded here.

use super::failure::Failure;
use super::stream::{BODY_MAX, Carries};
use evenkeel_wire::grpc::{self, Status};
use evenkeel_wire::h2::{Config, Connection, ErrorCode, Event, StreamId};
use evenkeel_wire::head::Table;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PATH: &[u8] = b"/grpc.health.v1.Health/Check";

/// Bytes before each message: compression flag (1) and length (4).
const PREFIX: usize = 5;

/// Time of the HTTP/2 engine, constant: a check is too short for limits that depend on time.
const NOW: u64 = 0;

/// State of the response so far.
#[derive(Default)]
struct Answer {
    status: u16,
    message: Vec<u8>,
    ended: Option<(Status, String)>,
}

/// Checks `service`, or the server as a whole if that is empty.
pub(super) async fn ask(
    stream: &mut Box<dyn Carries>,
    service: &str,
    host: &str,
    over_tls: bool,
) -> Result<(), Failure> {
    let mut engine = Connection::client(Config::default(), NOW);
    let scheme: &[u8] = if over_tls { b"https" } else { b"http" };
    let fields: [(&[u8], &[u8]); 7] = [
        (b":method", b"POST"),
        (b":scheme", scheme),
        (b":path", PATH),
        (b":authority", host.as_bytes()),
        (b"content-type", grpc::MEDIA_TYPE.as_bytes()),
        (b"te", b"trailers"),
        (b"user-agent", b"evenkeel-check"),
    ];
    let id = engine.open(fields.into_iter(), false).map_err(|_| Failure::Closed)?;
    engine.send_data(id, &request(service), true);
    let answer = exchange(stream, &mut engine, id).await?;
    // The call has ended, so errors no longer matter.
    engine.go_away(ErrorCode::NoError);
    let _ = stream.write_all(engine.output()).await;
    let _ = stream.flush().await;
    judge(answer)
}

/// Sends pending output and reads until the call has ended.
async fn exchange(stream: &mut Box<dyn Carries>, engine: &mut Connection, id: StreamId) -> Result<Answer, Failure> {
    let (mut bytes, mut answer) = (Vec::new(), Answer::default());
    loop {
        let mut at = 0;
        loop {
            let received = match engine.receive(&bytes[at..], NOW) {
                Ok(received) => received,
                Err(error) => return Err(Failure::NotHttp2(error.why)),
            };
            let ended = match received.event {
                Some(Event::Head { stream, head }) if stream == id && head.status >= 200 => {
                    answer.status = head.status;
                    if head.ends {
                        answer.ended = end(&head.fields);
                    }
                    head.ends
                }
                Some(Event::Data { stream, range, flow, ends }) if stream == id => {
                    answer.message.extend_from_slice(&bytes[at..][range]);
                    if answer.message.len() > BODY_MAX {
                        return Err(Failure::Call(Status::ResourceExhausted, "the answer is too long".into()));
                    }
                    engine.consumed(stream, flow as usize);
                    ends
                }
                Some(Event::Trailers { stream, table }) if stream == id => {
                    answer.ended = end(&table);
                    true
                }
                Some(Event::Reset { stream, code, .. }) if stream == id => {
                    return Err(Failure::StreamReset(code));
                }
                Some(Event::GoAway { last, .. }) if last < id => return Err(Failure::Closed),
                None if received.used == 0 => break,
                _ => false,
            };
            at += received.used;
            if ended {
                return Ok(answer);
            }
        }
        bytes.drain(..at);
        let out = std::mem::take(engine.output());
        stream.write_all(&out).await.map_err(|_| Failure::Closed)?;
        stream.flush().await.map_err(|_| Failure::Closed)?;
        if stream.read_buf(&mut bytes).await.map_err(|_| Failure::Closed)? == 0 {
            return Err(Failure::Closed);
        }
    }
}

/// Status and message of the call from a trailer section, or from a head that ends it.
fn end(fields: &Table) -> Option<(Status, String)> {
    let first = |name: &str| fields.iter().find(|(field, _)| *field == name.as_bytes()).map(|(_, value)| value);
    let status = grpc::status(first(grpc::STATUS)?);
    Some((status, grpc::message_text(first(grpc::MESSAGE).unwrap_or_default())))
}

fn judge(answer: Answer) -> Result<(), Failure> {
    match answer.ended {
        Some((Status::Ok, _)) => {}
        Some((status, why)) => return Err(Failure::Call(status, why)),
        None if answer.status != 200 => return Err(Failure::Status(answer.status)),
        None => return Err(Failure::Closed),
    }
    match state(&answer.message) {
        Some(1) => Ok(()),
        Some(0) => Err(Failure::NotServing("UNKNOWN")),
        Some(2) => Err(Failure::NotServing("NOT_SERVING")),
        Some(3) => Err(Failure::NotServing("SERVICE_UNKNOWN")),
        Some(_) => Err(Failure::NotServing("in an unknown state")),
        None => Err(Failure::Call(Status::Internal, "its message is malformed".into())),
    }
}

/// Encoded `HealthCheckRequest { string service = 1; }` with its prefix.
fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(service.len() + 16);
    if !service.is_empty() {
        message.push(1 << 3 | 2);
        let mut left = service.len();
        while left >= 0x80 {
            message.push(left as u8 | 0x80);
            left >>= 7;
        }
        message.push(left as u8);
        message.extend_from_slice(service.as_bytes());
    }
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(&message);
    framed
}

/// Status number of a `HealthCheckResponse { ServingStatus status = 1; }`, 0 if absent; `None` if it is malformed.
fn state(framed: &[u8]) -> Option<u64> {
    let (prefix, mut message) = framed.split_at_checked(PREFIX)?;
    let length = u32::from_be_bytes(prefix[1..].try_into().ok()?);
    if prefix[0] != 0 || length as usize != message.len() {
        return None;
    }
    let mut state = 0;
    while !message.is_empty() {
        let key = varint(&mut message)?;
        match (key >> 3, key & 7) {
            (1, 0) => state = varint(&mut message)?,
            // Skip fields that later versions may add.
            (_, 0) => _ = varint(&mut message)?,
            (_, 1) => message = message.get(8..)?,
            (_, 2) => {
                let len = usize::try_from(varint(&mut message)?).ok()?;
                message = message.get(len..)?;
            }
            (_, 5) => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(state)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_framed() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("ab"), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        let long = request(&"x".repeat(200));
        assert_eq!((&long[..8], long.len()), (&[0, 0, 0, 0, 203, 0x0a, 0xc8, 1][..], 208));
    }

    #[test]
    fn states_are_read_and_what_is_malformed_is_none() {
        let framed = |message: &[u8]| [&[0, 0, 0, 0, message.len() as u8], message].concat();
        for (message, read) in [
            (&[][..], Some(0)),
            (&[8, 1], Some(1)),
            (&[8, 2], Some(2)),
            (&[0x12, 1, 7, 8, 1], Some(1)),
            (&[8], None),
            (&[0x12, 9, 7], None),
            (&[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], None),
            (&[0x0b], None),
        ] {
            assert_eq!(state(&framed(message)), read, "{message:?}");
        }
        // Compressed, then truncated.
        assert_eq!(state(&[1, 0, 0, 0, 2, 8, 1]), None);
        assert_eq!(state(&[0, 0, 0, 0, 2, 8]), None);
        assert_eq!(state(&[0, 0]), None);
    }
}
