//! Lines of fields that filters add to a head, each with its line end, and comparison of field names.

/// Name and value of each line.
pub fn each(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split_inclusive(|b| *b == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// True if a line has this field name.
pub fn has(lines: &[u8], name: &[u8]) -> bool {
    each(lines).any(|(other, _)| other.eq_ignore_ascii_case(name))
}

/// True if `name` is the field `ours`, in any case, or has `_` for `-`: servers that turn fields into variables (CGI)
/// confuse the names.
pub fn is_like(name: &[u8], ours: &[u8]) -> bool {
    let alike = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b) || (*a == b'_' && *b == b'-');
    name.len() == ours.len() && name.iter().zip(ours).all(alike)
}

/// Removes the lines for whose name and value `keeps` is false.
pub fn retain(lines: &mut Vec<u8>, mut keeps: impl FnMut(&[u8], &[u8]) -> bool) {
    let (mut from, mut to) = (0, 0);
    while from < lines.len() {
        let len = memchr::memchr(b'\n', &lines[from..]).map_or(lines.len() - from, |at| at + 1);
        if each(&lines[from..from + len]).all(|(name, value)| keeps(name, value)) {
            lines.copy_within(from..from + len, to);
            to += len;
        }
        from += len;
    }
    lines.truncate(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_stay_are_removed_in_place() {
        let mut lines = b"a: 1\r\nB:  2 \r\nc: 3:4\r\n".to_vec();
        assert_eq!(each(&lines).collect::<Vec<_>>(), [(&b"a"[..], &b"1"[..]), (b"B", b"2"), (b"c", b"3:4")]);
        retain(&mut lines, |name, value| name != b"B" || value != b"2");
        assert_eq!(lines, b"a: 1\r\nc: 3:4\r\n");
        retain(&mut lines, |name, _| name == b"c");
        assert_eq!(lines, b"c: 3:4\r\n");
        retain(&mut lines, |_, _| false);
        assert!(lines.is_empty());
    }
}
