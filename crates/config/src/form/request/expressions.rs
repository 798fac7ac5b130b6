//! Compiled expressions of the process, by their texts. A plan that has an expression of the plan before, or of another
//! route, shares it, so that a change compiles only new expressions. Expressions that no plan has are forgotten, the
//! least recently used first, once they take too much memory.

use super::expression::{Expression, Uncompiled};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Bytes of expressions that no plan has. A check compiles the expressions that the plan after it uses.
const UNUSED_MAX: usize = 8 << 20;

/// Bytes that an expression takes in addition to its program.
const OVERHEAD: usize = 2 << 10;

static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(|| Mutex::new(Compiled::new(UNUSED_MAX)));

/// Returns the compiled expression of a text, with a program of at most `size_max` bytes.
///
/// # Errors
/// The syntax, or a program that is too large.
pub fn compiled(text: &str, size_max: usize) -> Result<Arc<Expression>, Uncompiled> {
    let all = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all().find(text, size_max) {
        return known;
    }
    // Without the lock, as it takes up to milliseconds.
    let compiled = Expression::compile(text, size_max).map(Arc::new);
    all().keep(text, size_max, &compiled);
    compiled
}

/// Bytes that an expression takes.
pub fn cost(expression: &Expression) -> usize {
    expression.size() + OVERHEAD
}

#[derive(Debug)]
struct Compiled {
    by_text: HashMap<Box<str>, Entry>,
    /// Memory of all entries, in bytes.
    bytes: usize,
    /// Bytes at which entries without a user are looked for.
    look_at: usize,
    unused_max: usize,
    /// Number of uses of all entries so far.
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    compiled: Result<Arc<Expression>, Uncompiled>,
    /// Limit that it was compiled with.
    size_max: usize,
    /// Value of [`Compiled::uses`] at the last use.
    used: u64,
}

impl Entry {
    fn cost(&self) -> usize {
        self.compiled.as_ref().map_or(OVERHEAD, |expression| cost(expression))
    }

    fn is_used(&self) -> bool {
        self.compiled.as_ref().is_ok_and(|expression| Arc::strong_count(expression) > 1)
    }
}

impl Compiled {
    fn new(unused_max: usize) -> Compiled {
        Compiled { by_text: HashMap::new(), bytes: 0, look_at: 2 * unused_max, unused_max, uses: 0 }
    }

    fn find(&mut self, text: &str, size_max: usize) -> Option<Result<Arc<Expression>, Uncompiled>> {
        let entry = self.by_text.get_mut(text)?;
        self.uses += 1;
        entry.used = self.uses;
        match &entry.compiled {
            Ok(expression) if expression.size() > size_max => Some(Err(Uncompiled::TooLarge)),
            // It may not be too large for this limit.
            Err(Uncompiled::TooLarge) if size_max > entry.size_max => None,
            known => Some(known.clone()),
        }
    }

    fn keep(&mut self, text: &str, size_max: usize, compiled: &Result<Arc<Expression>, Uncompiled>) {
        self.uses += 1;
        let entry = Entry { compiled: compiled.clone(), size_max, used: self.uses };
        self.bytes += entry.cost() + text.len();
        if let Some(old) = self.by_text.insert(text.into(), entry) {
            self.bytes -= old.cost() + text.len();
        }
        if self.bytes >= self.look_at {
            self.forget_unused();
        }
    }

    /// Forgets the least recently used entries without a user, until the others are within their limit.
    fn forget_unused(&mut self) {
        let unused = self.by_text.iter().filter(|(_, entry)| !entry.is_used());
        let mut unused: Vec<(u64, usize)> =
            unused.map(|(text, entry)| (entry.used, entry.cost() + text.len())).collect();
        unused.sort_unstable_by(|a, b| b.cmp(a));
        let mut kept = 0;
        let oldest = unused.iter().find(|(_, cost)| {
            kept += cost;
            kept > self.unused_max
        });
        if let Some(&(oldest, _)) = oldest {
            self.by_text.retain(|_, entry| entry.is_used() || entry.used > oldest);
        }
        self.bytes = self.by_text.iter().map(|(text, entry)| entry.cost() + text.len()).sum();
        // Each look frees, or follows, as much as may be unused.
        self.look_at = self.bytes + self.unused_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(all: &mut Compiled, text: &str) -> Arc<Expression> {
        let compiled = Expression::compile(text, 1 << 20).map(Arc::new);
        all.keep(text, 1 << 20, &compiled);
        compiled.expect("a regular expression")
    }

    #[test]
    fn a_text_is_compiled_once_and_again_only_for_a_higher_limit() {
        let text = "[a-z]{7}once";
        let first = compiled(text, 32 << 10).expect("small");
        assert!(Arc::ptr_eq(&first, &compiled(text, 16 << 10).expect("small")));
        assert_eq!(compiled(text, 10).err(), Some(Uncompiled::TooLarge));
        let large = "\\w{3}once";
        assert_eq!(compiled(large, 32 << 10).err(), Some(Uncompiled::TooLarge));
        assert!(compiled(large, 128 << 10).is_ok());
        assert_eq!(compiled(large, 32 << 10).err(), Some(Uncompiled::TooLarge));
        assert!(matches!(compiled("(once", 1 << 20), Err(Uncompiled::Wrong(_))));
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_is_bounded() {
        let mut all = Compiled::new(64 << 10);
        let used = add(&mut all, "used");
        let most = |all: &Compiled| all.look_at.max(2 * all.unused_max) + (32 << 10);
        for n in 0..1000 {
            add(&mut all, &format!("/unused/{n}/[0-9]+"));
            assert!(all.bytes < most(&all) && all.bytes < 250 << 10, "{}", all.bytes);
        }
        let found = all.find("used", 1 << 20).expect("it is there").expect("it is right");
        assert!(Arc::ptr_eq(&used, &found));
        assert!(all.find("/unused/999/[0-9]+", 1 << 20).is_some() && all.find("/unused/0/[0-9]+", 1 << 20).is_none());
        // Expressions of plans are kept, however many there are, and are free to go afterwards.
        let many: Vec<_> = (0..1000).map(|n| add(&mut all, &format!("/used/{n}/[0-9]+"))).collect();
        assert!(all.find("/used/0/[0-9]+", 1 << 20).is_some());
        drop(many);
        all.forget_unused();
        assert!(all.bytes <= (64 << 10) + cost(&used) + "used".len(), "{}", all.bytes);
        for n in 0..100 {
            all.keep(&format!("({n}"), 1 << 20, &Err(Uncompiled::Wrong("unclosed".into())));
        }
        assert!(all.bytes < 250 << 10);
    }
}
