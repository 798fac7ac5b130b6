//! What is wrong, where, and how is it mended? [`Diagnostic`], complete in itself: it can be shown when the text is
//! gone. Inside this crate findings are kept as [`Finding`]s and resolved once, at the end.

use crate::code::{Code, Severity};
use crate::masked::{masked_from, without_passwords};
use crate::source::{Position, Sources, Span};

/// Findings of one reading that are shown; the rest is counted. A person does not read more, and each is some hundred times larger
/// than what it is about.
const SHOWN_MAX: usize = 100;

/// Characters of a message or a help.
const TEXT_MAX: usize = 2000;

/// Other places that a finding shows.
const RELATED_MAX: usize = 8;

/// Characters of a line that are kept before a span, and behind its start: more than a terminal shows.
const AROUND: usize = 200;

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind.
    pub code: Code,
    /// What is wrong, with the value seen.
    pub message: String,
    /// Where.
    pub at: Spot,
    /// What would be right: the values allowed, the nearest one, the text to write.
    pub help: Option<String>,
    /// What else in the files has a part in it.
    pub related: Vec<(String, Spot)>,
}

impl Diagnostic {
    /// Whether it forbids the plan.
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }
}

/// A span in a file, with the line it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The name of the file, as it was given or included.
    pub file: String,
    /// `None` if the file as a whole is meant, or there is no text.
    pub range: Option<Range>,
    /// The path of the value in a plan that was made without a text, as `pool.web.endpoints[1].weight`.
    pub path: Option<String>,
}

/// From where to where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Of the first character.
    pub start: Position,
    /// After the last character.
    pub end: Position,
    /// The line of `start`, without its end; of a long line the part around `start`. Secrets are asterisks.
    pub line_text: String,
    /// Characters of the line before `line_text`.
    pub before: usize,
}

/// A diagnostic before its span is looked up.
#[derive(Debug)]
pub struct Finding {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) at: At,
    pub(crate) help: Option<String>,
    pub(crate) related: Vec<(String, Span)>,
}

#[derive(Debug)]
pub(crate) enum At {
    Span(Span),
    File(String),
}

/// All that was found so far.
#[derive(Debug, Default)]
pub struct Findings {
    all: Vec<Finding>,
    /// Values that are not shown, whatever else is wrong on their lines.
    hidden: Vec<Span>,
    /// Files that are not TOML: what is a value in them is not known.
    broken: Vec<usize>,
}

impl Findings {
    /// Adds a finding; the rest of it is set on the result.
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

    /// Replaces the help of the last finding by one that knows more.
    pub(crate) fn advise(&mut self, help: String) {
        if let Some(last) = self.all.last_mut() {
            last.help(help);
        }
    }

    /// Takes the last finding back, for a better one.
    pub(crate) fn take_back(&mut self) {
        self.all.pop();
    }

    /// Forgets findings about a table as a whole: what is missing from it may be there under another name.
    pub(crate) fn forget(&mut self, code: Code, whole: Span) {
        self.all.retain(|f| f.code != code || !matches!(f.at, At::Span(at) if at == whole));
    }

    /// Shows asterisks instead of a value: diagnostics go to logs.
    pub(crate) fn hide(&mut self, value: Span) {
        self.hidden.push(value);
    }

    /// From now on lines of this file show nothing behind what looks like the name of a secret.
    pub(crate) fn is_broken(&mut self, file: usize) {
        self.broken.push(file);
    }

    /// Whether a plan is possible.
    pub fn has_errors(&self) -> bool {
        self.all.iter().any(|f| f.code.severity() == Severity::Error)
    }

    /// Errors before warnings, each in the order of the files and lines.
    /// `is_secret`: keys whose values are not shown.
    pub(crate) fn resolve(mut self, sources: &Sources, is_secret: &dyn Fn(&str) -> bool) -> Vec<Diagnostic> {
        self.all.sort_by_key(|f| {
            let span = match &f.at {
                At::Span(span) => (1, span.file, span.start),
                At::File(_) => (0, 0, 0),
            };
            (f.code.severity(), span)
        });
        let more = self.all.split_off(self.all.len().min(SHOWN_MAX));
        let excerpts = Excerpts { sources, hidden: self.hidden, broken: self.broken, is_secret };
        let mut shown: Vec<Diagnostic> = self.all.into_iter().map(|finding| excerpts.diagnostic(finding)).collect();
        shown.extend(left_out(&more, sources));
        shown
    }
}

/// The last diagnostic, if not all are shown.
fn left_out(more: &[Finding], sources: &Sources) -> Option<Diagnostic> {
    let errors = more.iter().filter(|f| f.code.severity() == Severity::Error).count();
    let of = |n: usize, what| (n > 0).then(|| format!("{n} more {what}{}", if n == 1 { "" } else { "s" }));
    let counts: Vec<String> = [of(errors, "error"), of(more.len() - errors, "warning")].into_iter().flatten().collect();
    let code = if errors > 0 { Code::MoreErrors } else { Code::MoreWarnings };
    (!more.is_empty()).then(|| Diagnostic {
        code,
        message: format!("{} not shown", counts.join(" and ")),
        at: Spot { file: sources.name(0).to_string(), range: None, path: None },
        help: Some("mend those that are shown first".to_string()),
        related: Vec::new(),
    })
}

/// Lines of the files, without what is secret.
struct Excerpts<'s> {
    sources: &'s Sources,
    hidden: Vec<Span>,
    broken: Vec<usize>,
    is_secret: &'s dyn Fn(&str) -> bool,
}

impl Excerpts<'_> {
    fn diagnostic(&self, finding: Finding) -> Diagnostic {
        let related = finding.related.into_iter().take(RELATED_MAX);
        Diagnostic {
            code: finding.code,
            message: clipped(&finding.message),
            at: match finding.at {
                At::Span(span) => self.spot(span),
                At::File(file) => Spot { file, range: None, path: None },
            },
            help: finding.help.as_deref().map(clipped),
            related: related.map(|(text, span)| (clipped(&text), self.spot(span))).collect(),
        }
    }

    fn spot(&self, span: Span) -> Spot {
        let file = self.sources.name(span.file).to_string();
        if span.is_whole() {
            return Spot { file, range: None, path: None };
        }
        if let Some(path) = self.sources.path(span) {
            return Spot { file, range: None, path: Some(path).filter(|path| !path.is_empty()) };
        }
        let (start, end) = self.sources.positions(span);
        let (before, line_text) = self.line(span, start);
        Spot { file, range: Some(Range { start, end, line_text, before }), path: None }
    }

    /// The part of a line around the start of a span, which is at this position, and the characters before it.
    fn line(&self, span: Span, at: Position) -> (usize, String) {
        let file = span.file;
        let line = self.sources.line(file, at.line);
        let from = self.sources.line_start(file, at.line);
        let hidden =
            self.hidden.iter().filter(|span| span.file == file && span.start <= from + line.len() && from < span.end);
        let hidden: Vec<&Span> = hidden.collect();
        let masked =
            self.broken.contains(&file).then(|| masked_from(self.is_secret, self.sources.lines_to(file, at.line)));
        let masked = masked.flatten().unwrap_or(usize::MAX);
        let mut start = span.start.saturating_sub(from).min(line.len());
        while !line.is_char_boundary(start) {
            start -= 1;
        }
        let back = line[..start].char_indices().rev().take(AROUND);
        let (count, begin) = back.fold((0, start), |(count, _), (byte, _)| (count + 1, byte));
        let before = at.col - 1 - count;
        let shown = line[begin..].char_indices().take(2 * AROUND).enumerate().map(|(index, (byte, c))| {
            let is_hidden = hidden.iter().any(|span| (span.start..span.end).contains(&(from + begin + byte)));
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
    /// Sets the help.
    pub fn help(&mut self, text: impl Into<String>) -> &mut Finding {
        self.help = Some(text.into());
        self
    }

    /// Adds another span, and what is there.
    pub fn see(&mut self, text: impl Into<String>, span: Span) -> &mut Finding {
        self.related.push((text.into(), span));
        self
    }
}
