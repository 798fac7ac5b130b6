//! All rows side by side: [`algorithms`] and [`settings`] as tables with notes, and [`page`], the reference page.

use super::{Fidelity, Forwarding, algorithms as by_algorithm, policies};
use std::fmt::Write;

const GENERATED: &str = "<!-- Generated from crates/config/src/planes. `make bless` regenerates it. -->";

/// Table of kinds side by side. Cells refer to notes by number: `~ 3`, `no 4`.
#[derive(Debug, Default)]
pub struct Table {
    /// Name, and a cell for each kind in the order of [`Forwarding::ALL`].
    pub rows: Vec<(String, [String; 6])>,
    pub notes: Vec<&'static str>,
}

impl Table {
    fn add(&mut self, name: String, keeps: [Fidelity; 6]) {
        let cells = keeps.map(|fidelity| match fidelity {
            Fidelity::Exact => "exact".to_owned(),
            Fidelity::Approximated(text) => format!("~ {}", self.note(text)),
            Fidelity::Refused(text) => format!("no {}", self.note(text)),
        });
        self.rows.push((name, cells));
    }

    fn note(&mut self, text: &'static str) -> usize {
        let at = self.notes.iter().position(|known| *known == text).unwrap_or_else(|| {
            self.notes.push(text);
            self.notes.len() - 1
        });
        at + 1
    }

    /// Appends the table as Markdown.
    fn write(&self, first: &str, out: &mut String) {
        let names = Forwarding::ALL.map(Forwarding::name).join(" | ");
        let _ = writeln!(out, "\n| {first} | {names} |\n|---{}|", "|---".repeat(Forwarding::ALL.len()));
        for (name, cells) in &self.rows {
            let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
        }
        out.push('\n');
        for (at, text) in self.notes.iter().enumerate() {
            let _ = writeln!(out, "{}. {text}", at + 1);
        }
    }
}

/// Returns the algorithms. `name`: a row as shown, by the name of the algorithm and its restriction.
pub fn algorithms(name: impl Fn(&str, Option<&str>) -> String) -> Table {
    let mut table = Table::default();
    for row in by_algorithm::ROWS {
        table.add(name(row.algorithm, row.with), row.keeps);
    }
    table
}

/// Returns the settings, and the cost as the last row.
pub fn settings() -> Table {
    let mut table = Table::default();
    for row in policies::ROWS {
        table.add(row.setting.to_owned(), row.keeps);
    }
    table.rows.push(("cost on this machine".to_owned(), policies::COST.map(str::to_owned)));
    table
}

/// Returns `docs/reference/planes.md`.
pub fn page() -> String {
    let mut out = format!("# Planes\n\n{GENERATED}\n\n");
    out += "Comparison of the kinds of forwarding. `mode` and `plane` of a listener select one; the \
            [guide](../guide/kernel-planes.md) explains when to use each. `exact` means as described on the other \
            pages. `~` is an approximation and `no` a refusal, each with the number of a note below the table. \
            `evenkeel check` reports every setting that a kernel plane refuses; `evenkeel check --planes` prints these \
            tables after a table of the listeners in a file.\n\n## Algorithms\n";
    let name = |algorithm: &str, with: Option<&str>| {
        let with = with.map(|with| format!(", `{with}`")).unwrap_or_default();
        format!("[`{algorithm}`](algorithms.md#{algorithm}){with}")
    };
    algorithms(name).write("Algorithm", &mut out);
    out += "\n## Settings\n";
    settings().write("Setting", &mut out);
    out
}
