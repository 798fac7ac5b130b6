//! Resources as trees of fields. A tree knows which of its fields were read, so that what the translation does not read is
//! refused by its path instead of being lost. See [`Node`].

use super::schema::{EXTENSIONS, Kind, Message};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

/// Values in a resource, at most: a message of two bytes for each would take twenty times its size in memory.
const VALUES_MAX: usize = 4_000_000;

/// Longest time that is told from none: 30 days, as the configuration allows.
const TIME_MAX: Duration = Duration::from_secs(30 * 86_400);

/// A message, with the values of its fields in the order of their bytes.
#[derive(Debug)]
pub struct Node<'a> {
    of: &'static Message,
    values: Vec<(&'static str, Value<'a>)>,
    /// Fields that were read, or may be ignored.
    read: Cell<u128>,
    /// Protections that the translation has read, and does not keep.
    noted: RefCell<Vec<&'static str>>,
}

#[derive(Debug)]
enum Value<'a> {
    Text(&'a str),
    Raw(&'a [u8]),
    Number(u64),
    Float(f64),
    Node(Node<'a>),
    Extension(Extension<'a>),
    /// Value of a field that cannot be kept.
    Refused,
    /// Value of a protection that is not kept.
    Noted,
}

/// Message of a type of its own.
#[derive(Debug)]
pub struct Extension<'a> {
    /// Name of its type, without what stands in front of the slash.
    pub kind: &'a str,
    /// `None` if the type is not known here.
    pub node: Option<Node<'a>>,
}

impl<'a> Node<'a> {
    /// Reads a resource of one of the types of [`EXTENSIONS`].
    ///
    /// # Errors
    /// The bytes are not such a message, or there are too many values in them.
    pub fn of(bytes: &'a [u8], message: &'static Message) -> Result<Node<'a>, String> {
        read(bytes, message, &mut 0)
    }

    fn index(&self, name: &str) -> Option<usize> {
        let at = self.of.fields.iter().position(|field| field.name == name);
        debug_assert!(at.is_some(), "the message has a field {name}");
        at
    }

    /// Values of a field, which count as read.
    fn values(&self, name: &'static str) -> impl Iterator<Item = &Value<'a>> {
        if let Some(at) = self.index(name) {
            self.read.set(self.read.get() | 1 << at);
        }
        self.values.iter().filter(move |(of, _)| *of == name).map(|(_, value)| value)
    }

    /// True if a field is there, which does not count as read.
    pub fn has(&self, name: &'static str) -> bool {
        self.values.iter().any(|(of, _)| *of == name)
    }

    /// Marks a field as read that has its meaning by being there.
    pub fn mark(&self, name: &'static str) -> bool {
        self.values(name).next().is_some()
    }

    pub fn text(&self, name: &'static str) -> Option<&'a str> {
        self.values(name).filter_map(|value| if let Value::Text(text) = value { Some(*text) } else { None }).last()
    }

    pub fn texts(&self, name: &'static str) -> impl Iterator<Item = &'a str> {
        self.values(name).filter_map(|value| if let Value::Text(text) = value { Some(*text) } else { None })
    }

    pub fn raw(&self, name: &'static str) -> Option<&'a [u8]> {
        self.values(name).filter_map(|value| if let Value::Raw(bytes) = value { Some(*bytes) } else { None }).last()
    }

    /// Value of an integer or an enum; 0 if it is not there.
    pub fn number(&self, name: &'static str) -> u64 {
        self.numbers(name).last().copied().unwrap_or(0)
    }

    pub fn numbers(&self, name: &'static str) -> Vec<u64> {
        self.values(name).filter_map(|value| if let Value::Number(n) = value { Some(*n) } else { None }).collect()
    }

    pub fn flag(&self, name: &'static str) -> bool {
        self.number(name) != 0
    }

    pub fn float(&self, name: &'static str) -> f64 {
        let floats = self.values(name).filter_map(|value| if let Value::Float(n) = value { Some(*n) } else { None });
        floats.last().unwrap_or(0.0)
    }

    pub fn node(&self, name: &'static str) -> Option<&Node<'a>> {
        self.nodes(name).last()
    }

    pub fn nodes(&self, name: &'static str) -> impl Iterator<Item = &Node<'a>> {
        self.values(name).filter_map(|value| if let Value::Node(node) = value { Some(node) } else { None })
    }

    pub fn extension(&self, name: &'static str) -> Option<&Extension<'a>> {
        let all = self.values(name);
        all.filter_map(|value| if let Value::Extension(found) = value { Some(found) } else { None }).last()
    }

    /// Value of a wrapper: `UInt32Value`, `BoolValue` and the like.
    pub fn wrapped(&self, name: &'static str) -> Option<u64> {
        self.node(name).map(|wrapper| wrapper.number("value"))
    }

    /// Value of a `google.protobuf.Duration`; `None` if it is not there. A negative one is none, and one of more than 30
    /// days is 30 days.
    pub fn duration(&self, name: &'static str) -> Option<Duration> {
        let node = self.node(name)?;
        let (seconds, nanos) = (node.number("seconds"), node.number("nanos"));
        let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
        // A negative number has the highest bit set.
        match (i64::try_from(seconds), nanos) {
            (Ok(_), Some(nanos)) => Some(Duration::new(seconds, nanos).min(TIME_MAX)),
            _ => Some(Duration::ZERO),
        }
    }

    /// Notes that a field protects, and is not kept with the value that was read.
    pub fn note(&self, name: &'static str) {
        self.noted.borrow_mut().push(name);
    }

    /// Adds the names of the protections that are not kept to `all`.
    pub fn noted(&self, all: &mut BTreeSet<&'static str>) {
        all.extend(self.noted.borrow().iter());
        for (name, value) in &self.values {
            match value {
                Value::Noted => _ = all.insert(name),
                Value::Node(node) => node.noted(all),
                Value::Extension(Extension { node: Some(node), .. }) => node.noted(all),
                _ => {}
            }
        }
    }

    /// Adds the fields that were not read to `all`, each with its path.
    pub fn unread(&self, path: &str, all: &mut Vec<String>) {
        let within = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        for (at, field) in self.of.fields.iter().enumerate() {
            let mut values = self.values.iter().filter(|(of, _)| *of == field.name).map(|(_, value)| value).peekable();
            if values.peek().is_none() || matches!(field.kind, Kind::Ignored | Kind::Noted) {
                continue;
            }
            if self.read.get() & 1 << at == 0 {
                all.push(within(field.name));
                continue;
            }
            let several = self.values.iter().filter(|(of, _)| *of == field.name).count() > 1;
            for (n, value) in values.enumerate() {
                let path = if several { format!("{}[{n}]", within(field.name)) } else { within(field.name) };
                match value {
                    Value::Node(node) => node.unread(&path, all),
                    Value::Extension(Extension { node: Some(node), .. }) => node.unread(&path, all),
                    _ => {}
                }
            }
        }
        all.extend(self.values.iter().filter(|(of, _)| *of == UNKNOWN).map(|_| within(UNKNOWN)));
    }
}

/// Name of fields that Envoy 1.40 does not have.
const UNKNOWN: &str = "(a field that is newer than Envoy 1.40)";

fn read<'a>(mut bytes: &'a [u8], message: &'static Message, count: &mut usize) -> Result<Node<'a>, String> {
    let mut node = Node { of: message, values: Vec::new(), read: Cell::new(0), noted: RefCell::default() };
    while !bytes.is_empty() {
        *count += 1;
        if *count > VALUES_MAX {
            return Err(format!("it has more than {VALUES_MAX} values"));
        }
        let (tag, wire) = decode_key(&mut bytes).map_err(|error| error.to_string())?;
        let Some(field) = message.fields.iter().find(|field| field.tag == tag) else {
            skip(&mut bytes, tag, wire)?;
            node.values.push((UNKNOWN, Value::Refused));
            continue;
        };
        match (field.kind, wire) {
            (Kind::Ignored | Kind::Refused, _) => {
                skip(&mut bytes, tag, wire)?;
                if matches!(field.kind, Kind::Refused) {
                    node.values.push((field.name, Value::Refused));
                }
            }
            (Kind::Noted, wire) => {
                if is_set(&mut bytes, tag, wire)? {
                    node.values.push((field.name, Value::Noted));
                }
            }
            (Kind::Number, WireType::Varint) => node.values.push((field.name, Value::Number(varint(&mut bytes)?))),
            (Kind::Number, WireType::LengthDelimited) => {
                let mut packed = delimited(&mut bytes)?;
                while !packed.is_empty() {
                    *count += 1;
                    node.values.push((field.name, Value::Number(varint(&mut packed)?)));
                }
            }
            (Kind::Float, WireType::SixtyFourBit) => {
                let (float, rest) = bytes.split_first_chunk().ok_or("it ends too early")?;
                (bytes, _) = (rest, node.values.push((field.name, Value::Float(f64::from_le_bytes(*float)))));
            }
            (kind, WireType::LengthDelimited) => {
                let inner = delimited(&mut bytes)?;
                let value = value(inner, kind, count).map_err(|why| format!("{}: {why}", field.name))?;
                node.values.push((field.name, value));
            }
            (_, wire) => return Err(format!("{}: it has the type {wire:?}", field.name)),
        }
    }
    Ok(node)
}

/// `UInt32Value` of no limit, as Istio sends it.
const NO_LIMIT: &[u8] = &[8, 0xff, 0xff, 0xff, 0xff, 0xf];

/// Skips a value. Returns false for 0, for an empty message, and for a limit that is none.
fn is_set(bytes: &mut &[u8], tag: u32, wire: WireType) -> Result<bool, String> {
    match wire {
        WireType::Varint => Ok(varint(bytes)? != 0),
        WireType::LengthDelimited => Ok(![&[], NO_LIMIT].contains(&delimited(bytes)?)),
        wire => skip(bytes, tag, wire).map(|()| true),
    }
}

fn value<'a>(bytes: &'a [u8], kind: Kind, count: &mut usize) -> Result<Value<'a>, String> {
    match kind {
        Kind::Of(message) => Ok(Value::Node(read(bytes, message, count)?)),
        Kind::Raw => Ok(Value::Raw(bytes)),
        Kind::Any => Ok(Value::Extension(packed(bytes, count)?)),
        _ => std::str::from_utf8(bytes).map(Value::Text).map_err(|_| "it is not text".to_owned()),
    }
}

/// Reads a `google.protobuf.Any`.
fn packed<'a>(mut bytes: &'a [u8], count: &mut usize) -> Result<Extension<'a>, String> {
    let (mut url, mut inner): (&str, &[u8]) = ("", &[]);
    while !bytes.is_empty() {
        let (tag, wire) = decode_key(&mut bytes).map_err(|error| error.to_string())?;
        match (tag, wire) {
            (1, WireType::LengthDelimited) => {
                url = std::str::from_utf8(delimited(&mut bytes)?).map_err(|_| "its type is not text")?;
            }
            (2, WireType::LengthDelimited) => inner = delimited(&mut bytes)?,
            _ => skip(&mut bytes, tag, wire)?,
        }
    }
    let kind = url.rsplit('/').next().unwrap_or(url);
    let known = EXTENSIONS.iter().find(|(name, _)| *name == kind);
    let node = known.map(|(_, message)| read(inner, message, count)).transpose()?;
    Ok(Extension { kind, node })
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    decode_varint(bytes).map_err(|error| error.to_string())
}

fn delimited<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let length = usize::try_from(varint(bytes)?).map_err(|error| error.to_string())?;
    let (inner, rest) = bytes.split_at_checked(length).ok_or("it ends too early")?;
    *bytes = rest;
    Ok(inner)
}

fn skip(bytes: &mut &[u8], tag: u32, wire: WireType) -> Result<(), String> {
    skip_field(wire, tag, bytes, DecodeContext::default()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::schema::{CLUSTER, LISTENER, ROUTE_CONFIGURATION};
    use super::super::testing::encoded;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn unread(node: &Node<'_>) -> Vec<String> {
        let mut all = Vec::new();
        node.unread("", &mut all);
        all
    }

    #[test]
    fn fields_that_were_not_read_are_named_with_their_path() {
        let json = json!({
            "name": "web",
            "connect_timeout": 3,
            "alt_stat_name": "ignored",
            "upstream_bind_config": {},
            "common_lb_config": { "healthy_panic_threshold": 5.5, "locality_weighted_lb_config": {} },
            "health_checks": [{ "interval": 1, "timeout": 1 }, { "tls_options": {} }],
        });
        let mut bytes = encoded(&CLUSTER, &json);
        // A field that no version has yet.
        bytes.extend([0xfa, 0x3e, 0]);
        let node = Node::of(&bytes, &CLUSTER).expect("a message");
        assert_eq!((node.text("name"), node.duration("connect_timeout")), (Some("web"), Some(Duration::from_secs(3))));
        let common = node.node("common_lb_config").expect("it is there");
        assert_eq!(common.node("healthy_panic_threshold").map(|percent| percent.float("value")), Some(5.5));
        assert_eq!(
            node.nodes("health_checks").map(|check| check.duration("interval").is_some()).collect::<Vec<_>>(),
            [true, false]
        );
        let wanted = [
            "health_checks[0].timeout",
            "health_checks[1].tls_options",
            "common_lb_config.locality_weighted_lb_config",
            "upstream_bind_config",
            UNKNOWN,
        ];
        assert_eq!(unread(&node), wanted);
    }

    #[test]
    fn times_that_are_negative_are_none_and_long_ones_end() {
        let time = |seconds: i64| {
            let bytes = encoded(&CLUSTER, &json!({ "connect_timeout": { "seconds": seconds as u64 } }));
            Node::of(&bytes, &CLUSTER).expect("a message").duration("connect_timeout")
        };
        assert_eq!((time(-1), time(i64::MAX)), (Some(Duration::ZERO), Some(TIME_MAX)));
    }

    #[test]
    fn a_message_that_is_cut_off_or_of_other_types_is_an_error() {
        let bytes = encoded(&CLUSTER, &json!({ "name": "web", "eds_cluster_config": { "service_name": "a" } }));
        assert!((1..bytes.len()).filter(|end| *end != 5).all(|end| Node::of(&bytes[..end], &CLUSTER).is_err()));
        // `name` as a number, and text that is not UTF-8.
        assert!(Node::of(&[8, 1], &CLUSTER).is_err_and(|why| why.contains("name")));
        assert!(Node::of(&[10, 1, 0xff], &CLUSTER).is_err_and(|why| why.contains("not text")));
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_server_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for message in [&CLUSTER, &LISTENER, &ROUTE_CONFIGURATION] {
                if let Ok(node) = Node::of(&bytes, message) {
                    let _ = unread(&node);
                }
            }
        }
    }
}
