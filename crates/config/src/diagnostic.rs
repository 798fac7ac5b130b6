//! What is wrong, where, and how is it mended? [`Diagnostic`], complete in itself: it can be shown when the text is
//! gone. Inside this crate findings are kept as [`Finding`]s and resolved once, at the end.

use crate::code::{Code, Severity};
use crate::source::{Position, Sources, Span};

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
    /// `None` if the file as a whole is meant.
    pub range: Option<Range>,
}

/// From where to where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Of the first character.
    pub start: Position,
    /// After the last character.
    pub end: Position,
    /// The line of `start`, without its end.
    pub line_text: String,
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

    /// Whether a plan is possible.
    pub fn has_errors(&self) -> bool {
        self.all.iter().any(|f| f.code.severity() == Severity::Error)
    }

    /// Errors before warnings, each in the order of the files and lines.
    pub(crate) fn resolve(mut self, sources: &Sources) -> Vec<Diagnostic> {
        self.all.sort_by_key(|f| {
            let span = match &f.at {
                At::Span(span) => (1, span.file, span.start),
                At::File(_) => (0, 0, 0),
            };
            (f.code.severity(), span)
        });
        let hidden: Vec<_> = self.hidden.iter().map(|span| (span.file, sources.positions(*span))).collect();
        let line_text = |file, line| {
            let here = hidden.iter().filter(|(f, (start, end))| *f == file && start.line <= line && line <= end.line);
            let here: Vec<&(Position, Position)> = here.map(|(_, range)| range).collect();
            let hides = |at: Position| here.iter().any(|(start, end)| *start <= at && at < *end);
            let shown = |(index, c)| if hides(Position { line, col: index + 1 }) { '*' } else { c };
            sources.line(file, line).chars().enumerate().map(shown).collect()
        };
        let spot = |span: Span| {
            if span.is_whole() {
                return Spot { file: sources.name(span.file).to_string(), range: None };
            }
            let (start, end) = sources.positions(span);
            let line_text = line_text(span.file, start.line);
            Spot { file: sources.name(span.file).to_string(), range: Some(Range { start, end, line_text }) }
        };
        let diagnostic = |f: Finding| Diagnostic {
            code: f.code,
            message: f.message,
            at: match f.at {
                At::Span(span) => spot(span),
                At::File(file) => Spot { file, range: None },
            },
            help: f.help,
            related: f.related.into_iter().map(|(text, span)| (text, spot(span))).collect(),
        };
        self.all.into_iter().map(diagnostic).collect()
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
