//! Priorities of responses (RFC 9218): the `Priority` field, which HTTP/2 and HTTP/3 share.

use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser};
use std::convert::Infallible;

/// Priority of a response, by default urgency 3 and not incremental.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0 is the most urgent, 7 the least.
    pub urgency: u8,
    /// True if parts of the response are useful before the rest has arrived.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Reads the value of a `Priority` field. A malformed value is ignored as a whole. Parameters that are unknown, of
    /// another type or out of range are ignored (section 4).
    pub fn read(value: &[u8]) -> Priority {
        Parser::new(value.trim_ascii()).parse_dictionary_with_visitor(Reader(Priority::default())).unwrap_or_default()
    }
}

struct Reader(Priority);

impl<'de> DictionaryVisitor<'de> for Reader {
    type Out = Priority;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        Ok(Parameter { key: Key::of(key.as_str()), priority: &mut self.0 })
    }

    fn finish(self) -> Result<Priority, Infallible> {
        Ok(self.0)
    }
}

#[derive(Clone, Copy, Debug)]
enum Key {
    Urgency,
    Incremental,
    Other,
}

impl Key {
    fn of(key: &str) -> Key {
        match key {
            "u" => Key::Urgency,
            "i" => Key::Incremental,
            _ => Key::Other,
        }
    }
}

/// Parameter that is read. The last of several with the same key counts, even if its value is ignored.
struct Parameter<'p> {
    key: Key,
    priority: &'p mut Priority,
}

impl Parameter<'_> {
    fn set(self, item: Option<BareItemFromInput<'_>>) {
        let usual = Priority::default();
        match self.key {
            Key::Urgency => {
                self.priority.urgency = match item {
                    Some(BareItemFromInput::Integer(n)) => {
                        u8::try_from(i64::from(n)).ok().filter(|n| *n <= 7).unwrap_or(usual.urgency)
                    }
                    _ => usual.urgency,
                };
            }
            Key::Incremental => {
                self.priority.incremental = match item {
                    Some(BareItemFromInput::Boolean(is)) => is,
                    _ => usual.incremental,
                };
            }
            Key::Other => {}
        }
    }
}

impl<'de> EntryVisitor<'de> for Parameter<'_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(|item: BareItemFromInput<'de>| {
            self.set(Some(item));
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        self.set(None);
        Ok(Ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_others_are_ignored() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            (" i ,u=1", 1, true),
            ("u=5;x=1, i=?0", 5, false),
            ("u=1, u=2", 2, false),
            ("u=1, u=9", 3, false),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=1.5, i=1", 3, false),
            ("u=(1 2), i=?1", 3, true),
            ("x=\"u=1\", i", 3, true),
            ("u=1, &", 3, false),
            ("U=1", 3, false),
        ] {
            assert_eq!(Priority::read(value.as_bytes()), Priority { urgency, incremental }, "{value}");
        }
    }
}
