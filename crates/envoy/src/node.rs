//! Resources and files as trees of fields. A tree knows which of its fields were read, so that the others are refused
//! or reported by their paths instead of being lost. See [`Node`].

use crate::schema::{Field, Kind, Message};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Longest time limit, 30 days, as in the configuration. A longer time counts as no limit.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Name of fields that Envoy 1.40 does not have.
pub const UNKNOWN: &str = "(a field that is newer than Envoy 1.40)";

/// Origin of a message, which decides about parts that no plan can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A control plane. The resource is used as a whole or refused.
    Resource,
    /// A file. Such parts are left out and noted, see [`Node::part`].
    File,
}

/// A message, with the values of its fields in their order.
#[derive(Debug)]
pub struct Node<'a> {
    of: &'static Message,
    origin: Origin,
    values: Vec<(&'static str, Value<'a>)>,
    /// Fields that were read, or may be ignored.
    read: Cell<u128>,
    notes: RefCell<Vec<Note>>,
}

/// Note about a message or a field of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A protection that was read, and is not kept.
    Unkept(&'static str),
    /// A field that is left out, or the whole message if there is no name. Only in files.
    Lost(Option<&'static str>, String),
    /// A difference to the original. Only in files.
    Differs(String),
}

#[derive(Debug)]
pub enum Value<'a> {
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

/// Message with the name of its type.
#[derive(Debug)]
pub struct Extension<'a> {
    /// Name of the type: the part of its URL after the last slash.
    pub kind: &'a str,
    /// `None` if the type is not known here.
    pub node: Option<Node<'a>>,
}

impl<'a> Node<'a> {
    /// A message without values.
    pub fn new(of: &'static Message, origin: Origin) -> Node<'a> {
        Node { of, origin, values: Vec::new(), read: Cell::new(0), notes: RefCell::default() }
    }

    /// Adds a value of a field that the schema of the message has.
    pub fn push(&mut self, field: &'static str, value: Value<'a>) {
        self.values.push((field, value));
    }

    pub fn message(&self) -> &'static Message {
        self.of
    }

    /// True if the message is of a file.
    pub fn is_of_file(&self) -> bool {
        self.origin == Origin::File
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

    /// Name of the value of an enum.
    pub fn word(&self, name: &'static str) -> String {
        let number = self.number(name);
        let words = match self.of.fields.iter().find(|field| field.name == name) {
            Some(Field { kind: Kind::Word(words), .. }) => words,
            _ => &[][..],
        };
        let word = usize::try_from(number).ok().and_then(|at| words.get(at)).filter(|word| !word.is_empty());
        word.map_or_else(|| format!("number {number}"), ToString::to_string)
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

    /// Value of a `google.protobuf.Duration`; `None` if the field is absent. A negative duration counts as zero, and
    /// more than 30 days as 30 days.
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

    /// Unwraps the result of reading this message. An error in a file is noted, and the message is left out. An error
    /// in a resource is returned.
    ///
    /// # Errors
    /// The error of `read`, in a resource.
    pub fn part<T>(&self, read: Result<T, String>) -> Result<Option<T>, String> {
        self.kept(None, read)
    }

    /// Variant of [`part`](Self::part) for the result of reading a single field.
    ///
    /// # Errors
    /// The error of `read`, in a resource.
    pub fn part_of<T>(&self, field: &'static str, read: Result<T, String>) -> Result<Option<T>, String> {
        self.kept(Some(field), read)
    }

    fn kept<T>(&self, field: Option<&'static str>, read: Result<T, String>) -> Result<Option<T>, String> {
        match (read, self.origin) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(why), Origin::Resource) => Err(why),
            (Err(why), Origin::File) => {
                self.notes.borrow_mut().push(Note::Lost(field, why));
                Ok(None)
            }
        }
    }

    /// Returns the result of reading a message that means something else if a field is lost, such as a condition.
    ///
    /// # Errors
    /// The error of `read`, or the unread fields of a file. Unread fields of a resource are refused later.
    pub fn whole<T>(&self, read: Result<T, String>) -> Result<T, String> {
        let read = read?;
        let mut unread = Vec::new();
        if self.is_of_file() {
            self.unread("", &mut unread);
        }
        if unread.is_empty() { Ok(read) } else { Err(format!("{} has no counterpart", unread.join(", "))) }
    }

    /// Leaves a field out, with the reason.
    ///
    /// # Errors
    /// Field and reason, in a resource.
    pub fn refuse(&self, field: &'static str, why: &str) -> Result<(), String> {
        self.part_of(field, Err::<(), _>(format!("{field}: {why}"))).map(drop)
    }

    /// Notes a difference to the original, for the report about a file.
    pub fn differs(&self, how: impl Into<String>) {
        if self.is_of_file() {
            self.notes.borrow_mut().push(Note::Differs(how.into()));
        }
    }

    /// Returns a number within the bounds of a plan, and notes the difference.
    pub fn bounded(&self, name: &str, number: u64, bounds: RangeInclusive<u64>) -> u64 {
        let bounded = number.clamp(*bounds.start(), *bounds.end());
        if bounded != number {
            self.differs(format!("{name}: {bounded} instead of {number}"));
        }
        bounded
    }

    /// Drops one of several values, with the reason.
    ///
    /// # Errors
    /// The reason, in a resource.
    pub fn without(&self, why: String) -> Result<(), String> {
        if !self.is_of_file() {
            return Err(why);
        }
        self.differs(why);
        Ok(())
    }

    /// Notes that a field protects, and is not kept with the value that was read.
    pub fn note(&self, name: &'static str) {
        self.notes.borrow_mut().push(Note::Unkept(name));
    }

    /// Notes about this message and its fields, in the order in which they were made.
    pub fn notes(&self) -> Vec<Note> {
        self.notes.borrow().clone()
    }

    /// True if the field was read.
    pub fn was_read(&self, name: &'static str) -> bool {
        self.index(name).is_some_and(|at| self.read.get() & 1 << at != 0)
    }

    /// Values of a field, which do not count as read.
    pub fn peek(&self, name: &str) -> impl Iterator<Item = &Value<'a>> {
        self.values.iter().filter(move |(of, _)| *of == name).map(|(_, value)| value)
    }

    /// Adds the names of the protections that are not kept to `all`.
    pub fn noted(&self, all: &mut BTreeSet<&'static str>) {
        all.extend(
            self.notes
                .borrow()
                .iter()
                .filter_map(|note| if let Note::Unkept(name) = note { Some(*name) } else { None }),
        );
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
            if values.peek().is_none() || matches!(field.kind, Kind::Ignored | Kind::Minor | Kind::Noted) {
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
