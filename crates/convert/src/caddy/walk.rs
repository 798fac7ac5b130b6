//! Requests on their way through the steps of a site: each state is a set of requests with the changes made to them.

use super::fields::{self, Edit, Known, Time};
use super::step::{Change, Effect, Step, When};
use crate::ledger::{Ledger, Line};
use crate::model::{Action, Apart, Cond, Draft, Key, Match, Route, RouteKeys, Test, Value, braced, parse_size};
use crate::place::{Place, Seen};
use crate::protection;
use evenkeel_config::draft::Entries;
use std::collections::BTreeMap;

/// Most routes of a site; a site that needs more is reported.
const ROUTES: usize = 300;

/// Requests that all fulfil a match, and none of the matches of the states before it.
#[derive(Clone, Debug)]
struct State {
    matching: Match,
    place: Place,
    query: Option<String>,
    /// Fields that were changed, with their values if they are known.
    fields: BTreeMap<String, Known>,
    set: RouteKeys,
    request: Vec<Edit>,
    response: Vec<Edit>,
    /// True if the method is another one by now.
    has_method: bool,
    /// Groups of which a directive has run.
    done: Vec<usize>,
    end: Option<(Action, bool)>,
    line: Line,
}

/// Walks all requests of a site through its steps. Returns a route for each state that is left, in order.
pub(super) fn routes(
    steps: &[Step],
    errors: Option<&RouteKeys>,
    name: &str,
    line: Line,
    ledger: &mut Ledger,
) -> Vec<Route> {
    let start = State {
        matching: Match::default(),
        place: Place::default(),
        query: None,
        fields: BTreeMap::new(),
        set: Draft::default(),
        request: Vec::new(),
        response: Vec::new(),
        has_method: false,
        done: Vec::new(),
        end: None,
        line,
    };
    let mut walk = Walk { ledger, is_full: false };
    let states = walk.all(steps, vec![start]);
    if walk.is_full {
        ledger.decide(line, "the site has too many rules", "convert its parts one by one");
    }
    let mut routes: Vec<Route> = states.into_iter().map(|state| state.into_route(errors, name, ledger)).collect();
    join(&mut routes);
    routes
}

struct Walk<'w> {
    ledger: &'w mut Ledger,
    is_full: bool,
}

impl Walk<'_> {
    fn all(&mut self, steps: &[Step], states: Vec<State>) -> Vec<State> {
        steps.iter().fold(states, |states, step| self.step(step, states))
    }

    fn step(&mut self, step: &Step, states: Vec<State>) -> Vec<State> {
        let mut out = Vec::new();
        for state in states {
            let is_done = step.group.is_some_and(|group| state.done.contains(&group));
            if state.end.is_some() || is_done {
                out.push(state);
                continue;
            }
            let count = out.len();
            if count >= ROUTES {
                self.is_full = true;
                let mut state = state;
                if step.refuses {
                    protection::close(&mut state.set);
                }
                out.push(state);
                continue;
            }
            let seen = state.see(&step.when);
            let mut is_whole = false;
            let mut is_exact = seen.is_exact;
            let mut inside = Vec::new();
            for matching in &seen.any {
                if state.matching.implies(matching) {
                    (inside, is_whole) = (vec![state.matching.clone()], true);
                    break;
                }
                match state.matching.and(matching) {
                    Ok(both) => inside.push(both),
                    Err(Apart::Never) => {}
                    Err(Apart::Unwritable) => {
                        is_exact = false;
                        inside = vec![state.matching.clone()];
                        is_whole = true;
                        break;
                    }
                }
            }
            for matching in inside {
                let inner = State { matching, line: step.line, ..state.clone() };
                match is_exact {
                    true => out.extend(self.inside(step, inner)),
                    false => out.push(self.perhaps(step, inner)),
                }
            }
            if !is_whole {
                out.push(State { line: state.line, ..state });
            }
        }
        out
    }

    /// A state in which some requests meet the directive, and others do not.
    fn perhaps(&mut self, step: &Step, mut state: State) -> State {
        if let Effect::Several(steps) = &step.effect {
            return steps.iter().fold(state, |state, step| self.perhaps(step, state));
        }
        let (mut reason, todo) = (
            "its matcher cannot be written as conditions of a route".to_string(),
            "write the [[route]] with other conditions by hand",
        );
        match &step.effect {
            _ if step.refuses => {
                protection::close(&mut state.set);
                reason.push_str(": all clients are refused that it may concern");
                let todo = "write the [[route]] by hand, and take access out of the routes that it closes";
                self.ledger.decide(step.line, reason, todo);
                return state;
            }
            Effect::Path(_) => state.place = Place::Unknown,
            Effect::Method => state.has_method = true,
            Effect::Request(edits) => {
                edits.iter().flat_map(Edit::known).for_each(|(name, _)| state.learn(name, Known::Unknown))
            }
            _ => {}
        }
        self.ledger.changes(step.line, reason, todo);
        state
    }

    fn inside(&mut self, step: &Step, mut state: State) -> Vec<State> {
        match &step.effect {
            Effect::Shut => protection::close(&mut state.set),
            Effect::Method => state.has_method = true,
            Effect::Set(more) => {
                let is_closed = protection::is_closed(&state.set);
                let replaces = protection::would_replace(&state.set, more);
                let body_max = smaller(state.set.text(key!("body_max")), more.text(key!("body_max")));
                state.set.merge(more);
                if let Some(least) = body_max {
                    state.set.put(key!("body_max"), least);
                }
                if replaces {
                    let reason = "a route asks for one password or service, and two stand here";
                    protection::closed_by(step.line, reason, &mut state.set, self.ledger);
                } else if is_closed {
                    protection::close(&mut state.set);
                }
            }
            Effect::Request(edits) => {
                edits.iter().flat_map(Edit::known).for_each(|(name, known)| state.learn(name, known));
                state.request.extend(edits.iter().cloned());
            }
            Effect::Response(edits) => state.response.extend(edits.iter().cloned()),
            Effect::Path(change) => {
                let moved = self.moved(change, state, step.line);
                return marked(moved, step.group);
            }
            Effect::Block { steps, strip } => {
                let states = match strip {
                    Some(prefix) => self.moved(&Change::Strip(prefix.clone()), state, step.line),
                    None => vec![state],
                };
                return marked(self.all(steps, states), step.group);
            }
            Effect::Several(steps) => {
                let one = |step: &Step| Step { when: When::always(), ..step.clone() };
                let steps: Vec<Step> = steps.iter().map(one).collect();
                return marked(self.all(&steps, vec![state]), step.group);
            }
            Effect::End { action, set, request, response, is_error } => {
                let names_path = matches!(action, Action::Redirect(_)) && !state.place.is_original();
                if names_path {
                    let reason = "the redirect has the path of the client, not that behind rewrites";
                    self.ledger.changes(step.line, reason, "path of the redirect");
                }
                let is_closed = protection::is_closed(&state.set);
                state.set.merge(set);
                if is_closed {
                    protection::close(&mut state.set);
                }
                state.request.extend(request.iter().cloned());
                // The endpoint's fields are changed before the fields of the site are added.
                let mut down = response.clone();
                down.iter_mut().for_each(|edit| edit.time = Time::Endpoint);
                state.response.extend(down);
                state.end = Some((action.clone(), *is_error));
            }
        }
        marked(vec![state], step.group)
    }

    fn moved(&mut self, change: &Change, mut state: State, line: Line) -> Vec<State> {
        match change {
            Change::Strip(prefix) => {
                let Some((cond, place)) = state.place.stripped(prefix) else { return vec![state] };
                if place == Place::Unknown && state.place != Place::Unknown {
                    self.ledger.changes(
                        line,
                        "a route has one rewrite, and two stand here",
                        "rewrite of the [[route]]",
                    );
                }
                let Some(cond) = cond else { return vec![State { place, ..state }] };
                let begins = Match::of([cond]);
                if state.matching.implies(&begins) {
                    return vec![State { place, ..state }];
                }
                match state.matching.and(&begins) {
                    Ok(matching) => vec![State { matching, place, line, ..state.clone() }, state],
                    Err(Apart::Never) => vec![state],
                    Err(Apart::Unwritable) => {
                        let reason = "which requests have the prefix is not known here";
                        self.ledger.changes(line, reason, "strip_prefix of a [[route]]");
                        vec![State { place: Place::Unknown, ..state }]
                    }
                }
            }
            Change::To { path, query } => {
                if let Some(path) = path {
                    state.place = state.place.rewritten(path);
                }
                if let Some(query) = query {
                    state.query = Some(query.clone());
                    if !query.is_empty() {
                        let reason = "the client's query follows that of the rewrite, and is not replaced by it";
                        self.ledger.changes(line, reason, "nothing, if the endpoint takes the first of several values");
                    }
                }
                let is_lost = query.is_some() && matches!(state.place, Place::Made(_));
                if is_lost || state.place == Place::Unknown {
                    self.ledger.changes(
                        line,
                        "the path cannot be made of an earlier rewrite",
                        "rewrite of the [[route]]",
                    );
                }
                vec![state]
            }
            Change::Search { search, to } => {
                state.place = match state.place.is_original() && state.query.is_none() {
                    true => Place::Searched { search: search.clone(), to: to.clone() },
                    false => {
                        self.ledger.changes(
                            line,
                            "a route has one rewrite, and two stand here",
                            "rewrite of the [[route]]",
                        );
                        Place::Unknown
                    }
                };
                vec![state]
            }
            Change::Unknown => {
                state.place = Place::Unknown;
                vec![state]
            }
        }
    }
}

/// The smaller of two sizes, as each of two limits counts.
fn smaller(a: Option<&str>, b: Option<&str>) -> Option<String> {
    let bytes = |text: &str| parse_size(&text.to_ascii_lowercase().replace("ib", "").replace('b', ""));
    let (a, b) = (a?, b?);
    Some(if bytes(a)? < bytes(b)? { a } else { b }.to_string())
}

fn marked(mut states: Vec<State>, group: Option<usize>) -> Vec<State> {
    states.iter_mut().for_each(|state| state.done.extend(group));
    states
}

impl State {
    /// Notes the value of a field, or of all fields with a beginning.
    fn learn(&mut self, name: String, known: Known) {
        if let Some(stem) = name.strip_suffix('*') {
            self.fields.retain(|other, _| !other.starts_with(stem));
        }
        self.fields.insert(name, known);
    }

    /// Value of a field, if it was changed.
    fn known(&self, name: &str) -> Option<&Known> {
        let begins = |pattern: &String| pattern.strip_suffix('*').is_some_and(|stem| name.starts_with(stem));
        let by_stem = || self.fields.iter().rev().find(|(pattern, _)| begins(pattern)).map(|(_, known)| known);
        self.fields.get(name).or_else(by_stem)
    }

    /// Requests of a matcher as they were when the client sent them.
    fn see(&self, when: &When) -> When {
        let (mut any, mut is_exact) = (Vec::new(), when.is_exact);
        'alternatives: for matching in &when.any {
            let mut seen = Match::default();
            for cond in &matching.conds {
                match self.seen(cond) {
                    Seen::Always => {}
                    Seen::Never => continue 'alternatives,
                    Seen::If(cond) => match seen.and(&Match::of([cond])) {
                        Ok(both) => seen = both,
                        Err(Apart::Never) => continue 'alternatives,
                        Err(Apart::Unwritable) => is_exact = false,
                    },
                    Seen::Hidden => is_exact = false,
                }
            }
            any.push(seen);
        }
        When { any, is_exact }
    }

    fn seen(&self, cond: &Cond) -> Seen {
        match &cond.key {
            Key::Query(_) if self.query.is_some() => Seen::Hidden,
            Key::Method if self.has_method => Seen::Hidden,
            Key::Header(name) => match self.known(&name.to_ascii_lowercase()) {
                None => Seen::If(cond.clone()),
                Some(Known::Absent) if cond.negated => Seen::Always,
                Some(Known::Absent) => Seen::Never,
                Some(Known::Value(value)) => match cond.test.fits(value) {
                    Some(fits) if fits != cond.negated => Seen::Always,
                    Some(_) => Seen::Never,
                    None => Seen::Hidden,
                },
                Some(Known::Unknown) => Seen::Hidden,
            },
            _ => self.place.see(cond),
        }
    }

    fn into_route(self, errors: Option<&RouteKeys>, name: &str, ledger: &mut Ledger) -> Route {
        let mut response = self.response;
        if self.end.is_none() {
            // A response that no directive makes is not written by any.
            response.retain(|edit| edit.time != Time::Deferred);
        }
        let (action, is_error) = self.end.unwrap_or((Action::respond(200), false));
        let mut set = self.set;
        let is_own = !matches!(action, Action::Pool(_));
        fields::put_response(&response, is_own, &mut set);
        if !is_own {
            fields::put_request(&self.request, &mut set);
            self.place.put(self.query.as_deref(), false, &mut set);
        }
        let errors = errors.filter(|_| is_error || !is_own || set.has(key!("basic_auth")));
        let status = match &action {
            Action::Respond(response) if !is_error => response.get(key!("status")),
            _ => None,
        };
        match errors {
            Some(_) if status == Some(&Value::Int(401)) => {
                let reason = "a request for a password gets no page of `handle_errors`, as the response has its status";
                ledger.changes(self.line, reason, "another status of respond in the [[route]]");
            }
            Some(errors) => {
                set.merge(errors);
                keep_challenge(&mut set, is_own && !is_error);
            }
            None => {}
        }
        Route { name: name.to_string(), comments: Vec::new(), matching: self.matching, action, set, line: self.line }
    }
}

/// Sends the challenge for a password with a page of errors, too. `alone`: other errors of the route have no page, as it
/// sends a response that Caddy does not take for an error.
fn keep_challenge(set: &mut RouteKeys, alone: bool) {
    let Some(realm) = set.text(key!("basic_auth.realm")).map(str::to_string) else { return };
    let Some(Value::List(mut pages)) = set.get(key!("error_pages")).cloned() else { return };
    if let Some(Value::Table(page)) = pages.first() {
        let mut own = page.clone();
        own.set("status", vec![Value::Int(401)]);
        own.set("fields", Entries::one("WWW-Authenticate", format!("Basic realm=\"{}\"", braced(&realm))));
        pages.insert(0, own.into());
    }
    if alone {
        pages.truncate(1);
    }
    set.put(key!("error_pages"), pages);
}

/// Removes routes for requests that a later route treats in the same way.
fn join(routes: &mut Vec<Route>) {
    let mut at = 0;
    while at < routes.len() {
        let route = &routes[at];
        let next = routes[at + 1..].iter().find(|later| !later.matching.is_apart(&route.matching));
        let is_needless = next.is_some_and(|later| {
            later.action == route.action && later.set == route.set && route.matching.implies(&later.matching)
        });
        match is_needless {
            true => drop(routes.remove(at)),
            false => at += 1,
        }
    }
}

impl Test {
    /// True if a value fulfils the test, where that is known.
    fn fits(&self, value: &str) -> Option<bool> {
        Some(match self {
            Test::OneOf(values) => values.iter().any(|one| one == value),
            Test::Begins(text) => value.starts_with(text.as_str()),
            Test::Ends(text) => value.ends_with(text.as_str()),
            Test::Contains(text) => value.contains(text.as_str()),
            Test::Present => true,
            _ => return None,
        })
    }
}
