//! Several regular expressions that are searched at once: the rows of a map. The first that matches wins.

use super::expression::{CACHE, Program, Uncompiled};
use super::expressions::compiled;
use super::regex;
use std::cell::Cell;
use std::fmt;

/// Largest program of all expressions together, in bytes.
const SIZE_MAX: usize = 1 << 20;

/// Regular expressions in their order. Empty by default.
#[derive(Default)]
pub struct Expressions(Option<Program>);

/// Fault of an expression: its index, a message and a fix.
pub(crate) type Fault = (usize, String, String);

impl Expressions {
    /// Compiles expressions with programs of at most `size_max` bytes each.
    ///
    /// # Errors
    /// The expressions that are wrong or too large; the last, if all are too large together.
    pub(crate) fn new(texts: &[String], size_max: usize) -> Result<Expressions, Vec<Fault>> {
        let mut faults = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            match regex::read(text) {
                Err(misfit) => faults.push((at, misfit.message, misfit.help)),
                Ok(_) => {
                    let size = compiled(text, regex::REGEX_SIZE_MAX).map_or(0, |expression| expression.size());
                    if size > size_max {
                        let (size, most) = (size.div_ceil(1 << 10), size_max >> 10);
                        let message =
                            format!("the program of the expression takes {size} KiB, and {most} KiB are allowed");
                        faults.push((at, message, "write smaller counts, or raise runtime.regex_size".to_owned()));
                    }
                }
            }
        }
        if !faults.is_empty() || texts.is_empty() {
            return if faults.is_empty() { Ok(Expressions::default()) } else { Err(faults) };
        }
        let all: Vec<&str> = texts.iter().map(String::as_str).collect();
        // A state of a large program takes more, and too few states in the cache make searches slow.
        let cache = |program: &Program| (CACHE + 4 * program.size()).min(SIZE_MAX);
        let program = Program::compile(&all, SIZE_MAX, CACHE);
        let program = program.and_then(|program| Program::compile(&all, SIZE_MAX, cache(&program)));
        program.map(|program| Expressions(Some(program))).map_err(|why| {
            let message = match why {
                Uncompiled::TooLarge => format!("all expressions of the map take more than {} KiB", SIZE_MAX >> 10),
                Uncompiled::Wrong(why) => why,
            };
            vec![(texts.len() - 1, message, "write fewer or simpler expressions, or several maps".to_owned())]
        })
    }

    /// Bytes of the program in memory.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(0, Program::size)
    }

    /// Index of the first expression that the whole value matches, for no more than the steps that are `left`, which it
    /// takes. A search that would take more leaves 0 and finds none.
    pub fn find_within(&self, value: &[u8], left: &Cell<u32>) -> Option<usize> {
        self.0.as_ref()?.find_within(value, left)
    }
}

impl fmt::Debug for Expressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expressions").field(&self.size()).finish()
    }
}
