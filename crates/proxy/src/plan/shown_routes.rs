//! Routes as operators see them: match, action, filters, and traffic.

use crate::filters::table;
use crate::observe::numbers::Numbers;
use evenkeel_config::plan::{self, Mode};
use evenkeel_view::served::{Action, Choice, Matching, Passed, Redirect, Respond, Route};
use evenkeel_view::timeline::Timeline;

impl Numbers {
    /// The routes of the plan, with their traffic at each listener.
    pub fn shown_routes(&self, timeline: &Timeline) -> Vec<Route> {
        let one = |route: &plan::Route| {
            let action = self.shown_action(route);
            let at = self.plan().listeners.iter().filter(|listener| belongs(listener, route));
            Route {
                name: route.name.to_string(),
                hosts: texts(&route.matching.hosts),
                path: route.matching.path.to_string(),
                pool: action.words(),
                action,
                matching: matching(route),
                filters: table::keys(&route.filters).into_iter().map(str::to_owned).collect(),
                at: at.map(|listener| passed(timeline, listener, route)).collect(),
                hit_ratio: route.filters.cache.as_ref().and_then(|_| self.shown_cache_route(&route.name).hit_ratio),
            }
        };
        self.plan().routes.iter().map(one).collect()
    }

    /// The action of a route, with the weights of a split as they are now.
    fn shown_action(&self, route: &plan::Route) -> Action {
        match &route.action {
            plan::Action::Pool(pool) => Action::Pool(pool.to_string()),
            plan::Action::Choice(choice) => Action::Choice(Choice {
                map: choice.map.to_string(),
                pools: choice.pools.iter().map(ToString::to_string).collect(),
            }),
            plan::Action::Split(_) => {
                Action::Split(self.generation.splits.shown(self.plan(), &route.name).unwrap_or_default())
            }
            plan::Action::Redirect(redirect) => {
                Action::Redirect(Redirect { status: redirect.status, to: redirect.target() })
            }
            plan::Action::Respond(respond) => Action::Respond(Respond { status: respond.status }),
        }
    }
}

fn belongs(listener: &plan::Listener, route: &plan::Route) -> bool {
    match route.listeners.is_empty() {
        true => listener.mode == Mode::Http,
        false => route.listeners.contains(&listener.name),
    }
}

fn passed(timeline: &Timeline, listener: &plan::Listener, route: &plan::Route) -> Passed {
    let passed = timeline.passed(&listener.name, &route.name);
    Passed {
        listener: listener.name.to_string(),
        requests: passed.so_far.requests,
        errors: passed.so_far.errors,
        rate: passed.per_second(passed.late.counts.requests),
        error_rate: passed.per_second(passed.late.counts.errors),
        sent_rate: passed.per_second(passed.late.sent.requests),
        sent_error_rate: passed.per_second(passed.late.sent.errors),
        mean_ms: passed.late.durations.mean_ms(),
        p99_ms: passed.late.durations.within_ms(0.99),
    }
}

fn matching(route: &plan::Route) -> Matching {
    let mut criteria = route.matching.criteria_texts();
    criteria.extend(route.internal.then(|| "internal".to_owned()));
    criteria.extend((!route.alpn.is_empty()).then(|| format!("alpn {}", route.alpn.join(", "))));
    Matching {
        hosts: texts(&route.matching.hosts),
        path: route.matching.path_text(),
        criteria,
        any: route.any.iter().map(plan::Match::text).collect(),
    }
}

fn texts(hosts: &[plan::HostPattern]) -> Vec<String> {
    hosts.iter().map(ToString::to_string).collect()
}
