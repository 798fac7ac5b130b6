//! Groups of regular expressions: the places of a value that `(...)` and `(?P<name>...)` match. Only values that name a
//! group have one, as comparisons need none.

use super::expression::{Extent, SEARCH, Uncompiled, nfa_of, take};
use super::regex::REGEX_SIZE_MAX;
use regex_automata::dfa::onepass;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::util::primitives::{NonMaxUsize, PatternID};
use regex_automata::{Anchored, Input};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// Most groups of an expression that values can name, the whole match included.
pub const GROUPS_MAX: usize = 20;

/// Most bytes of the automaton that finds groups in a single pass.
const ONE_PASS_MAX: usize = 64 << 10;

thread_local! {
    /// Memory of searches, of whichever expression needs it.
    static MEMORY: RefCell<(Option<onepass::Cache>, Option<pikevm::Cache>)> = const { RefCell::new((None, None)) };
}

/// Regular expression that finds its groups in a value.
pub struct Captures {
    text: Box<str>,
    /// Engine for expressions that are read without a choice. Only for whole values.
    one_pass: Option<onepass::DFA>,
    nfa: PikeVM,
    extent: Extent,
}

/// Groups of a match, the first of which is the match itself.
#[derive(Debug)]
pub struct Groups([Option<NonMaxUsize>; 2 * GROUPS_MAX]);

type ByText = HashMap<(Box<str>, Extent), Weak<Captures>>;

/// Compiled expressions that are in use.
static COMPILED: LazyLock<Mutex<ByText>> = LazyLock::new(Mutex::default);

/// Returns the expression of a text that was checked; `None` for any other text that cannot be compiled. Equal texts
/// share an expression.
pub fn captures(text: &str, extent: Extent) -> Option<Arc<Captures>> {
    let key = (text.into(), extent);
    let all = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all().get(&key).and_then(Weak::upgrade) {
        return Some(known);
    }
    // Without the lock, as it takes up to milliseconds.
    let compiled = Arc::new(Captures::compile(text, extent).ok()?);
    let mut all = all();
    all.retain(|_, one| one.strong_count() > 0);
    all.insert(key, Arc::downgrade(&compiled));
    Some(compiled)
}

impl Captures {
    fn compile(text: &str, extent: Extent) -> Result<Captures, Uncompiled> {
        let nfa = match extent {
            Extent::Whole => nfa_of(&[format!("^(?:{text})$")], WhichCaptures::All, REGEX_SIZE_MAX),
            Extent::Part => nfa_of(&[text], WhichCaptures::All, REGEX_SIZE_MAX),
        }?;
        let config = onepass::Config::new().size_limit(Some(ONE_PASS_MAX));
        let one_pass = (extent == Extent::Whole)
            .then(|| onepass::DFA::builder().configure(config).build_from_nfa(nfa.clone()).ok())
            .flatten();
        let nfa = PikeVM::new_from_nfa(nfa).map_err(|error| Uncompiled::Wrong(error.to_string()))?;
        Ok(Captures { text: text.into(), one_pass, nfa, extent })
    }

    /// Number of a group by its name or its number; `None` if there is none.
    pub fn group(&self, name: &str) -> Option<usize> {
        let info = self.nfa.get_nfa().group_info();
        let number = match name.parse() {
            Ok(number) => number,
            Err(_) => info.to_index(PatternID::ZERO, name)?,
        };
        (number < info.group_len(PatternID::ZERO).min(GROUPS_MAX)).then_some(number)
    }

    /// Names of the groups, and numbers of those without a name. The match itself has none.
    pub fn names(&self) -> Vec<String> {
        let names = self.nfa.get_nfa().group_info().pattern_names(PatternID::ZERO).enumerate();
        let each = names.skip(1).take(GROUPS_MAX - 1);
        each.map(|(number, name)| name.map_or_else(|| number.to_string(), str::to_owned)).collect()
    }

    /// Finds the first match in a value from a place on, for no more than the steps that are `left`, which it takes. A
    /// search that would take more leaves 0 and has no match.
    pub fn find(&self, value: &[u8], from: usize, left: &Cell<u32>) -> Option<Groups> {
        let mut groups = Groups([None; 2 * GROUPS_MAX]);
        // The engines accept no more slots than the expression has.
        let slots = self.nfa.get_nfa().group_info().slot_len().min(groups.0.len());
        let len = value.len().checked_sub(from)?;
        let anchored = if self.extent == Extent::Whole { Anchored::Yes } else { Anchored::No };
        let input = Input::new(value).range(from..).anchored(anchored);
        MEMORY.with_borrow_mut(|(one_pass, simulation)| {
            let found = match &self.one_pass {
                Some(dfa) => {
                    take(left, u32::try_from(len).unwrap_or(u32::MAX)).then_some(())?;
                    let cache = one_pass.get_or_insert_with(|| dfa.create_cache());
                    cache.reset(dfa);
                    dfa.try_search_slots(cache, &input, &mut groups.0[..slots]).ok()?
                }
                None => {
                    let steps = len.saturating_mul(self.nfa.get_nfa().states().len());
                    take(left, u32::try_from(steps).unwrap_or(u32::MAX).saturating_add(SEARCH)).then_some(())?;
                    let cache = simulation.get_or_insert_with(|| self.nfa.create_cache());
                    cache.reset(&self.nfa);
                    self.nfa.search_slots(cache, &input, &mut groups.0[..slots])
                }
            };
            found.map(|_| groups)
        })
    }
}

impl Groups {
    /// Groups of no match.
    pub const NONE: &'static Groups = &Groups([None; 2 * GROUPS_MAX]);

    /// Place of a group in the value; `None` if it is not part of the match.
    pub fn get(&self, number: usize) -> Option<Range<usize>> {
        let [start, end] = [2 * number, 2 * number + 1].map(|at| self.0.get(at).copied().flatten());
        Some(start?.get()..end?.get())
    }
}

impl fmt::Debug for Captures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Captures").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups in the first match, of which `-` is not part of it.
    fn groups(text: &str, extent: Extent, value: &str, from: usize) -> Option<Vec<String>> {
        let captures = captures(text, extent).expect("a regular expression");
        let found = captures.find(value.as_bytes(), from, &Cell::new(1 << 20))?;
        let count = captures.names().len() + 1;
        let text = |number| found.get(number).map_or("-".to_owned(), |range| value[range].to_owned());
        Some((0..count).map(text).collect())
    }

    #[test]
    fn groups_are_found_whichever_engine_reads_the_value() {
        use Extent::{Part, Whole};
        for (text, extent, value, from, wanted) in [
            ("/a/(.*)", Whole, "/a/b/c", 0, Some(&["/a/b/c", "b/c"][..])),
            ("/a/(.*)", Whole, "/x/a/b", 0, None),
            ("/(?P<user>[a-z]+)/([0-9]+)?", Whole, "/u/", 0, Some(&["/u/", "u", "-"])),
            // More than a single pass.
            ("(.*)-(.*)", Whole, "a-b-c", 0, Some(&["a-b-c", "a-b", "c"])),
            ("(?i)(A)|b", Whole, "a", 0, Some(&["a", "a"])),
            ("/v([0-9])/", Part, "/x/v1/v2/", 0, Some(&["/v1/", "1"])),
            ("/v([0-9])/", Part, "/x/v1/v2/", 5, Some(&["/v2/", "2"])),
            ("^/x", Part, "/x/x", 1, None),
            ("b*", Part, "abb", 0, Some(&[""])),
        ] {
            let wanted = wanted.map(|all| all.iter().map(ToString::to_string).collect());
            assert_eq!(groups(text, extent, value, from), wanted, "{text} {value}");
        }
        assert_eq!(groups("a", Part, "a", 2), None, "the place is behind the value");
    }

    #[test]
    fn groups_have_names_and_numbers_and_equal_texts_are_compiled_once() {
        let one = captures("/(?P<id>a)/(b)", Extent::Whole).expect("a regular expression");
        assert_eq!(
            ["id", "1", "2", "0", "3", "x"].map(|name| one.group(name)),
            [Some(1), Some(1), Some(2), Some(0), None, None]
        );
        assert_eq!(one.names(), ["id", "2"]);
        assert!(Arc::ptr_eq(&one, &captures("/(?P<id>a)/(b)", Extent::Whole).expect("it is known")));
        let many = captures(&"(a)".repeat(30), Extent::Whole).expect("a regular expression");
        assert_eq!((many.group("19"), many.group("20"), many.names().len()), (Some(19), None, 19));
        assert!(captures("(", Extent::Whole).is_none());
    }

    #[test]
    fn a_search_beyond_its_steps_has_no_match() {
        let captures = captures("(.*)-(.*)", Extent::Whole).expect("a regular expression");
        let left = Cell::new(1000);
        assert!(captures.find(b"a-b", 0, &left).is_some() && left.get() > 0);
        assert!(captures.find(&b"a-b".repeat(1000), 0, &left).is_none() && left.get() == 0);
    }
}
