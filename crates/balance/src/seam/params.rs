//! Parameters of algorithms. A table of [`Param`] rows yields the config check, the JSON Schema, the reference pages
//! and `--help`; [`Params`] is a resolved set of values.

use std::fmt;
use std::time::Duration;

/// A parameter of an algorithm.
#[derive(Debug)]
pub struct Param {
    /// Key in the configuration.
    pub name: &'static str,
    /// Type and range of its values.
    pub kind: Kind,
    /// Value if the configuration has none.
    pub default: Value,
    /// Effect of the parameter, in a sentence.
    pub help: &'static str,
    /// Reason for the default, with its source.
    pub why: &'static str,
}

/// Type and range of a [`Param`]. Ranges are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// An integer, from `min` to `max`.
    Int {
        /// Smallest integer allowed.
        min: u64,
        /// Largest integer allowed, included.
        max: u64,
    },
    /// A floating-point number, from `min` to `max`.
    Float {
        /// Smallest number allowed; finite.
        min: f64,
        /// Largest number allowed; finite.
        max: f64,
    },
    /// A duration in nanoseconds, written with a unit (`250ms`, `10s`).
    Duration {
        /// Shortest value allowed, nanoseconds.
        min: u64,
        /// Longest value allowed, nanoseconds.
        max: u64,
    },
    /// The part of a request that is hashed: `client-ip`, `path`, `header:NAME`, `cookie:NAME` or `query:NAME`.
    HashKey,
}

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Value of a [`Kind::Int`].
    Int(u64),
    /// Value of a [`Kind::Float`].
    Float(f64),
    /// Value of a [`Kind::Duration`], nanoseconds.
    Duration(u64),
    /// Value of a [`Kind::HashKey`]. Pickers get the key already hashed, so only planes read this text.
    Text(&'static str),
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Float(number)
    }
}

impl From<Duration> for Value {
    /// Converts a span; a span above 584 years becomes the longest that fits.
    fn from(span: Duration) -> Value {
        Value::Duration(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Error of a parameter that an algorithm refuses.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamError {
    /// Name of the parameter, as it was given.
    pub name: String,
    /// Description of the fault and of the allowed values.
    pub problem: String,
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parameter \"{}\": {}", self.name, self.problem)
    }
}

impl std::error::Error for ParamError {}

/// Values for the parameters of an algorithm: the values set, over the table's defaults.
#[derive(Clone, Debug)]
pub struct Params {
    table: &'static [Param],
    set: Vec<(&'static str, Value)>,
}

impl Params {
    /// Returns the defaults of all parameters.
    pub fn defaults(table: &'static [Param]) -> Params {
        Params { table, set: Vec::new() }
    }

    /// Sets the value of a parameter.
    ///
    /// # Errors
    /// If the name is unknown, or the value is of another kind or out of range. The text lists the allowed values.
    pub fn set(&mut self, name: &str, value: Value) -> Result<(), ParamError> {
        let err = |problem| ParamError { name: name.to_string(), problem };
        let Some(row) = self.table.iter().find(|p| p.name == name) else {
            let known: Vec<_> = self.table.iter().map(|p| p.name).collect();
            return Err(err(format!("unknown; allowed: {}", known.join(", "))));
        };
        row.kind.check(value).map_err(err)?;
        self.set.retain(|(n, _)| *n != row.name);
        self.set.push((row.name, value));
        Ok(())
    }

    /// Returns each parameter's name and value, in the order of the table.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.table.iter().map(|p| (p.name, self.value(p.name)))
    }

    fn value(&self, name: &str) -> Value {
        let set = self.set.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let default = || self.table.iter().find(|p| p.name == name).map(|p| p.default);
        set.or_else(default).expect("an algorithm reads only parameters of its own table")
    }

    /// Returns the value of an integer parameter. Panics if the table has no such row.
    pub fn int(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Int(n) => n,
            other => panic!("parameter {name} is {other:?}, not a whole number: a fault of its table row"),
        }
    }

    /// Returns the value of a floating-point parameter. Panics if the table has no such row.
    pub fn float(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Float(x) => x,
            other => panic!("parameter {name} is {other:?}, not a real number: a fault of its table row"),
        }
    }

    /// Returns the value of a duration parameter, in nanoseconds. Panics if the table has no such row.
    pub fn duration_ns(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Duration(ns) => ns,
            other => panic!("parameter {name} is {other:?}, not a duration: a fault of its table row"),
        }
    }
}

impl Kind {
    /// Checks that `value` is of this kind and in range.
    ///
    /// # Errors
    /// A text that lists the allowed values.
    pub fn check(&self, value: Value) -> Result<(), String> {
        let fits = match (*self, value) {
            (Kind::Int { min, max }, Value::Int(n)) => (min..=max).contains(&n),
            (Kind::Float { min, max }, Value::Float(x)) => (min..=max).contains(&x),
            (Kind::Duration { min, max }, Value::Duration(ns)) => (min..=max).contains(&ns),
            (Kind::HashKey, Value::Text(_)) => true,
            _ => false,
        };
        if fits { Ok(()) } else { Err(format!("{value} is not allowed; allowed: {self}")) }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Int { min, max } => write!(f, "a whole number from {min} to {max}"),
            Kind::Float { min, max } => write!(f, "a number from {min} to {max}"),
            Kind::Duration { min, max } => {
                write!(f, "a duration from {} to {}", Value::Duration(*min), Value::Duration(*max))
            }
            Kind::HashKey => write!(f, "client-ip, path, header:NAME, cookie:NAME or query:NAME"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            Value::Float(x) => write!(f, "{x}"),
            Value::Duration(ns) if ns % 1_000_000_000 == 0 => write!(f, "{}s", ns / 1_000_000_000),
            Value::Duration(ns) if ns % 1_000_000 == 0 => write!(f, "{}ms", ns / 1_000_000),
            Value::Duration(ns) if ns % 1_000 == 0 => write!(f, "{}us", ns / 1_000),
            Value::Duration(ns) => write!(f, "{ns}ns"),
            Value::Text(s) => write!(f, "{s}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: &[Param] =
        &[Param { name: "draws", kind: Kind::Int { min: 1, max: 16 }, default: Value::Int(2), help: "", why: "" }];

    #[test]
    fn says_what_is_allowed() {
        let mut p = Params::defaults(TABLE);
        assert_eq!(p.int("draws"), 2);
        p.set("draws", Value::Int(3)).unwrap();
        assert_eq!(p.int("draws"), 3);
        let e = p.set("draws", Value::Int(17)).unwrap_err();
        assert_eq!(e.to_string(), "parameter \"draws\": 17 is not allowed; allowed: a whole number from 1 to 16");
        assert!(p.set("drawz", Value::Int(1)).unwrap_err().to_string().contains("allowed: draws"));
    }
}
