//! Refusals of a location: address lists, passwords, and directives of modules that may refuse requests.

use super::cache;
use crate::model::{Draft, RouteKeys};
use crate::nginx::inherited::INHERITED;
use crate::nginx::known;
use crate::nginx::lexer::Directive;
use crate::nginx::variable::{self, Scope};
use crate::nginx::world::{World, single};
use crate::protection::{close, closed_by};
use evenkeel_config::plan::{Access, BasicAuth};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Directives that refuse requests by rules that are not carried over. `*`: any rest of the name.
const PROTECTIONS: [&str; 25] = [
    "auth_jwt",
    "auth_jwt_require",
    "auth_oidc",
    "auth_require",
    "auth_digest",
    "auth_gss",
    "auth_ldap",
    "auth_pam",
    "auth_spnego",
    "access_by_lua*",
    "rewrite_by_lua*",
    "server_rewrite_by_lua*",
    "js_access",
    "ssl_ocsp",
    "modsecurity",
    "SecRulesEnabled",
    "naxsi*",
    "app_protect_enable",
    "app_protect_dos_enable",
    "testcookie",
    "waf",
    "secure_token",
    "sysguard",
    "user_agent",
    "limit_traffic*",
];

/// Further directives of NGINX that are translated, and refuse nothing beyond that.
const TRANSLATED: [&str; 6] =
    ["location", "limit_except", "access_log", "secure_link", "secure_link_md5", "secure_link_secret"];

/// Parts of names of unknown directives that may refuse requests.
const MARKS: [&str; 16] = [
    "auth", "access", "deny", "block", "protect", "waf", "secur", "guard", "captcha", "firewall", "ban", "acl",
    "limit", "sec_rule", "secrule", "token",
];

/// Ends of names that belong to settings of a module, and not to its rules.
const SETTINGS: [&str; 12] = [
    "_file",
    "_url",
    "_uri",
    "_server",
    "_servers",
    "_key",
    "_timeout",
    "_path",
    "_size",
    "_zone",
    "_service_name",
    "_status",
];

/// Files that NGINX and Certbot ship, and that refuse nothing.
const SHIPPED: [&str; 8] = [
    "mime.types",
    "proxy_params",
    "fastcgi_params",
    "fastcgi.conf",
    "uwsgi_params",
    "scgi_params",
    "options-ssl-nginx.conf",
    "fastcgi-php.conf",
];

/// True if a directive may refuse requests by rules that are not carried over. `is_inner`: within a server.
pub(in crate::nginx) fn may_refuse(name: &str, is_inner: bool) -> bool {
    let is = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => *pattern == name,
    };
    if PROTECTIONS.iter().any(is) {
        return true;
    }
    let is_known = || known::has(name) || [INHERITED, cache::NAMES, &TRANSLATED].iter().any(|all| all.contains(&name));
    let lower = name.to_ascii_lowercase();
    is_inner
        && MARKS.iter().any(|mark| lower.contains(mark))
        && !SETTINGS.iter().any(|end| lower.ends_with(end))
        && !name.contains("_by_lua")
        && !is_known()
}

/// Closes a route whose levels have directives that may refuse requests, or include a file that was not read.
pub(in crate::nginx) fn protections(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    for (depth, level) in levels.iter().enumerate() {
        for directive in level.iter() {
            let (name, line) = (directive.name(), directive.line);
            if name == "include" {
                let file = directive.word(1);
                let is_shipped = SHIPPED.iter().any(|shipped| file.rsplit('/').next() == Some(*shipped));
                if !(is_shipped || depth == 0 && file.contains('*')) {
                    closed_by(
                        line,
                        "the file that it includes was not read, and may refuse requests",
                        set,
                        world.ledger,
                    );
                }
            } else if may_refuse(name, depth > 0) {
                // An inner level decides.
                let decides = single(levels, name).is_some_and(|inner| inner.line == line);
                match directive.word(1) {
                    "off" => world.ledger.carried(line),
                    _ if decides => closed_by(line, "its rules are not carried over", set, world.ledger),
                    _ => {}
                }
            }
        }
    }
}

/// `allow` and `deny`: NGINX takes the first network that fits, and evenkeel the longest. Rules within the network of an
/// earlier rule have no effect there and go.
pub(in crate::nginx) fn addresses(levels: &[&[Directive]], set: &mut RouteKeys, world: &mut World<'_>) {
    let is_rule = |d: &&Directive| matches!(d.name(), "allow" | "deny");
    let rules =
        levels.iter().rev().map(|level| level.iter().filter(is_rule).collect::<Vec<_>>()).find(|r| !r.is_empty());
    let Some(rules) = rules else { return };
    let mut kept: Vec<(bool, Network)> = Vec::new();
    let mut is_closed = false;
    for rule in &rules {
        world.ledger.carried(rule.line);
        let networks: Vec<Network> = match rule.word(1) {
            "all" => vec![Network::all(true), Network::all(false)],
            "unix:" => {
                world.ledger.dropped(rule.line, "clients do not connect by Unix sockets");
                continue;
            }
            text => match Network::read(text) {
                Some(network) => vec![network],
                None => {
                    world.ledger.decide(
                        rule.line,
                        "it is not an address or a network: all clients are refused",
                        "write access of the [[route]]",
                    );
                    is_closed = true;
                    continue;
                }
            },
        };
        for network in networks {
            match kept.iter().any(|(_, earlier)| earlier.has(&network)) {
                true => world.ledger.dropped(rule.line, "a rule before it decides about all of its clients"),
                false => kept.push((rule.name() == "allow", network)),
            }
        }
    }
    if is_closed {
        return close(set);
    }
    let of = |allows: bool| kept.iter().filter(move |(allow, _)| *allow == allows).map(|(_, network)| network);
    if of(false).next().is_none() {
        return;
    }
    let mut access: Draft<Access> = Draft::default();
    // Clients that no rule names are let in, and here only if the list of the allowed has them.
    let rest: Vec<bool> =
        [true, false].into_iter().filter(|v4| !kept.iter().any(|(_, n)| *n == Network::all(*v4))).collect();
    let some_allowed = of(true).next().is_some();
    let denies_rest = |network: &Network| network.length == 0 && some_allowed;
    of(false).filter(|network| !denies_rest(network)).for_each(|network| access.push(key!("deny"), network.text()));
    of(true).for_each(|network| access.push(key!("allow"), network.text()));
    if some_allowed {
        rest.into_iter().for_each(|v4| access.push(key!("allow"), Network::all(v4).text()));
    }
    set.put(key!("access"), access);
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Network {
    address: IpAddr,
    length: u32,
}

impl Network {
    fn all(is_v4: bool) -> Network {
        let address = if is_v4 { IpAddr::from([0, 0, 0, 0]) } else { IpAddr::from([0_u16; 8]) };
        Network { address, length: 0 }
    }

    fn read(text: &str) -> Option<Network> {
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = if length.is_empty() { most } else { length.parse().ok().filter(|length| *length <= most)? };
        Some(Network { address: masked(address, length), length })
    }

    fn has(&self, other: &Network) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.length <= other.length
            && masked(other.address, self.length) == self.address
    }

    fn text(&self) -> String {
        let most = if self.address.is_ipv4() { 32 } else { 128 };
        if self.length == most { self.address.to_string() } else { format!("{}/{}", self.address, self.length) }
    }
}

/// The first bits of an address.
fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from(u32::from(v4) & u32::MAX.checked_shl(32 - length).unwrap_or(0)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & u128::MAX.checked_shl(128 - length).unwrap_or(0)).into(),
    }
}

pub(in crate::nginx) fn basic_auth(levels: &[&[Directive]], scope: &Scope, set: &mut RouteKeys, world: &mut World<'_>) {
    let Some(directive) = single(levels, "auth_basic") else { return };
    if directive.word(1) == "off" {
        return world.ledger.carried(directive.line);
    }
    match single(levels, "auth_basic_user_file") {
        Some(file) => {
            let Some(path) = variable::constant(file.word(1), scope) else {
                return closed_by(file.line, "its name comes from a variable", set, world.ledger);
            };
            let mut auth: Draft<BasicAuth> = Draft::one(key!("file"), path);
            world.ledger.carried(directive.line);
            match variable::constant(directive.word(1), scope) {
                Some(realm) => drop(auth.put(key!("realm"), realm)),
                None => world.ledger.decide(
                    directive.line,
                    "a variable may turn the password off: here every client needs one",
                    "a [[route]] without basic_auth for the clients that need none",
                ),
            }
            // NGINX forwards the credentials too.
            set.put(key!("basic_auth"), auth.with(key!("keep"), true));
            world.ledger.changes(
                file.line,
                "hashes of MD5, SHA-1 and DES are refused: those of bcrypt, Argon2id and SHA-crypt are read",
                "run `evenkeel check`, and `htpasswd -B FILE NAME` for the users that it names",
            );
        }
        None => world.ledger.dropped(directive.line, "without a file of passwords, NGINX asks for none"),
    }
}
