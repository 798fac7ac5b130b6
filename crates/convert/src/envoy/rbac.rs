//! `envoy.filters.http.rbac`: requests that are refused by a rule. Each route gets a route before it that refuses
//! some of its requests, or a list of networks. Where a rule has a part without a counterpart, more requests are refused.

use super::guard::guard;
use super::per_route::{Settings, settings};
use super::read::message;
use super::rule::Rule;
use crate::ledger::{Ledger, Line};
use crate::report::OPEN;
use crate::tree::Node;
use evenkeel_config::plan::{Cidr, Criteria, Expected, Listener, Match, PathPattern};
use evenkeel_envoy::matching::header_condition;
use evenkeel_envoy::node;
use evenkeel_envoy::pairs::braced;
use evenkeel_envoy::route::{RouteConfiguration, VirtualHost};
use evenkeel_envoy::schema::{HEADER_MATCHER, Message, STRING_MATCHER};
use evenkeel_envoy::values::{escaped, text_condition};
use std::sync::Arc;

/// Surroundings of the filter on which its rules depend.
struct Around<'a> {
    manager: &'a Node,
    listener: &'a Listener,
}

/// Adds the refusals of a filter to the routes.
pub(super) fn read(
    filter: &Node,
    manager: &Node,
    listener: &Listener,
    routes: &mut RouteConfiguration,
    ledger: &mut Ledger,
) {
    let around = Around { manager, listener };
    let name = filter.get("name").and_then(Node::text).unwrap_or_default();
    let is_off = filter.get("disabled").and_then(Node::text) == Some("true");
    let config = filter.get("typed_config").filter(|_| !is_off);
    let base = around.denied(config, filter.line, ledger);
    // Requests without a route are refused, too.
    if !base.is_empty() && !routes.hosts.iter().any(|host| host.is_for_all) {
        let host = VirtualHost {
            name: "(others)".to_owned(),
            domains: Vec::new(),
            odd: Vec::new(),
            is_for_all: true,
            routes: Vec::new(),
        };
        routes.hosts.push(Arc::new(host));
    }
    for host in &mut routes.hosts {
        let host = Arc::make_mut(host);
        let of = host.name.clone();
        let own = |label: Option<&str>, ledger: &mut Ledger| match settings(manager, &of, label, name) {
            Settings::Same => base.clone(),
            Settings::Off(line) => {
                ledger.carried(line);
                Vec::new()
            }
            Settings::Other(table) => {
                let denied = around.denied(table.get("rbac"), table.line, ledger);
                table.carried(ledger);
                denied
            }
        };
        let of_host = own(None, ledger);
        guard(host, &of_host, filter.line, ledger, |route, ledger| own(Some(&route.label), ledger));
    }
    filter.carried(ledger);
}

impl Around<'_> {
    /// Requests that the rules of a filter refuse. `line`: the directive of the rules.
    fn denied(&self, config: Option<&Node>, line: Line, ledger: &mut Ledger) -> Vec<Match> {
        let Some(config) = config else { return Vec::new() };
        let rule = if config.get("matcher").is_some() {
            Rule::Unknown("`matcher` has no counterpart".to_owned())
        } else if let Some(rules) = config.get("rules") {
            let policies = rules.get("policies").map_or(&[][..], Node::entries);
            let policies = Rule::Any(policies.iter().map(|(_, policy)| self.policy(policy, ledger)).collect());
            match rules.get("action").and_then(Node::text) {
                None | Some("ALLOW" | "0") => Rule::Not(Box::new(policies)),
                Some("DENY" | "1") => policies,
                Some("LOG" | "2") => Rule::Always(false),
                Some(_) => Rule::Unknown("the action is not one of Envoy".to_owned()),
            }
        } else {
            Rule::Always(false)
        };
        let mut why = Vec::new();
        let matches = rule.matches(&mut why);
        for reason in &why {
            ledger.decide(line, format!("{reason}: all requests that the rule may refuse are refused"), OPEN);
        }
        matches
    }

    fn policy(&self, policy: &Node, ledger: &mut Ledger) -> Rule {
        let any =
            |key: &str, ledger: &mut Ledger| Rule::Any(items(policy, key).map(|one| self.rule(one, ledger)).collect());
        let mut all = vec![any("permissions", ledger), any("principals", ledger)];
        for (key, _) in policy.entries() {
            if !["permissions", "principals"].contains(&&**key) {
                all.push(Rule::Unknown(format!("`{key}` of a policy has no counterpart")));
            }
        }
        Rule::All(all)
    }

    /// Rule of a permission or a principal.
    fn rule(&self, of: &Node, ledger: &mut Ledger) -> Rule {
        let [(key, value)] = of.entries() else {
            return Rule::Unknown("a rule is not a condition of Envoy".to_owned());
        };
        let text = value.text();
        let mut each = |inner: &str| items(value, inner).map(|one| self.rule(one, ledger)).collect();
        match (&**key, text) {
            ("any", Some("true")) => Rule::Always(true),
            ("and_rules", _) => Rule::All(each("rules")),
            ("or_rules", _) => Rule::Any(each("rules")),
            ("and_ids", _) => Rule::All(each("ids")),
            ("or_ids", _) => Rule::Any(each("ids")),
            ("not_rule" | "not_id", _) => Rule::Not(Box::new(self.rule(value, ledger))),
            ("header", _) => leaf(value, &HEADER_MATCHER, ledger, |node| {
                let mut matching = Match::all();
                header_condition(node, &mut matching).map(|()| matching)
            }),
            ("url_path", _) => match value.get("path") {
                Some(path) => leaf(path, &STRING_MATCHER, ledger, |node| text_condition(node).map(of_path)),
                None => Rule::Unknown("`url_path` has no path".to_owned()),
            },
            ("destination_port", Some(port)) => self.port(|own| port.parse() == Ok(own)),
            ("destination_port_range", _) => {
                let number = |key: &str| value.get(key).and_then(Node::text).and_then(|text| text.parse().ok());
                let (start, end) = (number("start").unwrap_or(0), number("end").unwrap_or(0));
                self.port(|own| (start..end).contains(&u32::from(own)))
            }
            ("source_ip", _) => self.client(value),
            ("direct_remote_ip", _) if self.listener.accept_proxy_protocol.is_empty() => self.client(value),
            ("direct_remote_ip", _) => Rule::Unknown("the address of a proxy in front is not compared".to_owned()),
            ("remote_ip", _) if self.has_own_addresses() => self.client(value),
            ("remote_ip", _) => Rule::Unknown(
                "Envoy takes the client's address from X-Forwarded-For, and here trusted_proxies decide".to_owned(),
            ),
            // Without TLS there is no certificate.
            ("authenticated", _) if self.listener.tls.is_none() => Rule::Always(false),
            (other, _) => Rule::Unknown(format!("`{other}` has no counterpart")),
        }
    }

    /// True if the address of a client is the address of its connection.
    fn has_own_addresses(&self) -> bool {
        let set = |key: &str| self.manager.get(key).and_then(Node::text).unwrap_or_default();
        set("use_remote_address") == "true"
            && matches!(set("xff_num_trusted_hops"), "" | "0")
            && self.manager.get("original_ip_detection_extensions").is_none()
    }

    fn port(&self, is: impl Fn(u16) -> bool) -> Rule {
        let mut all = self.listener.bind.iter().map(|bind| is(bind.port()));
        match all.next().filter(|_| self.listener.accept_proxy_protocol.is_empty()) {
            Some(first) if all.all(|other| other == first) => Rule::Always(first),
            _ => Rule::Unknown("the port is not compared".to_owned()),
        }
    }

    fn client(&self, range: &Node) -> Rule {
        let text = |key: &str| range.get(key).and_then(Node::text);
        let address = text("address_prefix").and_then(|text| text.parse().ok());
        let length = text("prefix_len").map_or(Some(0), |text| text.parse().ok());
        match address.zip(length).and_then(|(address, length)| Cidr::around(address, length)) {
            Some(network) => {
                let criteria = Criteria { clients: vec![network], ..Criteria::default() };
                Rule::Is(Box::new(Match { criteria, ..Match::all() }))
            }
            None => Rule::Unknown("an address is not a network".to_owned()),
        }
    }
}

/// Tables of a list, or a single table.
fn items<'n>(of: &'n Node, key: &str) -> impl Iterator<Item = &'n Node> {
    let value = of.get(key);
    let is_list = value.is_some_and(|value| value.entries().is_empty());
    let single = value.filter(|_| !is_list).into_iter();
    value.map_or(&[][..], Node::list).iter().chain(single)
}

/// Rule of a condition that is read as a message.
fn leaf(
    table: &Node,
    of: &'static Message,
    ledger: &mut Ledger,
    read: impl Fn(&node::Node<'_>) -> Result<Match, String>,
) -> Rule {
    let node = message(table, of, ledger);
    match node.whole(read(&node)) {
        Ok(matching) => Rule::of(&matching),
        Err(why) => Rule::Unknown(why),
    }
}

/// Match of a path without its query.
fn of_path(expected: Expected) -> Match {
    let is_plain =
        |text: &str| text.starts_with('/') && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_.".contains(&b));
    let by_regex = |regex: String| {
        let criteria = Criteria { regex: Some(regex.into()), ..Criteria::default() };
        Match { criteria, ..Match::all() }
    };
    let Expected { equal, prefix, suffix, contains, regex, .. } = expected;
    match (equal.first(), prefix, suffix, contains, regex) {
        (Some(text), ..) if is_plain(text) => Match { path: PathPattern::Pattern(braced(text).into()), ..Match::all() },
        (Some(text), ..) => by_regex(escaped(text)),
        (_, Some(text), ..) if is_plain(&text) => {
            Match { path: PathPattern::StartsWith(text.to_string()), ..Match::all() }
        }
        (_, Some(text), ..) => by_regex(format!("{}.*", escaped(&text))),
        (_, _, Some(text), ..) => by_regex(format!(".*{}", escaped(&text))),
        (_, _, _, Some(text), _) => by_regex(format!(".*{}.*", escaped(&text))),
        (.., Some(regex)) => by_regex(regex.to_string()),
        _ => Match::all(),
    }
}
