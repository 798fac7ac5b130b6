//! Checks of a path that a rewrite or a prefix has made: a request target that leads no reader out of its folder.

use std::fmt;

/// Longest path that a rewrite makes, in bytes.
pub const PATH_MAX: usize = 8 * 1024;

/// Reason why a path cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// No slash at the beginning.
    NoSlash,
    /// A space, a control character, `?`, `#`, or a byte beyond ASCII.
    Character,
    /// A segment `..`, which leads out of the folder that was meant.
    Parent,
    /// More than [`PATH_MAX`] bytes.
    TooLong,
}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsendable::NoSlash => "it does not begin with a slash",
            Unsendable::Character => "it has characters that a path cannot have",
            Unsendable::Parent => "it has a segment \"..\"",
            Unsendable::TooLong => "it is too long",
        })
    }
}

/// Returns the path as text if it can be sent.
///
/// # Errors
/// The reason why it cannot.
pub fn checked(path: &[u8]) -> Result<&str, Unsendable> {
    match path {
        _ if path.len() > PATH_MAX => Err(Unsendable::TooLong),
        [b'/', ..] if !path.iter().all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#')) => {
            Err(Unsendable::Character)
        }
        [b'/', ..] if leads_up(path) => Err(Unsendable::Parent),
        [b'/', ..] => std::str::from_utf8(path).map_err(|_| Unsendable::Character),
        _ => Err(Unsendable::NoSlash),
    }
}

/// Returns a path with its query as text, if it can be sent.
///
/// # Errors
/// The reason why it cannot.
pub fn checked_target(target: &[u8]) -> Result<&str, Unsendable> {
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    checked(&target[..end])?;
    match &target[end..] {
        _ if target.len() > PATH_MAX => Err(Unsendable::TooLong),
        query if !query.iter().all(|b| b.is_ascii_graphic() && *b != b'#') => Err(Unsendable::Character),
        _ => std::str::from_utf8(target).map_err(|_| Unsendable::Character),
    }
}

/// Appends a target with a prefix before its path, which stays byte for byte, as does the query. A target that is no
/// path, as `*`, appends nothing.
///
/// # Errors
/// The path cannot follow the prefix.
pub fn prefixed(prefix: &str, target: &[u8], out: &mut Vec<u8>) -> Result<(), Unsendable> {
    if !target.starts_with(b"/") {
        return Ok(());
    }
    let (start, path) = (out.len(), target.split(|b| *b == b'?').next().unwrap_or_default());
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(path);
    checked(&out[start..])?;
    out.extend_from_slice(&target[path.len()..]);
    Ok(())
}

/// True if a reader that decodes the path may find a segment `..`. Some also take a backslash for a slash, and leave
/// out the text after a semicolon.
fn leads_up(path: &[u8]) -> bool {
    let (mut at, mut dots, mut others, mut is_over) = (0, 0, false, false);
    while at < path.len() {
        let (byte, len) = decoded(&path[at..]);
        at += len;
        match byte {
            b'/' | b'\\' => {
                if dots == 2 && !others {
                    return true;
                }
                (dots, others, is_over) = (0, false, false);
            }
            b';' => is_over = true,
            _ if is_over => {}
            b'.' => dots += 1,
            _ => others = true,
        }
    }
    dots == 2 && !others
}

/// The first byte, decoded if it is an escape, and its length in the path.
fn decoded(path: &[u8]) -> (u8, usize) {
    let digit = |b: u8| char::from(b).to_digit(16);
    if let [b'%', high, low, ..] = *path
        && let (Some(high), Some(low)) = (digit(high), digit(low))
    {
        return ((high * 16 + low) as u8, 3);
    }
    (path[0], 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every path of up to six of these parts, against a reader that decodes first and splits then.
    #[test]
    fn no_combination_of_escapes_hides_a_parent() {
        const PARTS: [&str; 9] = ["/", ".", "%2e", "%2F", "\\", "%5c", ";", "a", "%"];
        let naive = |path: &str| {
            let decoded = path.replace("%2e", ".").replace("%2F", "/").replace("%5c", "\\");
            decoded.split(['/', '\\']).any(|segment| segment.split(';').next() == Some(".."))
        };
        for number in 0..PARTS.len().pow(6) {
            let (mut path, mut left) = ("/".to_string(), number);
            while left > 0 {
                path.push_str(PARTS[left % PARTS.len()]);
                left /= PARTS.len();
            }
            assert_eq!(leads_up(path.as_bytes()), naive(&path), "{path}");
        }
    }

    #[test]
    fn a_target_is_a_path_that_can_be_sent_and_a_query_without_fragment() {
        for good in ["/", "/a?", "/a?b=/../c&d?e", "/%2e?%"] {
            assert_eq!(checked_target(good.as_bytes()), Ok(good), "{good}");
        }
        for (bad, why) in [
            ("?a", Unsendable::NoSlash),
            ("*", Unsendable::NoSlash),
            ("//a/../b?c", Unsendable::Parent),
            ("/a?b c", Unsendable::Character),
            ("/a?b#c", Unsendable::Character),
            ("/a?b\r\nX: y", Unsendable::Character),
            (&format!("/?{}", "a".repeat(PATH_MAX)), Unsendable::TooLong),
        ] {
            assert_eq!(checked_target(bad.as_bytes()), Err(why), "{bad}");
        }
    }

    #[test]
    fn a_path_that_could_lead_out_of_its_folder_cannot_be_sent() {
        for good in [
            "/", "/a", "/a//b", "/a/.", "/a/...", "/.a", "/..a", "/a..", "/%2e", "/a%2Fb", "/a;..", "/%", "/%2", "/.",
            "//", "//a/x",
        ] {
            assert_eq!(checked(good.as_bytes()), Ok(good), "{good}");
        }
        for (bad, why) in [
            ("", Unsendable::NoSlash),
            ("a", Unsendable::NoSlash),
            ("http://a/", Unsendable::NoSlash),
            ("/a b", Unsendable::Character),
            ("/a\r\nX: y", Unsendable::Character),
            ("/a\0", Unsendable::Character),
            ("/a?b", Unsendable::Character),
            ("/a#b", Unsendable::Character),
            ("/\u{e4}", Unsendable::Character),
            ("/..", Unsendable::Parent),
            ("/a/../b", Unsendable::Parent),
            ("/a/..%2Fb", Unsendable::Parent),
            ("/a%2f..%2Fb", Unsendable::Parent),
            ("/%2e%2E/b", Unsendable::Parent),
            ("/.%2e", Unsendable::Parent),
            ("/a/..\\b", Unsendable::Parent),
            ("/a/..%5cb", Unsendable::Parent),
            ("/a/..;x=1/b", Unsendable::Parent),
            ("/a/..;", Unsendable::Parent),
        ] {
            assert_eq!(checked(bad.as_bytes()), Err(why), "{bad:?}");
        }
        assert_eq!(checked(format!("/{}", "a".repeat(PATH_MAX)).as_bytes()), Err(Unsendable::TooLong));
    }
}
