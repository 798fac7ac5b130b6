//! Lookups in maps on a worker: the input is rendered, found in the current table, and its value appended.

use super::maps::{Map, Maps};
use super::parameters::Parameters;
use super::source::Source;
use super::value::Value;
use evenkeel_balance::published::Reader;
use evenkeel_config::MapTable;
use evenkeel_config::plan::{MapMatch, TemplatePart, Variable};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Steps that the regular expressions of a map may take for a value of at most
/// [`VALUE_MAX`](super::value::VALUE_MAX): as many as all routes may take.
const STEPS_MAX: u32 = crate::peer::sender::STEPS_MAX;

/// A map as a worker looks values up in it.
pub struct Lookup {
    map: Arc<Map>,
    table: RefCell<Reader<MapTable>>,
    from: Input,
    default: Option<Value>,
}

/// Source of the text or address to look up.
enum Input {
    /// The client's address, which needs no text.
    Client,
    Value(Value),
}

impl Lookup {
    /// Prepares a map for requests of a route that matches `path`. `None` if there is no map of this name.
    pub fn new(name: &str, path: &Rc<Parameters>, maps: &Maps) -> Option<Lookup> {
        let map = maps.get(name)?;
        let is_client = matches!(map.plan.from.parts(), [TemplatePart::Variable(Variable::ClientIp, functions)] if functions.is_empty());
        let from = match is_client && map.plan.of == MapMatch::Network {
            true => Input::Client,
            false => Input::Value(Value::of_request(&map.plan.from, path, maps)),
        };
        let default = map.plan.default.as_ref().map(|default| Value::of_request(default, path, maps));
        Some(Lookup { map: map.clone(), table: RefCell::new(map.reader()), from, default })
    }

    pub fn name(&self) -> &Arc<str> {
        &self.map.plan.name
    }

    /// Appends the value for a request, or the default.
    pub fn write(&self, from: &Source<'_, '_, '_, '_>, out: &mut Vec<u8>) {
        self.write_within(from, &Cell::new(STEPS_MAX), out);
    }

    /// Appends the value for a request, or the default. Regular expressions take at most the steps that are `left`.
    pub fn write_within(&self, from: &Source<'_, '_, '_, '_>, left: &Cell<u32>, out: &mut Vec<u8>) {
        let mut table = self.table.borrow_mut();
        table.refresh();
        let start = out.len();
        let found = match &self.from {
            Input::Client => table.get().find_address(from.cx.client()),
            // An input that does not fit is like none.
            Input::Value(value) => match value.render(from, out) {
                Ok(()) if out.len() > start => table.get().find(&mut out[start..], left),
                _ => None,
            },
        };
        out.truncate(start);
        match (found, &self.default) {
            (Some(value), _) => out.extend_from_slice(value),
            (None, default) => {
                self.map.count_unmatched(from.cx.core.index);
                if let Some(default) = default {
                    // A default that does not fit is empty.
                    _ = default.render(from, out);
                }
            }
        }
    }
}

/// True if the input of a map, or of a map that it uses, is in the head of the request.
pub fn needs_head(name: &str, maps: &Maps, is_of_head: fn(&Variable) -> bool) -> bool {
    let Some(map) = maps.get(name) else { return false };
    map.plan.variables().any(|variable| match variable {
        Variable::Map(name) => needs_head(name, maps, is_of_head),
        variable => is_of_head(variable),
    })
}
