//! Maps as matches and conditions see them on a worker.

use super::lookup::Lookup;
use super::maps::Maps;
use super::parameters::Parameters;
use super::source::Source;
use crate::filters::exchange::Exchange;
use crate::peer::sender::{MapValues, Seen};
use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Lookups in the maps of a plan, each prepared at its first use.
pub struct Lookups {
    maps: Arc<Maps>,
    path: Rc<Parameters>,
    all: HashMap<Arc<str>, OnceCell<Option<Lookup>>>,
}

impl Lookups {
    /// Lookups for requests of a route that matches `path`.
    pub fn new(maps: &Arc<Maps>, path: &Rc<Parameters>) -> Lookups {
        let all = maps.all().iter().map(|map| (map.plan.name.clone(), OnceCell::new()));
        Lookups { maps: maps.clone(), path: path.clone(), all: all.collect() }
    }

    /// True if there are no maps.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    fn of(&self, name: &str) -> Option<&Lookup> {
        self.all.get(name)?.get_or_init(|| Lookup::new(name, &self.path, &self.maps)).as_ref()
    }
}

/// Values of maps for a request.
pub struct Values<'v, 'c> {
    pub lookups: &'v Lookups,
    pub cx: &'v Exchange<'c>,
}

impl MapValues for Values<'_, '_> {
    fn test(&self, map: &str, seen: &Seen<'_, '_, '_>, left: &Cell<u32>, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let Some(lookup) = self.lookups.of(map) else { return false };
        let mut source = Source::of_request(self.cx, seen.request, seen.added);
        source.path = std::str::from_utf8(seen.path).unwrap_or(source.path);
        let mut value = self.cx.core.scratch();
        lookup.write_within(&source, left, &mut value);
        let is = !value.is_empty() && test(&value);
        value.clear();
        self.cx.core.give_back(value);
        is
    }
}
