//! Values with variables in braces: `"{client.ip}, {header.X-Id|lower}"`. [`Template`] holds a value as literal text and
//! variables with their functions.

use super::captures::captures;
use super::expression::Extent;
use super::foreign_variables::{Found, variable_in};
use super::function::{self, Function};
use super::variable::{self, Use, Variable, bad};
use crate::code::Code;
use crate::form::misfit::Misfit;
use crate::tree::quoted;
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::sync::Arc;

/// Longest template in a file, in bytes. Its value has a separate limit at run time.
const LENGTH_MAX: usize = 4096;

/// Text with variables, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Text as written in the file, braces and all.
    source: Arc<str>,
    parts: Arc<[TemplatePart]>,
}

/// Piece of a [`Template`]: fixed, or different for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// Literal text without control characters, its braces already unescaped.
    Text(Arc<str>),
    /// Variable, and the functions that change its value, in their order.
    Variable(Variable, Arc<[Function]>),
}

/// Parses a template for this use.
pub(in crate::form) fn read(text: &str, of: Use) -> Result<Template, Misfit> {
    if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\t') {
        let what = match c {
            '\n' | '\r' => "a line break",
            '\0' => "a NUL",
            _ => "a control character",
        };
        let help = "a value is one line: leave it out; for several fields of one name use \"add\"";
        return Err(bad(format!("it has {what}"), help));
    }
    if text.len() > LENGTH_MAX {
        return Err(bad(format!("it is longer than {LENGTH_MAX} bytes"), "shorten it"));
    }
    if let Some(found) = variable_in(text) {
        return Err(not_ours(&found));
    }
    let mut parts = Parts::default();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, behind) = rest.split_at(at);
        parts.text(before);
        if let Some(after) = behind.strip_prefix("{{").or_else(|| behind.strip_prefix("}}")) {
            parts.text(&behind[..1]);
            rest = after;
            continue;
        }
        let Some((inside, after)) = behind.strip_prefix('{').and_then(split_at_brace) else {
            return Err(bad("its braces do not match", "write {NAME} for a variable, {{ and }} for braces"));
        };
        match ESCAPED.iter().find(|(name, _)| *name == inside) {
            Some((_, text)) => parts.text(text),
            None => parts.variable(inside, of)?,
        }
        rest = after;
    }
    parts.text(rest);
    let template = Template { source: text.into(), parts: parts.finish() };
    if of.is_path() {
        check_path(&template, of)?;
    }
    Ok(template)
}

/// Names for characters with which variables of other proxies begin.
const ESCAPED: [(&str, &str); 2] = [("dollar", "$"), ("percent", "%")];

/// Splits the text behind a brace at the brace that closes it, which is not in quotes of a function.
fn split_at_brace(text: &str) -> Option<(&str, &str)> {
    let (mut is_function, mut is_quoted) = (false, false);
    let end = text.bytes().position(|byte| {
        is_function |= byte == b'|';
        is_quoted ^= is_function && byte == b'\'';
        byte == b'}' && !is_quoted
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// Error for a variable of another proxy, which would be sent as it is written.
fn not_ours(found: &Found) -> Misfit {
    let name = if found.written.starts_with('$') { "dollar" } else { "percent" };
    let literal = format!("for the text itself write {{{name}}}{}", &found.written[1..]);
    let help = match &found.ours {
        Some(ours) => format!("here this is {ours}; {literal}"),
        None => format!("variables are in braces here, as {{client.ip}}; docs/guide/headers.md has all; {literal}"),
    };
    bad(format!("{} is a variable of another proxy", quoted(&found.written)), help)
}

/// The text as it is written in a template that stands for it as it is.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if variable_in(text).is_none() && !text.contains(['{', '}']) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::new(), text);
    let braces = |text: &str| text.replace('{', "{{").replace('}', "}}");
    while let Some(found) = variable_in(rest) {
        let name = if rest[found.at..].starts_with('$') { "{dollar}" } else { "{percent}" };
        out.push_str(&braces(&rest[..found.at]));
        out.push_str(name);
        rest = &rest[found.at + 1..];
    }
    out.push_str(&braces(rest));
    Cow::Owned(out)
}

/// Parses a host to redirect to.
pub(in crate::form) fn host(text: &str) -> Result<Template, Misfit> {
    let template = read(text, Use::Request)?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if text.is_empty() || !template.shape().chars().all(is_host) {
        let help = "write a name without scheme and port, such as \"www.example.com\" or \"www.{host}\"";
        return Err(bad(format!("{} is not a host", quoted(text)), help));
    }
    Ok(template)
}

/// Parses a URL or a path to redirect to.
pub(in crate::form) fn location(text: &str) -> Result<Template, Misfit> {
    let template = read(text, Use::Location)?;
    let is_url = ["https://", "http://", "{scheme}://"].iter().any(|scheme| text.starts_with(scheme));
    let is_path = text.starts_with('/') && !text.starts_with("//");
    if !is_url && !is_path || !template.shape().bytes().all(|b| b.is_ascii_graphic()) {
        let help = "write a URL, as \"https://{host}{path}\", or a path with one slash in front";
        return Err(bad(format!("{} is neither a URL nor a path", quoted(text)), help));
    }
    Ok(template)
}

/// Checks the text of a path: nothing that needs an escape, and unless it is a target, absolute and without query.
fn check_path(template: &Template, of: Use) -> Result<(), Misfit> {
    let (text, whole) = (&*template.shape(), &*template.source);
    let help = match () {
        // A part of a path may be replaced.
        () if of == Use::Path && !text.starts_with('/') => {
            Some(("it does not start with a slash", format!("write {}", quoted(&format!("/{whole}")))))
        }
        () if text.contains('#') || of == Use::Path && text.contains('?') => {
            Some(("it has a query or a fragment", "leave it out: the client's query is kept".to_string()))
        }
        () if !text.bytes().all(|b| b.is_ascii_graphic()) => Some((
            "only visible ASCII characters can be in it",
            "write other characters percent-encoded: \"%20\"".to_string(),
        )),
        () if of == Use::Path && text.starts_with("//") => {
            Some(("it begins with two slashes", "write one".to_string()))
        }
        () => None,
    };
    match help {
        Some((why, help)) => Err(Misfit::new(Code::BadPath, format!("{} is not a path: {why}", quoted(whole)), help)),
        None => Ok(()),
    }
}

/// Parts of a template while it is parsed, adjacent texts joined.
#[derive(Default)]
struct Parts {
    all: Vec<TemplatePart>,
    text: String,
    /// True behind a question mark.
    is_query: bool,
}

impl Parts {
    fn text(&mut self, text: &str) {
        self.text.push_str(text);
        self.is_query |= text.contains('?');
    }

    /// Adds a variable, with its functions behind `|`.
    fn variable(&mut self, inside: &str, of: Use) -> Result<(), Misfit> {
        let (name, functions) = inside.split_once('|').map_or((inside, None), |(name, rest)| (name, Some(rest)));
        let variable = variable::read(name.trim_end(), of)?;
        let mut functions = functions.map_or(Ok(Vec::new()), function::read)?;
        if of.is_path() || of == Use::Location {
            function::protected(&mut functions, self.is_query);
        }
        // A path may have bytes that end a value of a query.
        if of == Use::Target && self.is_query && functions.is_empty() && matches!(variable, Variable::PathParameter(_))
        {
            functions.push(Function::QueryEncode);
        }
        self.end_text();
        self.all.push(TemplatePart::Variable(variable, functions.into()));
        Ok(())
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.all.push(TemplatePart::Text(std::mem::take(&mut self.text).into()));
        }
    }

    fn finish(mut self) -> Arc<[TemplatePart]> {
        self.end_text();
        self.all.into()
    }
}

impl Template {
    /// The template that stands for this text as it is. Control characters are left out.
    pub fn literal(text: &str) -> Template {
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        let source = escaped(&text).into();
        let parts = if text.is_empty() { Vec::new() } else { vec![TemplatePart::Text(text.into())] };
        Template { source, parts: parts.into() }
    }

    /// The template that stands for a variable; `None` for a variable of a family, such as `{header.NAME}`.
    pub fn of_variable(variable: &Variable) -> Option<Template> {
        let name = variable.name()?;
        let parts = [TemplatePart::Variable(variable.clone(), [].into())].into();
        Some(Template { source: format!("{{{name}}}").into(), parts })
    }

    /// Reads the value of a field of requests, or of responses, as it is written in a configuration.
    ///
    /// # Errors
    /// The reason why it is not a value.
    pub fn of_field(source: &str, of_responses: bool) -> Result<Template, String> {
        read(source, if of_responses { Use::Response } else { Use::Request }).map_err(|misfit| misfit.message)
    }

    /// The template of a target in which groups of an expression are written as by others: `$1` or `\\1`, by the mark.
    ///
    /// # Errors
    /// The target has other variables, or groups that the expression does not have.
    pub fn of_groups(text: &str, mark: char, expression: &str) -> Result<Template, String> {
        let groups = captures(expression, Extent::Whole).ok_or("the expression cannot be compiled")?;
        let (mut source, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once(mark) {
            source.push_str(&escaped(before));
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number = &after[..digits.min(1)];
            if groups.group(number).is_none() {
                return Err(format!("the expression has no group {}", quoted(&format!("{mark}{number}"))));
            }
            let _ = write!(source, "{{{number}}}");
            rest = &after[number.len()..];
        }
        source.push_str(&escaped(rest));
        read(&source, Use::Target).map_err(|misfit| misfit.message)
    }

    /// The template up to the first question mark, and behind it; `None` if it has none.
    pub fn split_query(&self) -> (Template, Option<Template>) {
        let marked = self.parts.iter().enumerate().find_map(|(at, part)| match part {
            TemplatePart::Text(text) => text.split_once('?').map(|(before, after)| (at, before, after)),
            TemplatePart::Variable(..) => None,
        });
        let Some((at, before, after)) = marked else { return (self.clone(), None) };
        let of = |parts: &[&[TemplatePart]]| Template { source: self.source.clone(), parts: parts.concat().into() };
        let text = |text: &str| TemplatePart::Text(text.into());
        (of(&[&self.parts[..at], &[text(before)]]), Some(of(&[&[text(after)], &self.parts[at + 1..]])))
    }

    /// The template without a question mark at its end; `None` if it has none there.
    pub fn without_mark(&self) -> Option<Template> {
        let (last, before) = self.parts.split_last()?;
        let TemplatePart::Text(text) = last else { return None };
        let rest = TemplatePart::Text(text.strip_suffix('?')?.into());
        Some(Template { source: self.source.clone(), parts: [before, &[rest]].concat().into() })
    }

    /// The text with a letter for each variable, whose functions may have any text.
    fn shape(&self) -> String {
        let part = |part: &TemplatePart| if let TemplatePart::Text(text) = part { text.clone() } else { "x".into() };
        self.parts.iter().map(part).collect::<Vec<Arc<str>>>().concat()
    }

    /// Literal texts and variables, in order.
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// Name of the map whose value the template is; `None` for other templates.
    pub(crate) fn only_map(&self) -> Option<&Arc<str>> {
        match self.parts() {
            [TemplatePart::Variable(Variable::Map(name), functions)] if functions.is_empty() => Some(name),
            _ => None,
        }
    }

    /// Names of the maps that the template uses.
    pub fn maps(&self) -> impl Iterator<Item = &Arc<str>> {
        self.variables().filter_map(|variable| if let Variable::Map(name) = variable { Some(name) } else { None })
    }

    /// Variables of the template, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| if let TemplatePart::Variable(v, _) = part { Some(v) } else { None })
    }
}

/// Formats the template as it is written in a file.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> TemplatePart {
        TemplatePart::Text(text.into())
    }

    fn variable(variable: Variable) -> TemplatePart {
        TemplatePart::Variable(variable, [].into())
    }

    #[test]
    fn text_variables_and_braces_are_read_in_order() {
        let template = read("a{{b}}{client.ip}; {header.X-Id}{cookie.s}{query.q[]}{path.id}", Use::Request);
        let template = template.expect("good");
        assert_eq!(
            template.parts(),
            [
                text("a{b}"),
                variable(Variable::ClientIp),
                text("; "),
                variable(Variable::Header("X-Id".into())),
                variable(Variable::Cookie("s".into())),
                variable(Variable::QueryParameter("q[]".into())),
                variable(Variable::PathParameter("id".into())),
            ]
        );
        assert_eq!(template.to_string(), "a{{b}}{client.ip}; {header.X-Id}{cookie.s}{query.q[]}{path.id}");
        assert_eq!(read("", Use::Request).expect("empty").parts(), []);
        assert_eq!(read("{status}", Use::Response).expect("known").variables().count(), 1);
        assert_eq!(Template::literal("a{b}\r\n").to_string(), "a{{b}}");
        assert_eq!(read("a{{b}}", Use::Request).map(|t| t.parts().to_vec()), Ok(vec![text("a{b}")]));
        for (name, known) in Variable::fixed() {
            assert_eq!(Template::of_variable(known).map(|t| t.to_string()), Some(format!("{{{name}}}")));
            let read = read(&format!("{{{name}}}"), Use::Response).expect("known");
            assert_eq!(read.parts(), [variable(known.clone())]);
        }
    }

    #[test]
    fn a_short_name_in_a_path_is_a_parameter_unless_it_is_a_variable() {
        let parts = |text| read(text, Use::Path).expect("a path").parts().to_vec();
        assert_eq!(parts("/x/{id}")[1], variable(Variable::PathParameter("id".into())));
        assert_eq!(parts("/x/{path.id}")[1], variable(Variable::PathParameter("id".into())));
        assert_eq!(parts("/x/{host}")[1], variable(Variable::Host));
        for bad in ["x", "", "//x", "/x y", "/x?y", "/x#y", "/\u{e4}", "/x\t"] {
            assert!(read(bad, Use::Path).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn variables_have_functions_and_what_is_decoded_is_encoded_again_in_urls() {
        let functions =
            |text, of| match &read(text, of).unwrap_or_else(|misfit| panic!("{text}: {misfit:?}")).parts()[1] {
                TemplatePart::Variable(_, functions) => functions.to_vec(),
                other => panic!("{other:?}"),
            };
        let both = [Function::Before("}".into()), Function::Lower];
        assert_eq!(functions("a{header.X|before('}')|lower}b", Use::Request), both);
        assert_eq!(functions("a{header.X | lower}", Use::Response), [Function::Lower]);
        assert_eq!(functions("a{query.q|url_decode}", Use::Request), [Function::UrlDecode]);
        assert_eq!(functions("/{query.q|url_decode}", Use::Path), [Function::UrlDecode, Function::PathEncode]);
        assert_eq!(functions("/{query.q|url_decode}", Use::Location), [Function::UrlDecode, Function::PathEncode]);
        assert_eq!(functions("/?q={query.q|url_decode}", Use::Location), [Function::UrlDecode, Function::UrlEncode]);
        assert_eq!(functions("/a?q={1}", Use::Target), [Function::QueryEncode]);
        assert_eq!(functions("/a{1}?q", Use::Target), []);
        assert!(read("-", Use::Target).is_ok() && read("", Use::Target).is_ok() && read("/a#b", Use::Target).is_err());
        // What functions have is not text of the path.
        assert_eq!(functions("/{header.x|before('?# ')}", Use::Path), [Function::Before("?# ".into())]);
        assert!(host("a.{header.x|before('/@')}").is_ok() && location("https://a/{query.q|default(' ')}").is_ok());
        assert!(host("a/{host}").is_err() && location("https://a/ {host}").is_err() && location("{host}").is_err());
    }

    #[test]
    fn text_that_looks_like_a_variable_of_others_can_be_written() {
        for text in ["$remote_addr", "a %[src] {b}", "$total_sum%REQ(X)%", "US$ 5", "100%"] {
            let written = Template::literal(text);
            assert_eq!(read(&written.to_string(), Use::Request).as_ref(), Ok(&written), "{text}");
            let shown = written.parts().iter().map(|part| match part {
                TemplatePart::Text(text) => &**text,
                TemplatePart::Variable(..) => "variable",
            });
            assert_eq!(shown.collect::<String>(), text);
        }
    }

    #[test]
    fn no_text_of_braces_and_dots_panics_and_what_is_read_is_written_as_it_was() {
        const PARTS: [&str; 9] = ["{", "}", ".", "header", "path", "|", "word(1,", "'", "\u{e4}"];
        for number in 0..PARTS.len().pow(5) {
            let (mut text, mut left) = (String::new(), number);
            while left > 0 {
                text.push_str(PARTS[left % PARTS.len()]);
                left /= PARTS.len();
            }
            for of in [Use::Request, Use::Response, Use::Path, Use::Target, Use::Location] {
                if let Ok(template) = read(&text, of) {
                    assert_eq!(template.to_string(), text);
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_has_a_fix() {
        for (text, of, help) in [
            ("a\r\nb", Use::Request, "one line"),
            ("a\nb", Use::Response, "one line"),
            ("a\0b", Use::Request, "leave it out"),
            ("\u{7f}", Use::Request, "leave it out"),
            ("{client.ipp}", Use::Request, "did you mean {client.ip}?"),
            ("{remote_addr}", Use::Request, "did you mean {client.ip}?"),
            ("{tls.sever_name}", Use::Request, "did you mean {tls.server_name}?"),
            ("{status}", Use::Request, "response_headers only"),
            ("{header.}", Use::Request, "{header.X-Id}"),
            ("{header.a b}", Use::Request, "{header.X-Id}"),
            ("{cookie.a;b}", Use::Request, "{cookie.session}"),
            ("{", Use::Request, "{NAME}"),
            ("a}", Use::Request, "{NAME}"),
            ("{client.ip", Use::Request, "{NAME}"),
            ("{}", Use::Request, "allowed: {client.ip}"),
            ("{header.X|lowr}", Use::Request, "lower"),
            ("{path.id|word(1}", Use::Request, "word(2,/)"),
            ("{uri}", Use::Request, "did you mean {request_uri}?"),
            ("/a{request_uri}", Use::Path, "write {path}"),
            ("$remote_addr", Use::Request, "here this is {client.ip}; for the text itself write {dollar}remote_addr"),
            ("a $total_2", Use::Response, "for the text itself write {dollar}total_2"),
            ("%[src]", Use::Request, "here this is {client.ip}; for the text itself write {percent}[src]"),
        ] {
            let misfit = read(text, of).expect_err(text);
            assert!(misfit.help.contains(help), "{text:?}: {misfit:?}");
        }
        assert!(read(&"a".repeat(5000), Use::Request).is_err());
    }
}
