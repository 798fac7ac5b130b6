//! Tables of a file as messages, by the schema of the resources of control planes. See [`message`].

use crate::durations::milliseconds;
use crate::ledger::Ledger;
use crate::tree::{Kind as Shape, Node as Table};
use evenkeel_envoy::node::{Extension, Node, Origin, UNKNOWN, Value};
use evenkeel_envoy::schema::{ANY_ENTRY, DURATION, EXTENSIONS, Field, Kind, Message, WRAPPED};

/// Key of the type of a message.
pub(super) const TYPE: &str = "@type";

/// Reads a table. Values of a wrong type are entered in the book.
pub(super) fn message<'t>(table: &'t Table, of: &'static Message, ledger: &mut Ledger) -> Node<'t> {
    let mut node = Node::new(of, Origin::File);
    for (key, value) in table.entries() {
        match field(of, key) {
            Some(field) => values(field.kind, value).into_iter().for_each(|(name, one)| {
                if let Some(value) = read(field.kind, name, one, ledger) {
                    node.push(field.name, value);
                }
            }),
            None if key == TYPE => {}
            None => node.push(UNKNOWN, Value::Refused),
        }
    }
    node
}

/// Tables of a repeated field, in the order of its messages.
pub(super) fn each<'t>(table: &'t Table, key: &str) -> impl Iterator<Item = &'t Table> {
    let all = table.entries().iter().filter(move |(name, _)| name == key).flat_map(|(_, value)| match &value.kind {
        Shape::List(all) => all.iter(),
        _ => std::slice::from_ref(value).iter(),
    });
    // A text is not read as a message.
    all.filter(|value| value.text().is_none())
}

/// Field that a key names; `None` if the schema does not have it.
pub(super) fn field(of: &'static Message, key: &str) -> Option<&'static Field> {
    of.fields.iter().find(|field| field.name == key)
}

/// Values of a key. The values of a map have their names.
pub(super) fn values(kind: Kind, value: &Table) -> Vec<(Option<&str>, &Table)> {
    match (&value.kind, kind) {
        (Shape::List(all), _) => all.iter().map(|one| (None, one)).collect(),
        (Shape::Map(all), Kind::Of(of)) if std::ptr::eq(of, &ANY_ENTRY) => {
            all.iter().map(|(name, one)| (Some(name.as_str()), one)).collect()
        }
        _ => vec![(None, value)],
    }
}

/// Reads a value of a field; `None` if the field is ignored.
fn read<'t>(kind: Kind, name: Option<&'t str>, value: &'t Table, ledger: &mut Ledger) -> Option<Value<'t>> {
    let text = value.text();
    let found = match (kind, text) {
        (Kind::Ignored | Kind::Minor, _) => return None,
        (Kind::Refused, _) => return Some(Value::Refused),
        (Kind::Noted, _) => return Some(Value::Noted),
        (Kind::Text, Some(text)) => Ok(Value::Text(text)),
        (Kind::Text, None) => Err("it is not a text"),
        (Kind::Encoded | Kind::Raw, Some(_)) => Err("base64 is not read: the file can have it as a text"),
        (Kind::Encoded | Kind::Raw, None) => Ok(Value::Raw(&[])),
        (Kind::Number, text) => text.and_then(number).map(Value::Number).ok_or("it is not a number"),
        (Kind::Word(words), text) => {
            let at = text.and_then(|text| words.iter().position(|word| *word == text && !text.is_empty()));
            let number = at.map(|at| at as u64).or_else(|| text.and_then(number));
            number.map(Value::Number).ok_or("it is not a word that Envoy has here")
        }
        (Kind::Float, text) => text.and_then(|text| text.parse().ok()).map(Value::Float).ok_or("it is not a number"),
        (Kind::Of(of), _) => part(of, name, value, ledger),
        (Kind::Any, None) => Ok(Value::Extension(extension(value, ledger))),
        (Kind::Any, Some(_)) => Err("it is not a table"),
    };
    Some(found.unwrap_or_else(|why| {
        value.lost(why, "write what Envoy's manual has for this key", ledger);
        Value::Refused
    }))
}

fn part<'t>(
    of: &'static Message,
    name: Option<&'t str>,
    value: &'t Table,
    ledger: &mut Ledger,
) -> Result<Value<'t>, &'static str> {
    let mut node = Node::new(of, Origin::File);
    match (value.text(), name) {
        (Some(text), _) if std::ptr::eq(of, &DURATION) => {
            let ms = milliseconds(text).ok_or("it is not a time, such as 1.5s")?;
            node.push("seconds", Value::Number(ms / 1000));
            node.push("nanos", Value::Number(ms % 1000 * 1_000_000));
        }
        (Some(text), _) if std::ptr::eq(of, &WRAPPED) => {
            node.push("value", Value::Number(number(text).ok_or("it is not a number")?));
        }
        (Some(_), _) => return Err("it is not a table"),
        (None, Some(name)) => {
            node.push("key", Value::Text(name));
            node.push("value", Value::Extension(extension(value, ledger)));
        }
        (None, None) => node = message(value, of, ledger),
    }
    Ok(Value::Node(node))
}

/// A message that names its type.
fn extension<'t>(value: &'t Table, ledger: &mut Ledger) -> Extension<'t> {
    let url = value.get(TYPE).and_then(Table::text).unwrap_or_default();
    let kind = url.rsplit('/').next().unwrap_or(url);
    let known = EXTENSIONS.iter().find(|(name, _)| *name == kind);
    Extension { kind, node: known.map(|(_, of)| message(value, of, ledger)) }
}

/// Number of a scalar. A negative number has the bits of its two's complement, as in messages.
fn number(text: &str) -> Option<u64> {
    match text {
        "true" => Some(1),
        "false" => Some(0),
        _ => text.parse().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned)),
    }
}
