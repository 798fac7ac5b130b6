//! `shadow` of a pool: algorithms that are predicted beside the algorithm in use.

use super::Pool;
use crate::code::Code;
use crate::diagnostic::Findings;
use crate::form::HashKey;
use crate::table::Section;

/// Most shadows of a pool. Each costs a few dozen simulator runs per prediction.
const SHADOWS_MAX: usize = 4;

impl Pool {
    /// Hash key of a request, for the pool's algorithm or, if that has none, a shadow.
    #[inline]
    pub fn key(&self) -> Option<&HashKey> {
        self.balance.key().or_else(|| self.shadow.iter().find_map(|shadow| shadow.key()))
    }
}

/// Reports too many shadows, and differing keys, since a request is hashed once.
pub(super) fn check(section: &Section, pool: &Pool, findings: &mut Findings) {
    let (many, span) = (pool.shadow.len(), section.span_of("shadow"));
    if many > SHADOWS_MAX {
        let message = format!("\"shadow\" names {many} algorithms; at most {SHADOWS_MAX} run beside that of a pool");
        findings.add(Code::OutOfRange, span, message).help("leave some out");
    }
    let mut keys = pool.shadow.iter().filter_map(|shadow| Some((shadow, shadow.key()?)));
    if let Some(key) = pool.key()
        && let Some((shadow, other)) = keys.find(|(_, other)| *other != key)
    {
        let message = format!("\"shadow\": {shadow} is keyed by \"{other}\", but requests of this pool by \"{key}\"");
        findings.add(Code::Contradiction, span, message).help("give all of them the same key");
    }
}
