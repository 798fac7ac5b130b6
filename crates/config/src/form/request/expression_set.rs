//! Several regular expressions that are searched at once: the rows of a map. The first that matches wins. Programs are
//! small, as expressions that begin with other fixed text are in other programs: a value is read by those that its
//! beginning leads to.

use super::expression::{CACHE, Program, Uncompiled};
use super::expressions::compiled;
use super::regex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

/// Largest program of expressions that begin alike, in bytes.
const SIZE_MAX: usize = 1 << 20;
/// Largest programs of all expressions together, in bytes. Searches keep up to four times as much in each thread.
const TOTAL_MAX: usize = 8 << 20;
/// Size of a program from which it is divided.
const DIVIDED: usize = 128 << 10;
/// Most divisions on the way to a program. Bounds the work of a lookup, which may read a program at each.
const DEPTH_MAX: usize = 16;

/// Regular expressions in their order. Empty by default.
#[derive(Default)]
pub struct Expressions(Option<Node>);

enum Node {
    Program {
        program: Box<Program>,
        /// Index of each expression.
        rows: Box<[usize]>,
    },
    /// Expressions by the byte of a place.
    ByByte {
        place: usize,
        nodes: BTreeMap<u8, Node>,
        /// Expressions without fixed text up to the place.
        others: Option<Box<Node>>,
    },
}

/// Expressions while they are compiled.
struct Builder<'t> {
    texts: &'t [String],
    /// Fixed text that the values of each begin with.
    beginnings: Vec<Vec<u8>>,
    /// Size of a program from which it is divided.
    divided: usize,
}

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
        Expressions::divided(texts, DIVIDED)
            .map_err(|(at, why)| vec![(at, why, "write fewer or simpler expressions, or several maps".to_owned())])
    }

    /// Compiles expressions that were checked, with programs of at most `divided` bytes where that is possible.
    fn divided(texts: &[String], divided: usize) -> Result<Expressions, (usize, String)> {
        let beginnings: Vec<Vec<u8>> = texts.iter().map(|text| beginning(text)).collect();
        let node = Builder { texts, beginnings, divided }.node((0..texts.len()).collect(), 0, 0)?;
        match node.size() {
            size if size > TOTAL_MAX => {
                Err((texts.len() - 1, format!("all expressions of the map take more than {} KiB", TOTAL_MAX >> 10)))
            }
            _ => Ok(Expressions(Some(node))),
        }
    }

    /// Bytes of the programs in memory.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(0, Node::size)
    }

    /// Index of the first expression that the whole value matches, for no more than the steps that are `left`, which it
    /// takes. A search that would take more leaves 0 and finds none.
    pub fn find_within(&self, value: &[u8], left: &Cell<u32>) -> Option<usize> {
        self.0.as_ref()?.find_within(value, left).filter(|_| left.get() > 0)
    }
}

impl Builder<'_> {
    /// Compiles these rows, whose beginnings are equal up to a place or end before it.
    fn node(&self, rows: Vec<usize>, place: usize, depth: usize) -> Result<Node, (usize, String)> {
        let Some(&last) = rows.last() else { return Err((0, "there are no expressions".to_owned())) };
        let goes_on = |row: &&usize, place: usize| self.beginnings[**row].len() > place;
        let all: Vec<&str> = rows.iter().map(|row| &*self.texts[*row]).collect();
        let is_whole = depth == DEPTH_MAX || !rows.iter().any(|row| goes_on(&row, place));
        let size_max = if is_whole { SIZE_MAX } else { self.divided };
        // A state of a large program takes more, and too few states in the cache make searches slow.
        let cache = |program: &Program| (CACHE + 4 * program.size()).min(SIZE_MAX);
        let program = Program::compile(&all, size_max, CACHE);
        match program.and_then(|program| Program::compile(&all, size_max, cache(&program))) {
            Ok(program) => return Ok(Node::Program { program: Box::new(program), rows: rows.into() }),
            Err(Uncompiled::Wrong(why)) => return Err((last, why)),
            Err(Uncompiled::TooLarge) if is_whole => {
                return Err((last, format!("expressions that begin alike take more than {} KiB", SIZE_MAX >> 10)));
            }
            Err(Uncompiled::TooLarge) => {}
        }
        // Text that all of them begin with divides nothing.
        let place = place.max(self.shared(&rows));
        let (longer, shorter): (Vec<usize>, Vec<usize>) = rows.iter().partition(|row| goes_on(row, place));
        let mut by_byte = BTreeMap::<u8, Vec<usize>>::new();
        longer.into_iter().for_each(|row| by_byte.entry(self.beginnings[row][place]).or_default().push(row));
        let below = |rows| self.node(rows, place + 1, depth + 1);
        let nodes = by_byte.into_iter().map(|(byte, rows)| Ok((byte, below(rows)?))).collect::<Result<_, _>>()?;
        let others = if shorter.is_empty() { None } else { Some(Box::new(below(shorter)?)) };
        Ok(Node::ByByte { place, nodes, others })
    }

    /// Number of bytes that the beginnings of these rows share.
    fn shared(&self, rows: &[usize]) -> usize {
        let Some((first, others)) = rows.split_first() else { return 0 };
        let first = &self.beginnings[*first];
        let common = |row: &usize| first.iter().zip(&self.beginnings[*row]).take_while(|(a, b)| a == b).count();
        others.iter().map(common).min().unwrap_or(0)
    }
}

impl Node {
    fn size(&self) -> usize {
        match self {
            Node::Program { program, .. } => program.size(),
            Node::ByByte { nodes, others, .. } => nodes.values().chain(others.as_deref()).map(Node::size).sum(),
        }
    }

    fn find_within(&self, value: &[u8], left: &Cell<u32>) -> Option<usize> {
        match self {
            Node::Program { program, rows } => program.find_within(value, left).map(|at| rows[at]),
            Node::ByByte { place, nodes, others } => {
                let node = value.get(*place).and_then(|byte| nodes.get(byte));
                let found = node.into_iter().chain(others.as_deref()).filter_map(|node| node.find_within(value, left));
                found.min()
            }
        }
    }
}

/// Fixed text that each value begins with that the expression matches; possibly less than there is.
fn beginning(expression: &str) -> Vec<u8> {
    let (mut text, mut bytes) = (Vec::new(), expression.strip_prefix('^').unwrap_or(expression).bytes());
    // An alternative begins in another way.
    if expression.contains('|') {
        return text;
    }
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(byte) if b".+*?()[]{}^$\\/-".contains(&byte) => text.push(byte),
                _ => return text,
            },
            b'*' | b'+' | b'?' | b'{' => {
                text.pop();
                return text;
            }
            byte if byte.is_ascii_alphanumeric() || b"/-_:=%@,~&;!".contains(&byte) => text.push(byte),
            _ => return text,
        }
    }
    text
}

impl fmt::Debug for Expressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expressions").field(&self.size()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_fixed_text() {
        for (expression, text) in [
            ("^k01/[a-z]+$", "k01/"),
            ("/a\\.b/.*", "/a.b/"),
            ("/ab*", "/a"),
            ("/ab+c", "/a"),
            ("/ab{2}", "/a"),
            ("/a\\d", "/a"),
            ("/a\\<b", "/a"),
            ("/a|/b", ""),
            ("(?i)/a", ""),
            ("/a(b)?", "/a"),
            ("^^/a", ""),
            ("/a$", "/a"),
            ("/\u{e9}", "/"),
            ("", ""),
        ] {
            assert_eq!(beginning(expression), text.as_bytes(), "{expression}");
        }
    }

    #[test]
    fn programs_that_are_divided_find_what_one_program_finds() {
        let texts =
            ["a", "ab.*", "ab[cd]", "abc", "b", "abcd?", ".*c", "abc.*", "ba{2}", "ab|c", "(a)b", "abcde", "^ab"];
        let texts = texts.map(str::to_owned);
        let (whole, parts) = (Expressions::divided(&texts, SIZE_MAX), Expressions::divided(&texts, 1));
        let [whole, parts] = [whole, parts].map(|set| set.expect("they are small"));
        assert!(matches!(whole.0, Some(Node::Program { .. })) && matches!(parts.0, Some(Node::ByByte { .. })));
        let find = |set: &Expressions, value: &str| set.find_within(value.as_bytes(), &Cell::new(1 << 20));
        let mut values = vec![String::new()];
        for at in 0.. {
            let value = values[at].clone();
            assert_eq!(find(&parts, &value), find(&whole, &value), "{value}");
            if value.len() < 5 {
                values.extend(["a", "b", "c", "d", "e"].map(|byte| value.clone() + byte));
            } else if at + 1 == values.len() {
                break;
            }
        }
        assert_eq!((find(&parts, "abcde"), find(&parts, "b"), find(&parts, "e")), (Some(1), Some(4), None));
        assert_eq!(parts.find_within(b"abc", &Cell::new(10)), None, "the second program has no steps left");
    }

    #[test]
    fn ten_thousand_expressions_are_read_by_small_programs() {
        let texts: Vec<String> = (0..10_000).map(|n| format!("^k{n:04}/[a-z]+$")).collect();
        let set = Expressions::divided(&texts, DIVIDED).expect("they are not too large");
        for n in (0..10_000).step_by(7) {
            let left = Cell::new(1000);
            assert_eq!(set.find_within(format!("k{n:04}/item").as_bytes(), &left), Some(n));
            assert!(1000 - left.get() < 100, "k{n:04}: {} steps", 1000 - left.get());
        }
        // Nothing divides these.
        let alike: Vec<String> = (0..4000).map(|n| format!("[a-z]+/k{n:04}")).collect();
        let (row, why) = Expressions::divided(&alike, DIVIDED).expect_err("they are too large");
        assert!(row == 3999 && why.contains("begin alike"), "{row}: {why}");
    }
}
