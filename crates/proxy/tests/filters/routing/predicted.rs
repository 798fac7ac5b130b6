//! Describes the requests of the same table instead of sending them: the filter that would answer one must be the one
//! that does, with its status and `Location`, and what passes must have passed.

use super::{CONFIG, Row, USERS, rows, with_users};
use crate::filters::access::List;
use crate::filters::echo::Echoes;
use evenkeel_view::described::Parts;
use evenkeel_view::picks::WouldGo;

/// Routes whose answer depends on more than their filters: a thread that verifies passwords, a service, the path prefix of
/// the endpoint that is picked, or what is stored.
const DECIDED_LATER: [&str; 6] = ["password", "password-closed", "asked", "unasked", "own", "cached"];

fn described(row: &Row) -> Parts {
    Parts {
        method: row.method.into(),
        host: row.host.into(),
        target: row.path.into(),
        fields: row.sent_fields().into_iter().map(|(name, value)| (name.into(), value.trim().into())).collect(),
        listener: None,
        client: None,
    }
}

/// Returns what is wrong with a prediction.
fn fault(row: &Row, would: &WouldGo) -> Option<String> {
    let route = would.routed.route.as_deref().unwrap_or("-");
    let Some(answer) = &would.answer else {
        let is_known_later = row.pieces.len() > 1 || DECIDED_LATER.contains(&route);
        let passes = row.status == Some(200) && (would.pick.is_some() || would.routed.pool.is_none());
        return (route != row.route || !(passes || is_known_later)).then(|| format!("it would pass route {route}"));
    };
    let has_target = row.status.is_none_or(|status| !(300..400).contains(&status))
        || row.target.is_none()
        || answer.location.as_deref() == row.target;
    let is_same = (Some(answer.status), route) == (row.status, row.route) && has_target && would.pick.is_none();
    (!is_same).then(|| format!("filter {} of route {route} {answer}", answer.filter))
}

#[tokio::test]
async fn what_is_predicted_for_each_request_is_what_happens() {
    let (echoes, users) = (Echoes::start(), List::new("routing-predicted", USERS));
    let [(_, proxy), _] = echoes.proxies(&with_users(CONFIG, &users));
    let (looker, mut wrong) = (proxy.server().looker(), Vec::new());
    // Others are refused before their route is known.
    let routed = || rows().into_iter().filter(|row| row.route != "-");
    assert!(routed().count() >= 380, "{}", routed().count());
    for row in routed() {
        let would = looker.would_go(described(&row)).await.unwrap_or_else(|why| panic!("{row:?}: {why}"));
        wrong.extend(fault(&row, &would).map(|fault| format!("routing.txt:{}: {fault} instead of {row:?}", row.line)));
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    let counted = proxy.listener(|stats| {
        let of_passwords = stats.passwords_refused.get() + stats.passwords_verified.get();
        let of_tokens = stats.jwt_verified.get() + stats.jwt_refused.iter().map(|counter| counter.get()).sum::<u64>();
        stats.access_refused.get() + stats.body_refused.get() + of_passwords + of_tokens
    });
    assert_eq!(counted, 0, "nothing is counted");
    assert_eq!(echoes.came(), 0, "nothing was sent");
}
