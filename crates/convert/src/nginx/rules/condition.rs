//! Conditions of `if`.

use crate::expression::whole;
use crate::model::{Cond, Key, Test, escape};
use crate::nginx::lexer::Directive;
use crate::nginx::table::written;
use crate::nginx::variable::{self, OTHER_QUERY, Scope, field_of};
use crate::nginx::world::group;

/// Expression for values that are true: neither empty nor `0`.
const TRUE: &str = "[^0]|.{2,}";

#[derive(Clone, Debug, PartialEq)]
pub(in crate::nginx) enum Truth {
    Always,
    Never,
    When(Vec<Cond>),
}

impl Truth {
    fn of(holds: bool) -> Truth {
        if holds { Truth::Always } else { Truth::Never }
    }

    fn negate(self) -> Result<Truth, String> {
        Ok(match self {
            Truth::Always => Truth::Never,
            Truth::Never => Truth::Always,
            Truth::When(conds) => match &conds[..] {
                [one] => Truth::When(vec![one.clone().negate()]),
                _ => return Err("the opposite of several conditions is not a condition of routes".into()),
            },
        })
    }
}

/// Reads the condition of an `if` with these levels around it.
///
/// # Errors
/// Reason why it cannot be written.
pub(in crate::nginx) fn read(directive: &Directive, scope: &Scope, levels: &[&[Directive]]) -> Result<Truth, String> {
    let words = words(directive);
    let operand = words.first().cloned().unwrap_or_default();
    if operand.starts_with(['-', '!']) {
        return Err("whether a file exists is not a condition of routes".into());
    }
    if operand == "$invalid_referer" && words.len() == 1 {
        return referer(levels);
    }
    if operand == "$ssl_client_verify"
        && let [_, operator, value] = &words[..]
    {
        // Certificates that are not valid end the handshake.
        let cond = match value.as_str() {
            "SUCCESS" => certified(scope),
            "NONE" => certified(scope).negate(),
            value => return Err(format!("`{value}` is not an outcome that requests have here")),
        };
        return match operator.as_str() {
            "=" => Ok(Truth::When(vec![cond])),
            "!=" => Ok(Truth::When(vec![cond.negate()])),
            _ => Err("the outcome is compared with an expression".into()),
        };
    }
    let operator = words.get(1).map_or("", String::as_str);
    let value = words.get(2..).unwrap_or_default().join(" ");
    match operator {
        "" => truth(&operand, scope),
        "=" => equal(&operand, &value, scope),
        "!=" => equal(&operand, &value, scope)?.negate(),
        "~" => matched(&operand, &value, false, scope),
        "~*" => matched(&operand, &value, true, scope),
        "!~" => matched(&operand, &value, false, scope)?.negate(),
        "!~*" => matched(&operand, &value, true, scope)?.negate(),
        other => Err(format!("`{other}` is not an operator of conditions")),
    }
}

/// Condition that the client has a certificate, which was verified.
pub(in crate::nginx) fn certified(scope: &Scope) -> Cond {
    scope.tables.tests.fits("certificate", "{tls.client.fingerprint}", "regex", &[".+".to_string()], false)
}

/// Words of a condition without the brackets, which may stand apart.
fn words(directive: &Directive) -> Vec<String> {
    let mut words: Vec<String> = directive.from(1).to_vec();
    match words.first_mut() {
        Some(first) if first == "(" => drop(words.remove(0)),
        Some(first) => *first = first.strip_prefix('(').unwrap_or(first).to_string(),
        None => {}
    }
    match words.last_mut() {
        Some(last) if last == ")" => drop(words.pop()),
        Some(last) => *last = last.strip_suffix(')').unwrap_or(last).to_string(),
        None => {}
    }
    words
}

/// Part of a request that a variable has, if routes compare it by itself.
fn key_of(name: &str) -> Option<Key> {
    Some(match name {
        "host" | "http_host" | "ssl_preread_server_name" | "ssl_server_name" => Key::Host,
        "scheme" => Key::Scheme,
        "request_method" => Key::Method,
        "uri" | "document_uri" => Key::Path,
        "remote_addr" => Key::Client,
        name => match (name.strip_prefix("http_"), name.strip_prefix("cookie_"), name.strip_prefix("arg_")) {
            (Some(field), ..) => Key::Header(field_of(field)),
            (_, Some(cookie), _) => Key::Cookie(cookie.to_string()),
            (.., Some(argument)) => Key::Query(argument.to_string()),
            _ => return None,
        },
    })
}

/// Key of an operand that is a single variable.
fn key(operand: &str, scope: &Scope) -> Result<Option<Key>, String> {
    let Some(name) = variable::only(operand) else { return Ok(None) };
    if let Some(table) = scope.tables.condition(name, scope) {
        return table.map(|name| Some(Key::Map(name)));
    }
    if matches!(name, "uri" | "document_uri") && scope.uri.is_some() {
        return Err("a rewrite changed the path before".into());
    }
    if scope.has_other_query(name) {
        return Err(OTHER_QUERY.into());
    }
    Ok(key_of(name))
}

/// Condition that a text with variables matches an expression for the whole text.
fn by_table(operand: &str, regex: &str, scope: &Scope) -> Result<Truth, String> {
    let from = variable::read(operand, scope)?;
    if from.contains("{path.") || from.contains("{1}") {
        return Err("it compares a group of an expression".into());
    }
    let cond = scope.tables.tests.fits("test", &from, "regex", &[regex.to_string()], false);
    Ok(Truth::When(vec![cond]))
}

fn truth(operand: &str, scope: &Scope) -> Result<Truth, String> {
    let operand = scope.expanded(operand);
    if let Some(value) = variable::constant(&operand, scope) {
        return Ok(Truth::of(!value.is_empty() && value != "0"));
    }
    match key(&operand, scope)? {
        Some(key @ (Key::Header(_) | Key::Cookie(_) | Key::Query(_))) => {
            Ok(Truth::When(vec![Cond::new(key, Test::Regex(TRUE.into()))]))
        }
        // Rows without a value have a text in brackets.
        Some(key @ Key::Map(_)) => Ok(Truth::When(vec![Cond::new(key, Test::Regex("[^0(].*|0.+".into()))])),
        Some(Key::Host | Key::Scheme | Key::Method | Key::Client) => Ok(Truth::Always),
        _ => by_table(&operand, TRUE, scope),
    }
}

fn equal(operand: &str, value: &str, scope: &Scope) -> Result<Truth, String> {
    let operand = scope.expanded(operand);
    let Some(value) = variable::constant(value, scope) else {
        return Err(format!("`{value}` is not constant"));
    };
    if let Some(constant) = variable::constant(&operand, scope) {
        return Ok(Truth::of(constant == value));
    }
    let when = |cond: Cond| Ok(Truth::When(vec![cond]));
    match key(&operand, scope)? {
        Some(key @ (Key::Header(_) | Key::Cookie(_) | Key::Query(_))) if value.is_empty() => {
            when(Cond::new(key, Test::Regex(".+".into())).negate())
        }
        Some(key @ Key::Map(_)) if value.is_empty() => when(Cond::new(key, Test::Regex("[^(].*".into())).negate()),
        _ if value.is_empty() => by_table(&operand, ".+", scope)?.negate(),
        Some(Key::Host) if operand.contains("http_host") => when(Cond::one_of(Key::Header("Host".into()), [value])),
        // `$host` is in lower case.
        Some(Key::Host) if value.bytes().any(|b| b.is_ascii_uppercase()) => Ok(Truth::Never),
        Some(Key::Scheme) if !matches!(&*value, "http" | "https") => Ok(Truth::Never),
        Some(Key::Client) if value.parse::<std::net::IpAddr>().is_err() => Ok(Truth::Never),
        Some(key) => when(Cond::one_of(key, [value])),
        None => by_table(&operand, &escape(&value), scope),
    }
}

fn matched(operand: &str, regex: &str, ignore_case: bool, scope: &Scope) -> Result<Truth, String> {
    let operand = scope.expanded(operand);
    let regex = written(regex)?;
    if variable::constant(&operand, scope).is_some() {
        return Err("it compares a constant with an expression".into());
    }
    let when = |cond: Cond| Ok(Truth::When(vec![cond]));
    let case = if ignore_case { "(?i)" } else { "" };
    match key(&operand, scope)? {
        Some(Key::Path) => when(Cond::new(Key::Path, Test::Search(format!("{case}{regex}")))),
        Some(key @ (Key::Header(_) | Key::Cookie(_) | Key::Query(_) | Key::Map(_))) => {
            // An expression that an empty text matches holds without the field, too.
            match takes_nothing(&regex) {
                true => Err("the expression also matches a field that is not there".into()),
                false => when(Cond::new(key, Test::Regex(whole(&regex, ignore_case)))),
            }
        }
        Some(Key::Host) if !operand.contains("http_host") => when(host(&regex)),
        Some(Key::Method) => match methods(&regex) {
            Some(names) => when(Cond::one_of(Key::Method, names)),
            None => by_table(&operand, &whole(&regex, ignore_case), scope),
        },
        _ if takes_nothing(&regex) => Err("the expression also matches an empty value".into()),
        _ => by_table(&operand, &whole(&regex, ignore_case), scope),
    }
}

/// True if an empty text may match an expression.
fn takes_nothing(regex: &str) -> bool {
    let bare = regex.trim_start_matches("(?i)").trim_start_matches('^').trim_end_matches('$');
    bare.is_empty()
        || bare.ends_with(".*") && bare.len() == 2
        || bare.starts_with('(') && bare.ends_with(")?")
        || bare.starts_with('|')
        || bare.ends_with('|')
        || bare.contains("||")
        || bare.contains("(|")
        || bare.contains("|)")
        || regex.contains("^$")
}

/// Methods that an expression has as alternatives.
fn methods(regex: &str) -> Option<Vec<String>> {
    let bare = regex.strip_prefix('^')?.strip_suffix('$')?;
    let bare = bare.strip_prefix('(').and_then(|bare| bare.strip_suffix(')')).unwrap_or(bare);
    bare.bytes().all(|b| b.is_ascii_uppercase() || b == b'|').then(|| bare.split('|').map(str::to_string).collect())
}

/// Condition that the host matches an expression, which NGINX compares in lower case, without port and final dot.
pub(in crate::nginx) fn host(regex: &str) -> Cond {
    Cond::new(Key::Header("Host".into()), Test::Regex(format!(r"(?i)(?:{})\.?(:[0-9]+)?", whole(regex, false))))
}

/// A condition that does not make its route more specific than routes with paths.
pub(in crate::nginx) fn beside_paths(cond: Cond) -> Cond {
    match (&cond.key, &cond.test) {
        (Key::Host, Test::OneOf(names)) => {
            let each = names.iter().map(|name| match name.strip_prefix('*') {
                Some(end) => format!("{}$", escape(end)),
                None => format!("^{}$", escape(name)),
            });
            let plain = host(&each.collect::<Vec<_>>().join("|"));
            if cond.negated { plain.negate() } else { plain }
        }
        _ => cond,
    }
}

/// `$invalid_referer` by the `valid_referers` of the levels.
fn referer(levels: &[&[Directive]]) -> Result<Truth, String> {
    let lines = group(levels, "valid_referers");
    if lines.is_empty() {
        return Ok(Truth::Never);
    }
    let (mut takes_none, mut all) = (false, Vec::new());
    for word in lines.iter().flat_map(|line| line.from(1)) {
        let domain = |name: &str| format!("https?://{name}(:[0-9]+)?(/.*)?");
        match word.as_str() {
            "none" => takes_none = true,
            "blocked" => all.push("(?:[^h]|h[^t]).*".to_string()),
            "server_names" => {
                let names = group(levels, "server_name");
                let fixed = names.iter().flat_map(|line| line.from(1)).filter(|name| !name.contains(['~', '*', '_']));
                all.extend(fixed.filter(|name| !name.is_empty()).map(|name| match name.strip_prefix('.') {
                    Some(rest) => domain(&format!("(?:.*\\.)?{}", escape(rest))),
                    None => domain(&escape(name)),
                }));
            }
            regex if regex.starts_with('~') => {
                all.push(format!("https?://(?:{})", whole(&written(&regex[1..])?, false)));
            }
            name if name.contains('/') => {
                let (host, path) = name.split_once('/').unwrap_or((name, ""));
                all.push(format!("https?://{}(:[0-9]+)?/{}.*", escape(host).replace("\\*", ".*"), escape(path)));
            }
            name => all.push(domain(&escape(name).replace("\\*", ".+"))),
        }
    }
    let of = || Key::Header("Referer".to_string());
    let mut conds = Vec::new();
    if takes_none {
        conds.push(Cond::new(of(), Test::Present));
    }
    if !all.is_empty() {
        conds.push(Cond::new(of(), Test::Regex(format!("(?i)(?:{})", all.join("|")))).negate());
    }
    Ok(if conds.is_empty() { Truth::Always } else { Truth::When(conds) })
}

/// Condition of a row of a `map`: its source has a value, an expression, or a host pattern.
///
/// # Errors
/// Reason why it cannot be written.
pub(in crate::nginx) fn row(source: &str, key: &str, has_hosts: bool, scope: &Scope) -> Result<Truth, String> {
    if let Some(regex) = key.strip_prefix('~') {
        let (regex, ignore_case) = regex.strip_prefix('*').map_or((regex, false), |regex| (regex, true));
        return matched(source, regex, ignore_case, scope);
    }
    let key = key.strip_prefix('\\').unwrap_or(key);
    let is_host =
        matches!(variable::only(source), Some("host" | "http_host" | "ssl_preread_server_name" | "ssl_server_name"));
    if is_host && !key.is_empty() {
        let key = key.to_ascii_lowercase();
        return Ok(Truth::When(vec![match (key.strip_prefix('.'), key.strip_suffix(".*")) {
            (Some(domain), _) if has_hosts => Cond::one_of(Key::Host, [domain.to_string(), format!("*.{domain}")]),
            (_, Some(start)) if has_hosts => host(&format!("^{}\\.", escape(start))),
            _ => Cond::one_of(Key::Host, [key]),
        }]));
    }
    equal(source, key, scope)
}
