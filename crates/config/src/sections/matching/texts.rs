//! Matches in a few words, for operators.

use super::{Criteria, Expected, Match, Scheme};
use crate::form::PathPattern;
use crate::secret::names::is_secret_field;
use crate::table::Words;
use std::fmt::{self, Display};
use std::sync::Arc;

/// Text for values that are secrets by the names of their fields.
const MASKED: &str = "***";

impl Criteria {
    /// Each criterion in words, such as `method GET, HEAD` or `header x-beta = 1`.
    pub fn texts(&self) -> Vec<String> {
        let Criteria { ends_with, regex, search, methods, headers, query, cookies, maps, clients, scheme } = self;
        let mut texts = Vec::new();
        texts.extend((!methods.is_empty()).then(|| format!("method {}", joined(methods))));
        let scheme_text = |scheme: &Scheme| format!("scheme {}", scheme.word());
        texts.extend(scheme.as_ref().map(scheme_text));
        texts.extend(ends_with.as_ref().map(|end| format!("ends_with {end}")));
        texts.extend(regex.as_ref().map(|regex| format!("regex {regex}")));
        texts.extend(search.as_ref().map(|search| format!("search {search}")));
        for (part, values) in [("header", headers), ("query", query), ("cookie", cookies), ("map", maps)] {
            let text = |(name, expected): &(Arc<str>, Expected)| match expected.present {
                None if is_secret_field(name) => format!("{part} {name} {MASKED}"),
                _ => format!("{part} {name} {expected}"),
            };
            texts.extend(values.iter().map(text));
        }
        texts.extend((!clients.is_empty()).then(|| format!("client {}", joined(clients))));
        texts
    }
}

impl Match {
    /// The path as it is written, after its key unless that is `path`: `/cart`, `prefix /api`. `None` = any path.
    pub fn path_text(&self) -> Option<String> {
        match &self.path {
            PathPattern::Any => None,
            PathPattern::Pattern(path) => Some(path.clone()),
            PathPattern::Prefix(path) => Some(format!("prefix {path}")),
            PathPattern::StartsWith(text) => Some(format!("starts_with {text}")),
        }
    }

    /// Criteria beside host and path in words, those that must not match after `not`.
    pub fn criteria_texts(&self) -> Vec<String> {
        let not = self.not.texts().into_iter().map(|text| format!("not {text}"));
        self.criteria.texts().into_iter().chain(not).collect()
    }

    /// The whole match in words: `host a.example, prefix /api, method GET`.
    pub fn text(&self) -> String {
        let hosts = (!self.hosts.is_empty()).then(|| format!("host {}", joined(&self.hosts)));
        let path = self.path_text().map(|path| if path.starts_with('/') { format!("path {path}") } else { path });
        joined(&hosts.into_iter().chain(path).chain(self.criteria_texts()).collect::<Vec<_>>())
    }
}

impl Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.equal.is_empty() {
            return write!(f, "= {}", joined(&self.equal));
        }
        let texts = [
            ("prefix", &self.prefix),
            ("suffix", &self.suffix),
            ("contains", &self.contains),
            ("regex", &self.regex),
            ("search", &self.search),
        ];
        match texts.iter().find_map(|(key, text)| Some((key, text.as_ref()?))) {
            Some((key, text)) => write!(f, "{key} {text}"),
            None if self.present == Some(false) => f.write_str("absent"),
            None => f.write_str("present"),
        }
    }
}

fn joined<T: Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::parse_str;
    use crate::plan::{Action, Match};

    #[test]
    fn matches_and_targets_are_in_words_and_secrets_are_masked() {
        let text = "[listener.web]\nbind = ['127.0.0.1:1']\n[[route]]\nredirect = { scheme = 'https', prefix = '/v2/' }\n\
            [route.match]\nprefix = '/api'\nmethod = ['GET', 'HEAD']\nscheme = 'http'\nclient = ['10.0.0.0/8']\n\
            header = { x-beta = '1', x-api-key = 'hunter2' }\nquery = { page = { prefix = 'a' } }\n\
            cookie = { sid = { present = true } }\nnot = { header = { x-bot = { present = false } } }\n\
            any = [{ host = ['a.example'] }, { ends_with = '.php' }]\n";
        let outcome = parse_str("test.toml", text, &|_| None);
        let plan = outcome.plan.unwrap_or_else(|| panic!("{}", crate::render_text(&outcome.diagnostics, false)));
        let route = &plan.routes[0];
        let want = [
            "method GET, HEAD",
            "scheme http",
            "header x-beta = 1",
            "header x-api-key ***",
            "query page prefix a",
            "cookie sid present",
            "client 10.0.0.0/8",
            "not header x-bot absent",
        ];
        assert_eq!(route.matching.criteria_texts(), want);
        assert_eq!(route.matching.path_text().as_deref(), Some("prefix /api"));
        let any: Vec<String> = route.any.iter().map(Match::text).collect();
        assert_eq!(any, ["host a.example", "ends_with .php"]);
        let Action::Redirect(redirect) = &route.action else { panic!("{:?}", route.action) };
        assert_eq!(redirect.target(), "https://{host}/v2/{*rest}");
    }
}
