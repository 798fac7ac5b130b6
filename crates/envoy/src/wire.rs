//! Resources of control planes, in the wire format of protobuf. See [`resource`].

use crate::node::{Extension, Node, Origin, UNKNOWN, Value};
use crate::schema::{EXTENSIONS, Kind, Message};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// Values in a resource, at most: a message of two bytes for each would take twenty times its size in memory.
const VALUES_MAX: usize = 4_000_000;

/// Reads a resource.
///
/// # Errors
/// The bytes are not such a message, or there are too many values in them.
pub fn resource<'a>(bytes: &'a [u8], message: &'static Message) -> Result<Node<'a>, String> {
    read(bytes, message, &mut 0)
}

fn read<'a>(mut bytes: &'a [u8], message: &'static Message, count: &mut usize) -> Result<Node<'a>, String> {
    let mut node = Node::new(message, Origin::Resource);
    while !bytes.is_empty() {
        *count += 1;
        if *count > VALUES_MAX {
            return Err(format!("it has more than {VALUES_MAX} values"));
        }
        let (tag, wire) = decode_key(&mut bytes).map_err(|error| error.to_string())?;
        let Some(field) = message.fields.iter().find(|field| field.tag == tag) else {
            skip(&mut bytes, tag, wire)?;
            node.push(UNKNOWN, Value::Refused);
            continue;
        };
        match (field.kind, wire) {
            (Kind::Ignored | Kind::Minor | Kind::Refused, _) => {
                skip(&mut bytes, tag, wire)?;
                if matches!(field.kind, Kind::Refused) {
                    node.push(field.name, Value::Refused);
                }
            }
            (Kind::Noted, wire) => {
                if is_set(&mut bytes, tag, wire)? {
                    node.push(field.name, Value::Noted);
                }
            }
            (Kind::Number | Kind::Word(_), WireType::Varint) => {
                node.push(field.name, Value::Number(varint(&mut bytes)?))
            }
            (Kind::Number | Kind::Word(_), WireType::LengthDelimited) => {
                let mut packed = delimited(&mut bytes)?;
                while !packed.is_empty() {
                    *count += 1;
                    node.push(field.name, Value::Number(varint(&mut packed)?));
                }
            }
            (Kind::Float, WireType::SixtyFourBit) => {
                let (float, rest) = bytes.split_first_chunk().ok_or("it ends too early")?;
                (bytes, _) = (rest, node.push(field.name, Value::Float(f64::from_le_bytes(*float))));
            }
            (kind, WireType::LengthDelimited) => {
                let inner = delimited(&mut bytes)?;
                let value = value(inner, kind, count).map_err(|why| format!("{}: {why}", field.name))?;
                node.push(field.name, value);
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
    use super::*;
    use crate::node::TIME_MAX;
    use crate::schema::{CLUSTER, LISTENER, ROUTE_CONFIGURATION};
    use crate::testing::encoded;
    use proptest::prelude::*;
    use serde_json::json;
    use std::time::Duration;

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
        let node = resource(&bytes, &CLUSTER).expect("a message");
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
            resource(&bytes, &CLUSTER).expect("a message").duration("connect_timeout")
        };
        assert_eq!((time(-1), time(i64::MAX)), (Some(Duration::ZERO), Some(TIME_MAX)));
    }

    #[test]
    fn a_message_that_is_cut_off_or_of_other_types_is_an_error() {
        let bytes = encoded(&CLUSTER, &json!({ "name": "web", "eds_cluster_config": { "service_name": "a" } }));
        assert!((1..bytes.len()).filter(|end| *end != 5).all(|end| resource(&bytes[..end], &CLUSTER).is_err()));
        // `name` as a number, and text that is not UTF-8.
        assert!(resource(&[8, 1], &CLUSTER).is_err_and(|why| why.contains("name")));
        assert!(resource(&[10, 1, 0xff], &CLUSTER).is_err_and(|why| why.contains("not text")));
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_server_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for message in [&CLUSTER, &LISTENER, &ROUTE_CONFIGURATION] {
                if let Ok(node) = resource(&bytes, message) {
                    let _ = unread(&node);
                }
            }
        }
    }
}
