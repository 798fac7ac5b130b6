//! Values of `balance`: the algorithm and its parameters. Names, kinds, ranges and defaults come from the
//! registry in `evenkeel_balance`, so a new algorithm needs no change here.

use super::balance::Balance;
use super::reader::Reader;
use super::row::Kind;
use super::section::Value;
use crate::code::Code;
use crate::foreign;
use crate::form::{Form, Formed};
use crate::nearest::suggest;
use crate::source::Span;
use crate::tree::{Node, TableNode, Tree, quoted};
use evenkeel_balance::algorithms;
use evenkeel_balance::params::{self, Param};
use evenkeel_balance::picker::{Algorithm, Seat};

/// Maps the kind of a parameter to a [`Kind`].
pub(crate) fn kind_of(param: &Param) -> Kind {
    match param.kind {
        params::Kind::Int { min, max } => Kind::Int { min, max },
        params::Kind::Float { min, max } => Kind::Number { min, max },
        params::Kind::Duration { min, max } => Kind::Duration { min, max, off: false },
        params::Kind::HashKey => Kind::Text(Form::HashKey),
    }
}

impl Reader<'_> {
    /// Reads `"NAME"` or `{ NAME = { ... } }`.
    pub(super) fn balance(&mut self, node: &Node) -> Value {
        match &node.tree {
            Tree::Text(name) => match self.algorithm(name, node.span) {
                Some(algorithm) => Value::Balance(Box::new(Balance::of(algorithm)), node.span),
                None => Value::Broken,
            },
            Tree::Table(table) => self.with_params(table, node.span),
            _ => Value::Broken,
        }
    }

    fn algorithm(&mut self, name: &str, span: Span) -> Option<&'static Algorithm> {
        let found = algorithms::find(name);
        if found.is_none() {
            let names: Vec<&str> = algorithms::ALL.iter().map(|a| a.name).collect();
            let with_aliases = algorithms::ALL.iter().flat_map(|a| a.aliases.iter().chain([&a.name])).copied();
            let near = crate::nearest::nearest(name, with_aliases);
            let help = match (foreign::algorithm(name).or_else(|| foreign::known_algorithm(name)), near) {
                (Some(help), _) => help,
                (None, Some(near)) => format!("did you mean \"{near}\"? allowed: {}", names.join(", ")),
                (None, None) => suggest(name, &names),
            };
            self.findings.add(Code::UnknownAlgorithm, span, format!("unknown algorithm {}", quoted(name))).help(help);
        }
        found
    }

    fn with_params(&mut self, table: &TableNode, span: Span) -> Value {
        let [entry] = table.entries.as_slice() else {
            let seen: Vec<&str> = table.entries.iter().map(|e| e.key.as_str()).take(8).collect();
            let message = if seen.is_empty() {
                "\"balance\" is empty".to_string()
            } else {
                format!("\"balance\" has {} keys ({}), but must have one", table.entries.len(), seen.join(", "))
            };
            self.findings
                .add(Code::WrongType, span, message)
                .help("write balance = \"NAME\" or balance = { NAME = { PARAMETER = VALUE } }");
            return Value::Broken;
        };
        let Some(algorithm) = self.algorithm(&entry.key, entry.key_span) else { return Value::Broken };
        let Tree::Table(inner) = &entry.node.tree else {
            let message = format!("\"{}\" is {}, but must be a table", entry.key, self.seen(&entry.node));
            self.findings
                .add(Code::WrongType, entry.node.span, message)
                .help(format!("write balance = \"{}\", or its parameters in braces", entry.key));
            return Value::Broken;
        };
        let mut balance = Balance::of(algorithm);
        let mut whole = true;
        for param in &inner.entries {
            let Some(row) = algorithm.params.iter().find(|p| p.name == param.key) else {
                let known: Vec<&str> = algorithm.params.iter().map(|p| p.name).collect();
                let help = if known.is_empty() {
                    format!("\"{}\" has no parameters", algorithm.name)
                } else {
                    suggest(&param.key, &known)
                };
                let message = format!("unknown parameter {} of \"{}\"", quoted(&param.key), algorithm.name);
                self.findings.add(Code::UnknownKey, param.key_span, message).help(help);
                whole = false;
                continue;
            };
            let value = self.value(row.name, &kind_of(row), &param.node);
            whole &= self.set(&mut balance, row, value, param.node.span);
        }
        // Constraints beyond ranges are checked by the algorithm's constructor.
        if let (true, Err(refused)) = (whole, (algorithm.new)(&balance.params, Seat::default())) {
            self.findings.add(Code::Refused, entry.node.span, format!("\"{}\": {refused}", algorithm.name));
            return Value::Broken;
        }
        Value::Balance(Box::new(balance), entry.key_span)
    }

    /// Sets a parameter. False if the value was rejected and reported.
    fn set(&mut self, balance: &mut Balance, row: &'static Param, value: Value, span: Span) -> bool {
        let value = match value {
            Value::Int(n) => params::Value::Int(n),
            Value::Number(x) => params::Value::Float(x),
            Value::Duration(Some(ns)) => params::Value::Duration(ns),
            Value::Formed(Formed::HashKey(key)) => {
                balance.keys.insert(row.name, key);
                return true;
            }
            _ => return false,
        };
        let Err(refused) = balance.params.set(row.name, value) else { return true };
        self.findings.add(Code::OutOfRange, span, refused.to_string());
        false
    }
}
