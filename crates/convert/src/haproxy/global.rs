//! Settings of the process: `global`, resolvers, userlists, logs, statistics.

use super::known::{self, Fate};
use super::lexer::{Item, Section};
use super::proxy::Proxy;
use super::rules::{Caches, User, cache_section};
use crate::ledger::{Ledger, Line};
use crate::model::{Draft, Target, size};
use crate::protection;
use evenkeel_config::plan::Listener;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Facts of the global section that other sections need.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub crt_base: String,
    pub ca_base: String,
    pub connections: Option<u64>,
    connections_line: Option<Line>,
    /// Limits of the heads of requests: bytes and fields.
    pub heads: Draft<Listener>,
    pub userlists: BTreeMap<String, Vec<User>>,
    pub caches: Caches,
    /// Destination of the access log and its facility.
    log: Option<(String, Option<String>)>,
}

/// Bounds of `limits.headers`, in bytes, and most fields of a head.
const HEADS: (u64, u64) = (1 << 10, 1 << 17);
const FIELDS: u64 = 256;

/// Facilities that evenkeel has, too.
const FACILITIES: &[&str] =
    &["user", "daemon", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"];

/// Reads sections about the process.
pub(super) fn read(sections: &[Section], target: &mut Target, ledger: &mut Ledger) -> Process {
    let mut process = Process::default();
    for section in sections {
        match section.kind.as_str() {
            "global" => {
                ledger.carried(section.line);
                section.items.iter().for_each(|item| process.global(item, ledger));
            }
            "cache" => cache_section(section, &mut process.caches, target, ledger),
            "resolvers" => resolvers(section, target, ledger),
            "userlist" => {
                ledger.carried(section.line);
                let users: Vec<User> = section.items.iter().filter_map(|item| user(item, ledger)).collect();
                for (group, names) in members(&section.items) {
                    let of_group = users.iter().filter(|user| names.contains(&user.name)).cloned().collect();
                    process.userlists.insert(format!("{}/{group}", section.name), of_group);
                }
                process.userlists.insert(section.name.clone(), users);
            }
            kind => {
                let Some(fate) = known::of_section(kind) else { continue };
                for line in std::iter::once(section.line).chain(section.items.iter().map(|item| item.line)) {
                    match fate {
                        Fate::Lossless(reason) => ledger.dropped(line, reason),
                        Fate::Changes(reason, todo) => ledger.changes(line, reason, todo),
                    }
                }
            }
        }
    }
    process
}

/// Names of the users of each group, from lines of groups and of users.
fn members(items: &[Item]) -> BTreeMap<String, BTreeSet<String>> {
    let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for item in items {
        let lists = item.words.windows(2).filter(|pair| matches!(pair[0].as_str(), "users" | "groups"));
        for name in lists.flat_map(|pair| pair[1].split(',')) {
            let (group, user) = if item.word(0) == "group" { (item.word(1), name) } else { (name, item.word(1)) };
            groups.entry(group.to_string()).or_default().insert(user.to_string());
        }
    }
    groups
}

/// Reads a `user` line, which has a password or its hash.
fn user(item: &Item, ledger: &mut Ledger) -> Option<User> {
    if item.word(0) != "user" {
        ledger.carried(item.line);
        return None;
    }
    ledger.dropped(item.line, "no rule that was carried over asks for its password");
    let hash = (item.word(2) == "password").then(|| item.word(3).to_string());
    let hash = hash.filter(|hash| protection::is_read(hash));
    Some(User { line: item.line, name: item.word(1).to_string(), hash })
}

fn resolvers(section: &Section, target: &mut Target, ledger: &mut Ledger) {
    ledger.carried(section.line);
    for item in &section.items {
        match item.word(0) {
            "nameserver" => {
                let address = item.word(2).trim_start_matches("udp@").trim_start_matches("tcp@");
                match address.parse::<SocketAddr>() {
                    Ok(address) => {
                        target.root.push(key!("resolver.nameservers"), address.to_string());
                        ledger.carried(item.line);
                    }
                    Err(_) => ledger.changes(
                        item.line,
                        "the name server has no address with a port",
                        "write it in resolver.nameservers",
                    ),
                }
            }
            "parse-resolv-conf" => ledger.dropped(item.line, "/etc/resolv.conf is read unless name servers are listed"),
            _ => ledger.dropped(
                item.line,
                "names are resolved again when their TTL is over, within the bounds of `[resolver]`",
            ),
        }
    }
}

impl Process {
    fn global(&mut self, item: &Item, ledger: &mut Ledger) {
        match (item.word(0), item.word(1)) {
            ("maxconn", number) => match number.parse::<u64>() {
                Ok(most) if most > 0 => {
                    self.connections = Some(most);
                    self.connections_line = Some(item.line);
                    ledger.carried(item.line);
                }
                _ => ledger.changes(item.line, "its value was not understood", "set limits.connections of listeners"),
            },
            ("tune.bufsize", bytes) => match bytes.parse::<u64>() {
                Ok(bytes) => {
                    self.heads.put(key!("limits.headers"), size(bytes.clamp(HEADS.0, HEADS.1)));
                    ledger.dropped(item.line, "it bounds the heads of requests; other buffers have fixed bounds");
                }
                Err(_) => ledger.changes(item.line, "its value was not understood", "set limits.headers of listeners"),
            },
            ("tune.http.maxhdr", number) => match number.parse::<u64>() {
                Ok(most) => {
                    self.heads.put(key!("limits.header_count"), most.clamp(1, FIELDS));
                    ledger.carried(item.line);
                }
                Err(_) => ledger.changes(item.line, "its value was not understood", "set limits.header_count"),
            },
            ("log", _) => self.log_target(item, 1, ledger),
            ("crt-base", folder) => self.crt_base = folder.to_string(),
            ("ca-base", folder) => self.ca_base = folder.to_string(),
            ("ssl-default-bind-options", _) => {
                ledger.dropped(item.line, "TLS 1.2 is the oldest version that is accepted");
                if item.words.windows(2).any(|pair| pair[0] == "ssl-min-ver" && pair[1] == "TLSv1.3") {
                    ledger.changes(
                        item.line,
                        "TLS 1.2 is accepted too",
                        "write tls.min_version = \"1.3\" in the listeners",
                    );
                }
            }
            _ => {}
        }
        if ledger.is_settled(item.line) {
            return;
        }
        match known::fate("global", &item.words) {
            Some(Fate::Lossless(reason)) => ledger.dropped(item.line, reason),
            Some(Fate::Changes(reason, todo)) => ledger.changes(item.line, reason, todo),
            None => {}
        }
    }

    /// Notes a destination of the log: the first counts.
    fn log_target(&mut self, item: &Item, at: usize, ledger: &mut Ledger) {
        let address = item.word(at);
        let facility = item.from(at + 1).iter().find(|word| {
            !matches!(
                word.as_str(),
                "len" | "format" | "raw" | "rfc5424" | "rfc3164" | "short" | "timed" | "iso" | "sample"
            ) && word.parse::<u64>().is_err()
        });
        let is_ip = |host: &str| host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let path = match address {
            "stdout" | "stderr" => address.to_string(),
            "/dev/log" => "syslog".to_string(),
            path if path.starts_with('/') => format!("syslog:{path}"),
            address => match address.rsplit_once(':') {
                Some((host, _)) if is_ip(host) => format!("syslog:udp:{address}"),
                None if is_ip(address) => format!("syslog:udp:{address}:514"),
                _ => {
                    let todo = "write telemetry.access_log.path = \"syslog:udp:ADDRESS:514\" with an address";
                    return ledger.changes(item.line, format!("the log cannot be sent to \"{address}\""), todo);
                }
            },
        };
        if self.log.is_some() {
            let todo = "have the collector forward it";
            return ledger.changes(item.line, "the access log has one destination", todo);
        }
        ledger.carried(item.line);
        if let Some(name) = facility.filter(|name| !FACILITIES.contains(&name.as_str())) {
            let reason = format!("the facility {name} is not available; local0 is used");
            ledger.changes(item.line, reason, "set telemetry.access_log.facility");
        }
        self.log = Some((path, facility.filter(|name| FACILITIES.contains(&name.as_str())).cloned()));
    }

    /// `log`, `option httplog` and their formats, of a frontend or backend.
    pub fn log_line(&self, item: &Item, target: &mut Target, ledger: &mut Ledger) {
        let on = |target: &mut Target| {
            let Some((path, facility)) = &self.log else { return };
            target.root.put(key!("telemetry.access_log.path"), path.as_str());
            if let Some(facility) = facility.as_ref().filter(|name| *name != "local0") {
                target.root.put(key!("telemetry.access_log.facility"), facility.as_str());
            }
            if !target.root.has(key!("telemetry.access_log.format")) {
                target.root.put(key!("telemetry.access_log.format"), "httplog");
            }
        };
        match (item.word(0), item.word(1)) {
            ("log", "global") => {
                on(target);
                match self.log.is_some() {
                    true => ledger.carried(item.line),
                    false => ledger.dropped(item.line, "the global section names no destination"),
                }
            }
            ("log", _) => {
                let mut own = Process::default();
                own.log_target(item, 1, ledger);
                if let (Some((path, _)), None) = (own.log, &self.log) {
                    target.root.put(key!("telemetry.access_log.path"), path);
                    target.root.put(key!("telemetry.access_log.format"), "httplog");
                } else if self.log.is_some() {
                    ledger.changes(item.line, "the access log has one destination", "have the collector forward it");
                }
            }
            ("option", "httplog") if item.word(2) == "clf" => {
                target.root.put(key!("telemetry.access_log.format"), "common");
                on(target);
                ledger.carried(item.line);
            }
            ("option", "httplog") => {
                on(target);
                match self.log.is_some() {
                    true => ledger.carried(item.line),
                    false => ledger.dropped(item.line, "no destination of a log is named"),
                }
            }
            ("option", "httpslog") => {
                ledger.changes(item.line, "lines have no fields about TLS", "a template in telemetry.access_log.format")
            }
            ("option", _) => {
                ledger.changes(item.line, "sessions of TCP are logged as lines of JSON", "see telemetry.access_log")
            }
            ("no", "log") => ledger.changes(
                item.line,
                "the access log is on or off for all listeners",
                "leave telemetry.access_log out to have none",
            ),
            ("no", _) => ledger.dropped(item.line, "it turns off what is off here"),
            _ => {
                let todo = "write it as a template: telemetry.access_log.format = \"%{client} %{status} %{path}\"";
                ledger.changes(item.line, "the format of lines is written in another way", todo);
            }
        }
    }

    /// Reads a line of the stats page, which is the dashboard here.
    pub fn stats(&self, item: &Item, proxy: &Proxy<'_>, target: &mut Target, ledger: &mut Ledger) {
        match item.word(1) {
            "auth" => {
                let todo = "write admin.http.read_token and write_token with files of tokens";
                ledger.changes(item.line, "the dashboard has tokens, not names and passwords", todo);
            }
            "enable" | "uri" => {
                let port = proxy.port().filter(|port| port.parse::<u16>().is_ok());
                let is_own = proxy.is_stats(proxy.items.iter().any(|item| item.word(0) == "server"));
                let bind = format!("127.0.0.1:{}", port.filter(|_| is_own).unwrap_or_else(|| "9900".to_string()));
                target.root.put(key!("admin.http.bind"), bind.as_str());
                let todo = "open it to a private network with admin.http.bind and read_token";
                ledger.changes(item.line, format!("the dashboard is at http://{bind}/, for this machine only"), todo);
            }
            _ => ledger.dropped(item.line, "the dashboard of `[admin]` shows it"),
        }
    }

    /// Reports a limit of the process that several listeners have each, and takes out a log without a destination.
    pub fn finish(&self, target: &mut Target, ledger: &mut Ledger) {
        if let Some(line) = self.connections_line.filter(|_| target.listeners.len() > 1) {
            let reason = "the limit holds for each listener, not for the process as a whole";
            ledger.changes(line, reason, "divide it among the listeners: limits.connections");
        }
        if target.root.has(key!("telemetry.access_log")) && !target.root.has(key!("telemetry.access_log.path")) {
            target.root.remove(key!("telemetry"));
        }
    }
}
