//! Host names of listeners and Routes: `web.example.com`, and `*.example.com` for every host below it.

use std::cmp::Reverse;

/// Hosts that both match; `None` if there are none. No name stands for every host.
pub fn both(a: Option<&str>, b: Option<&str>) -> Option<Option<String>> {
    match (a, b) {
        (None, other) | (other, None) => Some(other.map(str::to_ascii_lowercase)),
        (Some(a), Some(b)) => {
            let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
            if covers(&a, &b) {
                Some(Some(b))
            } else if covers(&b, &a) {
                Some(Some(a))
            } else {
                None
            }
        }
    }
}

/// True if `outer` includes every host of `inner`.
pub fn covers(outer: &str, inner: &str) -> bool {
    match outer.strip_prefix('*') {
        None => outer == inner,
        // `.example.com`, which has to be the end of a longer name.
        Some(end) => inner.strip_suffix(end).is_some_and(|rest| !rest.is_empty()),
    }
}

/// Sort key of patterns. The first pattern that matches is the most specific: exact names, longer wildcards, every
/// host.
pub fn specificity(host: Option<&str>) -> (u8, Reverse<usize>) {
    match host {
        Some(host) if host.starts_with('*') => (1, Reverse(host.len())),
        Some(_) => (0, Reverse(0)),
        None => (2, Reverse(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_both_are_the_narrower_ones() {
        let both = |a: &str, b: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            both(some(a).as_deref(), some(b).as_deref()).map(Option::unwrap_or_default)
        };
        for (a, b, expected) in [
            ("", "", Some("")),
            ("", "*.a.com", Some("*.a.com")),
            ("web.a.com", "", Some("web.a.com")),
            ("*.a.com", "web.a.com", Some("web.a.com")),
            ("*.a.com", "x.web.a.com", Some("x.web.a.com")),
            ("*.com", "*.a.com", Some("*.a.com")),
            ("*.a.com", "a.com", None),
            ("*.a.com", "web.b.com", None),
            ("web.a.com", "WEB.a.com", Some("web.a.com")),
            ("web.a.com", "api.a.com", None),
        ] {
            assert_eq!(both(a, b).as_deref(), expected, "{a} {b}");
            assert_eq!(both(b, a).as_deref(), expected, "{b} {a}");
        }
    }

    #[test]
    fn the_most_specific_comes_first() {
        let mut hosts = [None, Some("*.com"), Some("*.a.com"), Some("web.a.com")];
        hosts.reverse();
        hosts.sort_by_key(|host| specificity(*host));
        assert_eq!(hosts, [Some("web.a.com"), Some("*.a.com"), Some("*.com"), None]);
    }
}
