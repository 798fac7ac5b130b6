//! A chosen algorithm with its parameters: [`Balance`].

use crate::form::{Form, Formed, HashKey};
use evenkeel_balance::params::{Kind, Param, Params, Value};
use evenkeel_balance::picker::Algorithm;
use std::collections::BTreeMap;
use std::fmt;

/// An algorithm with its parameters.
#[derive(Clone)]
pub struct Balance {
    /// Row in `evenkeel_balance::algorithms`.
    pub algorithm: &'static Algorithm,
    /// Numeric parameters, those at their default included.
    pub params: Params,
    /// Hash keys by parameter name, including those at their default.
    pub keys: BTreeMap<&'static str, HashKey>,
}

impl Balance {
    /// The algorithm with default parameters.
    pub fn of(algorithm: &'static Algorithm) -> Balance {
        let keys = algorithm.params.iter().filter_map(|p| Some((p.name, default_key(p)?))).collect();
        Balance { algorithm, params: Params::defaults(algorithm.params), keys }
    }

    /// Part of a request to hash: the parameter `key`. `None` if the algorithm does not hash.
    pub fn key(&self) -> Option<&HashKey> {
        self.keys.get("key")
    }

    /// Part to hash if a request lacks [`Balance::key`]: the parameter `fallback`.
    pub fn fallback(&self) -> Option<&HashKey> {
        self.keys.get("fallback")
    }

    /// Value of a parameter as written in a file.
    pub(crate) fn written(&self, name: &str, kind: Kind) -> String {
        match kind {
            Kind::Int { .. } => Value::Int(self.params.int(name)).to_string(),
            Kind::Float { .. } => format!("{:?}", self.params.float(name)),
            Kind::Duration { .. } => format!("\"{}\"", Value::Duration(self.params.duration_ns(name))),
            Kind::HashKey => self.keys.get(name).map(|k| format!("\"{k}\"")).unwrap_or_default(),
        }
    }
}

impl fmt::Display for Balance {
    /// Formats `leastconn`, or with parameters that differ from their default: `random{draws=3}`,
    /// `peak_ewma{decay=5s}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unset = Balance::of(self.algorithm);
        let written = |balance: &Balance, p: &Param| balance.written(p.name, p.kind);
        let set = self.algorithm.params.iter().filter(|p| written(self, p) != written(&unset, p));
        let set: Vec<String> = set.map(|p| format!("{}={}", p.name, written(self, p).replace('"', ""))).collect();
        f.write_str(self.algorithm.name)?;
        if set.is_empty() { Ok(()) } else { write!(f, "{{{}}}", set.join(",")) }
    }
}

impl PartialEq for Balance {
    fn eq(&self, other: &Balance) -> bool {
        let same = |p: &Param| self.written(p.name, p.kind) == other.written(p.name, p.kind);
        self.algorithm.name == other.algorithm.name && self.algorithm.params.iter().all(same)
    }
}

impl fmt::Debug for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct(self.algorithm.name);
        for p in self.algorithm.params {
            s.field(p.name, &format_args!("{}", self.written(p.name, p.kind)));
        }
        s.finish()
    }
}

/// Default of a parameter, if that is a hash key.
fn default_key(param: &Param) -> Option<HashKey> {
    match param.default {
        Value::Text(text) => match Form::HashKey.read(text) {
            Ok(Formed::HashKey(key)) => Some(key),
            _ => None,
        },
        _ => None,
    }
}
