//! Comma-separated lists (RFC 9110 section 5.6.1), in which commas within quotes separate nothing.

/// Members of a list, without surrounding white space and without empty members.
///
/// A quote that is never closed extends to the end of the value.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let all = rest?;
        let end = end_of_member(all);
        rest = all.get(end + 1..);
        Some(all[..end].trim_ascii())
    })
    .filter(|member| !member.is_empty())
}

/// Members of a list without quoted strings, as names of fields.
pub fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|b| *b == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// True if `name` is the name `ours` in any case, with `_` and `-` taken for the same: servers that turn fields into variables
/// (CGI) confuse the two.
pub fn is_like(name: &[u8], ours: &[u8]) -> bool {
    let alike = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b) || matches!((a, b), (b'_', b'-') | (b'-', b'_'));
    name.len() == ours.len() && name.iter().zip(ours).all(alike)
}

/// Position of the first comma outside of quotes, or the length without a comma.
pub(crate) fn end_of_member(bytes: &[u8]) -> usize {
    let (mut quoted, mut at) = (false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            b',' if !quoted => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Vec<&str> {
        members(value.as_bytes()).map(|member| std::str::from_utf8(member).unwrap()).collect()
    }

    #[test]
    fn commas_separate_members_unless_they_are_quoted() {
        assert_eq!(of("a, b=\"1, 2\" ,,c"), ["a", "b=\"1, 2\"", "c"]);
        assert_eq!(of("a=\"\\\", b\", c"), ["a=\"\\\", b\"", "c"]);
        assert_eq!(of("a=\"b, c"), ["a=\"b, c"]);
        assert_eq!(of("a=\"b\\"), ["a=\"b\\"]);
        assert_eq!(of(" , "), [""; 0]);
    }
}
