//! The original's order of rules made to hold here, with what cannot be kept entered in the book.

use crate::ledger::Ledger;
use crate::model::{Clash, Route, settle_order};

/// Settles the order of routes that stand in the order in which `whose` tries them.
pub(crate) fn reconcile(routes: &mut Vec<Route>, whose: &str, ledger: &mut Ledger) {
    for clash in settle_order(routes) {
        match clash {
            Clash::Unreachable { earlier, later } => {
                let reason =
                    format!("{whose} never reaches it for requests that {} takes first", ledger.place(earlier));
                ledger.dropped(later, reason);
            }
            Clash::Differs { earlier, later } => {
                let reason = format!(
                    "for requests that both fit, {whose} takes {}; here the more specific of the two wins, which may be this one",
                    ledger.place(earlier)
                );
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
