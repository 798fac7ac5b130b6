//! Coverage of the contract tests: every row of the registry, with its defaults and with each of its parameters at the
//! ends of its range. Nothing here names an algorithm, so a new row is tested as soon as it is listed.

use evenkeel_balance::params::{Kind, Value};
use evenkeel_balance::{Algorithm, Balancer, Params, Pool, Seat, algorithms};
use std::fmt;

/// An algorithm with one choice of parameters.
pub struct Row {
    pub algorithm: &'static Algorithm,
    pub params: Params,
    changed: Option<(&'static str, Value)>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.changed {
            Some((name, value)) => write!(f, "{} with {name} = {value}", self.algorithm.name),
            None => write!(f, "{}", self.algorithm.name),
        }
    }
}

impl Row {
    /// Returns the algorithm with its default parameters.
    pub fn of(algorithm: &'static Algorithm) -> Row {
        Row { algorithm, params: Params::defaults(algorithm.params), changed: None }
    }

    /// Returns the algorithm of that name with its default parameters.
    pub fn named(name: &str) -> Row {
        Row::of(algorithms::find(name).unwrap_or_else(|| panic!("no row is called {name}")))
    }

    /// Returns the row with one parameter changed; `None` if the algorithm refuses that.
    pub fn with(&self, name: &'static str, value: Value) -> Option<Row> {
        let mut params = self.params.clone();
        params.set(name, value).ok()?;
        (self.algorithm.new)(&params, Seat::default()).ok()?;
        Some(Row { algorithm: self.algorithm, params, changed: Some((name, value)) })
    }

    /// Returns the balancer of one worker.
    pub fn balancer(&self, pool: &Pool, seat: Seat, seed: u64) -> Balancer {
        pool.balancer(self.algorithm, &self.params, seat, seed).unwrap_or_else(|e| panic!("row {self}: {e}"))
    }
}

/// Every algorithm with its default parameters.
pub fn defaults() -> impl Iterator<Item = Row> {
    algorithms::ALL.iter().map(|a| Row::of(a))
}

/// Every algorithm with its default parameters, and with each parameter at the ends of its range.
pub fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    for row in defaults() {
        for param in row.algorithm.params {
            rows.extend(ends(param.kind, param.default).into_iter().filter_map(|value| row.with(param.name, value)));
        }
        rows.push(row);
    }
    rows
}

/// Returns the ends of a range, but no more than four times a default number: a table of millions of entries shows
/// nothing that a smaller one does not, and takes seconds to build.
fn ends(kind: Kind, default: Value) -> Vec<Value> {
    match (kind, default) {
        (Kind::Int { min, max }, Value::Int(n)) => vec![Value::Int(min), Value::Int(max.min(4 * n.max(1)))],
        (Kind::Float { min, max }, _) => vec![Value::Float(min), Value::Float(max)],
        (Kind::Duration { min, max }, _) => vec![Value::Duration(min), Value::Duration(max)],
        _ => Vec::new(),
    }
}
