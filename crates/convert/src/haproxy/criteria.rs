//! Tests of a request: the fetch of an `acl` line with its flags and values.

use super::logic::{CLIENT, Expr};
use super::samples::{Context, TORN, bounded, called, expression, is_torn, lines, split};
use crate::expression::{foreign, path_tests, whole};
use crate::model::{Cond, Key, Test, escape};
use crate::protection::is_field;

/// Most values of a path that are separate conditions. More values are rows of a map.
const VALUES: usize = 8;

/// Beginning of the reason why a condition on servers cannot be written.
pub(super) const STATE: &str = "it asks for the state of HAProxy";

/// Smallest unit of a condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Atom {
    Is(Cond),
    Host(HostTest),
    Field(FieldTest),
    /// The client's address is in the list of a file.
    ClientFile(String),
    Rate(Rate),
    /// The client has a password of this userlist.
    Auth(String),
    Var(String, Test),
    /// A condition that the language does not have, with the reason.
    Unknown(String),
}

/// Test of the host. Routes compare it without its port, a final dot and its case. A negated test compares it as HAProxy
/// does, or a refusal of other hosts would let in more spellings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HostTest(Vec<Hosts>);

/// Hosts that are compared in the same way.
#[derive(Clone, Debug, PartialEq)]
struct Hosts {
    names: Vec<String>,
    /// Values of the test, if they are not the names.
    values: Option<Vec<String>>,
    ignore_case: bool,
    without_port: bool,
}

impl HostTest {
    /// Adds the hosts of another test.
    pub fn extend(&mut self, other: HostTest) {
        self.0.extend(other.0);
    }

    /// Hosts as routes have them; `*` stands for any beginning.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.0.iter().flat_map(|hosts| &hosts.names)
    }

    pub fn cond(&self, negated: bool) -> Cond {
        match negated {
            false => Cond::one_of(Key::Host, self.names().cloned()),
            true => Cond::new(Key::Header("Host".to_string()), self.exact()),
        }
    }

    /// Expression for the whole field.
    pub fn exact(&self) -> Test {
        let of = |hosts: &Hosts| {
            let start = if hosts.names.iter().any(|name| name.starts_with('*')) { ".*" } else { "" };
            let (case, port) =
                (if hosts.ignore_case { "i" } else { "" }, if hosts.without_port { "(:.*)?" } else { "" });
            let values = hosts.values.as_ref().unwrap_or(&hosts.names).iter();
            let values: Vec<String> = values.map(|value| escape(value.trim_start_matches('*'))).collect();
            match &values[..] {
                [value] => format!("(?{case}:{start}{value}{port})"),
                _ => format!("(?{case}:{start}(?:{}){port})", values.join("|")),
            }
        };
        Test::Regex(self.0.iter().map(of).collect::<Vec<_>>().join("|"))
    }
}

/// Test of the elements of a field, which commas separate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldTest {
    pub name: String,
    /// Method of the comparison, as behind `-m`.
    pub how: String,
    pub values: Vec<String>,
    pub ignore_case: bool,
}

/// Counter of a stick-table compared with a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rate {
    /// Counter, such as `http_req_rate` or `conn_cur`.
    pub counter: String,
    /// Number of the tracker; `None` for a counter of the client's address.
    pub tracker: Option<String>,
    /// Table of its argument; `None` for the table of its tracker, or of the section.
    pub table: Option<String>,
    /// Largest number that is still allowed.
    pub most: u64,
}

impl FieldTest {
    /// The condition of a route.
    pub fn cond(&self) -> Cond {
        let each: Vec<String> = self.values.iter().map(|value| self.expression(value)).collect();
        let case = if self.ignore_case { "(?i)" } else { "" };
        Cond::new(Key::Header(self.name.clone()), Test::Regex(format!("{case}{}", each.join("|"))))
    }

    /// Expression for a line of the field that has such an element.
    fn expression(&self, value: &str) -> String {
        let text = escape(value);
        match self.how.as_str() {
            "beg" => format!("(.*,)?\\s*{text}.*"),
            "end" => format!(".*{text}\\s*(,.*)?"),
            "sub" => format!(".*{text}.*"),
            "dir" => bounded(value, "/?"),
            "dom" => bounded(value, "/?.:"),
            "reg" => whole_of_element(value),
            _ => format!("(.*,)?\\s*{text}\\s*(,.*)?"),
        }
    }

    /// True if a line of the field with this text passes; `None` if that takes an expression.
    pub fn takes(&self, line: &str) -> Option<bool> {
        let folded = |text: &str| if self.ignore_case { text.to_ascii_lowercase() } else { text.to_string() };
        let takes = |element: &str, value: &str| match self.how.as_str() {
            "beg" => Some(element.starts_with(value)),
            "end" => Some(element.ends_with(value)),
            "sub" => Some(element.contains(value)),
            "" | "str" => Some(element == value),
            _ => None,
        };
        let mut any = false;
        for element in line.split(',') {
            for value in &self.values {
                any |= takes(&folded(element.trim()), &folded(value))?;
            }
        }
        Some(any)
    }
}

/// Expression for a line with an element that this expression matches.
fn whole_of_element(regex: &str) -> String {
    let (start, rest) = regex.strip_prefix('^').map_or(("(.*,)?[^,]*", regex), |rest| ("(.*,)?\\s*", rest));
    let (rest, end) = rest.strip_suffix('$').map_or((rest, ".*"), |rest| (rest, "\\s*(,.*)?"));
    format!("{start}(?:{}){end}", rest.replace("\\.", "\u{1}").replace('.', "[^,]").replace('\u{1}', "\\."))
}

/// A fetch with its flags and values, taken apart.
struct Fetch<'w> {
    name: &'w str,
    argument: Option<&'w str>,
    converters: Vec<&'w str>,
    method: &'w str,
    ignore_case: bool,
    /// True for a host that is compared without its port.
    without_port: bool,
    values: Vec<String>,
    /// File of client addresses.
    file: Option<&'w str>,
}

fn fetch<'w>(words: &'w [String], context: &Context<'_>) -> Result<Fetch<'w>, String> {
    let first = words.first().ok_or("it has no test")?;
    let parts = split(first);
    let (name, argument) = called(parts[0]);
    let name = name.strip_prefix("req.").unwrap_or(name);
    let name = if name == "req_ssl_sni" { "ssl_sni" } else { name };
    let converters = parts[1..].to_vec();
    let mut fetch = Fetch {
        name,
        argument,
        converters,
        method: "",
        ignore_case: false,
        without_port: false,
        values: Vec::new(),
        file: None,
    };
    let mut rest = words[1..].iter().map(String::as_str);
    let mut flags_end = false;
    while let Some(word) = rest.next() {
        match word {
            _ if flags_end => fetch.values.push(word.to_string()),
            "--" => flags_end = true,
            "-i" => fetch.ignore_case = true,
            "-n" | "-u" => drop(rest.next()),
            "-M" => return Err("values are keys of a map".to_string()),
            "-f" => {
                let file = rest.next().unwrap_or_default();
                match (name, lines(file, context)) {
                    ("src", _) => fetch.file = Some(file),
                    (_, Some(lines)) => fetch.values.extend(lines),
                    _ if is_torn(file, context.files) => return Err(TORN.to_string()),
                    _ => return Err(format!("its values are in the file {file}, which was not read")),
                }
            }
            "-m" => fetch.method = rest.next().unwrap_or_default(),
            _ => fetch.values.push(word.to_string()),
        }
    }
    for suffix in ["_beg", "_end", "_sub", "_reg", "_dir", "_dom", "_len", "_cnt"] {
        if let Some(base) = fetch.name.strip_suffix(suffix) {
            (fetch.name, fetch.method) = (base, &suffix[1..]);
        }
    }
    Ok(fetch)
}

/// Reads a test, without the braces around it or the name of its `acl`.
pub(super) fn read(words: &[String], context: &Context<'_>) -> Expr {
    let sample = words.first().map_or("", |word| word.split([',', '(']).next().unwrap_or_default());
    // Fields with addresses of proxies are lists of clients as well.
    let is_client = matches!(sample, "src" | "src_is_local" | "fc_src" | "fc_src_is_local")
        || sample.ends_with("hdr_ip")
        || words.windows(2).any(|pair| pair[0] == "-m" && pair[1] == "ip");
    test(words, context)
        .unwrap_or_else(|reason| Expr::unknown(format!("{}{reason}", if is_client { CLIENT } else { "" })))
}

fn test(words: &[String], context: &Context<'_>) -> Result<Expr, String> {
    let mut fetch = fetch(words, context)?;
    let is_host = matches!(fetch.name, "hdr" | "fhdr")
        && fetch.argument.is_some_and(|name| name.split(',').next().unwrap_or_default().eq_ignore_ascii_case("host"));
    if is_host {
        // Hosts are compared without their port, and in any case.
        let is_plain = |converter: &&str| !matches!(*converter, "lower" | "host_only" | "field(1,:)" | "word(1,:)");
        let converters = fetch.converters.clone();
        fetch.converters.retain(is_plain);
        fetch.ignore_case |= converters.len() > fetch.converters.len() && converters.contains(&"lower");
        fetch.without_port = converters.iter().any(|converter| *converter != "lower");
        if !fetch.converters.is_empty() {
            fetch.converters = converters;
        }
    }
    // Each element of a list is converted. In small letters, it is compared without regard to case.
    if !is_host && matches!(fetch.name, "hdr" | "fhdr") && fetch.converters == ["lower"] && fetch.method != "reg" {
        let is_small = |value: &String| !value.bytes().any(|b| b.is_ascii_uppercase());
        if !fetch.values.is_empty() && fetch.values.iter().all(is_small) {
            fetch.converters.clear();
            fetch.ignore_case = true;
        }
    }
    if !fetch.converters.is_empty() {
        return converted(words[0].as_str(), &fetch, context);
    }
    match fetch.name {
        "path" => paths(&fetch, context),
        "url" | "pathq" | "base" => text(&fetch, context),
        "query" => match fetch.method {
            "found" => Ok(has_query(context).into()),
            _ => text(&fetch, context),
        },
        "hdr" | "fhdr" if is_host => hosts(&fetch),
        "ssl_sni" | "ssl_fc_sni" => hosts(&fetch),
        "hdr" | "fhdr" => field(&fetch),
        "ssl_fc" => Ok(Cond::one_of(Key::Scheme, ["https"]).into()),
        "method" => Ok(Cond::one_of(Key::Method, fetch.values.clone()).into()),
        "src" => Ok(clients(&fetch)),
        "cook" | "cookie" => values(&fetch, Key::Cookie(fetch.argument.unwrap_or_default().to_string())),
        "url_param" | "urlp" => values(&fetch, Key::Query(fetch.argument.unwrap_or_default().to_string())),
        "always_true" => Ok(Expr::Const(true)),
        "always_false" => Ok(Expr::Const(false)),
        "http_auth" => Ok(Atom::Auth(fetch.argument.unwrap_or_default().to_string()).into()),
        "http_auth_group" => match (fetch.method, fetch.values.as_slice()) {
            ("" | "str", [group]) => Ok(Atom::Auth(format!("{}/{group}", fetch.argument.unwrap_or_default())).into()),
            _ => Err("it asks for several groups of users".to_string()),
        },
        "nbsrv" | "srv_is_up" | "connslots" | "avg_queue" => {
            Err(format!("{STATE}, how many servers are up; tiers do that here: `priority` of endpoints"))
        }
        "fe_conn" | "be_conn" | "be_conn_free" | "srv_conn" | "srv_conn_free" | "queue" | "srv_queue"
        | "fe_sess_rate" | "be_sess_rate" | "fe_req_rate" | "srv_sess_rate" | "be_server_timeout" | "stopping" => {
            Err(format!("{STATE}, its load"))
        }
        "dst_port" => match (&context.port, fetch.values.as_slice()) {
            (Some(port), values) if values.iter().all(|value| value.parse::<u16>().is_ok()) => {
                Ok(Expr::Const(values.contains(port)))
            }
            _ => Err("it asks for the port: give each port a listener, and name it in the match".to_string()),
        },
        "var" => variable(&fetch),
        "ssl_hello_type" | "rep_ssl_hello_type" | "req_ssl_hello_type" => {
            Err("it asks whether a session is one of TLS".to_string())
        }
        name if name.contains("_rate") || name.contains("conn_cur") || name.contains("gpc") => rate(&fetch),
        name => Err(format!("`{name}` is not available as a condition")),
    }
}

/// A sample with converters: its value is looked up in a map of the values that it is compared with.
fn converted(sample: &str, fetch: &Fetch<'_>, context: &Context<'_>) -> Result<Expr, String> {
    let no_variable = |_: &str| None;
    let from = expression(sample, context, &no_variable)?;
    let name = from.strip_prefix("{map.").and_then(|rest| rest.strip_suffix('}')).filter(|n| !n.contains(['{', '|']));
    if let (Some(name), false) = (name, fetch.ignore_case) {
        return values(fetch, Key::Map(name.to_string()));
    }
    // Without the folders of files.
    let base: Vec<&str> = sample.split(',').filter(|part| !part.contains('/') || part.starts_with("field")).collect();
    let base = base.join("-").replace(|c: char| !c.is_ascii_alphanumeric(), "-").replace("--", "-");
    compared(&base, &from, fetch, context)
}

/// A text with variables, compared with the values of a fetch.
fn compared(base: &str, from: &str, fetch: &Fetch<'_>, context: &Context<'_>) -> Result<Expr, String> {
    let of = |make: &dyn Fn(&str) -> String| fetch.values.iter().map(|value| make(value)).collect::<Vec<_>>();
    let (how, values) = match fetch.method {
        "" | "str" => ("exact", fetch.values.clone()),
        "beg" => ("prefix", fetch.values.clone()),
        "end" => ("suffix", fetch.values.clone()),
        "sub" => ("regex", of(&|value| format!(".*{}.*", escape(value)))),
        "dir" => ("regex", of(&|value| bounded(value, "/?"))),
        "dom" => ("regex", of(&|value| bounded(value, "/?.:"))),
        "found" => ("regex", vec![".*".to_string()]),
        "reg" => {
            fetch.values.iter().try_for_each(|value| foreign(value))?;
            ("regex", of(&|value| whole(value, fetch.ignore_case)))
        }
        method => return Err(format!("it cannot be matched by `{method}`")),
    };
    if values.is_empty() {
        return Err("it has no value".to_string());
    }
    let ignore_case = fetch.ignore_case && fetch.method != "reg";
    Ok(context.maps.fits(base, from, how, &values, ignore_case).into())
}

/// Condition on a query, which may be empty.
fn has_query(context: &Context<'_>) -> Cond {
    context.maps.fits("has-query", "{request_uri}", "regex", &[r"[^?]*\?.*".into()], false)
}

/// The URL, or the host and the path.
fn text(fetch: &Fetch<'_>, context: &Context<'_>) -> Result<Expr, String> {
    let from = match fetch.name {
        "base" => "{header.Host}{path}",
        "query" => "{query}",
        _ => "{request_uri}",
    };
    // A beginning without a query belongs to the path.
    let is_of_path = |value: &String| value.starts_with('/') && !value.contains('?');
    if fetch.method == "beg" && matches!(fetch.name, "url" | "pathq") && fetch.values.iter().all(is_of_path) {
        return paths(fetch, context);
    }
    compared(&format!("is-{}", fetch.name), from, fetch, context)
}

fn paths(fetch: &Fetch<'_>, context: &Context<'_>) -> Result<Expr, String> {
    if fetch.values.len() > VALUES && fetch.method != "reg" {
        return compared("is-path", "{path}", fetch, context);
    }
    let mut tests: Vec<Test> = Vec::new();
    let case = |regex: String| Test::Regex(format!("(?i){regex}"));
    for value in &fetch.values {
        let text = escape(value);
        match (fetch.method, fetch.ignore_case) {
            ("" | "str", false) => tests.push(Test::OneOf(vec![value.clone()])),
            ("" | "str", true) => tests.push(case(text)),
            ("beg", _) if value == "/" => return Ok(Expr::Const(true)),
            ("beg", false) => tests.push(Test::Begins(value.clone())),
            ("beg", true) => tests.push(case(format!("{text}.*"))),
            ("end", false) => tests.push(Test::Ends(value.clone())),
            ("end", true) => tests.push(case(format!(".*{text}"))),
            ("sub", false) => tests.push(Test::Contains(value.clone())),
            ("sub", true) => tests.push(case(format!(".*{text}.*"))),
            ("dir", false) => tests.push(Test::Regex(bounded(value, "/?"))),
            ("dir", true) => tests.push(case(bounded(value, "/?"))),
            ("reg", ignore_case) => tests.extend(path_tests(value, ignore_case)?),
            (method, _) => return Err(format!("paths cannot be matched by `{method}`")),
        }
    }
    match tests.is_empty() {
        true => Err("it has no value".to_string()),
        false => Ok(Expr::any(tests.into_iter().map(|test| Cond::new(Key::Path, test).into()))),
    }
}

fn hosts(fetch: &Fetch<'_>) -> Result<Expr, String> {
    let bare = |value: &String| {
        let host = value.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        host.map_or(value.as_str(), |(host, _)| host).to_ascii_lowercase()
    };
    let all: Vec<String> = fetch.values.iter().map(bare).collect();
    let is_below = |host: &String| host.starts_with('.');
    let test = |names: Vec<String>| -> Expr {
        if fetch.name.ends_with("sni") {
            return Cond::one_of(Key::Host, names).into();
        }
        let values = (names != fetch.values).then(|| fetch.values.clone());
        let (ignore_case, without_port) = (fetch.ignore_case, fetch.without_port);
        Atom::Host(HostTest(vec![Hosts { names, values, ignore_case, without_port }])).into()
    };
    match fetch.method {
        "" | "str" if !all.is_empty() => Ok(test(all)),
        "end" if !all.is_empty() && all.iter().all(is_below) => {
            Ok(test(all.iter().map(|domain| format!("*{domain}")).collect()))
        }
        // Names of TLS have no port, and are compared as hosts.
        "end" | "dom" if fetch.name.ends_with("sni") => {
            let each = all.iter().flat_map(|end| [end.clone(), format!("*.{end}")]);
            Ok(Cond::one_of(Key::Host, each).into())
        }
        "dom" => {
            let case = if fetch.ignore_case { "(?i)" } else { "" };
            let each: Vec<String> = fetch.values.iter().map(|value| bounded(value, "/?.:")).collect();
            Ok(Cond::new(Key::Header("Host".into()), Test::Regex(format!("{case}{}", each.join("|")))).into())
        }
        _ => values(fetch, Key::Header("Host".to_string())),
    }
}

fn field(fetch: &Fetch<'_>) -> Result<Expr, String> {
    let name = fetch.argument.unwrap_or_default().split(',').next().unwrap_or_default().to_string();
    if !is_field(&name) {
        return Err("it names no field".to_string());
    }
    let is_list = fetch.name == "hdr" && !matches!(fetch.method, "found" | "cnt") && !fetch.values.is_empty();
    if !is_list {
        return values(fetch, Key::Header(name));
    }
    if fetch.method == "reg" {
        fetch.values.iter().try_for_each(|value| foreign(value))?;
    }
    if !matches!(fetch.method, "" | "str" | "beg" | "end" | "sub" | "dir" | "dom" | "reg") {
        return Err(format!("fields cannot be matched by `{}`", fetch.method));
    }
    let (how, values) = (fetch.method.to_string(), fetch.values.clone());
    Ok(Atom::Field(FieldTest { name, how, values, ignore_case: fetch.ignore_case }).into())
}

fn clients(fetch: &Fetch<'_>) -> Expr {
    let file = fetch.file.map(|file| Atom::ClientFile(file.to_string()).into());
    let own = (!fetch.values.is_empty()).then(|| Cond::one_of(Key::Client, fetch.values.clone()).into());
    Expr::any(file.into_iter().chain(own))
}

fn values(fetch: &Fetch<'_>, key: Key) -> Result<Expr, String> {
    let is = |test: Test| Expr::from(Cond::new(key.clone(), test));
    let each = |test: fn(String) -> Test| Expr::any(fetch.values.iter().map(|value| is(test(value.clone()))));
    let words: Vec<&str> = fetch.values.iter().map(String::as_str).collect();
    match fetch.method {
        "found" => Ok(is(Test::Present)),
        "cnt" => match words.as_slice() {
            ["0"] | ["eq", "0"] | ["lt", "1"] => Ok(is(Test::Present).not()),
            ["ge", "1"] | ["gt", "0"] => Ok(is(Test::Present)),
            _ => Err("it counts the lines of a field".to_string()),
        },
        _ if fetch.values.is_empty() => Ok(is(Test::Present)),
        "reg" => {
            fetch.values.iter().try_for_each(|value| foreign(value))?;
            Ok(Expr::any(fetch.values.iter().map(|value| is(Test::Regex(whole(value, fetch.ignore_case))))))
        }
        _ if fetch.ignore_case => {
            let all: Vec<String> = fetch.values.iter().map(|value| escape(value)).collect();
            let (start, end) = match fetch.method {
                "" | "str" => ("", ""),
                "beg" => ("", ".*"),
                "end" => (".*", ""),
                "sub" => (".*", ".*"),
                method => return Err(format!("fields cannot be matched by `{method}`")),
            };
            Ok(is(Test::Regex(format!("(?i){start}({}){end}", all.join("|")))))
        }
        "" | "str" => Ok(is(Test::OneOf(fetch.values.clone()))),
        "beg" => Ok(each(Test::Begins)),
        "end" => Ok(each(Test::Ends)),
        "sub" => Ok(each(Test::Contains)),
        method => Err(format!("fields cannot be matched by `{method}`")),
    }
}

fn variable(fetch: &Fetch<'_>) -> Result<Expr, String> {
    let name = fetch.argument.unwrap_or_default().split(',').next().unwrap_or_default().to_string();
    if fetch.ignore_case {
        return Err("a variable is compared without regard to case".to_string());
    }
    let var = |test: Test| Expr::from(Atom::Var(name.clone(), test));
    let each = |test: fn(String) -> Test| Expr::any(fetch.values.iter().map(|value| var(test(value.clone()))));
    match fetch.method {
        "found" => Ok(var(Test::Present)),
        "bool" if fetch.values.is_empty() => Ok(var(Test::OneOf(vec!["true".into()]))),
        "" if fetch.values.is_empty() => Ok(var(Test::OneOf(vec!["true".into()]))),
        "" | "str" => Ok(var(Test::OneOf(fetch.values.clone()))),
        "beg" => Ok(each(Test::Begins)),
        "end" => Ok(each(Test::Ends)),
        "sub" => Ok(each(Test::Contains)),
        method => Err(format!("variables cannot be matched by `{method}`")),
    }
}

fn rate(fetch: &Fetch<'_>) -> Result<Expr, String> {
    let (operator, number) = match fetch.values.as_slice() {
        [operator, number] => (operator.as_str(), number),
        _ => return Err("a counter is compared with something other than one number".to_string()),
    };
    let number: u64 = number.parse().map_err(|_| format!("\"{number}\" is not a number"))?;
    let most = match operator {
        "gt" => number,
        "ge" => number.saturating_sub(1),
        _ => return Err(format!("a counter is compared by `{operator}`")),
    };
    let name = fetch.name;
    // `sc0_http_req_rate(TABLE)`, `sc_http_req_rate(0,TABLE)`, `src_http_req_rate(TABLE)`
    let number = name.strip_prefix("sc").and_then(|rest| rest.split_once('_')).map(|(number, _)| number);
    let mut arguments = fetch.argument.into_iter().flat_map(|argument| argument.split(',')).map(str::trim);
    let tracker = match number {
        Some("") => Some(arguments.next().unwrap_or_default().to_string()),
        Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => Some(number.to_string()),
        _ => None,
    };
    let table = arguments.next().map(str::to_string);
    let known = ["http_req_rate", "conn_cur", "conn_rate", "http_err_rate"];
    match known.iter().find(|counter| name.contains(*counter)) {
        Some(counter) => Ok(Atom::Rate(Rate { counter: counter.to_string(), tracker, table, most }).into()),
        None => Err(format!("the counter `{name}` is not available")),
    }
}
