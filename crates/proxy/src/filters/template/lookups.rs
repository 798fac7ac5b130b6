//! Maps as conditions see them: matches of routes, and conditions of changes to fields.

use super::lookup::Lookup;
use super::parameters::Parameters;
use super::source::Source;
use crate::filters::exchange::Exchange;
use crate::filters::maps::Maps;
use crate::peer::sender::MapValues;
use evenkeel_wire::head::Request;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

/// Lookups of a worker in the maps of a plan, each prepared at its first use.
pub struct Lookups {
    maps: Arc<Maps>,
    all: OnceCell<Box<[OnceCell<Option<Lookup>>]>>,
}

impl Lookups {
    pub fn new(maps: &Arc<Maps>) -> Lookups {
        Lookups { maps: maps.clone(), all: OnceCell::new() }
    }

    /// True if there are no maps.
    pub fn is_empty(&self) -> bool {
        self.maps.all().is_empty()
    }

    fn of(&self, name: &str) -> Option<&Lookup> {
        let all = self.all.get_or_init(|| self.maps.all().iter().map(|_| OnceCell::new()).collect());
        // No path matches before the route is known.
        let path = || Rc::new(Parameters::of(std::iter::empty()));
        all.get(self.maps.index(name)?)?.get_or_init(|| Lookup::new(name, &path(), &self.maps)).as_ref()
    }
}

/// Values of maps for a request.
pub struct Values<'v, 'c> {
    pub lookups: &'v Lookups,
    pub cx: &'v Exchange<'c>,
}

impl MapValues for Values<'_, '_> {
    fn test(
        &self,
        map: &str,
        request: &Request<'_, '_>,
        left: &Cell<u32>,
        test: &mut dyn FnMut(&[u8]) -> bool,
    ) -> bool {
        let Some(lookup) = self.lookups.of(map) else { return false };
        let source = Source::of_request(self.cx, request, &[]);
        let mut value = self.cx.core.scratch();
        lookup.write_within(&source, left, &mut value);
        let is = !value.is_empty() && test(&value);
        value.clear();
        self.cx.core.give_back(value);
        is
    }
}
