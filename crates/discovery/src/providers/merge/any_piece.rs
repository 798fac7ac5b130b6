//! Tests that a bad piece, with any name and of any provider, costs only itself.

use super::*;
use crate::providers::parts::Refusal;
use evenkeel_config::parse_str;
use evenkeel_config::plan::{Action, Endpoint, HostPattern, Listener, Match, Pool, Template};
use proptest::prelude::*;
use proptest::sample::select;

/// Faults that a piece can have.
#[derive(Clone, Copy, Debug)]
enum Bad {
    SameEndpoint,
    NoEndpoint,
    FieldOfPool,
    FieldOfRoute,
    UnknownPool,
    UnknownListener,
    SameMatch,
    SameAddress,
}

const ALL: [Bad; 8] = [
    Bad::SameEndpoint,
    Bad::NoEndpoint,
    Bad::FieldOfPool,
    Bad::FieldOfRoute,
    Bad::UnknownPool,
    Bad::UnknownListener,
    Bad::SameMatch,
    Bad::SameAddress,
];

/// Names that a plan can have. Includes long names with dots: paths of diagnostics cut them.
fn good_names() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof!["[a-zA-Z0-9_.-]{1,64}", "[a-z]{20,29}[.][a-z]{34}"];
    let is_free = |name: &String| name != "web";
    prop::collection::hash_set(name.prop_filter("free", is_free), 4).prop_map(|names| names.into_iter().collect())
}

/// Names that a text for people cuts, quotes or escapes, and those that look like paths and keys.
fn names() -> impl Strategy<Value = String> {
    let odd = [
        ".",
        "\"",
        "]",
        "[0]",
        "'",
        "\\",
        "\n",
        "\u{0}",
        "\u{7f}",
        "\u{202e}",
        "${X}",
        "pool.",
        "route[0].",
        "ä",
        "船",
    ];
    let odd = prop::collection::vec(select(odd.to_vec()), 1..90).prop_map(|parts| parts.concat());
    prop_oneof![
        "[a-z]{20,29}[.][a-z]{34}",
        odd,
        any::<String>().prop_filter("a name", |name| !name.is_empty()),
        (55usize..70, "[a-z.]{0,4}").prop_map(|(n, end)| format!("shop.{}{end}", "x".repeat(n))),
        (100usize..5000).prop_map(|n| "very.long/".repeat(n / 10)),
    ]
}

fn pool(name: &str, port: u16) -> Pool {
    Pool { endpoints: vec![Endpoint::at(([127, 0, 0, 1], port).into())], ..Pool::new(name) }
}

fn route(name: &str, listener: &str, host: &str, pool: &Pool) -> Route {
    let hosts = vec![HostPattern::Exact(host.to_owned())];
    let matching = Match { hosts, ..Match::default() };
    Route { name: name.into(), listeners: vec![listener.into()], matching, ..Route::to(pool) }
}

/// A listener, a pool and a route of the same owner, each without a fault.
fn fine(name: &str, at: u16) -> Part {
    let of: Arc<str> = format!("owner {at}").into();
    let pool = pool(name, 9000 + at);
    Part {
        listeners: vec![Piece::new(&of, Arc::new(Listener::new(name, ([127, 0, 0, 1], 8000 + at).into())))],
        routes: vec![Piece::new(&of, route(name, name, &format!("{at}.example"), &pool))],
        pools: vec![Piece::new(&of, Arc::new(pool))],
    }
}

/// Part with a single fault. Needs the part of owner 1 in the same plan.
fn bad(name: &str, first: &str, kind: Bad) -> Part {
    let mut part = fine(name, 0);
    let pool = Arc::make_mut(&mut part.pools[0].value);
    let route = &mut part.routes[0].value;
    let field = |set: &mut Vec<(Arc<str>, Template)>| set.push(("Content-Length".into(), Template::literal("1")));
    match kind {
        Bad::SameEndpoint => pool.endpoints.push(pool.endpoints[0].clone()),
        Bad::NoEndpoint => pool.endpoints.clear(),
        Bad::FieldOfPool => field(&mut pool.request_headers.set),
        Bad::FieldOfRoute => field(&mut route.filters.request_headers.set),
        Bad::UnknownPool => route.action = Action::Pool("missing".into()),
        Bad::UnknownListener => route.listeners = vec!["missing".into()],
        Bad::SameMatch => {
            route.listeners.push(first.into());
            route.matching.hosts.push(HostPattern::Exact("1.example".to_owned()));
        }
        Bad::SameAddress => {
            Arc::make_mut(&mut part.listeners[0].value).bind = vec![([127, 0, 0, 1], 8001).into()];
        }
    }
    part
}

fn joined(parts: Vec<Part>) -> Part {
    let mut all = Part::default();
    for mut part in parts {
        all.listeners.append(&mut part.listeners);
        all.routes.append(&mut part.routes);
        all.pools.append(&mut part.pools);
    }
    all
}

/// Names of the listeners, routes and pools of a plan.
fn shown(plan: &Plan) -> [Vec<String>; 3] {
    [
        plan.listeners.iter().map(|one| one.name.to_string()).collect(),
        plan.routes.iter().filter(|one| !one.name.ends_with("/(none)")).map(|one| one.name.to_string()).collect(),
        plan.pools.iter().map(|one| one.name.to_string()).collect(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn a_bad_piece_of_any_name_costs_itself_only(
        name in names(),
        others in good_names(),
        kind in select(ALL.to_vec()),
        at in 1usize..5,
        is_other_provider: bool,
    ) {
        let text = "[listener.web]\nbind = ['127.0.0.1:7000']\n[pool.web]\nendpoints = ['127.0.0.1:7001']\n[provider.kubernetes]\n";
        let base = parse_str("test", text, &|_| None).plan.expect("a good file");
        prop_assume!(name != "web" && !others.contains(&name));
        let bad = bad(&name, &others[0], kind);
        let others: Vec<Part> = others.iter().zip(1..).map(|(name, at)| fine(name, at)).collect();
        let parts = |with: Option<Part>| match (with, is_other_provider) {
            (None, _) => vec![("kubernetes", Arc::new(joined(others.clone())))],
            (Some(bad), true) => vec![("kubernetes", Arc::new(joined(others.clone()))), ("xds", Arc::new(bad))],
            (Some(bad), false) => {
                let mut all = others.clone();
                all.insert(at.min(all.len()), bad);
                vec![("kubernetes", Arc::new(joined(all)))]
            }
        };
        let without = merge(&base, &parts(None), &Unwanted::new(), &base);
        prop_assert_eq!(&without.refused, &[].into());
        let with = merge(&base, &parts(Some(bad)), &Unwanted::new(), &base);
        let refused: Vec<&Refusal> = with.refused.values().flatten().collect();
        prop_assert!(!refused.is_empty() && refused.iter().all(|refusal| &*refusal.of == "owner 0"), "{kind:?} {refused:#?}");
        for (with, without) in shown(&with.plan).into_iter().zip(shown(&without.plan)) {
            let stay: Vec<String> = with.into_iter().filter(|stays| *stays != name).collect();
            prop_assert_eq!(stay, without, "{:?}", kind);
        }
    }
}
