//! Types of plan fields: a [`Field`] is read from a value that fits its row, and written back.

use super::balance::Balance;
use super::lines::{Lines, key_text, list};
use super::row::Kind;
use super::section::{Keyed, Located, Value};
use crate::form::{
    Address, AdminSocket, Cidr, Formed, HashKey, HostPattern, KeySource, LimitKey, Origin, PathPattern, Pem,
    RequestRate, SendHost, Template, TokenField, payload_text, status_text,
};
use crate::printable::quote;
use crate::quantity::{duration_text, size_text};
use evenkeel_balance::algorithms;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A type that a key of the configuration is read into.
pub(crate) trait Field: PartialEq + Sized {
    /// Reads a value that fits its row. For a rejected value the result is arbitrary, as there will be no
    /// plan.
    fn read(value: Value) -> Self;

    /// Formats the value as TOML. `base` is the value in effect if the key is not set; tables write only values that
    /// differ from it.
    fn write(&self, base: &Self, kind: &Kind) -> String;
}

/// Substitute for a rejected value. Any other value here means that a row and its field disagree.
fn broken<T>(value: &Value, instead: T) -> T {
    debug_assert!(matches!(value, Value::Broken), "a row and its field are of different types: {value:?}");
    instead
}

impl Field for bool {
    fn read(value: Value) -> bool {
        if let Value::Bool(on) = value { on } else { broken(&value, false) }
    }

    fn write(&self, _: &bool, _: &Kind) -> String {
        self.to_string()
    }
}

/// Whole numbers. Durations are read as nanoseconds, sizes as bytes.
macro_rules! whole_numbers {
    ($($int:ty),*) => {$(
        impl Field for $int {
            fn read(value: Value) -> $int {
                let (Value::Int(n) | Value::Duration(Some(n))) = value else { return broken(&value, 0) };
                <$int>::try_from(n).unwrap_or_default()
            }

            fn write(&self, _: &$int, kind: &Kind) -> String {
                match kind {
                    Kind::Duration { .. } => quote(&duration_text(Duration::from_nanos(*self as u64))),
                    Kind::Size { .. } => quote(&size_text(*self as u64)),
                    _ => self.to_string(),
                }
            }
        }
    )*};
}

whole_numbers!(u8, u16, u32, u64, usize);

impl Field for f64 {
    fn read(value: Value) -> f64 {
        if let Value::Number(x) = value { x } else { broken(&value, 0.0) }
    }

    /// `{:?}` keeps the decimal point of whole numbers.
    fn write(&self, _: &f64, _: &Kind) -> String {
        format!("{self:?}")
    }
}

impl Field for Duration {
    fn read(value: Value) -> Duration {
        let Value::Duration(Some(ns)) = value else { return broken(&value, Duration::ZERO) };
        Duration::from_nanos(ns)
    }

    fn write(&self, _: &Duration, _: &Kind) -> String {
        quote(&duration_text(*self))
    }
}

/// `None` is `"off"`, or a key that is not set and has no default.
impl<T: Field> Field for Option<T> {
    fn read(value: Value) -> Option<T> {
        match value {
            Value::Broken | Value::Duration(None) | Value::Word("off") | Value::Bool(false) => None,
            value => Some(T::read(value)),
        }
    }

    fn write(&self, base: &Option<T>, kind: &Kind) -> String {
        match (self, base) {
            (None, _) => quote("off"),
            (Some(set), Some(base)) => set.write(base, kind),
            (Some(set), None) => set.write(&T::read(Value::Broken), kind),
        }
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(value: Value) -> Vec<T> {
        let Value::List(list) = value else { return broken(&value, Vec::new()) };
        let whole = list.into_iter().filter(|l| !matches!(l.value, Value::Broken));
        whole.map(|Located { value, .. }| T::read(value)).collect()
    }

    fn write(&self, _: &Vec<T>, kind: &Kind) -> String {
        let (element, unset) = (element(kind), T::read(Value::Broken));
        match (kind, &self[..]) {
            (Kind::OneOrList(_), [one]) => one.write(&unset, &element),
            _ => list(self.iter().map(|one| one.write(&unset, &element))),
        }
    }
}

/// Values with user-defined keys, in the order of the file.
impl<T: Field> Field for Vec<(Arc<str>, T)> {
    fn read(value: Value) -> Vec<(Arc<str>, T)> {
        let Value::Map(map) = value else { return broken(&value, Vec::new()) };
        let whole = map.into_iter().filter(|keyed| !matches!(keyed.value.value, Value::Broken));
        whole.map(|Keyed { key, value, .. }| (key.into(), T::read(value.value))).collect()
    }

    fn write(&self, _: &Vec<(Arc<str>, T)>, kind: &Kind) -> String {
        let (of, unset) = (if let Kind::Map { of, .. } = kind { of } else { kind }, T::read(Value::Broken));
        let mut lines = Lines::default();
        self.iter().for_each(|(key, value)| lines.add(&key_text(key), value.write(&unset, of)));
        lines.braces()
    }
}

/// Kind of the elements of a list.
fn element(kind: &Kind) -> Kind {
    match *kind {
        Kind::List(of) | Kind::OneOrList(of) => *of,
        Kind::Tables(table) | Kind::TableOrTables(table) | Kind::TablesBy { table, .. } => Kind::Table(table),
        other => other,
    }
}

impl<T: Field> Field for Arc<[T]> {
    fn read(value: Value) -> Arc<[T]> {
        Vec::read(value).into()
    }

    fn write(&self, _: &Arc<[T]>, kind: &Kind) -> String {
        let (element, unset) = (element(kind), T::read(Value::Broken));
        list(self.iter().map(|one| one.write(&unset, &element)))
    }
}

/// Strings with a typed form: the variant of [`Formed`], and a substitute for a rejected value.
macro_rules! formed {
    ($($ty:ty = $variant:ident, or $wrong:expr;)*) => {$(
        impl Field for $ty {
            fn read(value: Value) -> $ty {
                match value {
                    Value::Formed(Formed::$variant(formed)) => formed.into(),
                    other => broken(&other, $wrong),
                }
            }

            fn write(&self, _: &$ty, _: &Kind) -> String {
                quote(&self.to_string())
            }
        }
    )*};
}

formed! {
    String = Text, or String::new();
    Arc<str> = Text, or "".into();
    SocketAddr = Bind, or SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    IpAddr = Ip, or Ipv4Addr::UNSPECIFIED.into();
    Cidr = Network, or Cidr::EVERYTHING;
    HostPattern = Host, or HostPattern::Exact(String::new());
    PathPattern = Path, or PathPattern::Any;
    LimitKey = LimitKey, or LimitKey::Route;
    RequestRate = Rate, or RequestRate { requests: 1, per: Duration::from_secs(1) };
    Address = Address, or Address::Name { host: String::new(), port: 0 };
    Template = Template, or Template::literal("");
    SendHost = SendHost, or SendHost::Client;
    HashKey = HashKey, or HashKey::ClientIp;
    Origin = Origin, or Origin::Exact("".into());
    KeySource = KeySource, or KeySource::File(PathBuf::new());
    TokenField = TokenField, or TokenField::Bearer;
}

impl Field for PathBuf {
    fn read(value: Value) -> PathBuf {
        match value {
            Value::Formed(Formed::Text(text)) => PathBuf::from(text),
            other => broken(&other, PathBuf::new()),
        }
    }

    fn write(&self, _: &PathBuf, _: &Kind) -> String {
        quote(&self.display().to_string())
    }
}

/// A key that is left out stands for the default.
impl Field for AdminSocket {
    fn read(value: Value) -> AdminSocket {
        match value {
            Value::Formed(Formed::Socket(socket)) => socket,
            other => broken(&other, AdminSocket::Found),
        }
    }

    fn write(&self, _: &AdminSocket, _: &Kind) -> String {
        quote(&self.path().map_or("off".to_owned(), |path| format!("unix:{}", path.display())))
    }
}

/// Range of response statuses.
impl Field for RangeInclusive<u16> {
    fn read(value: Value) -> RangeInclusive<u16> {
        match value {
            Value::Int(status) => {
                let status = u16::try_from(status).unwrap_or_default();
                status..=status
            }
            Value::Formed(Formed::Statuses(range)) => range,
            other => broken(&other, 0..=0),
        }
    }

    fn write(&self, _: &RangeInclusive<u16>, _: &Kind) -> String {
        status_text(self)
    }
}

/// The text is written in clear; [`Plan::to_toml`](crate::Plan::to_toml) masks keys.
impl Field for Pem {
    fn read(value: Value) -> Pem {
        if let Value::Formed(Formed::Text(text)) = value { Pem::of(&text) } else { Pem::File(PathBuf::new()) }
    }

    fn write(&self, _: &Pem, _: &Kind) -> String {
        match self {
            Pem::File(path) => quote(&path.to_string_lossy()),
            Pem::Text(text) => quote(text),
        }
    }
}

/// Bytes of a datagram or exchange, as [`Form::Payload`] reads them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Payload(pub Vec<u8>);

impl Field for Payload {
    fn read(value: Value) -> Payload {
        if let Value::Formed(Formed::Payload(bytes)) = value { Payload(bytes) } else { Payload(Vec::new()) }
    }

    fn write(&self, _: &Payload, _: &Kind) -> String {
        quote(&payload_text(&self.0))
    }
}

impl Field for Balance {
    fn read(value: Value) -> Balance {
        if let Value::Balance(balance, _) = value { *balance } else { Balance::of(algorithms::default()) }
    }

    fn write(&self, _: &Balance, _: &Kind) -> String {
        self.to_toml()
    }
}

impl Balance {
    /// Value of `balance` in a configuration that gives this algorithm with its parameters.
    pub fn to_toml(&self) -> String {
        let unset = Balance::of(self.algorithm);
        let mut params = Lines::default();
        for param in self.algorithm.params {
            let value = self.written(param.name, param.kind);
            if value != unset.written(param.name, param.kind) {
                params.add(param.name, value);
            }
        }
        match params.is_empty() {
            true => quote(self.algorithm.name),
            false => format!("{{ {} = {} }}", self.algorithm.name, params.braces()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Form;
    use crate::table::{Absent, Declared, Key, Section, table};
    use crate::tables::Document;

    table! {
        static NOTES = "notes", "Numbers by name.";

        #[derive(Clone, Debug, PartialEq)]
        struct Notes {
            numbers: Vec<(Arc<str>, u16)> = Key {
                name: "numbers",
                kind: Kind::Map { keys: Form::Token, of: &Kind::Int { min: 1, max: 9 } },
                absent: Absent::Means("none"),
                help: "",
                why: "",
            };
        }
    }

    fn read(text: &str) -> (Section, String) {
        let mut document = Document::parse("a.toml", text);
        let tree = document.tree.clone();
        let section = document.read(&NOTES, &tree);
        (section, crate::render_text(&document.finish(), false))
    }

    #[test]
    fn values_under_keys_of_the_user_keep_their_order_and_are_written_as_they_were_read() {
        let (section, shown) = read("numbers = { X-B = 2, 'a!b' = 1 }");
        let notes = Notes::of(&section);
        assert_eq!((notes.numbers.as_slice(), &*shown), (&[("X-B".into(), 2), ("a!b".into(), 1)][..], ""));
        assert_eq!(section.map("numbers").iter().map(|keyed| &*keyed.key).collect::<Vec<_>>(), ["X-B", "a!b"]);
        assert_eq!(notes.lines(Notes::unset()).braces(), "{ numbers = { X-B = 2, \"a!b\" = 1 } }");
        assert_eq!(Notes::of(&read("numbers = {}").0), *Notes::unset());
    }

    #[test]
    fn a_finding_about_such_a_value_names_its_key() {
        for (text, found) in [
            ("numbers = { X-B = 10 }", "\"X-B\" is 10, which is out of range"),
            ("numbers = { X-B = 'x' }", "\"X-B\" is \"x\", but must be a whole number"),
            ("numbers = { 'a b' = 1 }", "\"a b\" is not a name"),
            ("numbers = 1", "write numbers = { KEY = VALUE }"),
        ] {
            let (section, shown) = read(text);
            assert!(section.is_broken() && shown.contains(found), "{text}: {shown}");
        }
    }
}
