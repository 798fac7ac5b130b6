//! Repairs of endpoint responses. White space before the colon of a field is removed, as proxies have to do (RFC 9112
//! section 5.1); in a request it is refused. Faults of old servers are repaired where the pool tolerates them: the
//! response is forwarded as it was meant, in the form that the grammar requires. Empty lines before a response, which
//! some servers send after the previous response, are removed too.
//!
//! Called only after a head was refused, so valid heads do not pay for it.

use super::fields::list;
use super::tolerance::{Tolerance, Tolerated};
use super::{Limits, Reject, head_len, leading_empty_lines};

/// Repair of a head that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mended {
    /// Replaces this many bytes at the start by others.
    Head(usize, Vec<u8>),
    /// More bytes have to be read before a repair.
    More,
}

/// The tolerance with which pools can allow this refusal, if any.
pub fn switch(refused: Reject) -> Option<Tolerance> {
    match refused {
        Reject::BareLf => Some(Tolerance::BareLfHead),
        Reject::Folded => Some(Tolerance::FoldedFields),
        Reject::SameLengthRepeated => Some(Tolerance::DuplicateContentLength),
        Reject::ChunkedRepeated => Some(Tolerance::DuplicateChunked),
        Reject::Identity => Some(Tolerance::Identity),
        Reject::ChunkPadding => Some(Tolerance::ChunkSizePadding),
        _ => None,
    }
}

/// Repairs the refused head at the start of `bytes`. Each repair changes something that the next reading would refuse
/// too, so a few of them end with a valid head or an error.
///
/// # Errors
/// If it cannot be repaired, or must not be: then the reason has a [`switch`].
#[cold]
pub fn mend(bytes: &[u8], refused: Reject, limits: &Limits, tolerated: Tolerated) -> Result<Mended, Reject> {
    let allowed = |why: Reject| match switch(why) {
        Some(fault) if !tolerated.has(fault) => Err(why),
        _ => Ok(()),
    };
    if refused == Reject::BareLf {
        allowed(refused)?;
        let bytes = &bytes[..bytes.len().min(limits.head)];
        return match any_head_len(bytes) {
            Some(len) => changed(&bytes[..len], with_whole_line_ends(&bytes[..len]), refused),
            None if bytes.len() == limits.head => Err(Reject::HeadTooLarge),
            None => Ok(Mended::More),
        };
    }
    let Ok(Some(len)) = head_len(bytes, limits) else { return Err(refused) };
    let empty = leading_empty_lines(bytes);
    if empty > 0 {
        return Ok(Mended::Head(empty, Vec::new()));
    }
    let head = &bytes[..len];
    let mended = match refused {
        Reject::Malformed => {
            let (mended, folded) = unfolded(head);
            if folded {
                allowed(Reject::Folded)?;
            }
            mended
        }
        Reject::LengthRepeated => {
            let mut lengths = values(head, "content-length");
            let first = lengths.next().ok_or(refused)?;
            // A comma without a second length repeats nothing.
            if lengths.next() != Some(first) || lengths.any(|other| other != first) {
                return Err(refused);
            }
            allowed(Reject::SameLengthRepeated)?;
            let mut mended = without(head, "content-length");
            mended.truncate(mended.len() - 2);
            mended.extend_from_slice(&[b"Content-Length: ", first, b"\r\n\r\n"].concat());
            mended
        }
        Reject::TransferEncoding => {
            // A single `chunked` is meant, as nothing can be chunked twice (RFC 9112 section 7.1).
            if values(head, "transfer-encoding").any(|coding| !coding.eq_ignore_ascii_case(b"chunked")) {
                return Err(refused);
            }
            allowed(Reject::ChunkedRepeated)?;
            let mut mended = without(head, "transfer-encoding");
            mended.truncate(mended.len() - 2);
            mended.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            mended
        }
        Reject::NotChunkedLast | Reject::LengthAndChunked | Reject::TransferEncodingIn10 => {
            let mut codings = values(head, "transfer-encoding").map(|coding| coding.eq_ignore_ascii_case(b"identity"));
            // There may be no codings at all.
            if codings.next() != Some(true) || codings.any(|is_identity| !is_identity) {
                return Err(refused);
            }
            allowed(Reject::Identity)?;
            without(head, "transfer-encoding")
        }
        _ => return Err(refused),
    };
    changed(head, mended, refused)
}

/// Refuses a head that no repair has changed, as it would be refused forever.
fn changed(head: &[u8], mended: Vec<u8>, refused: Reject) -> Result<Mended, Reject> {
    if mended == head { Err(refused) } else { Ok(Mended::Head(head.len(), mended)) }
}

/// Returns the length of a head whose lines may end in LF alone. As for a valid head, empty lines before it do not end
/// it.
fn any_head_len(bytes: &[u8]) -> Option<usize> {
    let (mut len, mut began) = (0, false);
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        len += line.len();
        let is_empty = matches!(line, b"\n" | b"\r\n");
        if is_empty && began {
            return Some(len);
        }
        began |= !is_empty;
    }
    None
}

fn with_whole_line_ends(head: &[u8]) -> Vec<u8> {
    let mut mended = Vec::with_capacity(head.len() + 32);
    for line in head.split_inclusive(|&b| b == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        mended.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
        mended.extend_from_slice(b"\r\n");
    }
    mended
}

/// Returns the head with each field on a single line and without white space before colons, and true if a field spanned
/// several lines.
fn unfolded(head: &[u8]) -> (Vec<u8>, bool) {
    let (before, head) = head.split_at(head.iter().position(|b| !b"\r\n".contains(b)).unwrap_or(0));
    let (mut mended, mut folded) = (before.to_vec(), false);
    for (at, line) in lines_of(head).enumerate() {
        let is_indented = line.starts_with(b" ") || line.starts_with(b"\t");
        if at > 1 && is_indented {
            folded = true;
            mended.truncate(mended.trim_ascii_end().len());
            mended.push(b' ');
            mended.extend_from_slice(line.trim_ascii_start());
            if line.trim_ascii().is_empty() {
                mended.extend_from_slice(b"\r\n");
            }
            continue;
        }
        // The first line is not a field, and a line that begins with white space belongs to no field.
        let is_field = at > 0 && !is_indented;
        let colon = line.iter().position(|&b| b == b':').filter(|_| is_field).unwrap_or(0);
        mended.extend_from_slice(line[..colon].trim_ascii_end());
        mended.extend_from_slice(&line[colon..]);
    }
    (mended, folded)
}

/// Returns the elements of all fields of this name. The head was read before, so each field is a single line.
fn values<'h>(head: &'h [u8], name: &'static str) -> impl Iterator<Item = &'h [u8]> {
    lines_of(head).filter_map(move |line| value(line, name)).flat_map(list)
}

/// Returns the head without the fields of this name.
fn without(head: &[u8], name: &str) -> Vec<u8> {
    lines_of(head).filter(|line| value(line, name).is_none()).flatten().copied().collect()
}

fn lines_of(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split_inclusive(|&b| b == b'\n')
}

fn value<'l>(line: &'l [u8], name: &str) -> Option<&'l [u8]> {
    let (before, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":").filter(|_| before.eq_ignore_ascii_case(name.as_bytes()))?;
    Some(value.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Room;
    use crate::http1::Response;
    use crate::http1::response::RequestContext;

    const ALL: [Tolerance; 6] = Tolerance::ALL;

    /// Reads and repairs a head until it is valid. Returns it with everything after it, or the reason of the refusal.
    fn read(bytes: &str, tolerated: &[Tolerance]) -> Result<Option<String>, Reject> {
        let tolerated = tolerated.iter().fold(Tolerated::default(), |set, fault| set.with(*fault));
        let (mut bytes, mut room, limits) = (bytes.as_bytes().to_vec(), Room::new(), Limits::default());
        for _ in 0..8 {
            let refused = match Response::read(&bytes, &mut room, RequestContext::default(), &limits) {
                Ok(whole) => return Ok(whole.map(|_| String::from_utf8(bytes.clone()).expect("the test sends text"))),
                Err(refused) => refused,
            };
            match mend(&bytes, refused, &limits, tolerated)? {
                Mended::Head(len, head) => drop(bytes.splice(..len, head)),
                Mended::More => return Ok(None),
            }
        }
        panic!("mended for ever: {}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn white_space_before_a_colon_is_taken_out_and_nothing_else() {
        let head = "HTTP/1.1 200 a : b\r\nA \t: b : c\r\nB: c\r\n\r\nd : e\r\n";
        let mended = "HTTP/1.1 200 a : b\r\nA: b : c\r\nB: c\r\n\r\nd : e\r\n";
        assert_eq!(read(head, &[]), Ok(Some(mended.to_string())));
        assert_eq!(read("HTTP/1.1 200 OK\r\nA : b\r\n", &[]), Ok(None), "the rest is still to come");
        assert_eq!(read("HTTP/1.1 200 OK\r\n : b\r\n\r\n", &ALL), Err(Reject::Malformed));
    }

    #[test]
    fn each_fault_is_repaired_by_its_switch_and_refused_without() {
        let rows = [
            (
                Tolerance::BareLfHead,
                "HTTP/1.1 200 OK\nA: b\r\nC: d\n\nrest\n",
                "HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n\r\nrest\n",
            ),
            (
                Tolerance::FoldedFields,
                "HTTP/1.1 200 OK\r\nA: b \r\n\t c\r\n d\r\n\r\n",
                "HTTP/1.1 200 OK\r\nA: b c d\r\n\r\n",
            ),
            (Tolerance::FoldedFields, "HTTP/1.1 200 OK\r\nA: b\r\n \r\n\r\n", "HTTP/1.1 200 OK\r\nA: b \r\n\r\n"),
            (
                Tolerance::DuplicateContentLength,
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\ncontent-length: 2, 2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\nok",
            ),
            (
                Tolerance::DuplicateChunked,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\nTransfer-Encoding: Chunked, chunked\r\n\r\n0",
                "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n0",
            ),
            (
                Tolerance::Identity,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nok",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            ),
            (
                Tolerance::Identity,
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: Identity\r\n\r\nok",
                "HTTP/1.0 200 OK\r\n\r\nok",
            ),
        ];
        for (fault, bytes, mended) in rows {
            assert_eq!(read(bytes, &[fault]), Ok(Some(mended.to_string())), "{bytes:?}");
            let others: Vec<Tolerance> = ALL.into_iter().filter(|other| *other != fault).collect();
            assert_eq!(read(bytes, &others).map_err(switch), Err(Some(fault)), "{bytes:?}");
        }
        let both = "HTTP/1.1 200 OK\nA : b\n c\nTransfer-Encoding: identity\n\n";
        assert_eq!(read(both, &ALL), Ok(Some("HTTP/1.1 200 OK\r\nA: b c\r\n\r\n".to_string())));
    }

    #[test]
    fn empty_lines_before_a_head_end_none() {
        let good = "\r\nHTTP/1.1 200 a : b\r\nA: b\r\n\r\n";
        let expected = read(good, &[]);
        for bytes in [
            "\r\nHTTP/1.1 200 a : b\nA: b\n\n",
            "\nHTTP/1.1 200 a : b\r\nA: b\r\n\r\n",
            "\r\nHTTP/1.1 200 a : b\r\nA : b\r\n\r\n",
            "\r\nHTTP/1.1 200 a : b\r\nA:\r\n b\r\n\r\n",
        ] {
            assert_eq!(read(bytes, &ALL), expected, "{bytes:?}");
        }
        assert_eq!(read("\r\nHTTP/1.1 2Trclsf\n\r\n", &ALL), Err(Reject::Malformed));
        assert_eq!(read("\n\r\n", &ALL), Ok(None));
    }

    #[test]
    fn what_could_mean_two_things_stays_refused() {
        for (bytes, why) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", Reject::LengthRepeated),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\n", Reject::LengthRepeated),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, chunked\r\n\r\n", Reject::TransferEncoding),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n", Reject::LengthAndChunked),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: ,\r\n\r\n", Reject::NotChunkedLast),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip, chunked\r\n\r\n", Reject::TransferEncoding),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
                Reject::LengthAndChunked,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5,\r\n\r\n", Reject::LengthRepeated),
            ("HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", Reject::Malformed),
            ("HTTP/1.1 200 OK\n A: b\n\n", Reject::Malformed),
        ] {
            assert_eq!(read(bytes, &ALL), Err(why), "{bytes:?}");
        }
        assert_eq!(read("HTTP/1.1 200 OK\nA: b\n", &ALL), Ok(None));
        assert_eq!(read(&format!("HTTP/1.1 200 OK\nA: {}", "b".repeat(20_000)), &ALL), Err(Reject::HeadTooLarge));
    }
}
