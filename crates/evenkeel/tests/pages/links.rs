//! Links of pages: each leads to a page that is there, and to a heading in it.

use super::page::{Page, root};

/// Returns the links of a page that lead nowhere.
pub fn dead(page: &Page, pages: &[Page]) -> Vec<String> {
    let mut dead = Vec::new();
    for (line, target) in targets(page) {
        if target.starts_with("https://") || target.starts_with("http://") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let path = if file.is_empty() { page.path.clone() } else { beside(&page.path, file) };
        let there = root().join(&path).exists();
        let heading = anchor.is_empty()
            || pages
                .iter()
                .find(|page| page.path == path)
                .is_some_and(|page| anchors(page).iter().any(|a| a == anchor));
        if !there || !heading {
            dead.push(format!("{}:{line}: {target}", page.path));
        }
    }
    dead
}

/// Returns the pages that a page links to, by their paths from the root.
pub fn pages(page: &Page) -> impl Iterator<Item = String> {
    targets(page).into_iter().map(|(_, target)| beside(&page.path, &target)).filter(|path| path.ends_with(".md"))
}

/// The targets of `[text](target)`, with the number of the line that each begins in.
fn targets(page: &Page) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (line, text) in page.prose() {
        let mut in_code = false;
        let mut rest = text;
        while let Some(at) = rest.find(['`', ']']) {
            let (found, after) = (rest.as_bytes()[at], &rest[at + 1..]);
            if found == b'`' {
                in_code = !in_code;
            } else if let Some(target) = after.strip_prefix('(').filter(|_| !in_code).and_then(|t| t.split_once(')')) {
                targets.push((line, target.0.to_string()));
            }
            rest = after;
        }
    }
    targets
}

/// A path as a page in another folder writes it, from the root.
fn beside(page: &str, target: &str) -> String {
    let mut folders: Vec<&str> = page.split('/').collect();
    folders.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(folders.pop()),
            "." | "" => {}
            part => folders.push(part),
        }
    }
    folders.join("/")
}

/// The anchors that the headings of a page make, as GitHub makes them.
fn anchors(page: &Page) -> Vec<String> {
    let headings = page.prose().filter(|(_, line)| line.starts_with('#'));
    let mut anchors: Vec<String> = Vec::new();
    for (_, heading) in headings {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let twins = anchors.iter().filter(|other| **other == anchor).count();
        anchors.push(if twins == 0 { anchor } else { format!("{anchor}-{twins}") });
    }
    anchors
}

#[test]
fn a_link_without_a_page_or_a_heading_is_dead() {
    let page = |text: &str| Page { path: "docs/guide/udp.md".into(), text: text.into() };
    let other = Page { path: "docs/benchmarks.md".into(), text: "# Measured\n\n## DNS queries\n".into() };
    let all = |text: &str| [page(text), Page { path: other.path.clone(), text: other.text.clone() }];
    let dead = |text: &str| dead(&page(text), &all(text));
    for good in
        ["[a](../benchmarks.md)", "[a](../benchmarks.md#dns-queries)", "# It's\n[a](#its)", "[a](https://x.org)"]
    {
        assert_eq!(dead(good), Vec::<String>::new(), "{good}");
    }
    assert_eq!(dead("\n[a](../nowhere.md)"), ["docs/guide/udp.md:2: ../nowhere.md"]);
    assert_eq!(dead("[a](../benchmarks.md#udp)"), ["docs/guide/udp.md:1: ../benchmarks.md#udp"]);
    assert_eq!(dead("`[a](b)` and [c](#d)"), ["docs/guide/udp.md:1: #d"]);
}
