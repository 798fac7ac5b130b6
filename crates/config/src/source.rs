//! Source texts and positions: [`Sources`] keeps every text that was read, and a [`Span`] is a range in a text
//! of them.

use crate::subject::{Subject, Written};
use std::fmt;
use std::ops::Range;

/// Range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Index into [`Sources`].
    pub(crate) file: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// Range of bytes in a file.
    pub(crate) fn of(file: usize, bytes: Range<usize>) -> Span {
        Span { file, start: bytes.start, end: bytes.end }
    }

    /// The file as a whole: an empty range at 0.
    pub(crate) fn whole(file: usize) -> Span {
        Span { file, start: 0, end: 0 }
    }

    /// True for the file as a whole: an empty range at its start.
    pub(crate) fn is_whole(self) -> bool {
        self.end == 0
    }
}

/// Line and column. Both count from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Counts from 1.
    pub line: usize,
    /// Counts from 1, in characters.
    pub col: usize,
}

/// All texts that were read, with the names shown to people.
#[derive(Debug, Default)]
pub(crate) struct Sources(Vec<Source>);

#[derive(Debug)]
struct Source {
    name: String,
    text: String,
    /// Byte offset of the start of each line.
    lines: Vec<usize>,
    /// Values of the plan that the text stands for, if the plan was made without a text.
    values: Option<Values>,
}

/// Maps a span to the path of its value and to its subject.
struct Values {
    path: Box<dyn Fn(Span) -> String + Send + Sync>,
    written: Written,
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Values")
    }
}

impl Sources {
    /// Adds a text. The result is the index for [`Span::file`].
    pub fn add(&mut self, name: &str, text: &str) -> usize {
        let starts = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        self.0.push(Source { name: name.to_string(), text: text.to_string(), lines, values: None });
        self.0.len() - 1
    }

    /// Makes places in a text the paths of the values that it stands for, because the text itself is not
    /// shown. `written`: the bytes of each listener, route and pool.
    pub fn stands_for(&mut self, file: usize, written: Written, path: impl Fn(Span) -> String + Send + Sync + 'static) {
        if let Some(source) = self.0.get_mut(file) {
            source.values = Some(Values { path: Box::new(path), written });
        }
    }

    /// True if the first text stands for a plan made without a text.
    pub fn are_values(&self) -> bool {
        self.0.first().is_some_and(|source| source.values.is_some())
    }

    /// Path of a value; `None` if the text is real.
    pub fn path(&self, span: Span) -> Option<String> {
        self.0.get(span.file)?.values.as_ref().map(|values| (values.path)(span))
    }

    /// Listener, route or pool that a span belongs to; `None` if it belongs to none, or the text is real.
    pub fn subject(&self, span: Span) -> Option<Subject> {
        self.0.get(span.file)?.values.as_ref()?.written.subject(span.start..span.end)
    }

    pub fn name(&self, file: usize) -> &str {
        self.0.get(file).map_or("", |s| &s.name)
    }

    pub fn text(&self, file: usize) -> &str {
        self.0.get(file).map_or("", |s| &s.text)
    }

    /// Start and end of a span. Offsets beyond the text or inside a character move back to a character
    /// boundary.
    pub fn positions(&self, span: Span) -> (Position, Position) {
        let Some(source) = self.0.get(span.file) else {
            return (Position { line: 1, col: 1 }, Position { line: 1, col: 1 });
        };
        let start = source.position(span.start);
        (start, source.position(span.end.max(span.start)))
    }

    /// Byte offset of the start of a line.
    pub fn line_start(&self, file: usize, line: usize) -> usize {
        let source = self.0.get(file);
        source.map_or(0, |source| source.lines.get(line.saturating_sub(1)).copied().unwrap_or(source.text.len()))
    }

    /// All lines up to and including this line.
    pub fn lines_to(&self, file: usize, line: usize) -> impl DoubleEndedIterator<Item = &str> {
        (1..=line).map(move |line| self.line(file, line))
    }

    /// Text of a line, without its line break.
    pub fn line(&self, file: usize, line: usize) -> &str {
        let Some(source) = self.0.get(file) else { return "" };
        let start = source.lines.get(line.saturating_sub(1)).copied().unwrap_or(source.text.len());
        source.text[start..].lines().next().unwrap_or("")
    }
}

impl Source {
    fn position(&self, offset: usize) -> Position {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.lines.partition_point(|&start| start <= offset);
        let start = self.lines[line - 1];
        Position { line, col: self.text[start..offset].chars().count() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_characters_and_survives_any_offset() {
        let mut sources = Sources::default();
        let file = sources.add("a", "ä = 1\r\nbc");
        let at = |start, end| sources.positions(Span { file, start, end });
        assert_eq!(at(0, 2), (Position { line: 1, col: 1 }, Position { line: 1, col: 2 }));
        assert_eq!(at(1, 1).0, Position { line: 1, col: 1 });
        assert_eq!(at(8, 99), (Position { line: 2, col: 1 }, Position { line: 2, col: 3 }));
        assert_eq!(sources.line(file, 1), "ä = 1");
        assert_eq!(sources.line(file, 3), "");
    }
}
