//! Routes of a server: a route for each way through the rules of the server and of the location that takes a path.

use super::answer;
use super::condition;
use super::pages;
use super::rewrite;
use super::state::{State, groups, join};
use crate::ledger::Line;
use crate::model::{Action, Apart, Cond, Draft, Key, Match, Route, RouteKeys, Test};
use crate::nginx::filters;
use crate::nginx::lexer::Directive;
use crate::nginx::names::OtherNames;
use crate::nginx::table::written;
use crate::nginx::tls::Refused;
use crate::nginx::tree::{Group, Level, Location, Step, Tree};
use crate::nginx::variable::Scope;
use crate::nginx::world::{World, single};
use crate::protection::is_closed;

/// Field by which endpoints name a location.
const FOLLOWED: &str = "X-Accel-Redirect";

pub(super) const BY_HAND: &str = "write a [[route]] with a condition in match by hand";

/// Routes of a server, as they are found.
pub(in crate::nginx) struct Routes<'w, 'd> {
    pub world: &'w mut World<'d>,
    pub tree: &'w Tree<'d>,
    /// Name that names of routes begin with.
    pub name: String,
    /// Port of the first address, which redirects have.
    pub port: u16,
    pub others: OtherNames,
    pub pages: Vec<Route>,
    /// Routes of each group of paths, in the order in which they are tried.
    pub groups: Vec<Vec<Route>>,
    /// Routes of the group at hand, in the order in which they are tried.
    pub(super) list: Vec<Route>,
    /// Number of routes in groups that are done.
    pub(super) count: usize,
    /// Ways through the rules of the server.
    pub(super) ways: Vec<Way<'d>>,
    /// True if all paths are in the same group, so that conditions on hosts decide nothing about paths.
    pub(super) is_one_group: bool,
    /// Refusals of the location that requests of the routes at hand have passed before, with its line.
    guards: Option<(RouteKeys, Line)>,
    /// Routes of locations with `internal`, for paths that endpoints name by X-Accel-Redirect.
    internals: Vec<Route>,
    /// True while the route of an error page is made, which has no pages itself.
    pub is_page: bool,
}

/// A way through the rules of a server: to a response, or on to the locations.
#[derive(Clone)]
pub(super) enum Way<'d> {
    Ends(Route),
    Goes(State<'d>),
}

impl<'w, 'd> Routes<'w, 'd> {
    pub fn new(world: &'w mut World<'d>, tree: &'w Tree<'d>, name: String, port: u16) -> Routes<'w, 'd> {
        Routes {
            world,
            tree,
            name,
            port,
            others: OtherNames::default(),
            pages: Vec::new(),
            groups: Vec::new(),
            list: Vec::new(),
            count: 0,
            ways: Vec::new(),
            is_one_group: false,
            guards: None,
            internals: Vec::new(),
            is_page: false,
        }
    }

    /// Refuses requests of the server before its rules. `is_mixed`: it listens without TLS, too.
    pub fn refuse(&mut self, refused: Refused, scope: &Scope, is_mixed: bool, line: Line) {
        let (status, cond) = match refused {
            Refused::None => return,
            Refused::WithoutCertificate => (400, Some(condition::certified(scope).negate())),
            Refused::All => (403, None),
        };
        let scheme = is_mixed.then(|| Cond::one_of(Key::Scheme, ["https"]));
        let matching = Match::of(cond.into_iter().chain(scheme));
        self.finish(None, matching, Action::respond(status), Draft::default(), line);
    }

    /// Adds all routes of a server with these levels.
    pub fn server(&mut self, levels: &[&'d [Directive]], scope: Scope, line: Line) {
        let server = levels.last().copied().unwrap_or_default();
        let state = State { matching: Match::default(), levels: levels.to_vec(), scope, changed: None, jumps: 0 };
        let rules: Vec<&'d Directive> = server.iter().collect();
        let tree = self.tree;
        self.is_one_group = tree.groups().len() == 1;
        self.run(&rules, state, None, line);
        let ways = std::mem::take(&mut self.ways);
        let goes = ways.iter().any(|way| matches!(way, Way::Goes(_)));
        let groups = match goes {
            true => tree.groups().into_iter().map(|group| group.by_segment(tree)).collect(),
            // No location is ever reached.
            false => vec![Group { start: None, steps: Vec::new() }],
        };
        for group in &groups {
            for way in &ways {
                match way {
                    // A route with a host wins over all paths.
                    Way::Ends(route) if route.matching.find(&Key::Host).is_some() && group.start.is_some() => {}
                    Way::Ends(route) => self.ends(route, group),
                    Way::Goes(state) => self.steps(group, state, line),
                }
            }
            let list = std::mem::take(&mut self.list);
            self.count += list.len();
            self.groups.push(list);
        }
        self.follow_internals(levels);
    }

    /// Has routes follow X-Accel-Redirect to the locations with `internal`.
    fn follow_internals(&mut self, levels: &[&'d [Directive]]) {
        let is_ignored = |directive: &&Directive| {
            directive.name() == "proxy_ignore_headers"
                && directive.from(1).iter().any(|name| name.eq_ignore_ascii_case(FOLLOWED))
        };
        let internals = std::mem::take(&mut self.internals);
        if internals.is_empty() || everywhere(levels, &is_ignored) {
            return;
        }
        self.groups.push(internals);
        let all = self.groups.iter_mut().flatten().chain(&mut self.pages);
        for route in all.filter(|route| matches!(route.action, Action::Pool(_) | Action::Split(_))) {
            route.set.put(key!("internal_redirects"), FOLLOWED);
        }
    }

    /// A response of the server's own rules, for the paths of a group.
    fn ends(&mut self, route: &Route, group: &Group<'_, 'd>) {
        let start: Vec<Cond> = group.start.iter().map(|test| Cond::new(Key::Path, test.clone())).collect();
        let mut action = route.action.clone();
        if let (Some(Test::OneOf(paths)), Action::Redirect(to)) = (&group.start, &mut action) {
            let regex = route.matching.conds.iter().find_map(|cond| match (&cond.key, &cond.test, cond.negated) {
                (Key::Path, Test::Search(regex), false) => Some(regex),
                _ => None,
            });
            regex.into_iter().for_each(|regex| rewrite::fill(to, regex, &paths[0]));
        }
        match join(&route.matching, &start, &Scope::default()) {
            Ok(matching) => self.list.push(Route { matching, action, ..route.clone() }),
            Err(Apart::Never) => {}
            Err(Apart::Unwritable) => {
                let reason = "its conditions do not fit into one match: more requests are refused";
                self.world.ledger.decide(route.line, reason, BY_HAND);
                self.push(Match::of(start), Action::respond(403), Draft::default(), route.line);
            }
        }
    }

    fn steps(&mut self, group: &Group<'_, 'd>, state: &State<'d>, line: Line) {
        let start: Vec<Cond> = group.start.iter().map(|test| Cond::new(Key::Path, test.clone())).collect();
        let Some(within) = self.joined(&state.matching, &start, state, line) else { return };
        let state = State { matching: within, ..state.clone() };
        if let Some(changed) = &state.changed {
            let fixed = changed.clone();
            return self.jump(&fixed, state, line);
        }
        let mut is_open = true;
        for step in &group.steps {
            match step {
                Step::ToSlash(location) => {
                    self.redirect_to_slash(location, &state);
                    is_open = false;
                }
                Step::Regex(location) => is_open &= self.expression(location, &state),
                Step::Prefix(location, except) => {
                    let conds: Vec<Cond> =
                        except.iter().filter_map(|other| test(other).ok()).map(Cond::negate).collect();
                    if let Some(matching) = self.joined(&state.matching, &conds, &state, location.directive.line) {
                        self.location(location, State { matching, ..state.clone() });
                    }
                    is_open = false;
                }
            }
        }
        if is_open {
            self.missing(state, line);
        }
    }

    /// Adds the response where NGINX looks for a file and has none: a refusal, or 404.
    pub fn missing(&mut self, state: State<'d>, line: Line) {
        let mut set = filters::read(&state.levels, None, &state.scope, self.world);
        pages::read(&state.levels, &state.scope, &mut set, self);
        if is_closed(&set) {
            set.remove(key!("access"));
            return self.push(state.matching, Action::respond(403), set, line);
        }
        if pages::is_of_files(&set) {
            let others = Cond::one_of(Key::Method, ["GET", "HEAD", "POST"]).negate();
            if let Ok(matching) = state.matching.and(&Match::of([others])) {
                self.push(matching, Action::respond(405), set.clone(), line);
            }
        }
        self.push(state.matching, Action::respond(404), set, line);
    }

    /// Adds an error of NGINX itself, with the filters and the pages of its location.
    pub fn fails(&mut self, status: u64, state: State<'d>, line: Line) {
        let mut set = filters::read(&state.levels, None, &state.scope, self.world);
        pages::read(&state.levels, &state.scope, &mut set, self);
        self.push(state.matching, Action::respond(status), set, line);
    }

    /// Filters of a response that rules or NGINX itself gives.
    pub fn own_filters(&mut self, levels: &[&'d [Directive]], scope: &Scope) -> RouteKeys {
        let mut set = Draft::default();
        filters::response_fields(levels, scope, &mut set, self.world);
        filters::bodies_of_own(levels, self.world);
        pages::read(levels, scope, &mut set, self);
        set
    }

    /// Limits for which requests of a way count, also if a rule that is not carried over closes it.
    pub fn counted(&mut self, state: &State<'d>) -> RouteKeys {
        let mut set = Draft::default();
        filters::read_limits(&state.levels, &state.scope, &mut set, self.world);
        set
    }

    /// Conditions joined with others, `None` if no request fulfils them, or if they cannot be written, which is noted.
    fn joined(&mut self, to: &Match, conds: &[Cond], state: &State<'d>, line: Line) -> Option<Match> {
        match join(to, conds, &state.scope) {
            Ok(matching) => Some(matching),
            Err(Apart::Never) => None,
            Err(Apart::Unwritable) => {
                // It may refuse requests that the routes behind it would let in.
                let reason = "its conditions do not fit into one match: more requests are refused";
                self.world.ledger.decide(line, reason, BY_HAND);
                let set = self.counted(state);
                self.push(to.clone(), Action::respond(403), set, line);
                None
            }
        }
    }

    /// A location whose expression has no counterpart. False if it refuses requests, so that all are refused.
    fn unwritable(&mut self, location: &Location<'d>, reason: &str, state: &State<'d>) -> bool {
        let line = location.directive.line;
        let todo = "write a [[route]] with path, prefix, ends_with or search by hand";
        let refuses = answer::refuses(location.directive);
        self.world.ledger.decide(line, reason, todo);
        self.lost(location.directive);
        if refuses {
            let comment =
                format!("{}: which of these paths it refuses is not known here.", self.world.ledger.place(line));
            let set = self.counted(state);
            self.push(state.matching.clone(), Action::respond(403), set, line);
            self.list.last_mut().into_iter().for_each(|route| route.comments.push(comment.clone()));
        }
        !refuses
    }

    /// Notes all lines of a block that is not carried over.
    pub fn lost(&mut self, directive: &Directive) {
        for inner in directive.inner() {
            if !self.world.ledger.is_settled(inner.line) {
                self.world.ledger.decide(inner.line, "its block was not carried over", "write the [[route]] by hand");
            }
            self.lost(inner);
        }
    }

    fn redirect_to_slash(&mut self, location: &Location<'d>, state: &State<'d>) {
        let line = location.directive.line;
        if single(&location.levels, "internal").is_some() {
            let set = self.own_filters(&location.levels, &state.scope);
            return self.push(state.matching.clone(), Action::respond(404), set, line);
        }
        let action = answer::to_slash(location.pattern, &location.levels, self.port);
        let mut set = Draft::default();
        filters::response_fields(&location.levels, &state.scope, &mut set, self.world);
        self.push(state.matching.clone(), action, set, line);
    }

    /// Adds the routes of a location that takes the requests of a way.
    pub fn location(&mut self, location: &Location<'d>, mut state: State<'d>) {
        self.world.ledger.carried(location.directive.line);
        state.levels.clone_from(&location.levels);
        state.changed.iter_mut().for_each(|changed| changed.is_pending = false);
        let own = location.directive.inner();
        // A path other than the request's has been looked for within the location.
        if location.modifier.starts_with('~') && state.jumps == 0 && own.iter().any(|d| d.name() == "location") {
            self.nested(&location.inner, &state);
        }
        if let Some(internal) = single(&location.levels, "internal").filter(|_| state.jumps == 0) {
            self.world.ledger.carried(internal.line);
            self.internal(location, &state);
            let set = self.own_filters(&location.levels, &state.scope);
            return self.push(state.matching, Action::respond(404), set, internal.line);
        }
        if let Some(except) = own.iter().find(|d| d.name() == "limit_except") {
            self.except(except, location, &state);
        }
        let rules: Vec<&'d Directive> = own.iter().collect();
        self.run(&rules, state, Some(location), location.directive.line);
    }

    /// Adds the routes of a location to which X-Accel-Redirect may lead.
    fn internal(&mut self, location: &Location<'d>, state: &State<'d>) {
        // Other directives lead there by name.
        let names = |directive: &&Directive| {
            matches!(directive.name(), "auth_request" | "mirror" | "error_page" | "try_files" | "rewrite")
                && directive.words.iter().skip(1).any(|word| word == location.pattern)
        };
        let levels = location.levels.get(..2).unwrap_or_default();
        if everywhere(levels, &names) {
            return;
        }
        let list = std::mem::take(&mut self.list);
        self.location(location, State { jumps: 1, ..state.clone() });
        let made = std::mem::replace(&mut self.list, list);
        let leads = |route: &Route| matches!(route.action, Action::Pool(_) | Action::Split(_));
        if !made.iter().any(leads) {
            return;
        }
        for mut route in made {
            route.set.put(key!("internal"), true);
            let is_new = self.internals.iter().all(|other| other.matching != route.matching);
            if is_new && route.matching.find(&Key::Path).is_some() {
                self.internals.push(route);
            }
        }
    }

    /// Follows the locations in a location of an expression, in the order in which NGINX tries them.
    fn nested(&mut self, level: &Level<'d>, state: &State<'d>) {
        for location in &level.exact {
            let test = Test::OneOf(vec![location.pattern.to_string()]);
            if let Some(state) = self.entered(test, location, state) {
                self.location(location, state);
            }
        }
        for location in &level.prefixes {
            let Some(state) = self.entered(Test::Begins(location.pattern.to_string()), location, state) else {
                continue;
            };
            self.nested(&location.inner, &state);
            if location.modifier != "^~" {
                level.regexes.iter().for_each(|regex| _ = self.expression(regex, &state));
            }
            self.location(location, state);
        }
        level.regexes.iter().for_each(|regex| _ = self.expression(regex, state));
    }

    fn entered(&mut self, test: Test, location: &Location<'d>, state: &State<'d>) -> Option<State<'d>> {
        let cond = Cond::new(Key::Path, test);
        let matching = self.joined(&state.matching, &[cond], state, location.directive.line)?;
        Some(State { matching, ..state.clone() })
    }

    /// Adds the routes of a location by expression. False if it refuses requests, so that all are refused.
    fn expression(&mut self, location: &Location<'d>, state: &State<'d>) -> bool {
        let cond = match test(location) {
            Ok(cond) => cond,
            Err(reason) => return self.unwritable(location, reason, state),
        };
        if let Some(matching) = self.joined(&state.matching, &[cond], state, location.directive.line) {
            let mut state = State { matching, ..state.clone() };
            state.scope.groups = groups(location.pattern);
            self.location(location, state);
        }
        true
    }

    /// `limit_except`: methods with other rules.
    fn except(&mut self, except: &'d Directive, location: &Location<'d>, state: &State<'d>) {
        let mut methods: Vec<String> = except.from(1).to_vec();
        if methods.iter().any(|method| method == "GET") {
            methods.push("HEAD".into());
        }
        self.world.ledger.carried(except.line);
        let cond = Cond::one_of(Key::Method, methods).negate();
        let Some(matching) = self.joined(&state.matching, &[cond], state, except.line) else { return };
        let mut state = State { matching, ..state.clone() };
        state.levels.push(except.inner());
        self.handler(state, location, except.line);
    }

    /// Follows a location whose requests come from another location, which may refuse them first.
    pub fn behind(&mut self, before: &[&'d [Directive]], location: &Location<'d>, state: State<'d>, line: Line) {
        let guards = filters::guards(before, &state.scope, self.world);
        if guards.is_empty() {
            return self.location(location, state);
        }
        let outer = self.guards.replace((guards, line));
        self.location(location, state);
        self.guards = outer;
    }

    pub fn push(&mut self, matching: Match, action: Action, mut set: RouteKeys, line: Line) {
        if let Some((guards, line)) = &self.guards {
            filters::guard(guards, *line, &mut set, self.world);
        }
        let kind = match &action {
            Action::Pool(pool) => pool.clone(),
            Action::Split(_) => "split".to_string(),
            Action::Redirect(_) => "redirect".to_string(),
            Action::Respond(_) => "respond".to_string(),
        };
        let name = format!("{}-{kind}", self.name);
        self.list.push(Route { name, comments: Vec::new(), matching, action, set, line });
    }

    /// The last route that was added.
    pub fn last(&mut self) -> Option<&mut Route> {
        self.list.last_mut()
    }

    /// Adds a route that is only for error pages, and returns its name. `None` if that takes several routes.
    pub fn page(&mut self, make: impl FnOnce(&mut Self)) -> Option<String> {
        let (list, ways) = (std::mem::take(&mut self.list), std::mem::take(&mut self.ways));
        self.is_page = true;
        make(self);
        self.is_page = false;
        let mut made = std::mem::replace(&mut self.list, list);
        self.ways = ways;
        let is_one = made.len() == 1 && made[0].matching.conds.is_empty();
        let mut route = made.pop().filter(|_| is_one)?;
        route.set.put(key!("internal"), true);
        let same = |other: &&Route| other.action == route.action && other.set == route.set;
        if let Some(other) = self.pages.iter().find(same) {
            return Some(other.name.clone());
        }
        self.world.pages += 1;
        route.name = format!("{}-page-{}", self.name, self.world.pages);
        self.pages.push(route.clone());
        Some(route.name)
    }

    /// Adds a route that ends a way: within the rules of the server, for all groups of paths.
    pub(super) fn finish(
        &mut self,
        location: Option<&Location<'d>>,
        matching: Match,
        action: Action,
        set: RouteKeys,
        line: Line,
    ) {
        self.push(matching, action, set, line);
        if location.is_none() {
            let route = self.list.pop();
            self.ways.extend(route.map(Way::Ends));
        }
    }

    /// Conditions of a location that do not make its routes win over routes of longer paths.
    pub fn beside_paths(&self, conds: Vec<Cond>) -> Vec<Cond> {
        if self.is_one_group && self.others.is_empty() {
            conds
        } else {
            conds.into_iter().map(condition::beside_paths).collect()
        }
    }
}

/// True if a directive is at a level, or below it.
fn everywhere(levels: &[&[Directive]], is: &impl Fn(&&Directive) -> bool) -> bool {
    levels.iter().any(|level| level.iter().any(|one| is(&one) || everywhere(&[one.inner()], is)))
}

/// Condition for the paths of a location by expression.
fn test(location: &Location<'_>) -> Result<Cond, &'static str> {
    let case = if location.modifier == "~*" { "(?i)" } else { "" };
    Ok(Cond::new(Key::Path, Test::Search(format!("{case}{}", written(location.pattern)?))))
}
