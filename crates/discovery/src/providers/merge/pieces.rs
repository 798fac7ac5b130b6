//! Pieces of all providers, their faults, and the plan without the faulty pieces.

use super::built::Built;
use super::origins::{Kind, Origins};
use super::unwanted::{Impossible, Kept, Unwanted};
use crate::providers::parts::{Part, Piece, Refusal};
use evenkeel_config::plan::{Action, Listener, Mode, Pool, Respond, Route};
use evenkeel_config::{Builder, Plan};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Name shown in diagnostics of a merged plan.
const NAME: &str = "providers";

/// Position of a piece among the pieces of its kind.
pub(super) type Place = (Kind, usize);

/// Pieces of all providers, with their faults.
pub(super) struct Pieces {
    listeners: Vec<(&'static str, Piece<Arc<Listener>>)>,
    routes: Vec<(&'static str, Piece<Route>)>,
    pools: Vec<(&'static str, Piece<Arc<Pool>>)>,
    faults: BTreeMap<Place, String>,
    /// Pieces that stay, as they run, in spite of a fault.
    kept: BTreeSet<Place>,
}

impl Pieces {
    pub(super) fn of(parts: &[(&'static str, Arc<Part>)]) -> Pieces {
        fn each<T: Clone>(
            parts: &[(&'static str, Arc<Part>)],
            of: fn(&Part) -> &Vec<Piece<T>>,
        ) -> Vec<(&'static str, Piece<T>)> {
            parts.iter().flat_map(|(provider, part)| of(part).iter().map(|piece| (*provider, piece.clone()))).collect()
        }
        Pieces {
            listeners: each(parts, |part| &part.listeners),
            routes: each(parts, |part| &part.routes),
            pools: each(parts, |part| &part.pools),
            faults: BTreeMap::new(),
            kept: BTreeSet::new(),
        }
    }

    pub(super) fn names(&self) -> Vec<(Place, Arc<str>)> {
        let listeners =
            self.listeners.iter().enumerate().map(|(at, (_, p))| ((Kind::Listener, at), p.value.name.clone()));
        let routes = self.routes.iter().enumerate().map(|(at, (_, p))| ((Kind::Route, at), p.value.name.clone()));
        let pools = self.pools.iter().enumerate().map(|(at, (_, p))| ((Kind::Pool, at), p.value.name.clone()));
        listeners.chain(routes).chain(pools).collect()
    }

    pub(super) fn leave_out(&mut self, place: Place, why: String) {
        self.faults.entry(place).or_insert(why);
        self.kept.remove(&place);
    }

    /// Leaves out unwanted pieces. Those that run stay as they run.
    pub(super) fn leave_out_unwanted(&mut self, unwanted: &Unwanted) {
        if unwanted.is_empty() {
            return;
        }
        for (place, name) in self.names() {
            let Some(Impossible { why, instead }) = unwanted.get(&(place.0, name)) else { continue };
            let was_there = self.stays(place);
            self.leave_out(place, why.clone());
            if let (true, Some(instead)) = (was_there, instead) {
                self.keep(place, instead.clone());
            }
        }
    }

    /// Keeps the running version of a piece instead of the new version.
    fn keep(&mut self, place: Place, instead: Kept) {
        match (place, instead) {
            ((Kind::Listener, at), Kept::Listener(listener)) => self.listeners[at].1.value = listener,
            ((Kind::Route, at), Kept::Route(route)) => self.routes[at].1.value = *route,
            ((Kind::Pool, at), Kept::Pool(pool)) => self.pools[at].1.value = pool,
            _ => return,
        }
        self.kept.insert(place);
    }

    /// Leaves out pieces whose name the file, or a piece before them, has.
    pub(super) fn leave_out_twins(&mut self, base: &Plan) {
        let of_base = base.listeners.iter().map(|one| (Kind::Listener, one.name.clone()));
        let of_base = of_base.chain(base.routes.iter().map(|one| (Kind::Route, one.name.clone())));
        let mut taken: BTreeSet<(Kind, Arc<str>)> =
            of_base.chain(base.pools.iter().map(|one| (Kind::Pool, one.name.clone()))).collect();
        for (place, name) in self.names() {
            if !taken.insert((place.0, name.clone())) {
                self.leave_out(place, format!("the name \"{name}\" is taken"));
            }
        }
    }

    /// Routes with regular expressions that stay so far: position, provider, and piece.
    pub(super) fn expressions(&self) -> Vec<(usize, &'static str, &Piece<Route>)> {
        let routes = self.routes.iter().enumerate().filter(|(at, _)| self.stays((Kind::Route, *at)));
        let with = routes.filter(|(_, (_, piece))| piece.value.expressions().next().is_some());
        with.map(|(at, (provider, piece))| (at, *provider, piece)).collect()
    }

    pub(super) fn stays(&self, place: Place) -> bool {
        !self.faults.contains_key(&place) || self.kept.contains(&place)
    }

    fn listeners(&self) -> impl Iterator<Item = &(&'static str, Piece<Arc<Listener>>)> {
        self.listeners.iter().enumerate().filter(|(at, _)| self.stays((Kind::Listener, *at))).map(|(_, one)| one)
    }

    /// Routes that stay, with their positions and without listeners that were left out. A route that loses all its
    /// listeners is omitted, which is not its fault.
    fn routes(&self) -> Vec<(usize, Cow<'_, Route>)> {
        let names = |stay: bool| {
            let all =
                self.listeners.iter().enumerate().filter(move |(at, _)| self.stays((Kind::Listener, *at)) == stay);
            all.map(|(_, (provider, piece))| (*provider, &*piece.value.name)).collect::<HashSet<_>>()
        };
        let (there, gone) = (names(true), names(false));
        let is_gone = |provider, name: &str| gone.contains(&(provider, name)) && !there.contains(&(provider, name));
        let routes = self.routes.iter().enumerate().filter(|(at, _)| self.stays((Kind::Route, *at)));
        let placed = routes.filter_map(|(at, (provider, piece))| {
            let route = &piece.value;
            if !route.listeners.iter().any(|name| is_gone(*provider, name)) {
                return Some((at, Cow::Borrowed(route)));
            }
            let listeners: Vec<_> = route.listeners.iter().filter(|name| !is_gone(*provider, name)).cloned().collect();
            (!listeners.is_empty()).then(|| (at, Cow::Owned(Route { listeners, ..route.clone() })))
        });
        placed.collect()
    }

    /// Routes that lead [`nowhere`], for HTTP listeners that no other leads from.
    fn rests(&self, routes: &[(usize, Cow<'_, Route>)]) -> Vec<(&'static str, Piece<Route>)> {
        let led: HashSet<&Arc<str>> = routes.iter().flat_map(|(_, route)| &route.listeners).collect();
        let taken: HashSet<&str> = routes.iter().map(|(_, route)| &*route.name).collect();
        let is_idle = |listener: &Listener| {
            listener.mode == Mode::Http
                && listener.pool.is_none()
                && listener.redirect_https.is_none()
                && !led.contains(&listener.name)
        };
        let idle = self.listeners().filter(|(_, piece)| is_idle(&piece.value));
        let rest = |(provider, piece): &(&'static str, Piece<Arc<Listener>>)| {
            let name = format!("{}/(none)", piece.value.name);
            // Without a name, the plan chooses a free name.
            let name = if taken.contains(&*name) { "".into() } else { name.into() };
            let route = nowhere(name, vec![piece.value.name.clone()]);
            (*provider, Piece::new(&piece.of, route))
        };
        idle.map(rest).collect()
    }

    /// The plan with all pieces that are not left out.
    pub(super) fn build(&self, base: &Plan) -> Built {
        let mut builder = Builder::from(base.clone());
        let mut listeners = vec![None; base.listeners.len()];
        for (at, (_, piece)) in self.listeners.iter().enumerate() {
            if self.stays((Kind::Listener, at)) {
                listeners.push(Some(at));
                builder = builder.listener(piece.value.clone());
            }
        }
        let mut routes = vec![None; base.routes.len()];
        let placed = self.routes();
        let rests = self.rests(&placed);
        for (at, route) in placed {
            routes.push(Some(at));
            builder = builder.route(route.into_owned());
        }
        for (_, piece) in rests {
            builder = builder.route(piece.value);
        }
        let mut pools = vec![None; base.pools.len()];
        for (at, (_, piece)) in self.pools.iter().enumerate() {
            if self.stays((Kind::Pool, at)) {
                pools.push(Some(at));
                builder = builder.pool(piece.value.clone());
            }
        }
        Built { outcome: builder.build(NAME), listeners, routes, pools }
    }

    /// Provider and object that a piece comes from.
    fn describe(&self, (kind, at): Place) -> (&'static str, &Arc<str>) {
        match kind {
            Kind::Listener => (self.listeners[at].0, &self.listeners[at].1.of),
            Kind::Route => (self.routes[at].0, &self.routes[at].1.of),
            Kind::Pool => (self.pools[at].0, &self.pools[at].1.of),
        }
    }

    pub(super) fn origins(&self) -> Origins {
        let shown = |provider: &str, of: &str| format!("{provider}: {of}").into();
        let routes = self.routes();
        let placed: HashSet<usize> = routes.iter().map(|(at, _)| *at).collect();
        let stays = |place: Place| match place {
            (Kind::Route, at) => placed.contains(&at),
            place => self.stays(place),
        };
        let stay = self.names().into_iter().filter(|(place, _)| stays(*place));
        let origin = |(place, name): (Place, Arc<str>)| {
            let (provider, of) = self.describe(place);
            ((place.0, name), shown(provider, of))
        };
        let rests = self.rests(&routes).into_iter();
        let rests = rests.map(|(provider, piece)| ((Kind::Route, piece.value.name), shown(provider, &piece.of)));
        Origins(stay.map(origin).chain(rests).collect())
    }

    pub(super) fn refused(&self) -> BTreeMap<&'static str, Vec<Refusal>> {
        let mut all = BTreeMap::<_, Vec<Refusal>>::new();
        for (place, why) in &self.faults {
            let (provider, of) = self.describe(*place);
            let refusal = Refusal { of: of.clone(), why: why.clone() };
            let of_provider = all.entry(provider).or_default();
            if !of_provider.contains(&refusal) {
                of_provider.push(refusal);
            }
        }
        all
    }
}

/// A route that responds with 404 to all requests of some listeners. In a plan without any route, the only pool would
/// get them, and no provider has asked for that.
pub(super) fn nowhere(name: Arc<str>, listeners: Vec<Arc<str>>) -> Route {
    let action = Action::Respond(Respond { status: 404, ..Respond::default() });
    Route { name, listeners, action, ..Route::default() }
}
