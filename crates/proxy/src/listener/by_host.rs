//! Map from host patterns to values: exact hosts, and wildcards by suffix. A lookup tries the exact host, then the
//! suffixes, longest first: a probe per label of the host, regardless of the number of wildcards.

use evenkeel_config::plan::HostPattern;
use std::collections::HashMap;

/// Values by host pattern: an exact name or a wildcard.
#[derive(Debug)]
pub struct ByHost<T> {
    exact: HashMap<Box<[u8]>, T>,
    /// Values of wildcards, by suffix (`.example.com`).
    wildcard: HashMap<Box<[u8]>, T>,
    /// Bytes of the longest suffix. Bounds the work that a client can cause with a long host.
    suffix_max: usize,
}

impl<T> Default for ByHost<T> {
    fn default() -> ByHost<T> {
        ByHost { exact: HashMap::new(), wildcard: HashMap::new(), suffix_max: 0 }
    }
}

impl<T> ByHost<T> {
    /// True if it has no patterns.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcard.is_empty()
    }

    /// Returns the value of a pattern, inserting the default if there is none.
    pub fn entry(&mut self, host: &HostPattern) -> &mut T
    where
        T: Default,
    {
        match host {
            HostPattern::Exact(host) => self.exact.entry(host.as_bytes().into()).or_default(),
            HostPattern::Wildcard(suffix) => {
                self.suffix_max = self.suffix_max.max(suffix.len());
                self.wildcard.entry(suffix.as_bytes().into()).or_default()
            }
        }
    }

    /// Value stored for exactly this pattern; no matching.
    pub fn get(&self, host: &HostPattern) -> Option<&T> {
        match host {
            HostPattern::Exact(host) => self.exact(host.as_bytes()),
            HostPattern::Wildcard(suffix) => self.wildcard(suffix.as_bytes()),
        }
    }

    /// Bytes of the longest suffix.
    pub fn suffix_max(&self) -> usize {
        self.suffix_max
    }

    /// Value stored for an exact host.
    pub fn exact(&self, host: &[u8]) -> Option<&T> {
        self.exact.get(host)
    }

    /// Value stored for a wildcard's suffix.
    pub fn wildcard(&self, suffix: &[u8]) -> Option<&T> {
        self.wildcard.get(suffix)
    }

    /// Suffixes of a host that a wildcard here may have, longest first.
    pub fn suffixes<'h>(&self, host: &'h [u8]) -> impl Iterator<Item = &'h [u8]> {
        // A wildcard requires at least one byte before its suffix.
        let from = host.len().saturating_sub(self.suffix_max).max(1);
        let host = host.get(from..).filter(|_| self.suffix_max > 0).unwrap_or_default();
        memchr::memchr_iter(b'.', host).map(move |at| &host[at..])
    }
}

impl<T> ByHost<Vec<T>> {
    /// Maps the list of each pattern to a value.
    pub fn map<U>(&self, value: impl Fn(&[T]) -> U) -> ByHost<U> {
        let each = |of: &HashMap<Box<[u8]>, Vec<T>>| of.iter().map(|(k, v)| (k.clone(), value(v))).collect();
        ByHost { exact: each(&self.exact), wildcard: each(&self.wildcard), suffix_max: self.suffix_max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_more_suffixes_than_labels_however_many_wildcards_there_are() {
        let mut hosts = ByHost::<()>::default();
        for n in 0..10_000 {
            hosts.entry(&HostPattern::Wildcard(format!(".h{n}.example.com")));
        }
        let suffixes = |host: &'static str| hosts.suffixes(host.as_bytes()).collect::<Vec<_>>();
        assert_eq!(suffixes("a.h9999.example.com"), [&b".h9999.example.com"[..], b".example.com", b".com"]);
        assert_eq!(suffixes(".example.com"), [b".com"], "a wildcard takes at least a byte");
        assert_eq!(suffixes("localhost"), [b""; 0]);
        assert_eq!(suffixes(""), [b""; 0]);
        let long = [b"a.".repeat(4000), b"h1.example.com".to_vec()].concat();
        assert!(hosts.suffixes(&long).count() <= 10, "bounded by the longest suffix");
        assert!(hosts.suffixes(&long).any(|suffix| hosts.wildcard(suffix).is_some()));
        assert_eq!(ByHost::<()>::default().suffixes(b"a.b").count(), 0);
    }
}
