//! Rules of a server or a location, followed in their order: `set`, `if`, `return`, `rewrite`, `break`.

use super::answer;
use super::condition::{self, Truth};
use super::pages;
use super::program::{BY_HAND, Routes, Way};
use super::rewrite::{self, Outcome};
use super::state::{Changed, State, groups, join};
use crate::ledger::Line;
use crate::model::{Action, Apart, Cond, Draft, Key, Test};
use crate::nginx::filters;
use crate::nginx::lexer::Directive;
use crate::nginx::tree::Location;
use crate::nginx::variable::Scope;
use crate::nginx::world::group;

/// Most routes of a server. Conditions beyond them are only reported.
const ROUTES: usize = 300;

/// Most searches for a location, as in NGINX.
const JUMPS: usize = 10;

/// Variables with the outcome of a check. Requests that fail it are sent elsewhere.
const VERIFIED: [&str; 6] = ["$ssl_client_", "$secure_link", "$jwt_", "$auth_", "$invalid_", "$realip_"];

/// Number of groups behind an `if` whose block was not entered. An expression that does not match leaves no groups, and one
/// that matches its own, which no route has.
fn after_if(directive: &Directive, scope: &Scope) -> usize {
    let groups_before = scope.groups;
    // A map whose expression matches leaves the groups of that, or none.
    if asks_table(directive, scope) {
        return 0;
    }
    let operator = directive.word(2);
    let (is_expression, is_negated) = (operator.trim_start_matches('!').starts_with('~'), operator.starts_with('!'));
    let may_match = is_negated || directive.inner().is_empty();
    match is_expression {
        false => groups_before,
        true if may_match && groups(directive.word(3)) > 1 => 0,
        true => groups_before.min(1),
    }
}

/// True if the condition of an `if` reads a table with expressions.
fn asks_table(directive: &Directive, scope: &Scope) -> bool {
    directive.from(1).iter().any(|word| scope.tables.has_expressions(&scope.expanded(word)))
}

/// The state behind a `rewrite` whose expression does not match.
fn without_groups(mut state: State<'_>) -> State<'_> {
    state.scope.groups = state.scope.groups.min(1);
    state
}

impl<'d> Routes<'_, 'd> {
    /// Follows rules in their order. Without a location, the rules belong to the server.
    pub(super) fn run(
        &mut self,
        rules: &[&'d Directive],
        mut state: State<'d>,
        location: Option<&Location<'d>>,
        line: Line,
    ) {
        for (at, directive) in rules.iter().enumerate() {
            let rest = &rules[at + 1..];
            match directive.name() {
                "set" => {
                    self.settle(directive);
                    state.scope.set(directive.word(1).trim_start_matches('$'), directive.word(2));
                }
                "break" => {
                    self.settle(directive);
                    for changed in state.changed.iter_mut().filter(|changed| changed.is_pending) {
                        (changed.is_break, changed.is_pending) = (true, false);
                    }
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
                    true => state.scope.groups = after_if(directive, &state.scope),
                    false => return,
                },
                _ => {}
            }
            if state.changed.as_ref().is_some_and(|changed| changed.is_break) {
                break;
            }
        }
        match (location, state.changed.clone()) {
            (Some(_), Some(changed)) if changed.is_pending => self.jump(&changed, state, line),
            (Some(location), _) => self.handler(state, location, line),
            (None, _) => self.ways.push(Way::Goes(state)),
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

    fn returns(&mut self, directive: &'d Directive, state: State<'d>, location: Option<&Location<'d>>) {
        if location.is_some()
            && let Some(named) = pages::named(directive, &state.levels, self)
        {
            // A named location answers in its stead, without pages of its own.
            self.settle(directive);
            let was_page = std::mem::replace(&mut self.is_page, true);
            self.location(named, State { jumps: state.jumps + 1, ..state });
            self.is_page = was_page;
            return;
        }
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

    /// Follows an `if`. False if no request continues after it.
    fn condition(
        &mut self,
        directive: &'d Directive,
        rest: &[&'d Directive],
        state: &State<'d>,
        location: Option<&Location<'d>>,
        line: Line,
    ) -> bool {
        let is_first = |location: &Location<'d>| {
            let has_files = location.directive.inner().iter().any(|inner| inner.name() == "try_files");
            state.levels.len() <= location.levels.len() && !has_files
        };
        // An empty block ends the settings of the `if` before it, and `try_files`.
        if directive.inner().is_empty() && location.is_none_or(is_first) {
            self.settle(directive);
            return true;
        }
        let truth = match self.list.len() + self.ways.len() + self.count < ROUTES {
            true => condition::read(directive, &state.scope, &state.levels),
            false => Err("there are too many combinations of conditions".into()),
        };
        if directive.word(1).contains("$invalid_referer") && truth.is_ok() {
            group(&state.levels, "valid_referers").iter().for_each(|line| self.world.ledger.carried(line.line));
        }
        let (matching, goes_on) = match truth {
            Ok(Truth::Never) => {
                directive.inner().iter().for_each(|inner| self.never(inner));
                self.never(directive);
                return true;
            }
            Ok(Truth::Always) => (Ok(state.matching.clone()), false),
            Ok(Truth::When(conds)) => {
                // A host in the first rule of a server holds for all of its paths. Where all routes have the host, the
                // path would win.
                let has_routes =
                    |name: &String| self.others.contains(name) || !self.is_one_group && self.others.is_own(name);
                let is_own = |cond: &Cond| match &cond.test {
                    Test::OneOf(names) => !cond.negated && !names.iter().any(has_routes),
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
            Err(reason) => return self.without_condition(directive, &reason, state, location),
        };
        let matching = match matching {
            Ok(matching) => matching,
            Err(Apart::Never) => {
                self.settle(directive);
                directive.inner().iter().for_each(|inner| self.never(inner));
                return true;
            }
            Err(Apart::Unwritable) => {
                return self.without_condition(directive, "its condition does not fit into the match", state, location);
            }
        };
        self.settle(directive);
        let mut inside = State { matching, ..state.clone() };
        match directive.word(2) {
            // The condition has the groups, and no route has the condition.
            operator if operator.starts_with('~') => inside.scope.groups = 0,
            _ if asks_table(directive, &state.scope) => inside.scope.groups = 0,
            operator if operator.starts_with("!~") => inside.scope.groups = inside.scope.groups.min(1),
            _ => {}
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
        reason: &str,
        state: &State<'d>,
        location: Option<&Location<'d>>,
    ) -> bool {
        let verifies = directive.words.iter().any(|word| VERIFIED.iter().any(|of| word.contains(of)));
        let sends_away = |inner: &Directive| matches!(inner.name(), "return" | "rewrite");
        let refuses = answer::refuses(directive)
            || directive.inner().iter().any(|inner| verifies && sends_away(inner) || self.rewrites_to_refusal(inner));
        let reason = if refuses { format!("{reason}: all clients are refused") } else { reason.to_string() };
        self.world.ledger.decide(directive.line, reason, BY_HAND);
        self.lost(directive);
        if refuses {
            let matching = state.matching.clone();
            let set = self.counted(state);
            self.finish(location, matching, Action::respond(403), set, directive.line);
        }
        !refuses
    }

    /// True for a rewrite to a location that refuses requests.
    fn rewrites_to_refusal(&self, directive: &Directive) -> bool {
        let path = directive.word(2).split(['?', '$']).next().unwrap_or_default();
        directive.name() == "rewrite"
            && path.starts_with('/')
            && matches!(rewrite::find(&self.tree.top, path, !directive.word(2).contains('$')),
                Ok(Some(location)) if answer::refuses(location.directive))
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
                return self.without_rewrite(directive, &reason, todo, state, location);
            }
        };
        self.settle(directive);
        let matching = match &cond {
            None => state.matching.clone(),
            Some(cond) => match join(&state.matching, std::slice::from_ref(cond), &state.scope) {
                Ok(matching) => matching,
                Err(Apart::Never) => return Some(without_groups(state)),
                Err(Apart::Unwritable) => {
                    let reason = "its expression does not fit into the match";
                    return self.without_rewrite(directive, reason, BY_HAND, state, location);
                }
            },
        };
        let mut inside = State { matching, ..state.clone() };
        // The route's own expression has its groups, unless the location has an expression, too.
        match outcome {
            Outcome::Never => return Some(without_groups(state)),
            Outcome::Redirect(to) => {
                let set = self.own_filters(&state.levels, &state.scope);
                self.finish(location, inside.matching, Action::Redirect(to), set, directive.line);
            }
            Outcome::Path(changed) => {
                inside.scope.uri = Some(changed.fixed.clone());
                inside.scope.is_query_changed |= directive.word(2).contains('?');
                let is_last = directive.word(3) == "last";
                let is_break = changed.is_break;
                inside.changed = Some(changed.clone());
                // The groups of the rewrite, which the route does not have.
                inside.scope.groups = inside.scope.groups.min(1).min(2 - groups(directive.word(1)).min(2));
                match (is_last, location) {
                    (true, Some(_)) => self.jump(&changed, inside, directive.line),
                    (true, None) => self.ways.push(Way::Goes(inside)),
                    (false, _) if is_break => self.run(&[], inside, location, line),
                    (false, _) => {
                        inside.changed = Some(Changed { is_pending: true, ..changed });
                        self.run(rest, inside, location, directive.line);
                    }
                }
            }
        }
        cond.is_some().then(|| without_groups(state))
    }

    /// Follows a `rewrite` that is not carried over. All requests are refused if it leads to a refusal, or to a location
    /// that is not known because another rewrite changed the path before. `None` if no request continues.
    fn without_rewrite(
        &mut self,
        directive: &'d Directive,
        reason: &str,
        todo: &str,
        state: State<'d>,
        location: Option<&Location<'d>>,
    ) -> Option<State<'d>> {
        let may_refuse = state.changed.is_some() || self.rewrites_to_refusal(directive);
        if !may_refuse || !rewrite::searches(directive) {
            self.world.ledger.changes(directive.line, reason, todo);
            return Some(state);
        }
        self.world.ledger.decide(directive.line, format!("{reason}: all clients are refused"), todo);
        let set = self.counted(&state);
        self.finish(location, state.matching, Action::respond(403), set, directive.line);
        None
    }

    /// Continues in the location of a path that a rewrite made.
    pub(super) fn jump(&mut self, changed: &Changed, mut state: State<'d>, line: Line) {
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
                let set = self.counted(&state);
                self.push(state.matching, Action::respond(403), set, line);
            }
        }
    }
}
