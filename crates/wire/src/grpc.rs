//! The HTTP fields of gRPC: deadline, status and message (PROTOCOL-HTTP2.md of gRPC), and their equivalents in HTTP
//! where a side does not speak gRPC.

mod status;

pub use status::Status;

use std::time::Duration;

/// Content type of a gRPC response without a message.
pub const MEDIA_TYPE: &str = "application/grpc";

/// Field with the time that the client waits for the call.
pub const TIMEOUT: &str = "grpc-timeout";

/// Field with the status of the call: in trailers, or in the head of a response that has nothing else.
pub const STATUS: &str = "grpc-status";

/// Field with the reason of the status, for people.
pub const MESSAGE: &str = "grpc-message";

/// Field with the milliseconds after which the client may retry (gRFC A6).
pub const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// True if this is the content type of a gRPC call. `application/grpc-web` is another protocol.
pub fn is_grpc(media_type: &[u8]) -> bool {
    let Some(rest) = media_type.get(MEDIA_TYPE.len()..) else { return false };
    media_type[..MEDIA_TYPE.len()].eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
        && (rest.is_empty() || b"+; ".contains(&rest[0]))
}

/// Reads a deadline of one to eight digits and a unit; `None` if malformed.
pub fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n = digits.iter().fold(0u64, |n, digit| n * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(n * 3600)),
        b'M' => Some(Duration::from_secs(n * 60)),
        b'S' => Some(Duration::from_secs(n)),
        b'm' => Some(Duration::from_millis(n)),
        b'u' => Some(Duration::from_micros(n)),
        b'n' => Some(Duration::from_nanos(n)),
        _ => None,
    }
}

/// Appends a deadline in the finest unit that has room for it, rounded down, so that an endpoint never has more time
/// than its client.
pub fn write_timeout(left: Duration, out: &mut Vec<u8>) {
    let (secs, nanos) = (left.as_secs(), u64::from(left.subsec_nanos()));
    // At most eight digits.
    let (mut number, unit) = match secs {
        0 if nanos < 100_000_000 => (nanos, b'n'),
        0..100 => (secs * 1_000_000 + nanos / 1_000, b'u'),
        100..100_000 => (secs * 1_000 + nanos / 1_000_000, b'm'),
        100_000..100_000_000 => (secs, b'S'),
        _ => ((secs / 3600).min(99_999_999), b'H'),
    };
    let (mut digits, mut at) = ([b'0'; 8], 8);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 || at == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.push(unit);
}

/// Reads a status code. A value that is not a number, or an unknown code, is [`Status::Unknown`].
pub fn status(value: &[u8]) -> Status {
    let code = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    code.and_then(Status::of_code).unwrap_or(Status::Unknown)
}

/// Returns the gRPC status of a call that is answered with this HTTP status.
pub fn of_http(status: u16) -> Status {
    match status {
        200..=299 => Status::Ok,
        401 => Status::Unauthenticated,
        403 => Status::PermissionDenied,
        404 => Status::Unimplemented,
        408 | 504 => Status::DeadlineExceeded,
        413 | 429 | 431 => Status::ResourceExhausted,
        502 | 503 => Status::Unavailable,
        400..=599 => Status::Internal,
        _ => Status::Unknown,
    }
}

/// Returns the HTTP status equivalent to a gRPC status, for outlier detection. The mapping is Envoy's.
pub fn to_http(status: Status) -> u16 {
    match status {
        Status::Ok => 200,
        Status::Cancelled => 499,
        Status::InvalidArgument | Status::FailedPrecondition | Status::OutOfRange => 400,
        Status::Unauthenticated => 401,
        Status::PermissionDenied => 403,
        Status::NotFound => 404,
        Status::AlreadyExists | Status::Aborted => 409,
        Status::ResourceExhausted => 429,
        Status::Unknown | Status::Internal | Status::DataLoss => 500,
        Status::Unimplemented => 501,
        Status::Unavailable => 503,
        Status::DeadlineExceeded => 504,
    }
}

/// Encodes a message as a field value: bytes that are not printable ASCII, and the percent sign, are percent-encoded.
pub fn message(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.trim_end().bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Decodes such a field value. Malformed percent-encoding is kept as it is.
pub fn message_text(value: &[u8]) -> String {
    let digit = |at: usize| value.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(value.len()), 0);
    while let Some(&byte) = value.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_type() {
        for (media_type, is) in [
            ("application/grpc", true),
            ("Application/GRPC+proto", true),
            ("application/grpc;charset=x", true),
            ("application/grpc-web", false),
            ("application/grpcx", false),
            ("application/grp", false),
            ("", false),
        ] {
            assert_eq!(is_grpc(media_type.as_bytes()), is, "{media_type}");
        }
    }

    #[test]
    fn deadlines_are_read_and_written() {
        for (text, nanos) in [
            ("1H", Some(3_600_000_000_000)),
            ("2M", Some(120_000_000_000)),
            ("99999999S", Some(99_999_999_000_000_000)),
            ("100m", Some(100_000_000)),
            ("7u", Some(7_000)),
            ("0n", Some(0)),
            ("100000000n", None),
            ("1", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1.5S", None),
            ("1s", None),
            (" 1S", None),
        ] {
            assert_eq!(timeout(text.as_bytes()).map(|left| left.as_nanos()), nanos, "{text}");
        }
        for (left, text) in [
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_nanos(100_000_999), "100000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(100_000_000), "27777H"),
            (Duration::MAX, "99999999H"),
            (Duration::ZERO, "0n"),
        ] {
            let mut written = Vec::new();
            write_timeout(left, &mut written);
            assert_eq!(String::from_utf8_lossy(&written), text);
            assert!(timeout(text.as_bytes()).is_some_and(|read| read <= left), "{text}");
        }
    }

    #[test]
    fn statuses_of_both_protocols_stand_for_each_other() {
        assert_eq!(
            [&b"14"[..], b"0", b"17", b"x", b""].map(status),
            [Status::Unavailable, Status::Ok, Status::Unknown, Status::Unknown, Status::Unknown]
        );
        for (http, grpc) in
            [(503, Status::Unavailable), (504, Status::DeadlineExceeded), (429, Status::ResourceExhausted)]
        {
            assert_eq!((of_http(http), to_http(grpc)), (grpc, http));
        }
        assert_eq!(
            [404, 400, 500, 508, 600].map(of_http),
            [Status::Unimplemented, Status::Internal, Status::Internal, Status::Internal, Status::Unknown]
        );
    }

    #[test]
    fn messages_are_values_of_fields() {
        assert_eq!(message("50% of \u{e9}\r\n"), "50%25 of %C3%A9");
        assert_eq!(message("a\r\nb: c"), "a%0D%0Ab: c");
        for text in ["50% of \u{e9}", "a\r\nb: c", ""] {
            assert_eq!(message_text(message(text).as_bytes()), text);
        }
        assert_eq!([&b"100%"[..], b"%g0%2", b"%ff"].map(message_text), ["100%", "%g0%2", "\u{fffd}"]);
    }
}
