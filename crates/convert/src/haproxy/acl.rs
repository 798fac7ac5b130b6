//! ACLs: named and anonymous conditions, read into conditions of routes.

use crate::expression;
use crate::model::{Cond, Key, Match, Test};
use std::collections::BTreeMap;

/// Most alternatives that a condition is multiplied out to.
const ALTERNATIVES: usize = 64;

/// Beginning of the reason why a condition on the client's address cannot be written.
pub(super) const CLIENT: &str = "of the client's address: ";

/// Smallest unit of a condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Atom {
    Is(Cond),
    Always(bool),
    /// The client's address is in the list of a file.
    ClientFile(String),
    Rate(Rate),
    /// The client has a password of this userlist.
    Auth(String),
    /// A condition that the language does not have, with the reason.
    Unknown(String),
}

/// Counter of a stick-table compared with a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rate {
    /// Counter, such as `http_req_rate` or `conn_cur`.
    pub counter: String,
    /// Number of the tracker, or the table that is named.
    pub tracker: Option<String>,
    /// Largest number that is still allowed.
    pub most: u64,
}

/// Conditions that hold together: an alternative of a condition.
#[derive(Clone, Debug, Default)]
pub(super) struct Conj {
    pub matching: Match,
    /// Files of client addresses, negated if true.
    pub client_files: Vec<(String, bool)>,
    pub rates: Vec<Rate>,
    /// Userlists, negated if true.
    pub auth: Vec<(String, bool)>,
}

impl Conj {
    /// True if it has nothing that a route cannot match by.
    pub fn is_plain(&self) -> bool {
        self.client_files.is_empty() && self.rates.is_empty() && self.auth.is_empty()
    }
}

/// Named conditions of a section. Lines with the same name are alternatives.
pub(super) type Acls = BTreeMap<String, Vec<Atom>>;

/// Reads `acl NAME ...` without its first two words.
pub(super) fn read(words: &[String]) -> Vec<Atom> {
    atoms(words).unwrap_or_else(|reason| vec![Atom::Unknown(reason)])
}

/// Joins lists of values for the same part of a request, as of several lines of an ACL, into one list.
pub(super) fn join(atoms: &mut Vec<Atom>) {
    let mut lists: BTreeMap<Key, usize> = BTreeMap::new();
    let mut joined: Vec<Atom> = Vec::new();
    for atom in atoms.drain(..) {
        let Atom::Is(Cond {
            key: key @ (Key::Client | Key::Host | Key::Method),
            test: Test::OneOf(values),
            negated: false,
        }) = atom
        else {
            joined.push(atom);
            continue;
        };
        let at = *lists.entry(key.clone()).or_insert(joined.len());
        match joined.get_mut(at) {
            Some(Atom::Is(Cond { test: Test::OneOf(list), .. })) => list.extend(values),
            _ => joined.push(Atom::Is(Cond::one_of(key, values))),
        }
    }
    for atom in &mut joined {
        if let Atom::Is(Cond { test: Test::OneOf(list), .. }) = atom {
            list.shrink_to_fit();
        }
    }
    *atoms = joined;
}

/// Reads the condition of a rule: `if ...`, `unless ...`, or nothing.
///
/// # Errors
/// Reason why the condition cannot be written.
pub(super) fn condition(words: &[String], acls: &Acls) -> Result<Vec<Conj>, String> {
    let negated = match words.first().map(String::as_str) {
        None => return Ok(vec![Conj::default()]),
        Some("if") => false,
        Some("unless") => true,
        Some(word) => return Err(format!("\"{word}\" is neither `if` nor `unless`")),
    };
    let alternatives = terms(&words[1..], acls)?;
    let product = if negated { negate(&alternatives)? } else { expand(&alternatives)? };
    let mut conjs = Vec::new();
    for literals in product {
        conjs.extend(conj(literals)?);
    }
    Ok(conjs)
}

/// A term: alternatives of an ACL, or their negation.
struct Term {
    negated: bool,
    atoms: Vec<Atom>,
}

type Literal = (Atom, bool);

fn terms(words: &[String], acls: &Acls) -> Result<Vec<Vec<Term>>, String> {
    let mut alternatives = vec![Vec::new()];
    let (mut at, mut negated) = (0, false);
    while let Some(word) = words.get(at) {
        let mut word = word.as_str();
        while let Some(rest) = word.strip_prefix('!') {
            negated = !negated;
            word = rest;
        }
        match word {
            "" => {}
            "or" | "||" => alternatives.push(Vec::new()),
            "and" | "&&" => {}
            "{" => {
                let end =
                    words[at..].iter().position(|word| word == "}").map(|n| at + n).ok_or("a brace is not closed")?;
                let term = Term { negated, atoms: atoms(&words[at + 1..end])? };
                alternatives.last_mut().ok_or("no term")?.push(term);
                (at, negated) = (end, false);
            }
            name => {
                let found = match acls.get(name) {
                    Some(atoms) => atoms.clone(),
                    None => predefined(name).ok_or_else(|| format!("unknown acl \"{name}\""))?,
                };
                alternatives.last_mut().ok_or("no term")?.push(Term { negated, atoms: found });
                negated = false;
            }
        }
        at += 1;
    }
    // Nothing at all would hold for every request.
    match alternatives.iter().any(Vec::is_empty) {
        true => Err("an alternative is empty".to_string()),
        false => Ok(alternatives),
    }
}

/// ACLs that HAProxy defines itself (section 7.4 of its manual).
fn predefined(name: &str) -> Option<Vec<Atom>> {
    let method = |name: &str| vec![Atom::Is(Cond::one_of(Key::Method, [name]))];
    Some(match name {
        "TRUE" | "HTTP" | "HTTP_1.1" | "HTTP_2.0" => vec![Atom::Always(true)],
        "FALSE" => vec![Atom::Always(false)],
        "LOCALHOST" => vec![Atom::Is(Cond::one_of(Key::Client, ["127.0.0.0/8", "::1"]))],
        "METH_GET" => vec![Atom::Is(Cond::one_of(Key::Method, ["GET", "HEAD"]))],
        name if name.starts_with("METH_") => method(&name[5..]),
        _ => return None,
    })
}

/// All combinations of a literal from each positive term, with all literals of each negated term.
fn expand(alternatives: &[Vec<Term>]) -> Result<Vec<Vec<Literal>>, String> {
    let mut out = Vec::new();
    for terms in alternatives {
        let mut products: Vec<Vec<Literal>> = vec![Vec::new()];
        for term in terms {
            if term.negated {
                let all: Vec<Literal> = term.atoms.iter().map(|atom| (atom.clone(), true)).collect();
                products.iter_mut().for_each(|product| product.extend(all.iter().cloned()));
                continue;
            }
            let with = |product: &Vec<Literal>| {
                let product = product.clone();
                let each = term.atoms.clone().into_iter();
                each.map(move |atom| [&product[..], &[(atom, false)]].concat()).collect::<Vec<_>>()
            };
            products = products.iter().flat_map(with).collect();
            if products.len() > ALTERNATIVES {
                return Err(format!("it has more than {ALTERNATIVES} alternatives"));
            }
        }
        out.extend(products);
    }
    Ok(out)
}

/// The negation of a condition, multiplied out.
fn negate(alternatives: &[Vec<Term>]) -> Result<Vec<Vec<Literal>>, String> {
    let mut products: Vec<Vec<Literal>> = vec![Vec::new()];
    for terms in alternatives {
        let mut choices: Vec<Vec<Literal>> = Vec::new();
        for term in terms {
            match term.negated {
                false => choices.push(term.atoms.iter().map(|atom| (atom.clone(), true)).collect()),
                true => choices.extend(term.atoms.iter().map(|atom| vec![(atom.clone(), false)])),
            }
        }
        let with = |product: &Vec<Literal>| {
            let product = product.clone();
            choices.iter().map(move |choice| [&product[..], &choice[..]].concat()).collect::<Vec<_>>()
        };
        products = products.iter().flat_map(with).collect();
        if products.len() > ALTERNATIVES {
            return Err(format!("it has more than {ALTERNATIVES} alternatives"));
        }
    }
    Ok(products)
}

/// Joins the conditions of an alternative; `None` if it never holds.
fn conj(literals: Vec<Literal>) -> Result<Option<Conj>, String> {
    let mut conj = Conj::default();
    for (atom, negated) in literals {
        match atom {
            Atom::Always(holds) if holds != negated => {}
            Atom::Always(_) => return Ok(None),
            Atom::Is(mut cond) => {
                if negated {
                    cond = cond.negate();
                }
                // There are only two schemes: not `https` is `http`.
                if cond.key == Key::Scheme && cond.negated {
                    cond = Cond::one_of(Key::Scheme, ["http"]);
                }
                let is_client = cond.key == Key::Client;
                match conj.matching.and(&Match::of([cond])) {
                    Ok(matching) => conj.matching = matching,
                    Err(crate::model::Apart::Never) => return Ok(None),
                    Err(crate::model::Apart::Unwritable) => {
                        let of_client = if is_client { CLIENT } else { "" };
                        return Err(format!("{of_client}it has two conditions on the same part of a request"));
                    }
                }
            }
            Atom::ClientFile(file) => conj.client_files.push((file, negated)),
            Atom::Rate(rate) if !negated => conj.rates.push(rate),
            Atom::Rate(_) => return Err("a negated rate".to_string()),
            Atom::Auth(list) => conj.auth.push((list, negated)),
            Atom::Unknown(reason) => return Err(reason),
        }
    }
    Ok(Some(conj))
}

/// A fetch with its flags and values, taken apart.
struct Fetch<'w> {
    name: &'w str,
    argument: Option<&'w str>,
    method: &'w str,
    ignore_case: bool,
    file: Option<&'w str>,
    values: Vec<&'w str>,
}

fn fetch(words: &[String]) -> Result<Fetch<'_>, String> {
    let first = words.first().ok_or("it has no test")?;
    let (sample, converters) = split_converters(first);
    let (name, argument) = match sample.split_once('(') {
        Some((name, rest)) => (name, Some(rest.trim_end_matches(')'))),
        None => (sample, None),
    };
    let name = name.strip_prefix("req.").unwrap_or(name);
    let name = if name == "req_ssl_sni" { "ssl_sni" } else { name };
    let mut fetch = Fetch { name, argument, method: "", ignore_case: false, file: None, values: Vec::new() };
    for converter in converters.split(',').filter(|c| !c.is_empty()) {
        let is_case = converter == "lower" || converter == "upper";
        // The port of a host: hosts here are compared without it.
        let is_port = converter.starts_with("field(1")
            || converter == "host_only"
            || converter == "1"
            || converter.ends_with(')');
        match () {
            () if is_case => fetch.ignore_case = true,
            () if is_port && argument.is_some_and(|a| a.eq_ignore_ascii_case("host")) => {}
            () => return Err(format!("the converter `{converter}` is not available")),
        }
    }
    let mut rest = words[1..].iter().map(String::as_str);
    let mut flags_end = false;
    while let Some(word) = rest.next() {
        match word {
            _ if flags_end => fetch.values.push(word),
            "--" => flags_end = true,
            "-i" => fetch.ignore_case = true,
            "-n" | "-u" => drop(rest.next()),
            "-M" => return Err("values are keys of a map".to_string()),
            "-f" => fetch.file = rest.next(),
            "-m" => fetch.method = rest.next().unwrap_or_default(),
            _ => fetch.values.push(word),
        }
    }
    for suffix in ["_beg", "_end", "_sub", "_reg", "_dir", "_dom", "_len", "_cnt"] {
        if let Some(base) = fetch.name.strip_suffix(suffix) {
            (fetch.name, fetch.method) = (base, &suffix[1..]);
        }
    }
    Ok(fetch)
}

/// The sample of an expression and its converters: `hdr(host),lower` is `hdr(host)` and `lower`.
fn split_converters(word: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    for (at, c) in word.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return (&word[..at], &word[at + 1..]),
            _ => {}
        }
    }
    (word, "")
}

fn atoms(words: &[String]) -> Result<Vec<Atom>, String> {
    let sample = words.first().map_or("", |word| word.split([',', '(']).next().unwrap_or_default());
    // Fields with addresses of proxies are lists of clients as well.
    let is_client = matches!(sample, "src" | "src_is_local" | "fc_src" | "fc_src_is_local")
        || sample.ends_with("hdr_ip")
        || words.windows(2).any(|pair| pair[0] == "-m" && pair[1] == "ip");
    test(words).map_err(|reason| format!("{}{reason}", if is_client { CLIENT } else { "" }))
}

fn test(words: &[String]) -> Result<Vec<Atom>, String> {
    let fetch = fetch(words)?;
    if let Some(file) = fetch.file {
        return match fetch.name {
            "src" => Ok(vec![Atom::ClientFile(file.to_string())]),
            _ => Err(format!("its values are in the file {file}")),
        };
    }
    match fetch.name {
        "path" | "url" | "pathq" => paths(&fetch),
        "hdr" | "fhdr" | "ssl_sni" | "ssl_fc_sni" => headers(&fetch),
        "ssl_fc" => Ok(vec![Atom::Is(Cond::one_of(Key::Scheme, ["https"]))]),
        "method" => {
            let methods = fetch.values.iter().map(|method| method.to_string());
            Ok(vec![Atom::Is(Cond::one_of(Key::Method, methods))])
        }
        "src" => Ok(vec![Atom::Is(Cond::one_of(Key::Client, fetch.values.iter().copied()))]),
        "cook" | "cookie" => values(&fetch, Key::Cookie(fetch.argument.unwrap_or_default().to_string())),
        "url_param" | "urlp" => values(&fetch, Key::Query(fetch.argument.unwrap_or_default().to_string())),
        "always_true" => Ok(vec![Atom::Always(true)]),
        "always_false" => Ok(vec![Atom::Always(false)]),
        "ssl_hello_type" | "rep_ssl_hello_type" | "req_ssl_hello_type" => Ok(vec![Atom::Always(true)]),
        "http_auth" => Ok(vec![Atom::Auth(fetch.argument.unwrap_or_default().to_string())]),
        "nbsrv" | "srv_is_up" | "connslots" | "avg_queue" => {
            Err("it asks how many servers are up; tiers do that here: `priority` of endpoints".to_string())
        }
        "dst_port" => Err("it asks for the port: give each port a listener, and name it in the match".to_string()),
        name if name.starts_with("var") => Err("variables are not available".to_string()),
        name if name.contains("_rate") || name.contains("conn_cur") || name.contains("gpc") => rate(&fetch),
        name => Err(format!("`{name}` is not available as a condition")),
    }
}

fn paths(fetch: &Fetch<'_>) -> Result<Vec<Atom>, String> {
    let case = |text: &str, end: &str| Test::Regex(format!("(?i){}{end}", crate::model::escape(text)));
    let mut atoms = Vec::new();
    let mut add = |test: Test| atoms.push(Atom::Is(Cond::new(Key::Path, test)));
    for value in &fetch.values {
        let value = value.to_string();
        match (fetch.method, fetch.ignore_case) {
            ("" | "str", false) => add(Test::OneOf(vec![value])),
            ("" | "str", true) => add(case(&value, "")),
            ("beg", _) if value == "/" => return Ok(vec![Atom::Always(true)]),
            ("beg", false) => add(Test::Begins(value)),
            ("beg", true) => add(case(&value, ".*")),
            ("end", false) => add(Test::Ends(value)),
            ("end", true) => add(Test::Regex(format!("(?i).*{}", crate::model::escape(&value)))),
            ("sub", _) => add(Test::Contains(value)),
            ("dir", _) => {
                let text = crate::model::escape(value.trim_matches('/'));
                add(Test::Regex(format!("(/.*)?/{text}(/.*)?")));
            }
            ("reg", ignore_case) => {
                let tests = expression::path_tests(&value, ignore_case)?;
                tests.into_iter().for_each(&mut add);
            }
            (method, _) => return Err(format!("paths cannot be matched by `{method}`")),
        }
    }
    if atoms.is_empty() { Err("it has no value".to_string()) } else { Ok(atoms) }
}

fn headers(fetch: &Fetch<'_>) -> Result<Vec<Atom>, String> {
    let is_name = fetch.name.ends_with("ssl_sni") || fetch.name == "ssl_fc_sni";
    let argument = fetch.argument.unwrap_or_default().split(',').next().unwrap_or_default();
    if !is_name && !argument.eq_ignore_ascii_case("host") {
        return values(fetch, Key::Header(argument.to_string()));
    }
    let host = |hosts: Vec<String>| Ok(vec![Atom::Is(Cond::one_of(Key::Host, hosts))]);
    let bare = |value: &&str| {
        let value = value
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
            .map_or(*value, |(host, _)| host);
        value.to_ascii_lowercase()
    };
    let all: Vec<String> = fetch.values.iter().map(bare).collect();
    match fetch.method {
        "" | "str" if !all.is_empty() => host(all),
        // With a dot at the start it is a wildcard. Without the dot, HAProxy also matches text directly before the name.
        "end" => host(all.iter().flat_map(|end| below(end)).collect()),
        "dom" => host(all.iter().flat_map(|end| below(end)).collect()),
        _ => values(fetch, Key::Header("Host".to_string())),
    }
}

/// Hosts that end in a text: all below a domain, and the domain itself if the text does not begin with a dot.
fn below(end: &str) -> Vec<String> {
    match end.strip_prefix('.') {
        Some(domain) => vec![format!("*.{domain}")],
        None => vec![end.to_string(), format!("*.{end}")],
    }
}

fn values(fetch: &Fetch<'_>, key: Key) -> Result<Vec<Atom>, String> {
    let is = |test: Test| Atom::Is(Cond::new(key.clone(), test));
    let each = |test: fn(String) -> Test| fetch.values.iter().map(|value| is(test(value.to_string()))).collect();
    match fetch.method {
        "found" => Ok(vec![is(Test::Present)]),
        "cnt" if fetch.values == ["0"] => Ok(vec![Atom::Is(Cond::new(key, Test::Present).negate())]),
        "cnt" if fetch.values == ["ge", "1"] || fetch.values == ["gt", "0"] => Ok(vec![is(Test::Present)]),
        _ if fetch.values.is_empty() => Ok(vec![is(Test::Present)]),
        "reg" => {
            let all: Result<Vec<Atom>, &str> = fetch
                .values
                .iter()
                .map(|regex| {
                    expression::foreign(regex)?;
                    Ok(is(Test::Regex(expression::whole(regex, fetch.ignore_case))))
                })
                .collect();
            Ok(all?)
        }
        _ if fetch.ignore_case => {
            let escaped = |value: &&str| crate::model::escape(value);
            let all: Vec<String> = fetch.values.iter().map(escaped).collect();
            let (start, end) = match fetch.method {
                "" | "str" => ("", ""),
                "beg" => ("", ".*"),
                "end" => (".*", ""),
                "sub" => (".*", ".*"),
                method => return Err(format!("fields cannot be matched by `{method}`")),
            };
            Ok(vec![is(Test::Regex(format!("(?i){start}({}){end}", all.join("|"))))])
        }
        "" | "str" => Ok(vec![is(Test::OneOf(fetch.values.iter().map(|value| value.to_string()).collect()))]),
        "beg" => Ok(each(Test::Begins)),
        "end" => Ok(each(Test::Ends)),
        "sub" => Ok(each(Test::Contains)),
        method => Err(format!("fields cannot be matched by `{method}`")),
    }
}

fn rate(fetch: &Fetch<'_>) -> Result<Vec<Atom>, String> {
    let (operator, number) = match fetch.values.as_slice() {
        [operator, number] => (*operator, *number),
        _ => return Err("a counter is compared with something other than one number".to_string()),
    };
    let number: u64 = number.parse().map_err(|_| format!("\"{number}\" is not a number"))?;
    let most = match operator {
        "gt" => number,
        "ge" => number.saturating_sub(1),
        _ => return Err(format!("a counter is compared by `{operator}`")),
    };
    let name = fetch.name;
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let tracker = name.starts_with("sc").then(|| digits.chars().take_while(char::is_ascii_digit).collect::<String>());
    let tracker = tracker.filter(|t| !t.is_empty()).or_else(|| fetch.argument.map(str::to_string));
    let known = ["http_req_rate", "conn_cur", "conn_rate", "http_err_rate"];
    match known.iter().find(|counter| name.contains(*counter)) {
        Some(counter) => Ok(vec![Atom::Rate(Rate { counter: counter.to_string(), tracker, most })]),
        None => Err(format!("the counter `{name}` is not available")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haproxy::lexer::words;

    fn acls(lines: &[&str]) -> Acls {
        let mut acls = Acls::new();
        for line in lines {
            let words = words(line);
            acls.entry(words[1].clone()).or_default().extend(read(&words[2..]));
        }
        acls
    }

    fn matches(condition_text: &str, lines: &[&str]) -> Result<Vec<Match>, String> {
        Ok(condition(&words(condition_text), &acls(lines))?.into_iter().map(|conj| conj.matching).collect())
    }

    fn path(test: Test) -> Cond {
        Cond::new(Key::Path, test)
    }

    #[test]
    fn lines_of_one_name_are_alternatives_and_names_of_a_condition_all_hold() {
        let lines = ["acl api path_beg /api", "acl api path /rpc", "acl get method GET"];
        let get = Cond::one_of(Key::Method, ["GET"]);
        assert_eq!(
            matches("if api get", &lines),
            Ok(vec![
                Match::of([path(Test::Begins("/api".into())), get.clone()]),
                Match::of([path(Test::OneOf(vec!["/rpc".into()])), get.clone()]),
            ])
        );
        assert_eq!(
            matches("unless api", &lines),
            Ok(vec![Match::of([
                path(Test::Begins("/api".into())).negate(),
                path(Test::OneOf(vec!["/rpc".into()])).negate()
            ])])
        );
        assert_eq!(matches("if !api or get", &lines).map(|all| all.len()), Ok(2));
        assert_eq!(matches("if { path_beg / } || !get", &lines).map(|all| all.len()), Ok(2));
    }

    #[test]
    fn unless_negates_the_whole_condition() {
        let lines = ["acl a path /a", "acl get method GET"];
        let wanted = vec![
            Match::of([path(Test::OneOf(vec!["/a".into()])).negate()]),
            Match::of([Cond::one_of(Key::Method, ["GET"]).negate()]),
        ];
        assert_eq!(matches("unless a get", &lines), Ok(wanted));
        assert_eq!(matches("unless { ssl_fc }", &[]), Ok(vec![Match::of([Cond::one_of(Key::Scheme, ["http"])])]));
    }

    #[test]
    fn hosts_are_read_in_every_form() {
        for (text, hosts) in [
            ("hdr(host) -i A.test b.test", vec!["a.test", "b.test"]),
            ("req.hdr(host),lower a.test:8080", vec!["a.test"]),
            ("hdr_end(host) .a.test", vec!["*.a.test"]),
            ("hdr_dom(host) a.test", vec!["a.test", "*.a.test"]),
            ("hdr(host),field(1,:) -i a.test", vec!["a.test"]),
            ("req.hdr(host) -m end .a.test", vec!["*.a.test"]),
        ] {
            assert_eq!(read(&words(text)), [Atom::Is(Cond::one_of(Key::Host, hosts))], "{text}");
        }
        let blog = Cond::new(Key::Header("Host".into()), Test::Begins("blog.".into()));
        assert_eq!(read(&words("hdr_beg(host) blog.")), [Atom::Is(blog)]);
    }

    #[test]
    fn counters_are_compared_with_the_largest_number_allowed() {
        for (text, most) in [("sc_http_req_rate(0) gt 20", 20), ("sc0_http_req_rate ge 20", 19)] {
            let rate = Rate { counter: "http_req_rate".into(), tracker: Some("0".into()), most };
            assert_eq!(read(&words(text)), [Atom::Rate(rate)], "{text}");
        }
    }
}
