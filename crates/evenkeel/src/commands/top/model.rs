//! State of the screen: the last answers of the process, and the choices of the person in front of it.

use super::order::Order;
use evenkeel_view::history::{History, Span};
use evenkeel_view::served::Route;
use evenkeel_view::tap::Tapped;
use evenkeel_view::{Endpoint, Event, Pool, Status};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

/// Requests that are kept of a tap.
const TAPPED: usize = 500;

/// News for the model, from the process or the terminal.
#[derive(Debug)]
pub enum Message {
    /// State of the process, the history of all requests, and new events.
    Seen(Box<Status>, History, Vec<Event>),
    /// The routes, while they are looked at.
    Routes(Vec<Route>),
    /// Reason why the process does not answer.
    Lost(String),
    /// Outcome of an order: good news, or bad.
    Done(Result<String, String>),
    /// A request that has ended.
    Tapped(Box<Tapped>),
    /// Number of requests that arrived too fast.
    Dropped(u64),
    /// The terminal is taken away.
    End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Screen {
    #[default]
    Overview,
    Pools,
    Tap,
    Routes,
}

/// Purpose of the keys that are typed.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Entry {
    /// None: each key is a command.
    #[default]
    None,
    /// Text that rows have to contain.
    Filter,
    /// The weight of the selected endpoint.
    Weight(String),
    /// Confirmation of an order.
    Confirm(Order),
    /// Any key closes the page of keys.
    Help,
}

/// Column by which rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// Order of the configuration.
    #[default]
    Configured,
    Name,
    State,
    Share,
    Rate,
    Errors,
    InFlight,
    P99,
}

impl Column {
    /// All of them, in the order in which they are gone through, with their names.
    pub const ALL: [(Column, &'static str); 8] = [
        (Column::Configured, "configuration"),
        (Column::Name, "name"),
        (Column::State, "state"),
        (Column::Share, "share"),
        (Column::Rate, "rate"),
        (Column::Errors, "errors"),
        (Column::InFlight, "in flight"),
        (Column::P99, "p99"),
    ];

    /// Returns the column's title.
    pub fn name(self) -> &'static str {
        Column::ALL[self as usize].1
    }
}

/// A row of the page of pools.
#[derive(Clone, Copy, Debug)]
pub struct Row<'m> {
    pub pool: &'m Pool,
    /// Endpoint of the row; `None` in the row of the pool itself.
    pub endpoint: Option<&'m Endpoint>,
}

/// By pool and endpoint, or of a pool as a whole.
pub type Key = (String, Option<String>);

impl Row<'_> {
    /// Returns the key by which the row is selected.
    pub fn key(&self) -> Key {
        (self.pool.name.clone(), self.endpoint.map(|endpoint| endpoint.name.clone()))
    }
}

/// Requests and failures a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Requests per second.
    pub requests: f64,
    /// Requests per second that were answered with 500 and above, or not at all.
    pub failed: f64,
}

/// State of the screen, and the data on it.
#[derive(Debug, Default)]
pub struct Model {
    /// Latest status of the process.
    pub status: Option<Status>,
    /// The last quarter of an hour.
    pub spans: Vec<Span>,
    /// Events, the latest at the end.
    pub events: Vec<Event>,
    /// Reason why the data is old.
    pub lost: Option<String>,
    /// Rates of each endpoint, by pool and name.
    pub rates: HashMap<(String, String), Rate>,
    /// Time at which `rates` was counted.
    counted: Option<Instant>,
    pub screen: Screen,
    /// Text that is being typed.
    pub entry: Entry,
    /// Outcome of the last order: good news, or bad.
    pub said: Option<Result<String, String>>,
    /// Text that rows have to contain.
    pub filter: String,
    /// Column by which rows are sorted.
    pub column: Column,
    /// Pools whose endpoints are not shown.
    pub collapsed: HashSet<String>,
    /// The row that commands are about.
    pub selected: Option<Key>,
    /// True if details of the selected row are shown.
    pub is_deep: bool,
    /// Requests, the latest in front.
    pub tapped: VecDeque<Tapped>,
    /// Requests that arrived too fast.
    pub dropped: u64,
    /// True if the tap is paused.
    pub is_paused: bool,
    /// Index of the selected request among those that are shown.
    pub request: usize,
    /// Latest routes of the process.
    known_routes: Vec<Route>,
    /// Index of the selected route among those that are shown.
    pub route: usize,
}

impl Model {
    /// Takes over the data of a message.
    pub fn take(&mut self, message: Message, now: Instant) {
        match message {
            Message::Seen(status, history, events) => {
                self.count(&status, now);
                (self.status, self.spans, self.events, self.lost) = (Some(*status), history.spans, events, None);
                self.keep_selected();
            }
            Message::Routes(routes) => {
                self.known_routes = routes;
                self.route = self.route.min(self.routes().len().saturating_sub(1));
            }
            Message::Lost(why) => self.lost = Some(why),
            Message::Done(said) => self.said = Some(said),
            Message::Tapped(one) if !self.is_paused => {
                self.tapped.push_front(*one);
                self.tapped.truncate(TAPPED);
                // The selected request stays on the screen.
                if self.is_deep || self.request > 0 {
                    self.request = (self.request + 1).min(TAPPED - 1);
                }
            }
            Message::Dropped(count) => self.dropped += count,
            Message::Tapped(_) | Message::End => {}
        }
    }

    fn count(&mut self, status: &Status, now: Instant) {
        let all = |status: &Status| {
            let pools = status.pools.iter().flat_map(|pool| pool.endpoints.iter().map(move |one| (pool, one)));
            pools.map(|(pool, one)| ((pool.name.clone(), one.name.clone()), (one.requests, one.failed))).collect()
        };
        let new: HashMap<_, (u64, u64)> = all(status);
        if let (Some(before), Some(counted)) = (&self.status, self.counted) {
            let (before, seconds): (HashMap<_, _>, f64) = (all(before), (now - counted).as_secs_f64().max(0.001));
            let rate = |(key, (requests, failed)): (&(String, String), &(u64, u64))| {
                let (were, had_failed) = before.get(key).copied().unwrap_or((*requests, *failed));
                let a_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
                (key.clone(), Rate { requests: a_second(*requests, were), failed: a_second(*failed, had_failed) })
            };
            self.rates = new.iter().map(rate).collect();
        }
        self.counted = Some(now);
    }

    /// Requests and failures a second of an endpoint.
    pub fn rate(&self, pool: &Pool, endpoint: &Endpoint) -> Rate {
        self.rates.get(&(pool.name.clone(), endpoint.name.clone())).copied().unwrap_or_default()
    }

    /// Returns the rows of the page of pools that match the filter, sorted within their pool.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        for pool in self.status.iter().flat_map(|status| &status.pools) {
            let of_pool = self.has(&[&pool.name, &pool.algorithm]);
            let has = |one: &&Endpoint| {
                let (address, reason) = (one.address.as_deref(), one.reason.as_deref());
                of_pool || self.has(&[&one.name, &one.state, address.unwrap_or(""), reason.unwrap_or("")])
            };
            let mut endpoints: Vec<&Endpoint> = pool.endpoints.iter().filter(has).collect();
            if endpoints.is_empty() && !of_pool {
                continue;
            }
            self.sort(pool, &mut endpoints);
            rows.push(Row { pool, endpoint: None });
            if !self.collapsed.contains(&pool.name) {
                rows.extend(endpoints.into_iter().map(|one| Row { pool, endpoint: Some(one) }));
            }
        }
        rows
    }

    fn sort(&self, pool: &Pool, endpoints: &mut [&Endpoint]) {
        let p99 = |one: &Endpoint| one.latency.as_ref().map_or(0.0, |latency| latency.p99_ms);
        let figure = |one: &Endpoint| match self.column {
            Column::Share => one.share.unwrap_or(0.0),
            Column::Rate => self.rate(pool, one).requests,
            Column::Errors => self.rate(pool, one).failed,
            Column::InFlight => f64::from(one.in_flight),
            Column::P99 => p99(one),
            Column::Configured | Column::Name | Column::State => 0.0,
        };
        match self.column {
            Column::Configured => {}
            Column::Name => endpoints.sort_by(|a, b| a.name.cmp(&b.name)),
            // Endpoints that are up come last.
            Column::State => endpoints.sort_by_key(|one| (one.state == "up", one.state.clone())),
            // The largest is the first.
            _ => endpoints.sort_by(|a, b| figure(b).total_cmp(&figure(a))),
        }
    }

    fn has(&self, texts: &[&str]) -> bool {
        let filter = self.filter.to_lowercase();
        texts.iter().any(|text| text.to_lowercase().contains(&filter))
    }

    /// Returns the requests that match the filter and belong to the selected pool.
    pub fn requests(&self) -> Vec<&Tapped> {
        let has = |one: &&Tapped| {
            let status = one.status.to_string();
            let endpoint = one.tries.last().map_or("", |last| &last.endpoint);
            self.has(&[&one.path, &one.host, &one.method, &status, &one.pool, &one.route, endpoint])
        };
        self.tapped.iter().filter(has).collect()
    }

    /// Returns the routes that match the filter.
    pub fn routes(&self) -> Vec<&Route> {
        let has = |route: &&Route| {
            let filters = route.filters.join(" ");
            self.has(&[&route.name, &route.matching.words(), &route.action.words(), &filters])
        };
        self.known_routes.iter().filter(has).collect()
    }

    /// The endpoint that commands are about.
    pub fn endpoint(&self) -> Option<Row<'_>> {
        let selected = self.selected.as_ref()?;
        self.rows().into_iter().find(|row| row.endpoint.is_some() && row.key() == *selected)
    }

    /// The row that is selected, if it is shown.
    pub fn position(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.rows().iter().position(|row| row.key() == *selected)
    }

    /// Moves the selection down by this many rows, or up.
    pub fn go(&mut self, by: isize) {
        if self.screen == Screen::Tap {
            let last = self.requests().len().saturating_sub(1);
            self.request = self.request.saturating_add_signed(by).min(last);
            return;
        }
        if self.screen == Screen::Routes {
            let last = self.routes().len().saturating_sub(1);
            self.route = self.route.saturating_add_signed(by).min(last);
            return;
        }
        let keys: Vec<Key> = self.rows().iter().map(Row::key).collect();
        let at = match self.position() {
            Some(at) => at.saturating_add_signed(by).min(keys.len().saturating_sub(1)),
            None => 0,
        };
        self.selected = keys.into_iter().nth(at);
    }

    /// Moves the selection away from a row that has left.
    fn keep_selected(&mut self) {
        if self.position().is_none() {
            self.selected = self.rows().first().map(Row::key);
            self.is_deep &= self.screen != Screen::Pools;
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use evenkeel_view::LatencyOfLate;
    use std::time::Duration;

    /// A pool of two endpoints, of which the second is down.
    pub fn status(requests: u64) -> Status {
        let endpoint = |name: &str, state: &str, requests, p99_ms| Endpoint {
            name: name.into(),
            state: state.into(),
            requests,
            failed: requests / 10,
            latency: Some(LatencyOfLate { responses: 1, p50_ms: 1.0, p99_ms }),
            reason: (state != "up").then(|| "cannot connect".into()),
            ..Endpoint::default()
        };
        let endpoints = vec![endpoint("one", "up", requests, 2.0), endpoint("two", "down", 2 * requests, 3.0)];
        let pool = |name: &str, endpoints| Pool { name: name.into(), endpoints, ..Pool::default() };
        Status { ready: true, pools: vec![pool("shop", endpoints), pool("rest", Vec::new())], ..Status::default() }
    }

    pub fn seen(requests: u64) -> Message {
        Message::Seen(Box::new(status(requests)), History::default(), Vec::new())
    }

    fn names(model: &Model) -> Vec<String> {
        model.rows().iter().map(|row| row.key().1.unwrap_or(row.key().0)).collect()
    }

    #[test]
    fn rates_are_differences_of_what_was_said() {
        let (mut model, now) = (Model::default(), Instant::now());
        model.take(seen(100), now);
        assert!(model.rates.is_empty(), "nothing is known as yet");
        model.take(seen(300), now + Duration::from_secs(2));
        assert_eq!(model.rates[&("shop".into(), "one".into())], Rate { requests: 100.0, failed: 10.0 });
        // Another process counts from zero.
        model.take(seen(0), now + Duration::from_secs(3));
        assert_eq!(model.rates[&("shop".into(), "two".into())], Rate::default());
    }

    #[test]
    fn rows_are_filtered_sorted_and_selected_by_name() {
        let (mut model, now) = (Model::default(), Instant::now());
        model.take(seen(100), now);
        assert_eq!(names(&model), ["shop", "one", "two", "rest"]);
        assert_eq!(model.selected, Some(("shop".into(), None)));
        model.go(2);
        model.column = Column::P99;
        assert_eq!(
            (names(&model), model.position()),
            (["shop", "two", "one", "rest"].map(String::from).to_vec(), Some(1))
        );
        model.filter = "CONNECT".into();
        assert_eq!(names(&model), ["shop", "two"]);
        model.filter = "shop".into();
        model.collapsed.insert("shop".into());
        assert_eq!((names(&model), model.position()), (vec!["shop".to_owned()], None));
        model.take(seen(100), now);
        assert_eq!(model.selected, Some(("shop".into(), None)), "what is not there is not selected");
        model.take(Message::Lost("gone".into()), now);
        assert!(model.lost.is_some() && model.status.is_some(), "what was said last stays");
    }

    #[test]
    fn a_request_that_is_looked_at_stays_where_it_is() {
        let (mut model, now) = (Model { screen: Screen::Tap, ..Model::default() }, Instant::now());
        let tapped = |path: &str| Message::Tapped(Box::new(Tapped { path: path.into(), ..Tapped::default() }));
        ["/a", "/b"].into_iter().for_each(|path| model.take(tapped(path), now));
        model.go(1);
        model.take(tapped("/c"), now);
        assert_eq!(model.requests()[model.request].path, "/a");
        model.is_paused = true;
        model.take(tapped("/d"), now);
        assert_eq!(model.requests().len(), 3);
        model.filter = "/b".into();
        model.go(0);
        assert_eq!((model.requests().len(), model.request), (1, 0));
    }

    #[test]
    fn routes_are_filtered_by_their_actions_and_filters() {
        let mut model = Model { screen: Screen::Routes, ..Model::default() };
        let route = |name: &str, pool: &str, filter: &str| Route {
            name: name.into(),
            action: evenkeel_view::served::Action::Pool(pool.into()),
            filters: vec![filter.into()],
            ..Route::default()
        };
        let routes = vec![route("a", "shop", "jwt"), route("b", "rest", "limits"), route("c", "shop", "limits")];
        model.take(Message::Routes(routes), Instant::now());
        model.go(9);
        assert_eq!(model.route, 2);
        model.filter = "limits".into();
        model.go(0);
        let names: Vec<&str> = model.routes().iter().map(|route| &*route.name).collect();
        assert_eq!((names, model.route), (vec!["b", "c"], 1));
        model.take(Message::Routes(Vec::new()), Instant::now());
        assert_eq!(model.route, 0);
    }
}
