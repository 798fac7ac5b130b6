//! Makes the original's order of rules hold here. Differences that remain are entered in the book.

use crate::ledger::{Ledger, Line};
use crate::model::{Action, Clash, Maps, Route, Value, settle_order};
use crate::protection::close;

/// Settles the order of routes, which may need `maps`. They are sorted in the order in which the program `whose` tries them.
pub(crate) fn reconcile(routes: &mut Vec<Route>, whose: &str, maps: Option<&Maps>, ledger: &mut Ledger) {
    let refuses = |route: &Route| {
        let guarded = [key!("access"), key!("basic_auth"), key!("forward_auth"), key!("jwt")];
        let status = match &route.action {
            Action::Respond(response) => matches!(response.get(key!("status")), Some(Value::Int(400..))),
            _ => false,
        };
        status || guarded.into_iter().any(|key| route.set.has(key))
    };
    let is_answer = |route: &Route| !matches!(route.action, Action::Pool(_) | Action::Split(_));
    let refusals: Vec<Line> = routes.iter().filter(|route| refuses(route)).map(|route| route.line).collect();
    for clash in settle_order(routes, maps, &refuses) {
        match clash {
            Clash::Unreachable { earlier, later } => {
                let reason =
                    format!("{whose} never reaches it for requests that {} takes first", ledger.place(earlier));
                ledger.dropped(later, reason);
            }
            Clash::Differs { earlier, later } => {
                let mut reason = format!(
                    "for requests that both fit, {whose} takes {}; here the more specific of the two wins, which may be this one",
                    ledger.place(earlier)
                );
                // A client that the earlier rule refuses would be let in.
                if refusals.contains(&earlier) {
                    let same = routes.iter_mut().filter(|route| route.line == later && !is_answer(route));
                    same.for_each(|route| close(&mut route.set));
                    reason.push_str(": all clients are refused");
                }
                ledger.changes(
                    later,
                    reason,
                    "compare the two with `evenkeel explain GET URL`, and exclude one by `not` in the other's match",
                );
            }
            Clash::TooMany { first } => {
                let reason = format!("there are too many rules to see whether the order of {whose} matters");
                ledger.changes(first, reason, "compare some with `evenkeel explain GET URL`");
            }
        }
    }
}
