//! A compiled regular expression that the whole value has to match. A lazy DFA reads each byte once; where its states
//! would not fit into a small cache, the NFA is simulated, which takes a step for each byte and state. Both are counted.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{BuildError, Compiler, Config, NFA, WhichCaptures};
use regex_automata::util::pool::Pool;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// Bytes of the states that a thread keeps for an expression.
pub(super) const CACHE: usize = 32 << 10;

/// Number of times that the states of an expression are discarded before searches may give up.
const CLEARED_MAX: usize = 2;

/// Bytes read for each new state, below which the lazy DFA is slower than the NFA.
const BYTES_PER_STATE: usize = 10;

/// Steps that every search costs.
pub(super) const SEARCH: u32 = 8;

/// Bytes that the lazy DFA reads in the time of a step.
const BYTES_PER_STEP: usize = 4;

/// Steps of a search that the lazy DFA gives up, in addition: it has filled the cache for nothing.
const GIVEN_UP: u32 = 64 << 10;

type Make = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

thread_local! {
    /// Memory of the NFA's simulation, of whichever expression needs it.
    static SIMULATION: RefCell<Option<pikevm::Cache>> = const { RefCell::new(None) };
}

/// Regular expression in the syntax of the crate `regex`, whose time is linear in the text.
pub struct Expression {
    text: Box<str>,
    program: Program,
}

/// Program of one expression, or of several.
pub(super) struct Program {
    dfa: DFA,
    caches: Pool<Cache, Make>,
    nfa: PikeVM,
}

/// Part of a value that an expression has to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extent {
    /// `regex`: the first byte up to the last.
    Whole,
    /// `search`: any run of bytes.
    Part,
}

/// Reason for which a text cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncompiled {
    /// The program is larger than the limit.
    TooLarge,
    /// Error in the syntax, in words.
    Wrong(String),
}

impl Expression {
    /// Compiles an expression into a program of at most `size_max` bytes.
    ///
    /// # Errors
    /// The syntax, or a program that is too large.
    pub fn compile(text: &str, size_max: usize) -> Result<Expression, Uncompiled> {
        Ok(Expression { text: text.into(), program: Program::compile(&[text], size_max, CACHE)? })
    }

    /// Bytes of the program in memory.
    pub fn size(&self) -> usize {
        self.program.size()
    }

    /// True if the whole value matches.
    pub fn is_match(&self, value: &[u8]) -> bool {
        self.program.lazily(value).unwrap_or_else(|_| self.program.simulated(value)).is_some()
    }

    /// True if the whole value matches, for no more than the steps that are `left`, which it takes. A search that would
    /// take more leaves 0 and does not match.
    pub fn is_match_within(&self, value: &[u8], left: &Cell<u32>) -> bool {
        self.program.find_within(value, left).is_some()
    }
}

impl Program {
    /// Compiles expressions into a program of at most `size_max` bytes, for which a thread keeps `cache` bytes of states.
    ///
    /// # Errors
    /// The syntax, or a program that is too large.
    pub fn compile(texts: &[&str], size_max: usize, cache: usize) -> Result<Program, Uncompiled> {
        let whole: Vec<String> = texts.iter().map(|text| format!("^(?:{text})$")).collect();
        let nfa = nfa_of(&whole, WhichCaptures::None, size_max)?;
        let config = DFA::config()
            .cache_capacity(cache)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(CLEARED_MAX))
            .minimum_bytes_per_state(Some(BYTES_PER_STATE))
            // Behind a byte that is not ASCII the NFA decides.
            .unicode_word_boundary(true);
        let wrong = |error: &dyn fmt::Display| Uncompiled::Wrong(error.to_string());
        let dfa = DFA::builder().configure(config).build_from_nfa(nfa.clone()).map_err(|error| wrong(&error))?;
        let nfa = PikeVM::new_from_nfa(nfa).map_err(|error| wrong(&error))?;
        let of = dfa.clone();
        let make: Make = Box::new(move || of.create_cache());
        Ok(Program { dfa, caches: Pool::new(make), nfa })
    }

    /// Bytes of the program in memory.
    pub fn size(&self) -> usize {
        self.nfa.get_nfa().memory_usage()
    }

    /// Index of the first expression that the whole value matches, for no more than the steps that are `left`, which it
    /// takes. A search that would take more leaves 0 and finds none.
    pub fn find_within(&self, value: &[u8], left: &Cell<u32>) -> Option<usize> {
        let bytes = u32::try_from(value.len() / BYTES_PER_STEP).unwrap_or(u32::MAX);
        if !take(left, bytes.saturating_add(SEARCH)) {
            return None;
        }
        if let Ok(found) = self.lazily(value) {
            return found;
        }
        let steps = value.len().saturating_mul(self.nfa.get_nfa().states().len());
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        if take(left, steps.saturating_add(GIVEN_UP)) { self.simulated(value) } else { None }
    }

    #[inline]
    fn lazily(&self, value: &[u8]) -> Result<Option<usize>, regex_automata::MatchError> {
        let input = Input::new(value).anchored(Anchored::Yes);
        let found = self.dfa.try_search_fwd(&mut self.caches.get(), &input)?;
        Ok(found.map(|found| found.pattern().as_usize()))
    }

    #[cold]
    fn simulated(&self, value: &[u8]) -> Option<usize> {
        SIMULATION.with_borrow_mut(|kept| {
            let cache = kept.get_or_insert_with(|| self.nfa.create_cache());
            cache.reset(&self.nfa);
            let input = Input::new(value).anchored(Anchored::Yes);
            self.nfa.search_slots(cache, &input, &mut []).map(|pattern| pattern.as_usize())
        })
    }
}

/// Compiles expressions into a program of at most `size_max` bytes.
pub(super) fn nfa_of<T: AsRef<str>>(texts: &[T], captures: WhichCaptures, size_max: usize) -> Result<NFA, Uncompiled> {
    let config = Config::new().utf8(false).which_captures(captures).nfa_size_limit(Some(size_max));
    let syntax = syntax::Config::new().utf8(false);
    let nfa = Compiler::new().configure(config).syntax(syntax).build_many(texts).map_err(why)?;
    if nfa.memory_usage() > size_max { Err(Uncompiled::TooLarge) } else { Ok(nfa) }
}

/// Takes steps, or all that are left; false if these were too few.
pub(super) fn take(left: &Cell<u32>, steps: u32) -> bool {
    let rest = left.get().checked_sub(steps);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}

fn why(error: BuildError) -> Uncompiled {
    if error.size_limit().is_some() {
        return Uncompiled::TooLarge;
    }
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let last = text.lines().last().unwrap_or_default();
    Uncompiled::Wrong(last.trim_start_matches("error: ").to_owned())
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(text: &str) -> Expression {
        Expression::compile(text, 256 << 10).expect("a regular expression")
    }

    /// The steps that a search takes, of as many; `None` if these are too few.
    fn steps(text: &str, value: &[u8], most: u32) -> Option<u32> {
        let left = Cell::new(most);
        compiled(text).is_match_within(value, &left);
        Some(most - left.get()).filter(|_| left.get() > 0)
    }

    #[test]
    fn the_whole_value_matches_whichever_engine_reads_it() {
        for (text, value, is) in [
            ("/u/[0-9]+|/x", "/u/12", true),
            ("/u/[0-9]+|/x", "/x", true),
            ("/u/[0-9]+|/x", "/u/12/", false),
            ("/u/[0-9]+|/x", "a/x", false),
            ("", "", true),
            ("(?i)straße", "STRAßE", true),
            ("\\w+", "h\u{e9}", true),
            (".*\\bx\\b.*", "\u{e9} x", true),
            (".*\\bx\\b.*", "\u{e9}x", false),
            ("a.c", "a\nc", false),
            ("(?s)a.c", "a\nc", true),
        ] {
            let expression = compiled(text);
            assert_eq!(expression.is_match(value.as_bytes()), is, "{text} {value}");
            assert_eq!(expression.program.simulated(value.as_bytes()).is_some(), is, "{text} {value}");
        }
        assert!(compiled("(?-u:[\\x80-\\xff])+").is_match(b"\xff\x80"), "values need not be UTF-8");
    }

    #[test]
    fn a_search_takes_steps_by_its_bytes_and_by_its_states_where_these_are_too_many() {
        let long = b"ab".repeat(5000);
        let usual = steps("[ab]*", &long, u32::MAX).expect("steps are left");
        assert_eq!(usual, 2508);
        // Which of the last bytes was an "a" is another state each.
        let hard: Vec<u8> = (0..10_000u32).map(|at| b"ab"[(at.wrapping_mul(at) % 7919) as usize & 1]).collect();
        let taken = steps("(?:[ab]*a){30}[ab]{100}x", &hard, u32::MAX).expect("steps are left");
        assert!(taken > 1_000_000, "{taken}");
        assert_eq!(steps("(?:[ab]*a){30}[ab]{100}x", &hard, 1_000_000), None);
        assert_eq!(steps("[ab]*", &long, 2000), None);
    }

    #[test]
    fn a_search_beyond_its_steps_does_not_match() {
        let (expression, left) = (compiled("[ab]*"), Cell::new(20));
        assert!(expression.is_match_within(b"ab", &left) && left.get() > 0);
        assert!(!expression.is_match_within(&b"ab".repeat(100), &left) && left.get() == 0);
        assert!(!expression.is_match_within(b"", &left));
    }

    #[test]
    fn a_program_has_a_size() {
        assert!(compiled("/u/[0-9]+").size() < 2048);
        assert!(matches!(Expression::compile("\\w{1,20}", 32 << 10), Err(Uncompiled::TooLarge)));
        assert!(Expression::compile("\\w+", 32 << 10).is_ok() && Expression::compile("[^/]{1,64}", 32 << 10).is_ok());
    }
}
