//! Rules of others, as far as it matters for ours: their effect on connection tracking and on translated packets, and
//! which packets they cannot match.

use super::expressions::{DATA_VALUE, DATA_VERDICT, ITEM, L4PROTO, VERDICT_CODE};
use super::transaction::{INET, IPV4, IPV6};
use crate::netlink::Attributes;
use crate::service::Service;
use std::collections::HashMap;
use std::net::IpAddr;

/// Keys of `ct` and of `meta`.
const CT_STATUS: u32 = 2;
const CT_MARK: u32 = 3;
const CT_ZONE: u32 = 17;
const IN_NAME: u32 = 6;

/// Verdict that accepts, and register of verdicts.
const ACCEPT: u32 = 1;
const VERDICT: u32 = 0;

/// Parts of `struct xt_conntrack_mtinfo3` by their places: which conditions it has, which of them are inverted, and the
/// states. The state of translated destinations is a bit of them.
const XT_FLAGS: usize = 146;
const XT_INVERTED: usize = 148;
const XT_STATES: usize = 150;
const XT_HAS_STATES: u16 = 1;
const XT_DNAT: u16 = 1 << 7;

/// Flag of `struct xt_ct_target_info`: connections are not tracked. The zone follows it.
const XT_NOTRACK: u16 = 1;

/// Rule of a table of others.
#[derive(Clone, Debug)]
pub struct Rule {
    pub family: u8,
    pub table: String,
    pub chain: String,
    pub effect: Effect,
    pub conditions: Conditions,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    #[default]
    Other,
    /// Accepts packets whose destination was translated, or all.
    AcceptsTranslated,
    NoTracking,
    /// Sets the zone of connection tracking. `is_one_way`: for a single direction of connections.
    Zone {
        number: u16,
        is_one_way: bool,
    },
}

/// Conditions of a rule that are compared with a service. Others are in `rest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    protocol: Option<u8>,
    to: Option<IpAddr>,
    to_port: Option<u16>,
    interface: Option<Vec<u8>>,
    rest: bool,
}

impl Conditions {
    /// True unless no packet of the service can match: none of a client, by its protocol and destination, and none of
    /// an endpoint, by its protocol.
    pub fn may_match(&self, service: &Service) -> bool {
        let is_protocol = self.protocol.is_none_or(|protocol| protocol == service.transport.number());
        let is_loopback = self.interface.as_deref().is_some_and(|name| name.starts_with(b"lo\0") || name == b"lo");
        let is_to = service.addrs.iter().any(|addr| {
            self.to.is_none_or(|to| to == addr.ip()) && self.to_port.is_none_or(|port| port == addr.port())
        });
        // The destination of an endpoint's packet, a client or this machine, is not known; no rule names its port.
        let is_from = self.to_port.is_none() && self.to.is_none();
        is_protocol && !is_loopback && (is_to || is_from)
    }
}

/// Value that a register was loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loaded {
    Protocol,
    To,
    ToPort,
    Interface,
    Status,
    Mark,
    /// Number of 16 bits, as of a zone.
    Number(u16),
    Other,
}

impl Rule {
    /// Reads a rule; `None` if it is malformed.
    pub fn parse(family: u8, all: &Attributes<'_>) -> Option<Rule> {
        let text = |kind| all.first(kind).and_then(|it| it.text().map(str::to_owned));
        let (table, chain) = (text(1)?, text(2)?);
        let mut reading = Reading { family, ..Reading::default() };
        for item in all.first(4)?.nested().filter(|item| item.kind == ITEM) {
            let expression = item.nested();
            let name = expression.first(1)?;
            let data = expression.first(2).map(|data| data.nested());
            reading.expression(name.text()?, &data.unwrap_or_else(|| Attributes::after(0, &[])));
        }
        let Reading { mut effect, conditions, accepts, sees_translation, .. } = reading;
        if accepts && effect == Effect::Other && (sees_translation || conditions == Conditions::default()) {
            effect = Effect::AcceptsTranslated;
        }
        Some(Rule { family, table, chain, effect, conditions })
    }

    pub fn family_name(&self) -> &'static str {
        family_name(self.family)
    }

    /// Place of the rule in words: chain and table.
    pub fn place(&self) -> String {
        format!("chain {} of table {} {}", self.chain, self.family_name(), self.table)
    }
}

/// Word of `nft` for a family of tables.
pub fn family_name(family: u8) -> &'static str {
    match family {
        INET => "inet",
        IPV4 => "ip",
        IPV6 => "ip6",
        _ => "other",
    }
}

/// Rule of which some expressions are read.
#[derive(Default)]
struct Reading {
    family: u8,
    registers: HashMap<u32, Loaded>,
    effect: Effect,
    conditions: Conditions,
    accepts: bool,
    /// True after a condition by the translation or the mark of the connection.
    sees_translation: bool,
}

impl Reading {
    fn expression(&mut self, name: &str, data: &Attributes<'_>) {
        let number = |kind| data.first(kind).and_then(|it| it.u32_be());
        match name {
            "counter" | "comment" | "log" => {}
            "notrack" => self.effect = Effect::NoTracking,
            "immediate" => self.immediate(data),
            "meta" | "payload" | "ct" => self.load(name, data),
            "bitwise" => {
                // A part of an address, or flags, of which only flags of connections matter.
                let kept = number(1).and_then(|from| self.registers.get(&from).copied());
                let kept = kept.filter(|it| matches!(it, Loaded::Status | Loaded::Mark)).unwrap_or(Loaded::Other);
                number(2).into_iter().for_each(|to| _ = self.registers.insert(to, kept));
            }
            "cmp" => {
                let loaded = number(1).and_then(|from| self.registers.get(&from).copied()).unwrap_or(Loaded::Other);
                let is_equal = number(2) == Some(0);
                let value = data.first(3).and_then(|it| it.nested().first(DATA_VALUE)).map(|value| value.bytes);
                self.compare(loaded, is_equal, value.unwrap_or_default());
            }
            "match" => self.xt_match(data),
            "target" => self.xt_target(data),
            _ => self.conditions.rest = true,
        }
    }

    fn immediate(&mut self, data: &Attributes<'_>) {
        let Some(to) = data.first(1).and_then(|it| it.u32_be()) else { return };
        let Some(inner) = data.first(2).map(|it| it.nested()) else { return };
        if to == VERDICT {
            let code = inner.first(DATA_VERDICT).and_then(|it| it.nested().first(VERDICT_CODE)?.u32_be());
            self.accepts |= code == Some(ACCEPT);
        } else if let Some(value) = inner.first(DATA_VALUE) {
            let number =
                <[u8; 2]>::try_from(value.bytes).map_or(Loaded::Other, |it| Loaded::Number(u16::from_ne_bytes(it)));
            self.registers.insert(to, number);
        }
    }

    fn load(&mut self, name: &str, data: &Attributes<'_>) {
        let number = |kind| data.first(kind).and_then(|it| it.u32_be());
        if name == "ct" && number(4).is_some() {
            if number(2) == Some(CT_ZONE) {
                let value = number(4).and_then(|from| self.registers.get(&from).copied());
                let is_one_way = data.first(3).is_some();
                if let Some(Loaded::Number(zone)) = value {
                    self.effect = Effect::Zone { number: zone, is_one_way };
                }
            }
            return;
        }
        let is_ipv4 = self.family == IPV4;
        let loaded = match (name, number(2), number(3), number(4)) {
            ("meta", Some(L4PROTO), ..) => Loaded::Protocol,
            ("meta", Some(IN_NAME), ..) => Loaded::Interface,
            ("ct", Some(CT_STATUS), ..) => Loaded::Status,
            ("ct", Some(CT_MARK), ..) => Loaded::Mark,
            ("payload", Some(1), Some(9), Some(1)) if is_ipv4 => Loaded::Protocol,
            ("payload", Some(1), Some(16), Some(4)) | ("payload", Some(1), Some(24), Some(16)) => Loaded::To,
            ("payload", Some(2), Some(2), Some(2)) => Loaded::ToPort,
            _ => Loaded::Other,
        };
        number(1).into_iter().for_each(|to| _ = self.registers.insert(to, loaded));
    }

    fn compare(&mut self, loaded: Loaded, is_equal: bool, value: &[u8]) {
        let conditions = &mut self.conditions;
        let addr = || -> Option<IpAddr> {
            let v4 = <[u8; 4]>::try_from(value).ok().map(IpAddr::from);
            v4.or_else(|| <[u8; 16]>::try_from(value).ok().map(IpAddr::from))
        };
        match loaded {
            Loaded::Protocol if is_equal => conditions.protocol = value.first().copied(),
            Loaded::To if is_equal => conditions.to = addr(),
            Loaded::ToPort if is_equal => {
                conditions.to_port = <[u8; 2]>::try_from(value).ok().map(u16::from_be_bytes);
            }
            Loaded::Interface if is_equal => conditions.interface = Some(value.to_vec()),
            // Of flags, `nft` compares the rest of them with nothing.
            Loaded::Status | Loaded::Mark => {
                self.sees_translation = true;
                conditions.rest = true;
            }
            _ => conditions.rest = true,
        }
    }

    /// Condition of `iptables`.
    fn xt_match(&mut self, data: &Attributes<'_>) {
        let name = data.first(1).and_then(|it| it.text().map(str::to_owned)).unwrap_or_default();
        let info = data.first(3).map(|it| it.bytes).unwrap_or_default();
        let revision = data.first(2).and_then(|it| it.u32_be()).unwrap_or_default();
        if name == "conntrack" && revision >= 2 {
            let has = |at, bit| short(info, at) & bit != 0;
            self.sees_translation |=
                has(XT_FLAGS, XT_HAS_STATES) && !has(XT_INVERTED, XT_HAS_STATES) && has(XT_STATES, XT_DNAT);
        }
        self.conditions.rest |= name != "comment";
    }

    /// Target of `iptables`.
    fn xt_target(&mut self, data: &Attributes<'_>) {
        let name = data.first(1).and_then(|it| it.text().map(str::to_owned)).unwrap_or_default();
        let info = data.first(3).map(|it| it.bytes).unwrap_or_default();
        match (name.as_str(), short(info, 0) & XT_NOTRACK != 0, short(info, 2)) {
            ("NOTRACK", ..) | ("CT", true, _) => self.effect = Effect::NoTracking,
            ("CT", false, number @ 1..) => self.effect = Effect::Zone { number, is_one_way: false },
            _ => {}
        }
    }
}

fn short(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|two| two.try_into().ok()).map_or(0, u16::from_ne_bytes)
}
