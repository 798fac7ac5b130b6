//! Random histories of requests, judged without the rules: no client gets from the cache what the endpoint has not said
//! may be given to it, and a response that may be reused at once is.

use crate::model::Model;
use crate::suite::{Answer, Ask, Cache, Case, EXCHANGE, Exchange, Kind, Origin};
use evenkeel_cache::policy::Policy;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A request, the endpoint's answer to it, and the seconds until the next one.
#[derive(Clone, Debug)]
struct Step {
    method: &'static str,
    path: &'static str,
    field: Option<&'static str>,
    has_user: bool,
    has_body: bool,
    status: u16,
    control: Control,
    varies: bool,
    has_tag: bool,
    wait: u64,
}

/// `Cache-Control` of an answer, and what it permits.
#[derive(Clone, Copy, Debug)]
struct Control {
    text: &'static str,
    /// Seconds for which it may be given without asking, in any way.
    longest: u64,
    /// Seconds for which it is fresh.
    fresh: u64,
    is_shared: bool,
    is_for_users: bool,
}

const CONTROLS: [Control; 9] = [
    control("max-age=5", 5, 5, true, false),
    control("max-age=5, public", 5, 5, true, true),
    control("s-maxage=5, max-age=100", 5, 5, true, true),
    control("max-age=2, stale-while-revalidate=3", 5, 2, true, false),
    control("max-age=2, stale-if-error=3", 5, 2, true, false),
    control("max-age=5, no-store", 0, 0, false, false),
    control("max-age=5, private", 0, 0, false, false),
    control("max-age=5, no-cache", 0, 0, true, false),
    control("max-age=5, must-revalidate", 5, 5, true, true),
];

const fn control(text: &'static str, longest: u64, fresh: u64, is_shared: bool, is_for_users: bool) -> Control {
    Control { text, longest, fresh, is_shared, is_for_users }
}

fn step() -> impl Strategy<Value = Step> {
    let method = prop_oneof![8 => Just("GET"), 1 => Just("HEAD"), 1 => Just("POST")];
    let status = prop_oneof![6 => Just(200), 1 => Just(404), 1 => Just(503)];
    let asked = (method, select(&["/a", "/b"][..]), proptest::option::of(select(&["1", "2"][..])));
    let rarely = || proptest::bool::weighted(0.1);
    let answered = (status, select(&CONTROLS[..]), any::<bool>(), any::<bool>());
    (asked, rarely(), rarely(), answered, 0..4u64).prop_map(
        |((method, path, field), has_user, has_body, (status, control, varies, has_tag), wait)| Step {
            method,
            path,
            field,
            has_user,
            has_body: has_body || method == "POST",
            status,
            control,
            varies,
            has_tag,
            wait,
        },
    )
}

fn exchange(step: &Step, number: usize) -> Exchange {
    let mut fields = vec![("Cache-Control".to_owned(), step.control.text.to_owned(), false)];
    if step.varies {
        fields.push(("Vary".into(), "A".into(), false));
    }
    if step.has_tag {
        fields.push(("ETag".into(), format!("\"{number}\""), false));
    }
    let answer = Answer { status: Some(step.status), fields, ..Answer::default() };
    Exchange { method: step.method.into(), suffix: step.path.into(), answer, ..Exchange::default() }
}

fn ask(step: &Step, number: usize) -> Ask {
    let mut fields = vec![(EXCHANGE.to_owned(), number.to_string())];
    fields.extend(step.field.map(|value| ("A".into(), value.into())));
    if step.has_user {
        fields.push(("Authorization".into(), "Basic YTpi".into()));
    }
    let body = step.has_body.then(|| "content".to_owned());
    Ask { method: step.method.into(), target: step.path.into(), fields, body }
}

/// Numbers of the exchanges whose answers the clients got, from 1.
fn play(steps: &[Step]) -> Vec<Option<usize>> {
    let exchanges = steps.iter().enumerate().map(|(index, step)| exchange(step, index + 1)).collect();
    let origin = Origin::new(&Case { id: "history".into(), kind: Kind::Ours, after: Vec::new(), exchanges });
    let mut model = Model::new(Policy { stores_errors: true, ..Policy::default() });
    let got = steps.iter().enumerate().map(|(index, step)| {
        let got = model.fetch(&ask(step, index + 1), &origin);
        model.wait(step.wait);
        got.field(EXCHANGE).and_then(|number| number.parse().ok())
    });
    got.collect()
}

/// Seconds between two exchanges.
fn between(steps: &[Step], from: usize, to: usize) -> u64 {
    steps[from..to].iter().map(|step| step.wait).sum()
}

proptest! {
    #[test]
    fn no_client_gets_what_is_not_for_it(steps in vec(step(), 2..20)) {
        let got = play(&steps);
        for (now, number) in got.iter().enumerate() {
            let Some(then) = number.map(|number| number - 1).filter(|then| *then < now) else { continue };
            let (asks, gave) = (&steps[now], &steps[then]);
            // A HEAD may have renewed what a GET had stored.
            prop_assert!(asks.method != "POST" && !asks.has_body && gave.method != "POST" && !gave.has_body);
            prop_assert_eq!(asks.path, gave.path);
            prop_assert!(!gave.varies || asks.field == gave.field);
            prop_assert!(gave.control.is_shared);
            prop_assert!(!gave.has_user || gave.control.is_for_users);
            prop_assert!(between(&steps, then, now) < gave.control.longest);
            let changes = |step: &Step| step.method == "POST" && step.path == gave.path && step.status < 400;
            prop_assert!(!steps[then..now].iter().any(changes));
        }
    }

    #[test]
    fn what_may_be_reused_at_once_is(mut steps in vec(step(), 1..20)) {
        // The last request again.
        let last = steps[steps.len() - 1].clone();
        steps.push(Step { has_user: false, ..last.clone() });
        let got = play(&steps);
        let (then, now) = (steps.len() - 2, steps.len() - 1);
        let is_stored = last.method == "GET" && !last.has_body && !last.has_user && last.control.is_shared;
        let was_asked = got[then] == Some(then + 1);
        if is_stored && was_asked && last.wait < last.control.fresh {
            prop_assert_eq!(got[now], Some(then + 1));
        }
    }
}
