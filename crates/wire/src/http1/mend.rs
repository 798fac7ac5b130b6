//! How does an endpoint's response become one that can be read? White space before the colon of a field is taken out, as
//! proxies have to do (RFC 9112 section 5.1); in a request it is refused.
//!
//! Asked only when a head was refused: good ones pay nothing for it.

use super::{Limits, Reject, head_len};

/// The head in the place of that at the front of `bytes`, and the length of the latter; `None` if nothing can be mended.
#[cold]
pub fn mend(bytes: &[u8], refused: Reject, limits: &Limits) -> Option<(usize, Vec<u8>)> {
    if refused != Reject::Malformed {
        return None;
    }
    let len = head_len(bytes, limits).ok()??;
    let mut head = Vec::with_capacity(len);
    for (at, line) in bytes[..len].split_inclusive(|&b| b == b'\n').enumerate() {
        // A line that begins with white space belongs to the one before.
        let is_field = at > 0 && !line.starts_with(b" ") && !line.starts_with(b"\t");
        let colon = line.iter().position(|&b| b == b':').filter(|_| is_field).unwrap_or(0);
        head.extend_from_slice(line[..colon].trim_ascii_end());
        head.extend_from_slice(&line[colon..]);
    }
    (head.len() < len).then_some((len, head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_before_a_colon_is_taken_out_and_nothing_else() {
        let mend = |head: &str| {
            let (len, mended) = mend(head.as_bytes(), Reject::Malformed, &Limits::default())?;
            Some((head[..len].to_string(), String::from_utf8(mended).expect("the test sends text")))
        };
        let head = "HTTP/1.1 200 a : b\r\nA \t: b : c\r\nB: c\r\n\r\n";
        let mended = "HTTP/1.1 200 a : b\r\nA: b : c\r\nB: c\r\n\r\n";
        assert_eq!(mend(&format!("{head}d : e\r\n")), Some((head.to_string(), mended.to_string())));
        for good in ["HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n c : d\r\n\r\n"] {
            assert_eq!(mend(good), None, "{good:?}");
        }
        assert_eq!(mend("HTTP/1.1 200 OK\r\nA : b\r\n"), None, "the rest is still to come");
    }
}
