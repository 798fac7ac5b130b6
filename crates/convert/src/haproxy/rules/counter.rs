//! Denials by counters of stick-tables: rates and requests in flight as limits.

use super::effect::{Filter, Rules, Scope, close, end};
use crate::haproxy::criteria::Rate;
use crate::haproxy::lexer::Item;
use crate::haproxy::logic::Expr;
use crate::haproxy::state::{State, Tracker};
use crate::ledger::Ledger;
use crate::model::{Action, Apart, Cond, Draft, Key, Match, Test, Value, name_of};
use evenkeel_config::plan::Limit;

/// A denial by a counter as a limit.
pub(crate) fn limit(
    item: &Item,
    rate: &Rate,
    matching: &Match,
    status: u64,
    scope: &Scope<'_>,
    rules: &mut Rules,
    ledger: &mut Ledger,
) {
    let Some(tracker) = scope.tracker(rate) else {
        return close(item, "the counter is not of a key that is tracked", matching, rules, ledger);
    };
    let period = scope.tables.get(&tracker.table).and_then(|(_, counters)| counters.get(&rate.counter)).copied();
    let Some(tracked) = tracked(tracker, matching, scope, &rules.state) else {
        return close(item, "the condition of what it counts cannot be written", matching, rules, ledger);
    };
    let is_everywhere = tracked.iter().any(|matching| matching.conds.is_empty());
    let key = tracker.key.as_str();
    if rate.most == 0 && rate.counter != "http_err_rate" {
        // The request itself counts.
        return tracked
            .into_iter()
            .for_each(|matching| end(item, matching, Action::respond(status), Draft::default(), rules));
    }
    let most = rate.most;
    if rate.counter == "conn_cur" && key == "src" && is_everywhere {
        rules.limits.put(key!("limits.connections_per_address"), most);
        return;
    }
    let (Some(period), "http_req_rate") = (period.filter(|ms| *ms > 0), rate.counter.as_str()) else {
        return close(item, &format!("`{}` is not a rate of requests", rate.counter), matching, rules, ledger);
    };
    let is_address = key == "src" && is_everywhere && scope.is_front;
    let kept = match key.split_once('(') {
        None if key == "src" => Some("client".to_string()),
        Some(("hdr" | "req.hdr", name)) => Some(format!("header:{}", name.trim_end_matches(')'))),
        Some(("cook" | "req.cook", name)) => Some(format!("cookie:{}", name.trim_end_matches(')'))),
        _ => None,
    };
    let Some(kept) = kept else {
        return close(item, &format!("`{key}` is not a key of limits"), matching, rules, ledger);
    };
    if status != 429 {
        ledger.changes(
            item.line,
            format!("too many requests are answered by 429, not by {status}"),
            "nothing, unless clients depend on it",
        );
    }
    let reason = format!(
        "the counter over {} becomes a steady rate with a burst of {most}; a client may send up to twice as many in the first period",
        crate::model::duration(period)
    );
    ledger.changes(item.line, reason, "lower the burst if that is too many");
    if is_address {
        rules.limits.put(key!("limits.requests_per_address"), per_second(most, period));
        rules.limits.put(key!("limits.burst_per_address"), most);
        return;
    }
    let limit = Draft::<Limit>::one(key!("requests"), rate_text(most, period));
    let limit = limit.with(key!("burst"), most).with(key!("key"), kept.as_str());
    // All routes that ask for the counter share it.
    let name = name_of(&format!("{}-{}-{most}", tracker.table, kept.replace(':', "-")));
    rules.counted.insert(name.clone(), limit);
    let set = Draft::one(key!("limits"), Value::List(vec![name.into()]));
    for matching in tracked {
        rules.filters.push(Filter::new(item.line, matching, set.clone(), rules));
    }
}

/// Matches of the requests that a rule counts and refuses; `None` if they cannot be written.
fn tracked(tracker: &Tracker, matching: &Match, scope: &Scope<'_>, state: &State) -> Option<Vec<Match>> {
    let maps = scope.context.maps;
    let has_key = match tracker.key.split_once('(') {
        Some(("hdr" | "req.hdr", name)) => {
            Cond::new(Key::Header(name.trim_end_matches(')').to_string()), Test::Present).into()
        }
        _ => Expr::Const(true),
    };
    let conjs = state.view(&tracker.on.clone().and(has_key), maps).alternatives(maps).ok()?;
    let mut all = Vec::new();
    for conj in conjs {
        if !conj.is_plain() {
            return None;
        }
        match maps.both(matching, &conj.matching) {
            Ok(both) => all.push(both),
            Err(Apart::Never) => {}
            Err(Apart::Unwritable) => return None,
        }
    }
    Some(all)
}

fn per_second(most: u64, period_ms: u64) -> Value {
    let thousandths = most.saturating_mul(1_000_000) / period_ms;
    match thousandths.is_multiple_of(1000) && thousandths > 0 {
        true => Value::Int(thousandths / 1000),
        false => Value::Fraction(format!("{}.{:03}", thousandths.max(1) / 1000, thousandths.max(1) % 1000)),
    }
}

/// A rate in the largest unit in which it is a whole number: `"20/s"`, `"30/m"`.
fn rate_text(most: u64, period_ms: u64) -> String {
    for (unit, name) in [(1000, "s"), (60_000, "m"), (3_600_000, "h")] {
        let scaled = most.saturating_mul(unit);
        if scaled >= period_ms && scaled.is_multiple_of(period_ms) {
            return format!("{}/{name}", scaled / period_ms);
        }
    }
    format!("{}/h", (most.saturating_mul(3_600_000) / period_ms).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_in_whole_numbers() {
        assert_eq!(
            (rate_text(20, 10_000), rate_text(100, 60_000), rate_text(1, 1000)),
            ("2/s".into(), "100/m".into(), "1/s".into())
        );
        assert_eq!(per_second(20, 10_000), Value::Int(2));
        assert_eq!(per_second(5, 10_000), Value::Fraction("0.500".into()));
    }
}
