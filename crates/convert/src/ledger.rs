//! Book of every directive that was read, with its outcome: carried over, or in one of three lists. A directive that no
//! translation settled appears in the report too, so no directive can be dropped silently.

use crate::report::{Item, Report};
use std::collections::HashMap;
use std::sync::Arc;

/// Longest text of a directive that a report repeats, in characters.
const SHOWN: usize = 120;

/// Reason for directives that no translation settled.
const FORGOTTEN: &str = "`convert` does not know this directive here";

/// A directive of the book: the number of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Line(usize);

impl Line {
    /// Stands for no directive, until the real line is known.
    pub fn none() -> Line {
        Line(usize::MAX)
    }
}

/// All directives of a run, in the order in which they were read.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    files: Vec<Arc<str>>,
    entries: Vec<Entry>,
}

/// Kept small: most directives have no notes, and a file may have 200,000 directives.
#[derive(Debug)]
struct Entry {
    text: Box<str>,
    notes: Option<Box<Notes>>,
    line: u32,
    /// Index of the file it was read from.
    file: u32,
    settled: bool,
}

#[derive(Debug, Default)]
struct Notes {
    lossless: Vec<String>,
    changes: Vec<Change>,
}

/// Reason and advice of a note, and true if a person must decide about it.
#[derive(Debug, PartialEq)]
struct Change {
    reason: String,
    todo: String,
    is_urgent: bool,
}

impl Ledger {
    /// Enters a directive that was read at a line of a file, counted from 1.
    pub fn open(&mut self, file: &Arc<str>, line: usize, text: &str) -> Line {
        let one_line: Vec<&str> = text.split_whitespace().collect();
        let mut text = one_line.join(" ");
        if let Some((at, _)) = text.char_indices().nth(SHOWN) {
            text.truncate(at);
            text.push_str("...");
        }
        // The file is the last file again, except at the ends of included files.
        let known = self.files.iter().rposition(|other| other == file);
        let file = known.unwrap_or_else(|| {
            self.files.push(Arc::clone(file));
            self.files.len() - 1
        });
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (line, file) = (number(line), number(file));
        self.entries.push(Entry { text: text.into(), notes: None, line, file, settled: false });
        Line(self.entries.len() - 1)
    }

    /// Settles a directive whose meaning is in the output.
    pub fn carried(&mut self, line: Line) {
        self.entries[line.0].settled = true;
    }

    /// Settles a directive that is left out without a loss, for this reason.
    pub fn dropped(&mut self, line: Line, reason: impl Into<String>) {
        let notes = self.settled(line);
        let reason = reason.into();
        if !notes.lossless.contains(&reason) {
            notes.lossless.push(reason);
        }
    }

    /// Settles a directive that is left out, or carried over with a difference: the reason, and advice.
    pub fn changes(&mut self, line: Line, reason: impl Into<String>, todo: impl Into<String>) {
        self.note(line, Change { reason: reason.into(), todo: todo.into(), is_urgent: false });
    }

    /// Settles a directive of which something is closed or missing until a person acts: the reason, and advice.
    pub fn decide(&mut self, line: Line, reason: impl Into<String>, todo: impl Into<String>) {
        self.note(line, Change { reason: reason.into(), todo: todo.into(), is_urgent: true });
    }

    fn note(&mut self, line: Line, note: Change) {
        let notes = self.settled(line);
        if !notes.changes.contains(&note) {
            notes.changes.push(note);
        }
    }

    fn settled(&mut self, line: Line) -> &mut Notes {
        let entry = &mut self.entries[line.0];
        entry.settled = true;
        entry.notes.get_or_insert_default()
    }

    /// Settles a directive anew, without the notes that it had: it turned out to mean something else.
    pub fn dropped_instead(&mut self, line: Line, reason: impl Into<String>) {
        if let Some(notes) = &mut self.entries[line.0].notes {
            notes.changes.clear();
        }
        self.dropped(line, reason);
    }

    /// True if the directive has been settled in any way.
    pub fn is_settled(&self, line: Line) -> bool {
        self.entries[line.0].settled
    }

    /// True if something must be decided.
    pub fn has_decisions(&self) -> bool {
        self.entries.iter().flat_map(|entry| &entry.notes).flat_map(|notes| &notes.changes).any(|note| note.is_urgent)
    }

    /// File and line of a directive, if it is in the book.
    pub fn at(&self, line: Line) -> Option<(&str, usize)> {
        self.entries.get(line.0).map(|entry| (&*self.files[entry.file as usize], entry.line as usize))
    }

    /// `file:line` of a directive, for notes that refer to it.
    pub fn place(&self, line: Line) -> String {
        let entry = &self.entries[line.0];
        format!("{}:{}", self.files[entry.file as usize], entry.line)
    }

    /// Closes the book, and sorts its notes into lists.
    pub fn into_report(self) -> Report {
        let mut report = Report { directives: self.entries.len(), ..Report::default() };
        for entry in self.entries {
            let mut notes = entry.notes.map_or_else(Notes::default, |notes| *notes);
            if !entry.settled {
                report.forgotten += 1;
                let todo = "look up what it does, and whether the reference of evenkeel's keys has it".to_string();
                notes.changes.push(Change { reason: FORGOTTEN.to_string(), todo, is_urgent: true });
            }
            if notes.changes.is_empty() && notes.lossless.is_empty() {
                report.carried += 1;
            }
            let item = |reason: String, todo: String| Item {
                file: self.files[entry.file as usize].to_string(),
                line: entry.line as usize,
                text: entry.text.to_string(),
                reason,
                todo,
            };
            for change in notes.changes {
                let list = if change.is_urgent { &mut report.decide } else { &mut report.changes };
                list.push(item(change.reason, change.todo));
            }
            report.lossless.extend(notes.lossless.into_iter().map(|reason| item(reason, String::new())));
        }
        sort(&mut report.decide);
        sort(&mut report.changes);
        sort(&mut report.lossless);
        report
    }
}

/// Sorts items by line within files; files stay in the order in which they were read.
fn sort(items: &mut [Item]) {
    let mut order: HashMap<String, usize> = HashMap::new();
    for item in items.iter() {
        let next = order.len();
        order.entry(item.file.clone()).or_insert(next);
    }
    items.sort_by_key(|item| (order.get(&item.file).copied(), item.line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_ends_in_the_output_or_in_a_list() {
        let mut ledger = Ledger::default();
        let file: Arc<str> = "a.cfg".into();
        let lines: Vec<Line> = (1..5).map(|n| ledger.open(&file, n, &format!("word {n}"))).collect();
        ledger.carried(lines[0]);
        ledger.dropped(lines[1], "no need");
        ledger.dropped(lines[1], "no need");
        ledger.changes(lines[2], "not there", "do it");
        assert!(!ledger.is_settled(lines[3]));
        let report = ledger.into_report();
        assert_eq!((report.directives, report.carried, report.forgotten), (4, 1, 1));
        assert_eq!(report.lossless.len(), 1);
        let texts = |items: &[Item]| items.iter().map(|item| item.text.clone()).collect::<Vec<_>>();
        assert_eq!((texts(&report.changes), texts(&report.decide)), (vec!["word 3".into()], vec!["word 4".into()]));
    }
}
