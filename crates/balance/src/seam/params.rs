//! What can be set on an algorithm? A table of [`Param`] rows, from which the config check, the JSON Schema, the
//! reference pages and `--help` are all made; [`Params`] is one resolved set of values.

use std::fmt;
use std::time::Duration;

/// One parameter of an algorithm.
#[derive(Debug)]
pub struct Param {
    /// Its key in the configuration.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value when left out.
    pub default: Value,
    /// What it does, one sentence.
    pub help: &'static str,
    /// Why this default, with its source.
    pub why: &'static str,
}

/// The values a [`Param`] takes. Ranges are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number.
    Int {
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A real number.
    Float {
        /// Smallest allowed.
        min: f64,
        /// Largest allowed.
        max: f64,
    },
    /// A span of time in nanoseconds, written with a unit (`250ms`, `10s`).
    Duration {
        /// Shortest allowed.
        min: u64,
        /// Longest allowed.
        max: u64,
    },
    /// The part of a request that is hashed: `client-ip`, `path`, `header:NAME`, `cookie:NAME` or `query:NAME`.
    HashKey,
}

/// One value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// For [`Kind::Int`].
    Int(u64),
    /// For [`Kind::Float`].
    Float(f64),
    /// For [`Kind::Duration`], nanoseconds.
    Duration(u64),
    /// For [`Kind::HashKey`]: pickers get the key already hashed, so only planes read this text.
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
    /// Spans above 584 years become the longest that fits.
    fn from(span: Duration) -> Value {
        Value::Duration(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A parameter that an algorithm refuses.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamError {
    /// The parameter's name.
    pub name: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parameter \"{}\": {}", self.name, self.problem)
    }
}

impl std::error::Error for ParamError {}

/// Values for the numeric parameters of one algorithm: what was set, over the table's defaults.
#[derive(Clone, Debug)]
pub struct Params {
    table: &'static [Param],
    set: Vec<(&'static str, Value)>,
}

impl Params {
    /// Every parameter at its default.
    pub fn defaults(table: &'static [Param]) -> Params {
        Params { table, set: Vec::new() }
    }

    /// Sets one value.
    ///
    /// # Errors
    /// An unknown name, a value of another kind, or one out of range; the text says what is allowed.
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

    /// Every parameter with its value.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, Value)> + '_ {
        self.table.iter().map(|p| (p.name, self.value(p.name)))
    }

    fn value(&self, name: &str) -> Value {
        let set = self.set.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let default = || self.table.iter().find(|p| p.name == name).map(|p| p.default);
        set.or_else(default).expect("an algorithm reads only parameters of its own table")
    }

    /// A whole number.
    pub fn int(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Int(n) => n,
            other => panic!("parameter {name} is {other:?}, not a whole number: a fault of its table row"),
        }
    }

    /// A real number.
    pub fn float(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Float(x) => x,
            other => panic!("parameter {name} is {other:?}, not a real number: a fault of its table row"),
        }
    }

    /// A span in nanoseconds.
    pub fn duration_ns(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Duration(ns) => ns,
            other => panic!("parameter {name} is {other:?}, not a duration: a fault of its table row"),
        }
    }
}

impl Kind {
    /// Whether `value` is of this kind and in range.
    ///
    /// # Errors
    /// What is allowed, as text.
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
