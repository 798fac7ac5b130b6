//! Rules of servers and locations (`set`, `if`, `return`, `rewrite`), followed in their order: each way through them is a
//! route with the conditions on it.
//!
//! Long because each directive is a few lines, and all share the state of the routes.

use super::answer;
use super::condition::{self, Truth};
use super::pages;
use super::rewrite::{self, Outcome};
use super::state::{Changed, State, groups, join};
use crate::expression::foreign;
use crate::ledger::Line;
use crate::model::{Action, Apart, Cond, Draft, Key, Match, Route, RouteKeys, Test};
use crate::nginx::filters;
use crate::nginx::lexer::Directive;
use crate::nginx::names::OtherNames;
use crate::nginx::table::named;
use crate::nginx::tree::{Group, Location, Step, Tree};
use crate::nginx::variable::Scope;
use crate::nginx::world::{World, single};

/// Most routes of a server. Conditions beyond them are only reported.
const ROUTES: usize = 300;

/// Most rewrites from location to location.
const JUMPS: usize = 4;

const BY_HAND: &str = "write a [[route]] with a condition in match by hand";

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
    list: Vec<Route>,
    /// Number of routes in groups that are done.
    count: usize,
    /// Ways through the rules of the server.
    ways: Vec<Way<'d>>,
    /// True if all paths are in the same group, so that conditions on hosts decide nothing about paths.
    is_one_group: bool,
    /// True while the route of an error page is made, which has no pages itself.
    pub is_page: bool,
}

/// A way through the rules of a server: to a response, or on to the locations.
#[derive(Clone)]
enum Way<'d> {
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
            is_page: false,
        }
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
                self.world.ledger.changes(route.line, "its conditions do not fit together", BY_HAND)
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
                Step::Regex(location) => match test(location) {
                    Ok(cond) => {
                        if let Some(matching) = self.joined(&state.matching, &[cond], &state, location.directive.line) {
                            let mut state = State { matching, ..state.clone() };
                            state.scope.groups = groups(location.pattern);
                            self.location(location, state);
                        }
                    }
                    Err(reason) => is_open &= self.unwritable(location, reason, &state),
                },
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
        if set.get(key!("access")) == Some(&filters::none().into()) {
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

    /// Filters of a response that rules or NGINX itself gives.
    pub fn own_filters(&mut self, levels: &[&'d [Directive]], scope: &Scope) -> RouteKeys {
        let mut set = Draft::default();
        filters::response_fields(levels, scope, &mut set, self.world);
        filters::bodies_of_own(levels, self.world);
        pages::read(levels, scope, &mut set, self);
        set
    }

    /// Conditions joined with others, `None` if no request fulfils them, or if they cannot be written, which is noted.
    fn joined(&mut self, to: &Match, conds: &[Cond], state: &State<'d>, line: Line) -> Option<Match> {
        match join(to, conds, &state.scope) {
            Ok(matching) => Some(matching),
            Err(Apart::Never) => None,
            Err(Apart::Unwritable) => {
                self.world.ledger.changes(line, "its conditions do not fit into one match", BY_HAND);
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
            self.push(state.matching.clone(), Action::respond(403), Draft::default(), line);
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
            return self.push(state.matching.clone(), Action::respond(404), Draft::default(), line);
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
        let own = location.directive.inner();
        if location.modifier.starts_with('~') && own.iter().any(|d| d.name() == "location") {
            self.within_expression(location, &state);
        }
        if let Some(internal) = single(&location.levels, "internal").filter(|_| state.jumps == 0) {
            self.world.ledger.carried(internal.line);
            let set = self.own_filters(&location.levels, &state.scope);
            return self.push(state.matching, Action::respond(404), set, internal.line);
        }
        if let Some(except) = own.iter().find(|d| d.name() == "limit_except") {
            self.except(except, location, &state);
        }
        let rules: Vec<&'d Directive> = own.iter().collect();
        self.run(&rules, state, Some(location), location.directive.line);
    }

    /// Locations in a location of an expression.
    fn within_expression(&mut self, location: &Location<'d>, state: &State<'d>) {
        for inner in location.directive.inner().iter().filter(|d| d.name() == "location") {
            let reason = "a location within that of an expression is not carried over";
            self.world.ledger.changes(inner.line, reason, BY_HAND);
            let refuses = answer::refuses(inner);
            self.lost(inner);
            if refuses {
                self.push(state.matching.clone(), Action::respond(403), Draft::default(), inner.line);
            }
        }
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

    /// Follows rules in their order. Without a location, the rules belong to the server.
    fn run(&mut self, rules: &[&'d Directive], mut state: State<'d>, location: Option<&Location<'d>>, line: Line) {
        for (at, directive) in rules.iter().enumerate() {
            let rest = &rules[at + 1..];
            match directive.name() {
                "set" => {
                    self.settle(directive);
                    state.scope.set(directive.word(1).trim_start_matches('$'), directive.word(2));
                }
                "break" => {
                    self.settle(directive);
                    break;
                }
                "return" => {
                    self.unreached(rest);
                    return self.returns(directive, state, location);
                }
                "rewrite" => match self.rewrite(directive, rest, state, location, line) {
                    Some(next) => state = next,
                    None => return,
                },
                "if" => match self.condition(directive, rest, &state, location, line) {
                    // An expression that does not match leaves no groups.
                    true if directive.word(2).trim_start_matches('!').starts_with('~') && state.scope.groups > 0 => {
                        state.scope.groups = 1;
                    }
                    true => {}
                    false => return,
                },
                _ => {}
            }
            if state.changed.as_ref().is_some_and(|changed| changed.is_break) {
                break;
            }
        }
        match location {
            Some(location) => self.handler(state, location, line),
            None => self.ways.push(Way::Goes(state)),
        }
    }

    fn settle(&mut self, directive: &Directive) {
        if !self.world.ledger.is_settled(directive.line) {
            self.world.ledger.carried(directive.line);
        }
    }

    /// Settles rules behind a `return` for every request.
    fn unreached(&mut self, rest: &[&Directive]) {
        for directive in rest {
            if !self.world.ledger.is_settled(directive.line) && matches!(directive.name(), "return" | "rewrite" | "if")
            {
                self.world.ledger.dropped(directive.line, "NGINX never reaches it, behind a `return`");
            }
        }
    }

    pub fn push(&mut self, matching: Match, action: Action, set: RouteKeys, line: Line) {
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

    fn returns(&mut self, directive: &'d Directive, state: State<'d>, location: Option<&Location<'d>>) {
        let set = match location {
            Some(_) => self.own_filters(&state.levels, &state.scope),
            None => {
                let mut set = Draft::default();
                filters::response_fields(&state.levels, &state.scope, &mut set, self.world);
                pages::read(&state.levels, &state.scope, &mut set, self);
                set
            }
        };
        match answer::read(directive, &state.scope, &state.levels, self.port) {
            Ok(action) => {
                self.settle(directive);
                self.finish(location, state.matching, action, set, directive.line);
            }
            Err(reason) => {
                let status = directive.word(1).parse::<u64>().unwrap_or(302);
                self.world.ledger.decide(directive.line, reason, "write redirect or respond of a [[route]] by hand");
                // Its refusals stay refusals, and no endpoint gets requests that it answers.
                let is_sent = (200..300).contains(&status) || (400..600).contains(&status) && status != 444;
                let status = if is_sent { status } else { 403 };
                self.finish(location, state.matching, Action::respond(status), set, directive.line);
            }
        }
    }

    /// Adds a route that ends a way: within the rules of the server, for all groups of paths.
    fn finish(&mut self, location: Option<&Location<'d>>, matching: Match, action: Action, set: RouteKeys, line: Line) {
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

    /// Follows an `if`. False if no request continues after it.
    fn condition(
        &mut self,
        directive: &'d Directive,
        rest: &[&'d Directive],
        state: &State<'d>,
        location: Option<&Location<'d>>,
        line: Line,
    ) -> bool {
        if directive.inner().is_empty() {
            self.settle(directive);
            return true;
        }
        let truth = match self.list.len() + self.ways.len() + self.count < ROUTES {
            true => condition::read(directive, &state.scope, &state.levels),
            false => Err("there are too many combinations of conditions".into()),
        };
        let (matching, goes_on) = match truth {
            Ok(Truth::Never) => {
                directive.inner().iter().for_each(|inner| self.never(inner));
                self.never(directive);
                return true;
            }
            Ok(Truth::Always) => (Ok(state.matching.clone()), false),
            Ok(Truth::When(conds)) => {
                // A host in the first rule of a server holds for all of its paths.
                let is_own = |cond: &Cond| match &cond.test {
                    Test::OneOf(names) => !cond.negated && !names.iter().any(|name| self.others.contains(name)),
                    _ => false,
                };
                let is_first = location.is_none()
                    && self.ways.is_empty()
                    && state.matching.conds.is_empty()
                    && conds.iter().all(|cond| cond.key != Key::Host || is_own(cond))
                    && answer::ends(directive);
                let conds: Vec<Cond> = match is_first {
                    true => conds,
                    false => conds.into_iter().map(condition::beside_paths).collect(),
                };
                (join(&state.matching, &conds, &state.scope), true)
            }
            Err(reason) => {
                self.world.ledger.changes(directive.line, reason, BY_HAND);
                return self.without_condition(directive, state, location);
            }
        };
        let matching = match matching {
            Ok(matching) => matching,
            Err(Apart::Never) => {
                self.settle(directive);
                directive.inner().iter().for_each(|inner| self.never(inner));
                return true;
            }
            Err(Apart::Unwritable) => {
                self.world.ledger.changes(directive.line, "its condition does not fit into the match", BY_HAND);
                return self.without_condition(directive, state, location);
            }
        };
        self.settle(directive);
        let mut inside = State { matching, ..state.clone() };
        if directive.word(2).trim_start_matches('!').starts_with('~') {
            // The condition has the groups, and no route has the condition.
            inside.scope.groups = 0;
        }
        if let Some(location) = location {
            // The last `if` that holds has the settings.
            inside.levels.truncate(location.levels.len());
            inside.levels.push(directive.inner());
        }
        let rules: Vec<&'d Directive> = directive.inner().iter().chain(rest.iter().copied()).collect();
        self.run(&rules, inside, location, line);
        goes_on
    }

    /// Settles a line that no request reaches.
    fn never(&mut self, directive: &Directive) {
        if !self.world.ledger.is_settled(directive.line) {
            self.world.ledger.dropped(directive.line, "no request that comes here fulfils the condition");
        }
    }

    /// Follows an `if` whose condition is not carried over. If the `if` refuses requests, all requests are refused.
    fn without_condition(
        &mut self,
        directive: &'d Directive,
        state: &State<'d>,
        location: Option<&Location<'d>>,
    ) -> bool {
        let refuses = answer::refuses(directive);
        self.lost(directive);
        if refuses {
            let matching = state.matching.clone();
            self.finish(location, matching, Action::respond(403), Draft::default(), directive.line);
        }
        !refuses
    }

    /// Follows a `rewrite`. `None` if no request continues after it.
    fn rewrite(
        &mut self,
        directive: &'d Directive,
        rest: &[&'d Directive],
        state: State<'d>,
        location: Option<&Location<'d>>,
        line: Line,
    ) -> Option<State<'d>> {
        let read = rewrite::read(directive, &state, self.port);
        let (cond, outcome) = match read {
            Ok(read) => read,
            Err(reason) => {
                let todo = "rewrite = { search = \"^/a/(.*)\", to = \"/b/{1}\" } or redirect in a [[route]]";
                self.world.ledger.changes(directive.line, reason, todo);
                return Some(state);
            }
        };
        self.settle(directive);
        let matching = match &cond {
            None => state.matching.clone(),
            Some(cond) => match join(&state.matching, std::slice::from_ref(cond), &state.scope) {
                Ok(matching) => matching,
                Err(Apart::Never) => return Some(state),
                Err(Apart::Unwritable) => {
                    self.world.ledger.changes(directive.line, "its expression does not fit into the match", BY_HAND);
                    return Some(state);
                }
            },
        };
        let mut inside = State { matching, ..state.clone() };
        // The route's own expression has its groups, unless the location has an expression, too.
        match outcome {
            Outcome::Redirect(to) => {
                let set = self.own_filters(&state.levels, &state.scope);
                self.finish(location, inside.matching, Action::Redirect(to), set, directive.line);
            }
            Outcome::Path(changed) => {
                inside.scope.uri = Some(changed.fixed.clone());
                let is_last = directive.word(3) == "last";
                let is_break = changed.is_break;
                inside.changed = Some(changed.clone());
                match (is_last, location) {
                    (true, Some(_)) => self.jump(&changed, inside, directive.line),
                    (true, None) => self.ways.push(Way::Goes(inside)),
                    (false, _) if is_break => self.run(&[], inside, location, line),
                    (false, _) => {
                        // Rules go on with the new path, and then the location is looked for again.
                        let mut rules = rest.to_vec();
                        rules.retain(|rule| rule.name() != "rewrite");
                        self.run_to_jump(&rules, inside, location, directive.line);
                    }
                }
            }
        }
        cond.is_some().then_some(state)
    }

    /// Follows the rules behind a rewrite without a flag.
    fn run_to_jump(&mut self, rules: &[&'d Directive], state: State<'d>, location: Option<&Location<'d>>, line: Line) {
        let ends = rules.iter().any(|rule| matches!(rule.name(), "return" | "if"));
        match (ends, location, state.changed.clone()) {
            (false, Some(_), Some(changed)) => self.jump(&changed, state, line),
            _ => self.run(rules, state, location, line),
        }
    }

    /// Continues in the location of a path that a rewrite made.
    fn jump(&mut self, changed: &Changed, mut state: State<'d>, line: Line) {
        state.jumps += 1;
        state.scope.groups = 0;
        if state.jumps > JUMPS {
            let set = self.own_filters(&state.levels, &state.scope);
            return self.push(state.matching, Action::respond(500), set, line);
        }
        match changed.location(self.tree) {
            Ok(Some(location)) => {
                state.changed = Some(Changed { is_break: false, ..changed.clone() });
                self.location(location, state);
            }
            Ok(None) => {
                // No location: the rules of the server hold.
                state.levels.truncate(2);
                self.missing(state, line);
            }
            Err(reason) => {
                self.world.ledger.decide(line, reason, "write the [[route]] with rewrite by hand");
                // The location may refuse the request.
                self.push(state.matching, Action::respond(403), Draft::default(), line);
            }
        }
    }
}

/// Condition for the paths of a location by expression.
fn test(location: &Location<'_>) -> Result<Cond, &'static str> {
    foreign(location.pattern)?;
    let case = if location.modifier == "~*" { "(?i)" } else { "" };
    Ok(Cond::new(Key::Path, Test::Search(format!("{case}{}", named(location.pattern)))))
}
