//! Key tables for other files, with the same errors as the configuration. A [`Document`] holds a text as a
//! tree, [`Document::read`] checks the tree against tables of the caller, and [`reference_of`] and
//! [`schema_of`] document them.
//!
//! Tables of the configuration that have the same meaning elsewhere are exported too, each with its reader.

pub use crate::diagnostic::{Finding, Findings};
pub use crate::form::Form;
pub use crate::reference::tables_reference as reference_of;
pub use crate::schema::schema_of;
pub use crate::sections::pool::{CONCURRENCY, OUTLIER, PANIC, QUEUE, SLOW_START};
pub use crate::sections::retry::TRIES;
pub use crate::source::Span;
pub use crate::table::{Absent, Key, Kind, Named, Section, Table};
pub use crate::tree::{Entry, Node, TableNode, Tree};

use crate::diagnostic::Diagnostic;
use crate::secret::names::Vocabulary;
use crate::sections::pool;
use crate::source::Sources;
use crate::table::{Declared, Reader};
use crate::tree;
use crate::{nearest, quantity};
use evenkeel_balance::eligible::Panic;
use evenkeel_balance::{concurrency, outlier, retry as tries, slow_start};

/// A TOML text with the findings about it so far.
#[derive(Debug)]
pub struct Document {
    sources: Sources,
    pub tree: TableNode,
    pub findings: Findings,
    clean: bool,
}

impl Document {
    /// Parses a text; `name` is shown in findings. If it is not valid TOML, the tree holds everything that could be
    /// recovered.
    pub fn parse(name: &str, text: &str) -> Document {
        let (mut sources, mut findings) = (Sources::default(), Findings::default());
        let file = sources.add(name, text.strip_prefix('\u{feff}').unwrap_or(text));
        let (node, fault) = tree::parse(&sources, file, &mut findings);
        let tree = if let Tree::Table(table) = node.tree { table } else { TableNode::default() };
        Document { sources, tree, findings, clean: fault.is_none() }
    }

    /// True if the text is valid TOML.
    pub fn is_clean(&self) -> bool {
        self.clean
    }

    /// Checks a tree against `root`, the table of the file's top level.
    pub fn read(&mut self, root: &'static Table, tree: &TableNode) -> Section {
        Reader::new(root, &mut self.findings, self.clean).table(root, tree, Span::whole(0))
    }

    /// True if no finding is an error.
    pub fn is_good(&self) -> bool {
        !self.findings.has_errors()
    }

    /// All findings without duplicates, errors first.
    pub fn finish(self) -> Vec<Diagnostic> {
        let mut all: Vec<Diagnostic> = Vec::new();
        for one in self.findings.resolve(&self.sources, Vocabulary::default) {
            // A value may have been read more than once.
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }
}

/// Parses `"1m30s"` into nanoseconds; `None` if it is not a duration.
pub fn duration_ns(text: &str) -> Option<u64> {
    quantity::duration_ns(text).ok()
}

/// Formats `did you mean "x"? allowed: x, y`, or only the second part.
pub fn suggest(seen: &str, known: &[&str]) -> String {
    nearest::suggest(seen, known)
}

/// Reads the key `outlier` of `table` with the rows of [`OUTLIER`]; `None` for `"off"`.
pub fn outlier(table: &Section, findings: &mut Findings) -> Option<outlier::Settings> {
    pool::check_outlier(table, findings);
    pool::outlier(table)
}

/// Reads the key `panic` of `table` with the rows of [`PANIC`].
pub fn panic(table: &Section) -> Panic {
    Panic::of(&table.section("panic"))
}

/// Reads a table with the rows of [`SLOW_START`].
pub fn slow_start(table: &Section) -> slow_start::Settings {
    slow_start::Settings::of(table)
}

/// Reads a table with the rows of [`CONCURRENCY`].
pub fn concurrency(table: &Section, findings: &mut Findings) -> concurrency::Settings {
    pool::check_concurrency(table, findings);
    concurrency::Settings::of(table)
}

/// Reads a table with the rows of [`TRIES`].
pub fn tries(table: &Section) -> tries::Settings {
    tries::Settings::of(table)
}
