//! Algorithms whose picks do not depend on the course of requests.

use super::clients::Clients;
use super::fit::Way;
use super::play::{Course, System, play};
use super::tally::Played;
use super::trace::Trace;
use evenkeel_balance::{Algorithm, Params};

/// Shares of an algorithm whose picks do not depend on the endpoints. `None` unless they are the same in three systems:
/// all endpoints answer at once, all but the first do, or only the first does.
pub fn shares(
    trace: &Trace,
    (algorithm, params): (&'static Algorithm, &Params),
    answers_probes: bool,
) -> Option<Vec<f64>> {
    let (now, never) = (Way::constant(1.0), Way::constant(1e15));
    let played = |first, others| {
        let ways = (0..trace.members.len()).map(|at| if at == 0 { first } else { others }).collect();
        let (members, clients) = (&trace.members[..], Clients::Open);
        play(&System { trace, members, ways, clients, answers_probes, ranks: None }, Course::new(algorithm, params, 0))
    };
    let at_once = played(&now, &now);
    let same = |other: Played| other.picks == at_once.picks;
    (same(played(&never, &now)) && same(played(&now, &never)))
        .then(|| at_once.shares.iter().map(|share| share.value).collect())
}
