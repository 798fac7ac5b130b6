//! Routes of virtual hosts: their match, their action, and changes of fields.

use crate::durations::milliseconds;
use crate::expression;
use crate::ledger::Ledger;
use crate::limits::put_time;
use crate::model::{
    Action, Cond, Draft, FieldKeys, Key, Match, Route, RouteKeys, Target, Test, Value, braced, name_of,
};
use crate::protection;
use crate::tree::Node;
use evenkeel_config::plan::Mirror;

/// Routes of one entry; several if its path is one of several.
pub(super) fn read(node: &Node, host: &str, target: &Target, ledger: &mut Ledger) -> Vec<Route> {
    let matches = match node.get("match").map(|matching| conditions(matching, ledger)) {
        Some(Ok(matches)) => matches,
        Some(Err(reason)) => {
            node.lost(&reason, "write the [[route]] by hand", ledger);
            return Vec::new();
        }
        None => vec![Match::default()],
    };
    let mut set = fields(node, ledger);
    let mut matches = matches;
    let action = if let Some(to) = node.get("route") {
        forward(to, &mut matches, &mut set, ledger)
    } else if let Some(to) = node.get("redirect") {
        Some(redirect(to, ledger))
    } else if let Some(response) = node.get("direct_response") {
        let status = response
            .take("status", ledger)
            .and_then(|status| status.parse::<u64>().ok())
            .filter(|n| (200..600).contains(n));
        let body = response.take("body.inline_string", ledger).map(str::to_string);
        response.lost("the body is not text in the file", "respond = { file = \"FILE\" } of the [[route]]", ledger);
        let status = status.unwrap_or(200);
        Some(match body.filter(|body| !body.is_empty() && body.len() <= 1024) {
            Some(body) => Action::Respond(Draft::one(key!("status"), status).with(key!("body"), body)),
            None => Action::respond(status),
        })
    } else {
        None
    };
    let line = node.line;
    let copied = match set.get(key!("mirror")) {
        Some(Value::Table(mirror)) => mirror.get("pool").cloned(),
        _ => None,
    };
    if copied.is_some_and(|pool| !target.pools.iter().any(|other| pool == other.name.as_str().into())) {
        set.remove(key!("mirror"));
        ledger.changes(line, "the cluster of its copies was not carried over", "mirror of the [[route]]");
    }
    if let Some(name) = node.get("name") {
        name.carried(ledger);
    }
    node.lost("a route has no such setting here", "see the keys of a [[route]]", ledger);
    match action.filter(|action| has_pool(action, target)) {
        Some(action) => matches
            .into_iter()
            .map(|matching| Route {
                name: host.to_string(),
                comments: Vec::new(),
                matching,
                action: action.clone(),
                set: set.clone(),
                line,
            })
            .collect(),
        None => {
            ledger.changes(line, "it has no action that was carried over", "write the [[route]] by hand");
            Vec::new()
        }
    }
}

pub(super) fn conditions(node: &Node, ledger: &mut Ledger) -> Result<Vec<Match>, String> {
    let mut tests: Vec<Option<Test>> = vec![None];
    if let Some(prefix) = node.take("prefix", ledger) {
        tests = vec![(prefix != "/").then(|| Test::Begins(prefix.to_string()))];
    } else if let Some(path) = node.take("path", ledger) {
        tests = vec![Some(Test::OneOf(vec![path.to_string()]))];
    } else if let Some(prefix) = node.take("path_separated_prefix", ledger) {
        tests = vec![Some(Test::Below(prefix.to_string()))];
    } else if let Some(regex) = node.take("safe_regex.regex", ledger) {
        // The whole path, as here.
        let whole = format!("^{}$", regex.trim_start_matches('^').trim_end_matches('$'));
        tests = expression::path_tests(&whole, false)?.into_iter().map(Some).collect();
    } else if node.get("connect_matcher").is_some() {
        return Err("CONNECT is not forwarded".to_string());
    }
    let mut all = Match::default();
    let mut conds = Vec::new();
    for (list, is_header) in [("headers", true), ("query_parameters", false)] {
        for matcher in node.get(list).map_or(&[][..], Node::list) {
            conds.push(value(matcher, is_header, ledger)?);
        }
    }
    for cond in conds {
        all = all.and(&Match::of([cond])).map_err(|_| "its conditions do not fit into one match".to_string())?;
    }
    if let Some(flag) = node.get("case_sensitive") {
        flag.lost("paths are compared in their case", "regex = \"(?i)...\" in match", ledger);
    }
    if let Some(grpc) = node.get("grpc") {
        grpc.lost("a condition on gRPC is left out", "match.grpc, or header = { Content-Type = ... }", ledger);
    }
    let each = tests.into_iter().map(|test| all.and(&Match::of(test.map(|test| Cond::new(Key::Path, test)))));
    each.collect::<Result<_, _>>().map_err(|_| "its conditions do not fit into one match".to_string())
}

/// Condition on a header or a query parameter.
fn value(node: &Node, is_header: bool, ledger: &mut Ledger) -> Result<Cond, String> {
    let name = node.take("name", ledger).unwrap_or_default().to_string();
    let key = match (is_header, name.as_str()) {
        (true, ":method") => Key::Method,
        (true, ":authority") => Key::Header("Host".to_string()),
        (true, ":scheme") => Key::Scheme,
        (true, name) if name.starts_with(':') => return Err(format!("`{name}` is not a condition of routes")),
        (true, name) => Key::Header(name.to_string()),
        (false, name) => Key::Query(name.to_string()),
    };
    let matching = node.get("string_match").unwrap_or(node);
    let whole = |regex: &str| expression::foreign(regex).map(|()| Test::Regex(regex.to_string()));
    let test = if let Some(text) = matching.take("exact", ledger).or_else(|| node.take("exact_match", ledger)) {
        Test::OneOf(vec![text.to_string()])
    } else if let Some(text) = matching.take("prefix", ledger).or_else(|| node.take("prefix_match", ledger)) {
        Test::Begins(text.to_string())
    } else if let Some(text) = matching.take("suffix", ledger).or_else(|| node.take("suffix_match", ledger)) {
        Test::Ends(text.to_string())
    } else if let Some(text) = matching.take("contains", ledger).or_else(|| node.take("contains_match", ledger)) {
        Test::Contains(text.to_string())
    } else if let Some(regex) =
        matching.take("safe_regex.regex", ledger).or_else(|| node.take("safe_regex_match.regex", ledger))
    {
        whole(regex)?
    } else if node.get("range_match").is_some() {
        return Err("a range of numbers is not a condition of routes".to_string());
    } else {
        node.take("present_match", ledger);
        Test::Present
    };
    let is_list = matches!(key, Key::Method | Key::Scheme);
    if is_list && !matches!(test, Test::OneOf(_)) {
        return Err(format!("`{name}` is compared as a whole"));
    }
    let cond = Cond::new(key, test);
    Ok(if node.take("invert_match", ledger) == Some("true") { cond.negate() } else { cond })
}

/// The pools of `route`, and its filters.
fn forward(to: &Node, matches: &mut Vec<Match>, set: &mut RouteKeys, ledger: &mut Ledger) -> Option<Action> {
    let action = if let Some(cluster) = to.take("cluster", ledger) {
        Some(Action::Pool(name_of(cluster)))
    } else {
        to.at("weighted_clusters.clusters").map(|clusters| {
            let mut split = Draft::default();
            for part in clusters.list() {
                let weight = part.take("weight", ledger).and_then(|weight| weight.parse::<u64>().ok()).unwrap_or(1);
                if let Some(name) = part.take("name", ledger) {
                    split.insert(key!("weights"), &name_of(name), weight.min(1_000_000));
                }
            }
            Action::Split(split)
        })
    };
    if let Some(prefix) = to.take("prefix_rewrite", ledger) {
        let all = matches.iter().map(by_segment).collect::<Option<Vec<Match>>>();
        match all {
            Some(all) => {
                *matches = all;
                let prefix = prefix.trim_end_matches('/');
                match prefix.is_empty() {
                    true => drop(set.put(key!("strip_prefix"), true)),
                    false => drop(set.put(key!("rewrite.prefix"), braced(prefix))),
                }
                ledger.changes(
                    to.line,
                    "a prefix is replaced by segment: /x takes no /xy, and slashes are not doubled",
                    "compare a request through both",
                );
            }
            None => ledger.changes(
                to.line,
                "the whole path is replaced by `prefix_rewrite`",
                "rewrite = { path = \"/x\" } of the [[route]]",
            ),
        }
    }
    if let Some(host) = to.take("host_rewrite_literal", ledger) {
        set.put(key!("send_host"), host);
    }
    if to.take("auto_host_rewrite", ledger) == Some("true") {
        set.put(key!("send_host"), "endpoint");
    }
    mirror(to, set, ledger);
    // Envoy's default is 15 s.
    let ms = to.take("timeout", ledger).and_then(milliseconds).unwrap_or(15_000);
    put_time(set, key!("timeouts.request"), ms);
    if let Some(ms) = to.take("idle_timeout", ledger).and_then(milliseconds) {
        put_time(set, key!("timeouts.idle"), ms);
    }
    let policy = to.get("retry_policy");
    set.put(
        key!("retry.attempts"),
        policy
            .and_then(|policy| policy.take("num_retries", ledger))
            .map_or(u64::from(policy.is_some()), |n| n.parse().unwrap_or(1))
            .min(10),
    );
    if let Some(policy) = policy {
        let mut on: Vec<Value> = Vec::new();
        for word in policy.texts("retry_on", ledger) {
            match word.as_str() {
                "connect-failure" | "refused-stream" => on.push("connect".into()),
                "reset" | "reset-before-request" => on.push("reset".into()),
                "5xx" => on.extend(["connect".into(), "reset".into(), "5xx".into()]),
                "gateway-error" => on.extend([502_u64.into(), 503_u64.into(), 504_u64.into()]),
                other => ledger.changes(
                    policy.line,
                    format!("`{other}` is not a condition of retries"),
                    "retry.on of the [[route]]",
                ),
            }
        }
        let mut unique: Vec<Value> = Vec::new();
        on.into_iter().for_each(|value| {
            if !unique.contains(&value) {
                unique.push(value)
            }
        });
        if !unique.is_empty() {
            set.put(key!("retry.on"), Value::List(unique));
        }
        if let Some(ms) = policy.take("per_try_timeout", ledger).and_then(milliseconds) {
            put_time(set, key!("retry.try_timeout"), ms);
        }
    }
    to.lost("a route has no such setting here", "see the keys of a [[route]]", ledger);
    action
}

/// Sets the copy of requests for another cluster.
fn mirror(to: &Node, set: &mut RouteKeys, ledger: &mut Ledger) {
    let Some(policies) = to.get("request_mirror_policies") else { return };
    for policy in policies.list() {
        let share = match policy.at("runtime_fraction.default_value") {
            Some(fraction) => {
                let parts = fraction.take("numerator", ledger).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
                let unit = match fraction.take("denominator", ledger) {
                    Some("TEN_THOUSAND") => 100,
                    Some("MILLION") => 1,
                    _ => 10_000,
                };
                parts.saturating_mul(unit).min(1_000_000)
            }
            None => 1_000_000,
        };
        if share == 0 {
            policy.dropped("no request is copied", ledger);
            continue;
        }
        let Some(cluster) = policy.at("cluster").and_then(Node::text).filter(|_| !set.has(key!("mirror"))) else {
            policy.lost(
                "only the first mirror to one cluster is carried over",
                "mirror of the [[route]], which takes several",
                ledger,
            );
            continue;
        };
        policy.take("cluster", ledger);
        policy.take("runtime_fraction.runtime_key", ledger);
        let mut mirror: Draft<Mirror> = Draft::one(key!("pool"), name_of(cluster));
        if share < 1_000_000 {
            mirror.put(key!("share"), Value::Fraction(format!("0.{share:06}").trim_end_matches('0').to_string()));
        }
        set.put(key!("mirror"), mirror);
        ledger.changes(
            policy.line,
            "copies have the client's host, where Envoy adds -shadow; requests with bodies above 64 kB are not copied",
            "mirror.body_max of the [[route]]",
        );
        policy.lost("copies have no such setting", "see mirror of the [[route]]", ledger);
    }
}

/// The match with its prefix by segment; `None` if it has none.
fn by_segment(matching: &Match) -> Option<Match> {
    let mut matching = matching.clone();
    let cond = matching.conds.iter_mut().find(|cond| cond.key == Key::Path && !cond.negated)?;
    match &cond.test {
        Test::Begins(text) => cond.test = Test::Below(text.trim_end_matches('/').to_string()),
        Test::Below(_) => {}
        _ => return None,
    }
    Some(matching)
}

fn redirect(to: &Node, ledger: &mut Ledger) -> Action {
    let status = match to.take("response_code", ledger) {
        Some("FOUND") => 302,
        Some("SEE_OTHER") => 303,
        Some("TEMPORARY_REDIRECT") => 307,
        Some("PERMANENT_REDIRECT") => 308,
        _ => 301,
    };
    let mut table = Draft::one(key!("status"), status);
    if to.take("https_redirect", ledger) == Some("true") {
        table.put(key!("scheme"), "https");
    }
    if let Some(scheme) = to.take("scheme_redirect", ledger) {
        table.put(key!("scheme"), scheme);
    }
    if let Some(host) = to.take("host_redirect", ledger) {
        table.put(key!("host"), host);
    }
    if let Some(port) = to.take("port_redirect", ledger).and_then(|port| port.parse::<u64>().ok()) {
        table.put(key!("port"), port);
    }
    if let Some(path) = to.take("path_redirect", ledger) {
        table.put(key!("path"), braced(path));
    }
    if to.take("strip_query", ledger) == Some("true") {
        table.put(key!("keep_query"), false);
    }
    to.lost("a redirect has no such setting here", "redirect of the [[route]]", ledger);
    Action::Redirect(table)
}

/// Changes of fields of a route or a virtual host.
pub(super) fn fields(node: &Node, ledger: &mut Ledger) -> RouteKeys {
    let mut set = Draft::default();
    for (key, fields) in
        [("request_headers_to_add", FieldKeys::REQUEST), ("response_headers_to_add", FieldKeys::RESPONSE)]
    {
        for entry in node.get(key).map_or(&[][..], Node::list) {
            let name = entry.take("header.key", ledger).map(str::to_string);
            let value = entry.take("header.value", ledger).map(str::to_string);
            let action = entry.take("append_action", ledger).unwrap_or("APPEND_IF_EXISTS_OR_ADD").to_string();
            let appends = entry.take("append", ledger) != Some("false");
            let (Some(name), Some(value)) = (name, value) else { continue };
            let (verb, into) =
                if action.starts_with("OVERWRITE") || !appends { ("set", fields.set) } else { ("add", fields.add) };
            let Some(text) = variables(&value) else {
                let reason = format!("`{value}` has no counterpart");
                match (fields.table, verb) {
                    ("request_headers", "set") => protection::withhold(&name, entry.line, &reason, &mut set, ledger),
                    _ => ledger.changes(entry.line, reason, format!("set {name} by hand")),
                }
                continue;
            };
            set.insert(into, &name, text);
        }
    }
    for (key, fields) in
        [("request_headers_to_remove", FieldKeys::REQUEST), ("response_headers_to_remove", FieldKeys::RESPONSE)]
    {
        for name in node.texts(key, ledger) {
            set.push(fields.remove, name);
        }
    }
    set
}

/// A value with `%VARIABLES%` in the spelling of evenkeel.
fn variables(value: &str) -> Option<String> {
    const KNOWN: &[(&str, &str)] = &[
        ("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", "{client.ip}"),
        ("%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%", "{client.ip}"),
        ("%PROTOCOL%", "{protocol}"),
        ("%REQ(:METHOD)%", "{method}"),
        ("%REQ(:AUTHORITY)%", "{host}"),
        ("%REQ(:PATH)%", "{path}"),
    ];
    let known = KNOWN.iter().find(|(own, variable)| *own == value && *variable != "{protocol}");
    match (known, value.contains('%')) {
        (Some((_, variable)), _) => Some((*variable).to_string()),
        (None, true) => None,
        (None, false) => Some(braced(value)),
    }
}

/// True unless the action leads to a cluster that was not carried over.
pub(super) fn has_pool(action: &Action, target: &Target) -> bool {
    match action {
        Action::Pool(pool) => target.pools.iter().any(|other| other.name == *pool),
        _ => true,
    }
}
