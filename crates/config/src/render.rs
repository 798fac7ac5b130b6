//! Output of diagnostics: text with the line concerned, or JSON for `check --json`.

use crate::code::{Code, Severity};
use crate::diagnostic::{Diagnostic, Range, Spot};
use crate::printable::is_hidden;
use serde_json::{Value, json};
use std::fmt::Write;

/// Formats diagnostics for people: each with its line, and a count at the end. Empty if there are none.
pub fn render_text(diagnostics: &[Diagnostic], color: bool) -> String {
    let paint = Paint { color };
    let mut out = String::new();
    for d in diagnostics {
        let severity = d.severity();
        let head = paint.severity(severity, &format!("{}[{}]", severity.as_str(), d.code.as_str()));
        let _ = writeln!(out, "{head}{} {}", paint.bold(":"), paint.bold(&d.message));
        snippet(&mut out, &d.at, '^', severity, &paint);
        for (text, spot) in &d.related {
            let _ = writeln!(out, "{} {text}", paint.blue("note:"));
            snippet(&mut out, spot, '-', severity, &paint);
        }
        if let Some(help) = &d.help {
            let _ = writeln!(out, "{} {help}", paint.green("help:"));
        }
        out.push('\n');
    }
    if !diagnostics.is_empty() {
        let _ = writeln!(out, "{}", count(diagnostics));
    }
    out
}

/// Formats a count such as `2 errors, 1 warning`.
fn count(diagnostics: &[Diagnostic]) -> String {
    let is_rest = |d: &Diagnostic| matches!(d.code, Code::MoreErrors | Code::MoreWarnings);
    if let [shown @ .., rest] = diagnostics
        && is_rest(rest)
    {
        return format!("{}, and {}", count(shown), rest.message);
    }
    let errors = diagnostics.iter().filter(|d| d.severity() == Severity::Error).count();
    let of = |n: usize, what| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match (errors, diagnostics.len() - errors) {
        (0, warnings) => of(warnings, "warning"),
        (_, 0) => of(errors, "error"),
        (_, warnings) => format!("{}, {}", of(errors, "error"), of(warnings, "warning")),
    }
}

/// Formats diagnostics as an array of objects: code, severity, message, file, line, col, end, help, related.
/// `line`, `col` and `end` are null for a file as a whole; `end` is the position after the last character.
/// For a plan without a text, `path` is the path of the value.
pub fn to_json(diagnostics: &[Diagnostic]) -> Value {
    let range = |spot: &Spot| {
        let start = spot.range.as_ref().map(|r| r.start);
        let end = spot.range.as_ref().map(|r| json!({ "line": r.end.line, "col": r.end.col }));
        (start.map(|p| p.line), start.map(|p| p.col), end)
    };
    let related = |(text, spot): &(String, Spot)| {
        let (line, col, end) = range(spot);
        with_path(json!({ "message": text, "file": spot.file, "line": line, "col": col, "end": end }), spot)
    };
    let one = |d: &Diagnostic| {
        let (line, col, end) = range(&d.at);
        let one = json!({
            "code": d.code.as_str(), "severity": d.severity().as_str(), "message": d.message,
            "file": d.at.file, "line": line, "col": col, "end": end,
            "help": d.help, "related": d.related.iter().map(related).collect::<Vec<_>>(),
        });
        with_path(one, &d.at)
    };
    Value::Array(diagnostics.iter().map(one).collect())
}

fn with_path(mut object: Value, spot: &Spot) -> Value {
    if let Some(path) = &spot.path {
        object["path"] = json!(path);
    }
    object
}

/// Width of a quoted line; a longer line is shown only around the span.
const WIDTH: usize = 120;

fn snippet(out: &mut String, spot: &Spot, mark: char, severity: Severity, paint: &Paint) {
    let Some(Range { start, end, line_text, before }) = &spot.range else {
        let path = spot.path.as_ref().map(|path| format!(": {path}")).unwrap_or_default();
        let _ = writeln!(out, "  {} {}{path}", paint.blue("-->"), spot.file);
        return;
    };
    let number = start.line.to_string();
    let margin = " ".repeat(number.len());
    let _ = writeln!(out, "{margin} {} {}:{}:{}", paint.blue("-->"), spot.file, start.line, start.col);

    // Hidden characters would move the marks, or the terminal's cursor.
    let shown: Vec<char> = line_text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect();
    let from = (start.col - 1).saturating_sub(*before);
    let to = if end.line == start.line { (end.col - 1).saturating_sub(*before) } else { shown.len() };
    let first = if shown.len() <= WIDTH { 0 } else { from.saturating_sub(WIDTH / 2) };
    let last = shown.len().min(first + WIDTH);
    let (left, right) = (if first > 0 { "..." } else { "" }, if last < shown.len() { "..." } else { "" });
    let text: String = shown.get(first..last).unwrap_or_default().iter().collect();
    let indent = " ".repeat(left.len() + from - first);
    let marks = mark.to_string().repeat(to.min(last).saturating_sub(from).max(1));

    let _ = writeln!(out, "{margin} {}", paint.blue("|"));
    let _ = writeln!(out, "{} {} {left}{}{right}", paint.blue(&number), paint.blue("|"), text.trim_end());
    let _ = writeln!(out, "{margin} {} {indent}{}", paint.blue("|"), paint.mark(mark, severity, &marks));
}

struct Paint {
    color: bool,
}

impl Paint {
    fn with(&self, sgr: &str, text: &str) -> String {
        if self.color { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn blue(&self, text: &str) -> String {
        self.with("1;34", text)
    }

    fn green(&self, text: &str) -> String {
        self.with("1;32", text)
    }

    fn severity(&self, severity: Severity, text: &str) -> String {
        match severity {
            Severity::Error => self.with("1;31", text),
            Severity::Warning => self.with("1;33", text),
        }
    }

    fn mark(&self, mark: char, severity: Severity, text: &str) -> String {
        if mark == '^' { self.severity(severity, text) } else { self.blue(text) }
    }
}
