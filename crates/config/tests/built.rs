//! Plans made from values: equal to the plan of a text with the same settings, and subject to the same
//! checks.

use evenkeel_config::plan::{
    Action, Address, Admin, AdminHttp, Check, Discover, Dns, Endpoint, HealthCheck, HostPattern, Listener,
    ListenerLimits, Match, PathPattern, Plan, Pool, PoolLimits, PoolTimeouts, Retry, Route, Runtime, Secret, Source,
    Sticky, Telemetry, Workers,
};
use evenkeel_config::{
    Builder, Code, Diagnostic, Outcome, Severity, Subject, load, parse_str, render_text, schema, to_json,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::{DeTable, DeValue};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[track_caller]
fn plan(outcome: Outcome) -> Plan {
    assert!(outcome.diagnostics.is_empty(), "{}", render_text(&outcome.diagnostics, false));
    outcome.plan.expect("a plan without an error")
}

fn text(text: &str) -> Plan {
    plan(parse_str("test.toml", text, &|_| None))
}

/// Valid files: the examples, and the files that set the keys which no example sets.
fn files() -> Vec<PathBuf> {
    let folders = ["examples", "crates/config/tests/every_key"];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(Path::new(ROOT).join(folder)).expect(folder));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    all.sort();
    all
}

#[test]
fn a_plan_built_of_values_is_that_of_the_text_that_has_them() {
    for path in files() {
        let read = load(&path, &|_| None);
        let said = render_text(&read.diagnostics, false);
        let plan = read.plan.unwrap_or_else(|| panic!("{said}"));
        let built = Builder::from(plan.clone()).build("values");
        let codes = |of: &[Diagnostic]| of.iter().map(|one| one.code).collect::<Vec<_>>();
        let found = render_text(&built.diagnostics, false);
        assert_eq!(codes(&built.diagnostics), codes(&read.diagnostics), "{said}{found}");
        assert_eq!(built.plan, Some(plan), "{}", path.display());
    }
}

/// Collects the path of every key in the schema; with `value`, only of the keys that it sets.
fn keys(schema: &Value, value: Option<&DeTable<'_>>, at: &str, found: &mut BTreeSet<String>) {
    for one in schema["anyOf"].as_array().into_iter().flatten() {
        keys(one, value, at, found);
    }
    for (key, below) in schema["properties"].as_object().into_iter().flatten() {
        let set = value.map(|table| table.get(&**key));
        if !matches!(set, Some(None)) {
            found.insert(format!("{at}.{key}"));
            each(below, set.flatten().map(|value| value.get_ref()), &format!("{at}.{key}"), found);
        }
    }
    if schema["additionalProperties"].is_object() {
        match value {
            None => keys(&schema["additionalProperties"], None, at, found),
            Some(table) => table
                .values()
                .filter_map(|value| value.get_ref().as_table())
                .for_each(|table| keys(&schema["additionalProperties"], Some(table), at, found)),
        }
    }
}

fn each(schema: &Value, value: Option<&DeValue<'_>>, at: &str, found: &mut BTreeSet<String>) {
    match value {
        None => {
            keys(schema, None, at, found);
            let listed = schema["anyOf"].as_array().into_iter().flatten().chain([schema]);
            listed.filter(|one| one["items"].is_object()).for_each(|one| each(&one["items"], None, at, found));
        }
        Some(DeValue::Table(table)) => keys(schema, Some(table), at, found),
        Some(DeValue::Array(values)) => {
            let listed = schema["anyOf"].as_array().into_iter().flatten().find(|one| one["items"].is_object());
            let items = &listed.unwrap_or(schema)["items"];
            values.iter().for_each(|value| each(items, Some(value.get_ref()), at, found));
        }
        // A short form of a table with one key.
        Some(_) => {}
    }
}

#[test]
fn the_files_that_are_built_again_set_every_key_of_every_table() {
    let (schema, mut all, mut set) = (schema(), BTreeSet::new(), BTreeSet::new());
    keys(&schema, None, "", &mut all);
    for path in files() {
        let text = std::fs::read_to_string(path).expect("a text");
        keys(&schema, Some(DeTable::parse(&text).expect("TOML").get_ref()), "", &mut set);
    }
    // `version` and `include` exist only in files. Parameters of algorithms have tests of their own, which
    // loop over the registry.
    let of_files = |key: &str| key == ".version" || key.starts_with(".include");
    let of_algorithms = |key: &str| key.starts_with(".pool.balance.") || key.starts_with(".pool.shadow.");
    // Criteria are the same tables in each alternative, in conditions and under `not`, and so are expected values, and
    // pages of listeners and routes.
    let same = |keys: BTreeSet<String>| -> BTreeSet<String> {
        let pages = |key: String| key.replace(".listener.error_pages.", ".route.error_pages.");
        let set = |key: String| pages(key.replace(".filters.", ".route.").replace(".defaults.route.", ".route."));
        let when = |key: String| {
            let key = set(key).replace(".pool.", ".route.").replace(".edits.when.request.", ".edits.when.");
            let key = key.replace(".request_headers.edits.when.", ".match.");
            match key.contains(".edits.when.status") {
                true => key,
                false => key.replace(".response_headers.edits.when.", ".match."),
            }
        };
        let set = |key: String| if key.contains("_headers.edits.") { when(key) } else { set(key) };
        let one = |key: String| set(key).replace(".match.any.", ".match.").replace(".match.not.", ".match.");
        let value = |key: String| {
            let named = [".match.query.", ".match.cookie.", ".match.map."];
            named.iter().fold(key, |key, named| key.replace(named, ".match.header."))
        };
        keys.into_iter().map(|key| value(one(key))).collect()
    };
    let (all, set) = (same(all), same(set));
    let missing: Vec<_> = all.difference(&set).filter(|key| !of_files(key) && !of_algorithms(key)).collect();
    assert!(all.len() > 200, "{all:?}");
    assert!(missing.is_empty(), "no file in tests/every_key sets {missing:#?}");
}

fn endpoints() -> Vec<Endpoint> {
    ["10.0.0.1:8080", "10.0.0.2:8080"].map(|addr| Endpoint::at(addr.parse().expect("an address"))).into()
}

fn web() -> Listener {
    Listener::new("web", "127.0.0.1:8080".parse().expect("an address"))
}

#[test]
fn what_is_left_out_is_as_in_a_file_that_leaves_it_out() {
    let built = Plan::builder().listener(web()).pool(Pool { endpoints: endpoints(), ..Pool::new("api") });
    let same = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.api]\nendpoints = ['10.0.0.1:8080', '10.0.0.2:8080']";
    assert_eq!(plan(built.build("values")), text(same));
    // Compared with values, without being read again.
    let (read, pool) = (text(same), Pool { endpoints: endpoints(), ..Pool::new("api") });
    assert_eq!((&*read.listeners[0], &*read.pools[0]), (&web(), &pool));
    assert_eq!(read.routes[0], Route { name: "default".into(), ..Route::to(&pool) });
    assert_eq!((read.runtime, read.telemetry), (Runtime::default(), Telemetry::default()));
}

#[test]
fn what_is_set_is_as_in_a_file_that_sets_it() {
    let seconds = Duration::from_secs;
    let named = |host: &str, port| Address::Name { host: host.into(), port };
    let health = HealthCheck {
        check: Check::Http {
            method: "GET".into(),
            path: "/healthz".into(),
            host: None,
            expect: vec![200..=299],
            body: None,
        },
        interval: seconds(5),
        ..HealthCheck::default()
    };
    let sticky = Sticky { secret: Secret::Inline("${0123456789}\"\\abcdef".into()), ..Sticky::default() };
    let endpoints = vec![
        Endpoint { weight: 3, zone: Some("a".into()), ..endpoints().remove(0) },
        Endpoint { addr: named("b.internal", 80), name: "b".into(), priority: 1, ..Endpoint::default() },
    ];
    let api = Pool {
        endpoints,
        health: Some(health),
        sticky: Some(sticky),
        limits: PoolLimits { requests_per_endpoint: 7, ..PoolLimits::default() },
        timeouts: PoolTimeouts { connect: seconds(1), ..PoolTimeouts::default() },
        ..Pool::new("api")
    };
    let source = Source::Dns(Dns::addresses("found.internal", 8080));
    let found = Pool { discover: Some(Discover { source, ..Discover::default() }), ..Pool::new("found.v1") };
    let limits = ListenerLimits { requests_per_address: 9.5, burst_per_address: 10, ..ListenerLimits::default() };
    let v1 = Route {
        matching: Match {
            hosts: vec![HostPattern::Exact("example.com".into())],
            path: PathPattern::Prefix("/v1".into()),
            ..Match::all()
        },
        ..Route::to(&found)
    };
    let rest = Route { name: "rest".into(), retry: Retry { ..api.retry.clone() }, ..Route::to(&api) };
    let built = Plan::builder()
        .runtime(Runtime { workers: Workers::Count(2), ..Runtime::default() })
        .admin(Admin { http: Some(AdminHttp::at("127.0.0.1:9900".parse().expect("an address"))), ..Admin::default() })
        .listener(Listener { limits, ..web() })
        .route(v1)
        .route(rest)
        .pool(api)
        .pool(found);
    let same = r#"
        runtime = { workers = 2 }
        admin = { http = { bind = "127.0.0.1:9900" } }
        [listener.web]
        bind = ["127.0.0.1:8080"]
        limits = { requests_per_address = 9.5 }
        [[route]]
        match = { host = ["example.com"], prefix = "/v1" }
        pool = "found.v1"
        [[route]]
        name = "rest"
        pool = "api"
        [pool.api]
        endpoints = [{ addr = "10.0.0.1:8080", weight = 3, zone = "a" }, { addr = "b.internal:80", name = "b", priority = 1 }]
        health = { http = "/healthz", interval = "5s" }
        sticky = { secret = "$${0123456789}\"\\abcdef" }
        limits = { requests_per_endpoint = 7 }
        timeouts = { connect = "1s" }
        [pool."found.v1"]
        discover = { dns = { name = "found.internal", port = 8080 } }
    "#;
    assert_eq!(plan(built.build("values")), text(same));
}

#[test]
fn what_is_wrong_names_the_path_of_the_value() {
    let pool = || Pool { endpoints: endpoints(), ..Pool::new("api") };
    let with = |pool: Pool| Plan::builder().listener(web()).pool(pool);
    let twice = vec![endpoints().remove(0), endpoints().remove(0)];
    let route = Route { action: Action::Pool("ap".into()), ..Route::to(&pool()) };
    let short = Sticky { secret: Secret::Inline("too short".into()), ..Sticky::default() };
    let heavy = vec![Endpoint { priority: 16, ..endpoints().remove(0) }];
    let cases = [
        (Plan::builder().listener(web()), "EK0207", ""),
        (with(Pool::new("api")), "EK0105", "pool.api"),
        (with(Pool { endpoints: twice, ..pool() }), "EK0205", "pool.api.endpoints[1]"),
        (with(Pool { endpoints: heavy, ..pool() }), "EK0104", "pool.api.endpoints[0].priority"),
        (with(pool()).route(route), "EK0201", "route[0].pool"),
        (with(Pool { sticky: Some(short), ..pool() }), "EK0104", "pool.api.sticky.secret"),
        (with(pool()).pool(Pool { name: "a b".into(), ..pool() }), "EK0113", "pool.a b"),
        (with(pool()).listener(Listener { name: "again".into(), ..web() }), "EK0206", "listener.again.bind[0]"),
    ];
    for (builder, code, path) in cases {
        let outcome = builder.build("values");
        let shown = render_text(&outcome.diagnostics, false);
        let at = outcome
            .diagnostics
            .iter()
            .position(|one| one.code.as_str() == code)
            .unwrap_or_else(|| panic!("{code}: {shown}"));
        let first = &outcome.diagnostics[at];
        assert!(outcome.plan.is_none(), "{shown}");
        assert_eq!(first.at.path.as_deref().unwrap_or_default(), path, "{shown}");
        assert_eq!((&*first.at.file, &first.at.range), ("values", &None), "{shown}");
        let json = &to_json(&outcome.diagnostics)[at];
        assert_eq!((json["path"].as_str().unwrap_or_default(), &json["line"]), (path, &Value::Null));
        assert!(!shown.contains("too short"), "{shown}");
    }
}

#[test]
fn findings_carry_the_listener_route_or_pool_that_they_are_about() {
    let endpoint = |port: u16| vec![Endpoint::at(([127, 0, 0, 1], port).into())];
    let secret = Secret::Inline("longer than the asterisks that stand in its place".into());
    let sticky = Sticky { secret, ..Sticky::default() };
    // Cut, quoted and masked where people read it.
    let long = format!("{}.{}", "a".repeat(31), "b".repeat(32));
    let good = Pool { endpoints: endpoint(1), sticky: Some(sticky), ..Pool::new(&long) };
    let twice = Pool { endpoints: [endpoint(2), endpoint(2)].concat(), ..Pool::new(&format!("{}c", &long[..63])) };
    let outcome = Plan::builder()
        .listener(Listener::new("web", ([127, 0, 0, 1], 8080).into()))
        .listener(Listener::new("same", ([127, 0, 0, 1], 8080).into()))
        .route(Route { name: "fine".into(), ..Route::to(&good) })
        .route(Route { name: "lost".into(), listeners: vec!["none".into()], ..Route::to(&good) })
        .pool(good)
        .pool(Pool::new("of defaults only".replace(' ', "-").as_str()))
        .pool(twice)
        .build("test");
    let errors = outcome.diagnostics.iter().filter(|one| one.severity() == Severity::Error);
    let subjects: Vec<_> = errors
        .map(|error| {
            (error.code, error.at.subject, error.related.iter().map(|(_, spot)| spot.subject).collect::<Vec<_>>())
        })
        .collect();
    let expected = [
        (Code::SameAddress, Some(Subject::Listener(1)), vec![Some(Subject::Listener(0))]),
        (Code::UnknownListener, Some(Subject::Route(1)), vec![]),
        (Code::Missing, Some(Subject::Pool(1)), vec![]),
        (Code::SameEndpoint, Some(Subject::Pool(2)), vec![Some(Subject::Pool(2))]),
    ];
    assert_eq!(subjects, expected, "{}", render_text(&outcome.diagnostics, false));
}
