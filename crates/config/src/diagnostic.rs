//! Errors and warnings. A [`Diagnostic`] is self-contained, so it can be shown after the text is gone. Within
//! the crate, findings are kept as [`Finding`]s and resolved once, at the end.

use crate::code::{Code, Severity};
use crate::secret::masked::{masked_from, without_passwords};
use crate::secret::names::Vocabulary;
use crate::source::{Position, Sources, Span};
use crate::subject::Subject;
use std::collections::{BTreeMap, HashSet};

/// Most findings of a reading of a text that are shown; the rest is counted. No reader needs more, and each takes some
/// hundred times the memory of the text it is about. Findings of values are all there: programs read them.
const SHOWN_MAX: usize = 100;

/// Most characters of a message or a help.
const TEXT_MAX: usize = 2000;

/// Most related places of a finding.
const RELATED_MAX: usize = 8;

/// Characters of a line kept before the span and after its start: more than a terminal shows.
const AROUND: usize = 200;

/// An error or warning with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable code of the finding.
    pub code: Code,
    /// Problem, with the value seen.
    pub message: String,
    pub at: Spot,
    /// Fix: the allowed values, the nearest value, or the text to write.
    pub help: Option<String>,
    /// Other places involved, each with a note.
    pub related: Vec<(String, Spot)>,
}

impl Diagnostic {
    /// Severity of the diagnostic's code.
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }
}

/// A place in a file, with the line that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Name of the file, as given or included.
    pub file: String,
    /// Range in the file; `None` for the file as a whole, or without a text.
    pub range: Option<Range>,
    /// Path of the value in a plan made without a text, such as `pool.web.endpoints[1].weight`.
    pub path: Option<String>,
    /// Listener, route or pool that the value belongs to, in a plan made without a text. The path is for people: long
    /// names in it are cut.
    pub subject: Option<Subject>,
}

impl Spot {
    fn of_file(file: String) -> Spot {
        Spot { file, range: None, path: None, subject: None }
    }
}

/// Start and end of a place, with the text around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Position of the first character.
    pub start: Position,
    /// Position after the last character.
    pub end: Position,
    /// The line of `start`, without its line break; of a long line the part around `start`. Secrets are
    /// masked.
    pub line_text: String,
    /// Number of characters of the line before `line_text`.
    pub before: usize,
}

/// A diagnostic before its span is resolved.
#[derive(Debug)]
pub struct Finding {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) at: At,
    pub(crate) help: Option<String>,
    pub(crate) related: Vec<(String, Span)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    Span(Span),
    File(String),
}

/// Findings of a reading, in the order they were made.
#[derive(Debug, Default)]
pub struct Findings {
    all: Vec<Finding>,
    /// Values that must not be shown, whatever else is wrong on their lines.
    hidden: Hidden,
    /// Files that are not valid TOML, so that their values are unknown.
    broken: Vec<usize>,
}

impl Findings {
    /// Adds a finding; its help and related places are set on the result.
    pub fn add(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Finding {
        self.push(code, At::Span(span), message.into())
    }

    /// Adds a finding about a file as a whole.
    pub(crate) fn add_file(&mut self, code: Code, name: &str, message: impl Into<String>) -> &mut Finding {
        self.push(code, At::File(name.to_string()), message.into())
    }

    fn push(&mut self, code: Code, at: At, message: String) -> &mut Finding {
        let at_end = self.all.len();
        self.all.push(Finding { code, message, at, help: None, related: Vec::new() });
        &mut self.all[at_end]
    }

    /// Replaces the help of the last finding by a more specific text.
    pub(crate) fn advise(&mut self, help: String) {
        if let Some(last) = self.all.last_mut() {
            last.help(help);
        }
    }

    /// Removes the last finding, for a better finding.
    pub(crate) fn take_back(&mut self) {
        self.all.pop();
    }

    /// Removes findings about a table as a whole: missing keys may be there under another proxy's name.
    pub(crate) fn forget(&mut self, code: Code, whole: Span) {
        self.all.retain(|f| f.code != code || !matches!(f.at, At::Span(at) if at == whole));
    }

    /// Masks a scalar or a key in all quoted lines. Messages ask [`is_hidden`](Self::is_hidden).
    pub(crate) fn hide(&mut self, scalar: Span) {
        let end = self.hidden.0.entry((scalar.file, scalar.start)).or_default();
        *end = scalar.end.max(*end);
    }

    /// True if messages must not quote this scalar, as diagnostics reach logs.
    pub(crate) fn is_hidden(&self, scalar: Span) -> bool {
        self.hidden.0.contains_key(&(scalar.file, scalar.start))
    }

    /// True if messages must not quote some scalar within these bytes.
    pub(crate) fn hides_within(&self, value: Span) -> bool {
        self.hidden.0.range((value.file, value.start)..(value.file, value.end.max(value.start))).next().is_some()
    }

    /// Masks everything after the name of a secret in lines of this file, since its values are unknown.
    pub(crate) fn is_broken(&mut self, file: usize) {
        self.broken.push(file);
    }

    /// True if there is no plan.
    pub fn has_errors(&self) -> bool {
        self.all.iter().any(|f| f.code.severity() == Severity::Error)
    }

    /// Resolves spans into diagnostics: errors before warnings, each in the order of files and lines.
    /// Lines of files that are not TOML are masked by `words`.
    pub(crate) fn resolve(mut self, sources: &Sources, words: fn() -> Vocabulary) -> Vec<Diagnostic> {
        self.all.sort_by_key(|f| {
            let span = match &f.at {
                At::Span(span) => (1, span.file, span.start),
                At::File(_) => (0, 0, 0),
            };
            (f.code.severity(), span)
        });
        // A value that several tables share may have been checked for each.
        let mut seen = HashSet::new();
        self.all.retain(|f| seen.insert((f.code, f.at.clone(), f.message.clone())));
        let most = if sources.are_values() { self.all.len() } else { SHOWN_MAX.min(self.all.len()) };
        let more = self.all.split_off(most);
        let words = if self.broken.is_empty() { Vocabulary::default() } else { words() };
        let excerpts = Excerpts { sources, hidden: self.hidden, broken: self.broken, words };
        let mut shown: Vec<Diagnostic> = self.all.into_iter().map(|finding| excerpts.diagnostic(finding)).collect();
        shown.extend(left_out(&more, sources));
        shown
    }
}

/// Final diagnostic that counts those not shown; `None` if all are.
fn left_out(more: &[Finding], sources: &Sources) -> Option<Diagnostic> {
    let errors = more.iter().filter(|f| f.code.severity() == Severity::Error).count();
    let of = |n: usize, what| (n > 0).then(|| format!("{n} more {what}{}", if n == 1 { "" } else { "s" }));
    let counts: Vec<String> = [of(errors, "error"), of(more.len() - errors, "warning")].into_iter().flatten().collect();
    let code = if errors > 0 { Code::MoreErrors } else { Code::MoreWarnings };
    (!more.is_empty()).then(|| Diagnostic {
        code,
        message: format!("{} not shown", counts.join(" and ")),
        at: Spot::of_file(sources.name(0).to_string()),
        help: Some("fix the ones shown first".to_string()),
        related: Vec::new(),
    })
}

/// Scalars and keys that are not shown, disjoint: the end of each by its file and start.
#[derive(Debug, Default)]
struct Hidden(BTreeMap<(usize, usize), usize>);

impl Hidden {
    /// Bytes that are hidden, of those that touch a part of a file.
    fn within(&self, file: usize, part: std::ops::Range<usize>) -> Vec<std::ops::Range<usize>> {
        let before = self.0.range((file, 0)..=(file, part.end)).rev();
        before.take_while(|(_, end)| **end > part.start).map(|((_, start), end)| *start..*end).collect()
    }
}

/// Quoted lines of the files, with secrets masked.
struct Excerpts<'s> {
    sources: &'s Sources,
    hidden: Hidden,
    broken: Vec<usize>,
    words: Vocabulary,
}

impl Excerpts<'_> {
    fn diagnostic(&self, finding: Finding) -> Diagnostic {
        let related = finding.related.into_iter().take(RELATED_MAX);
        Diagnostic {
            code: finding.code,
            message: clipped(&finding.message),
            at: match finding.at {
                At::Span(span) => self.spot(span),
                At::File(file) => Spot::of_file(file),
            },
            help: finding.help.as_deref().map(clipped),
            related: related.map(|(text, span)| (clipped(&text), self.spot(span))).collect(),
        }
    }

    fn spot(&self, span: Span) -> Spot {
        let file = self.sources.name(span.file).to_string();
        if span.is_whole() {
            return Spot::of_file(file);
        }
        if let Some(path) = self.sources.path(span) {
            let path = Some(path).filter(|path| !path.is_empty());
            return Spot { path, subject: self.sources.subject(span), ..Spot::of_file(file) };
        }
        let (start, end) = self.sources.positions(span);
        let (before, line_text) = self.line(span, start);
        Spot { range: Some(Range { start, end, line_text, before }), ..Spot::of_file(file) }
    }

    /// Part of a line around the start of a span at position `at`, and the number of characters before it.
    fn line(&self, span: Span, at: Position) -> (usize, String) {
        let file = span.file;
        let line = self.sources.line(file, at.line);
        let from = self.sources.line_start(file, at.line);
        let hidden = self.hidden.within(file, from..from + line.len());
        let masked =
            self.broken.contains(&file).then(|| masked_from(&self.words, self.sources.lines_to(file, at.line)));
        let masked = masked.flatten().unwrap_or(usize::MAX);
        let mut start = span.start.saturating_sub(from).min(line.len());
        while !line.is_char_boundary(start) {
            start -= 1;
        }
        let back = line[..start].char_indices().rev().take(AROUND);
        let (count, begin) = back.fold((0, start), |(count, _), (byte, _)| (count + 1, byte));
        let before = at.col - 1 - count;
        let shown = line[begin..].char_indices().take(2 * AROUND).enumerate().map(|(index, (byte, c))| {
            let is_hidden = hidden.iter().any(|bytes| bytes.contains(&(from + begin + byte)));
            if is_hidden || before + index >= masked && !c.is_whitespace() { '*' } else { c }
        });
        let shown: String = shown.collect();
        (before, without_passwords(&shown).into_owned())
    }
}

fn clipped(text: &str) -> String {
    let text = without_passwords(text);
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

impl Finding {
    pub fn help(&mut self, text: impl Into<String>) -> &mut Finding {
        self.help = Some(text.into());
        self
    }

    /// Adds a related place with a note.
    pub fn see(&mut self, text: impl Into<String>, span: Span) -> &mut Finding {
        self.related.push((text.into(), span));
        self
    }
}
