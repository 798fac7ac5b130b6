//! Suggestions for misspelled words: the nearest known word, if it is near enough to be a typing error.

use std::cell::Cell;

/// The word of `known` with the fewest edits from `seen` (a swap of neighbours counts as 1), if those are
/// at most a third of its letters, but at least 1.
pub fn nearest<'a>(seen: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Edit distance costs the product of the lengths, and a very long word is near nothing.
    if seen.len() > 64 {
        return None;
    }
    let seen = seen.to_lowercase().replace('-', "_");
    let distance = |word: &str| strsim::osa_distance(&seen, &word.to_lowercase().replace('-', "_"));
    let near = known.into_iter().map(|word| (distance(word), word)).min_by_key(|(edits, _)| *edits)?;
    (near.0 <= (near.1.chars().count() / 3).max(1)).then_some(near.1)
}

/// True if a single edit turns `seen` into the word.
pub(crate) fn is_slip(seen: &str, word: &str) -> bool {
    strsim::osa_distance(&seen.to_lowercase().replace('-', "_"), &word.to_lowercase().replace('-', "_")) == 1
}

/// Formats `did you mean "x"? allowed: x, y`, or only the second part.
pub(crate) fn suggest(seen: &str, known: &[&str]) -> String {
    let allowed = format!("allowed: {}", known.join(", "));
    match nearest(seen, known.iter().copied()) {
        Some(word) => format!("did you mean \"{word}\"? {allowed}"),
        None => allowed,
    }
}

/// User-defined names, possibly thousands, with as many misspelled references.
pub(crate) struct Names<'a> {
    known: Vec<&'a str>,
    searches: Cell<u32>,
}

/// Most names listed in advice.
const LISTED: usize = 20;

/// Most searches per file. Each looks at every name, and a wrongly generated file may misspell all of them.
const SEARCHES_MAX: u32 = 100;

impl<'a> Names<'a> {
    /// Collects the known names.
    pub fn new(known: impl IntoIterator<Item = &'a str>) -> Names<'a> {
        Names { known: known.into_iter().collect(), searches: Cell::new(0) }
    }

    /// Advice for an unknown name; `add` if no name is known.
    pub fn suggest(&self, seen: &str, add: &str) -> String {
        if self.known.is_empty() {
            return add.to_string();
        }
        let searches = self.searches.replace(self.searches.get() + 1);
        let near = (searches < SEARCHES_MAX).then(|| nearest(seen, self.known.iter().copied())).flatten();
        let did = near.map(|word| format!("did you mean \"{word}\"? ")).unwrap_or_default();
        let more = match self.known.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        format!("{did}allowed: {}{more}", self.known[..self.known.len().min(LISTED)].join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_the_first_are_listed() {
        let known: Vec<String> = (0..1000).map(|n| format!("pool-{n}")).collect();
        let names = Names::new(known.iter().map(String::as_str));
        let said = names.suggest("pol-7", "add it");
        assert!(said.starts_with("did you mean \"pool-7\"? allowed: pool-0, pool-1,"), "{said}");
        assert!(said.ends_with("pool-19, and 980 more"), "{said}");
        (0..SEARCHES_MAX).for_each(|_| drop(names.suggest("pol-7", "add it")));
        assert!(names.suggest("pol-7", "add it").starts_with("allowed: "), "the search ends some time");
        assert_eq!(Names::new([]).suggest("x", "add it"), "add it");
    }

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
