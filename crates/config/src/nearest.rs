//! Which known word was meant? The nearest one, if it is near enough to be a slip of the fingers.

/// The word of `known` with the fewest edits from `seen` (a swap of neighbours counts as one), if those are at most
/// a third of its letters, but at least one and for short words two at most.
pub(crate) fn nearest<'a>(seen: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Edit distance costs the product of the lengths: a very long word is near nothing.
    if seen.len() > 64 {
        return None;
    }
    let seen = seen.to_lowercase().replace('-', "_");
    let distance = |word: &str| strsim::osa_distance(&seen, &word.to_lowercase().replace('-', "_"));
    let near = known.into_iter().map(|word| (distance(word), word)).min_by_key(|(edits, _)| *edits)?;
    (near.0 <= (near.1.chars().count() / 3).max(1)).then_some(near.1)
}

/// `did you mean "x"? allowed: x, y`, or only the second part.
pub(crate) fn suggest(seen: &str, known: &[&str]) -> String {
    let allowed = format!("allowed: {}", known.join(", "));
    match nearest(seen, known.iter().copied()) {
        Some(word) => format!("did you mean \"{word}\"? {allowed}"),
        None => allowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_nothing_far() {
        let known = ["leastconn", "random", "first", "tls"];
        assert_eq!(nearest("lestconn", known), Some("leastconn"));
        assert_eq!(nearest("Least-Conn", known), Some("leastconn"));
        assert_eq!(nearest("frist", known), Some("first"));
        assert_eq!(nearest("xyz", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"a".repeat(1000), known), None);
    }
}
