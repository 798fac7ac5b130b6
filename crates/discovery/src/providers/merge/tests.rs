//! Tests of parts beside a file: pieces that are left out, pieces that stay, and the piece that gets the blame.

use super::*;
use evenkeel_config::plan::{Action, Listener, Pool};
use evenkeel_config::plan::{Endpoint, Expected, HostPattern, Match};
use evenkeel_config::{Subject, parse_str};

const FILE: &str = r#"
    [listener.web]
    bind = ["127.0.0.1:8080"]
    [pool.web]
    endpoints = ["127.0.0.1:8081"]
    [provider.kubernetes]
"#;

fn base(text: &str) -> Plan {
    let outcome = parse_str("test", text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}

fn pool(name: &str) -> Arc<Pool> {
    let endpoint = Endpoint::at(([127, 0, 0, 1], 9000).into());
    Arc::new(Pool { endpoints: vec![endpoint], ..Pool::new(name) })
}

fn route(name: &str, host: &str, pool: &Pool) -> Route {
    let hosts = vec![HostPattern::Exact(host.to_owned())];
    Route {
        name: name.into(),
        listeners: vec!["gateway".into()],
        matching: Match { hosts, ..Match::default() },
        ..Route::to(pool)
    }
}

/// A listener, a pool, and a route for each host.
fn part(hosts: &[&str]) -> Part {
    let pool = pool("shop");
    let routes = hosts.iter().map(|host| Piece::new(&(*host).into(), route(host, host, &pool))).collect();
    let listener = Arc::new(Listener::new("gateway", ([127, 0, 0, 1], 8090).into()));
    let of = "Gateway".into();
    Part { listeners: vec![Piece::new(&of, listener)], routes, pools: vec![Piece::new(&"Service".into(), pool)] }
}

fn merged(base: &Plan, part: Part) -> Merged {
    merge(base, &[("kubernetes", Arc::new(part))], &Unwanted::new(), base)
}

fn refused(merged: &Merged) -> Vec<String> {
    merged.refused.values().flatten().map(|refusal| format!("{}: {}", refusal.of, refusal.why)).collect()
}

#[test]
fn pieces_stand_beside_those_of_the_file_and_say_where_they_are_from() {
    let merged = merged(&base(FILE), part(&["a.example", "b.example"]));
    assert_eq!(refused(&merged), [""; 0]);
    let names: Vec<&str> = merged.plan.listeners.iter().map(|listener| &*listener.name).collect();
    assert_eq!(names, ["web", "gateway"]);
    assert_eq!(merged.origins.of(Kind::Route, "a.example").map(|of| &**of), Some("kubernetes: a.example"));
    assert_eq!(merged.origins.of(Kind::Listener, "web"), None);
    let text = merged.plan.to_toml_by_origin(&|table, name| merged.origins.of_table(table, name));
    assert!(text.contains("[pool.shop] # kubernetes: Service\n") && text.contains("[pool.web]\n"), "{text}");
    assert_eq!(base(&text), merged.plan, "it can be read as a file");
}

#[test]
fn a_route_of_the_file_for_all_listeners_is_for_those_of_the_file() {
    let merged = merged(&base(FILE), part(&["a.example"]));
    let of_file = merged.plan.routes.iter().find(|route| route.action == Action::Pool("web".into()));
    assert_eq!(of_file.expect("it is there").listeners, ["web".into()]);
    assert_eq!(merged.plan.routes_on("gateway").count(), 1);
}

#[test]
fn a_piece_that_makes_the_plan_impossible_is_left_out_with_what_needs_it() {
    let base = base(FILE);
    let mut part = part(&["a.example", "b.example"]);
    let bad = Pool { name: "bad".into(), keepalive: None, ..Pool::default() };
    let of_bad = route("to-bad", "c.example", &bad);
    part.pools.push(Piece::new(&"Service bad".into(), Arc::new(bad)));
    part.routes.push(Piece::new(&"HTTPRoute bad".into(), of_bad));
    // A route with the same requests as an earlier route, and a pool with a name of the file.
    part.routes.push(Piece::new(&"HTTPRoute twice".into(), route("twice", "b.example", &pool("shop"))));
    part.pools.push(Piece::new(&"Service web".into(), pool("web")));
    part.listeners
        .push(Piece::new(&"Gateway same".into(), Arc::new(Listener::new("same", ([127, 0, 0, 1], 8080).into()))));
    let merged = merged(&base, part);
    let refused = refused(&merged);
    for of in ["Service bad", "HTTPRoute bad", "HTTPRoute twice", "Service web", "Gateway same"] {
        assert!(refused.iter().any(|text| text.starts_with(&format!("{of}: "))), "{of}: {refused:#?}");
    }
    assert_eq!(refused.len(), 5, "{refused:#?}");
    let routes: Vec<&str> = merged.plan.routes_on("gateway").map(|route| &*route.name).collect();
    assert_eq!(routes, ["a.example", "b.example"]);
}

#[test]
fn a_listener_whose_routes_are_all_left_out_leads_nowhere_however_many_pools_there_are() {
    for pools in 1..3 {
        let base = base("[provider.kubernetes]\n");
        let mut part = part(&["a.example"]);
        part.routes[0].value.listeners = vec!["elsewhere".into()];
        part.pools.extend((1..pools).map(|n| Piece::new(&"Service".into(), pool(&format!("shop-{n}")))));
        let merged = merged(&base, part);
        assert_eq!(refused(&merged), ["a.example: unknown listener \"elsewhere\""]);
        let routes: Vec<String> =
            merged.plan.routes.iter().map(|route| format!("{} {}", route.name, route.action)).collect();
        assert_eq!(routes, ["gateway/(none) respond 404"]);
        let of = merged.origins.of(Kind::Route, "gateway/(none)");
        assert_eq!(of.map(|of| &**of), Some("kubernetes: Gateway"));
    }
}

#[test]
fn a_listener_of_the_file_leads_to_no_pool_of_others() {
    let base = base("[listener.web]\nbind = ['127.0.0.1:8080']\n[provider.kubernetes]\n");
    let merged = merged(&base, Part { listeners: Vec::new(), ..part(&["a.example"]) });
    let routes: Vec<String> = merged.plan.routes_on("web").map(|route| route.action.to_string()).collect();
    assert_eq!(routes, ["respond 404"]);
    assert_eq!(merge(&base, &[], &Unwanted::new(), &base).plan, base);
}

#[test]
fn thousands_of_bad_pieces_cost_the_others_nothing() {
    let hosts: Vec<String> = (0..5000).map(|n| format!("{n}.example")).collect();
    let mut part = part(&hosts.iter().map(|host| &**host).collect::<Vec<_>>());
    for piece in &mut part.routes[1..] {
        piece.value.listeners = vec!["elsewhere".into()];
    }
    let merged = merged(&base(FILE), part);
    assert_eq!(refused(&merged).len(), 4999);
    assert_eq!(merged.plan.routes_on("gateway").map(|route| &*route.name).collect::<Vec<_>>(), ["0.example"]);
}

#[test]
fn a_file_without_listeners_is_a_plan_and_what_others_add_is_served() {
    let base = base("[provider.kubernetes]\n");
    assert!(base.listeners.is_empty() && base.pools.is_empty() && base.routes.is_empty());
    assert_eq!(merged(&base, Part::default()).plan, base);
    let merged = merged(&base, part(&["a.example"]));
    assert_eq!((refused(&merged).len(), merged.plan.listeners.len()), (0, 1));
    let before = added(&base, &merged.plan);
    assert_eq!((before.listeners.len(), before.routes.len(), before.pools.len()), (1, 1, 1));
}

/// The pieces that an error is blamed on, with the reason.
fn blamed(merged: &Merged, subjects: &[Subject], running: &Plan) -> Vec<String> {
    let mut unwanted = Unwanted::new();
    assert_ne!(merged.blame(subjects, "in use", running, &mut unwanted), unwanted.is_empty());
    let mut all: Vec<_> =
        unwanted.iter().map(|((kind, name), fault)| format!("{} {name}: {}", kind.word(), fault.why)).collect();
    all.sort();
    all
}

#[test]
fn an_error_of_the_machine_is_blamed_on_its_subjects_of_providers() {
    let base = base(FILE);
    let merged = merged(&base, part(&["a.example"]));
    let (gateway, web) = (Subject::Listener(1), Subject::Listener(0));
    assert_eq!(blamed(&merged, &[web, gateway], &base), ["listener gateway: in use"]);
    assert_eq!(
        blamed(&merged, &[Subject::Pool(1), Subject::Route(1)], &base),
        ["pool shop: in use", "route a.example: in use"]
    );
    assert_eq!(blamed(&merged, &[web, Subject::Pool(7)], &base), [""; 0]);
}

#[test]
fn an_error_without_a_subject_is_searched_among_what_does_not_run() {
    let base = base(FILE);
    let next = [("kubernetes", Arc::new(part(&["a.example", "b.example"])))];
    let before = merged(&base, part(&["a.example"]));
    let all = merge(&base, &next, &Unwanted::new(), &before.plan);
    assert!(all.search(&all.plan).is_none());
    let mut search = all.search(&before.plan).expect("a route is new");
    let mut tried = Vec::new();
    let mut step = Step::Try;
    while step == Step::Try {
        let plan = merge(&base, &next, &search.unwanted(&Unwanted::new()), &before.plan).plan;
        tried.push(plan.routes_on("gateway").map(|route| route.name.to_string()).collect::<Vec<_>>().join(" "));
        let is_bad = plan.routes_on("gateway").any(|route| *route.name == *"b.example");
        step = search.learn(if is_bad { Err("no such thing".to_owned()) } else { Ok(()) });
    }
    assert_eq!((step, &*tried), (Step::Over, &["a.example".to_owned(), "a.example b.example".to_owned()][..]));
    let without = merge(&base, &next, &search.unwanted(&Unwanted::new()), &before.plan);
    assert_eq!(refused(&without), ["b.example: no such thing"]);
    assert_eq!(without.plan, before.plan);
}

/// A part with another listener, at which all routes are, too.
fn part_of_two(port: u16) -> Part {
    let mut part = part(&["a.example", "b.example"]);
    let other = Listener::new("other", ([127, 0, 0, 1], port).into());
    part.listeners.push(Piece::new(&"Gateway other".into(), Arc::new(other)));
    part.routes.iter_mut().for_each(|piece| piece.value.listeners.push("other".into()));
    part.routes[1].value.listeners = vec!["other".into()];
    part
}

#[test]
fn a_listener_that_is_left_out_costs_routes_at_others_nothing() {
    // The address is of the file.
    let merged = merged(&base(FILE), part_of_two(8080));
    let refused = refused(&merged);
    assert!(
        refused == ["Gateway other: 127.0.0.1:8080 is bound twice (in the file: listener.web.bind[0])"],
        "{refused:?}"
    );
    let routes: Vec<_> = merged.plan.routes.iter().map(|route| (&*route.name, route.listeners.clone())).collect();
    assert_eq!(routes[1..], [("a.example", vec!["gateway".into()])]);
    assert_eq!(merged.origins.of(Kind::Route, "b.example"), None);
}

#[test]
fn routes_of_a_listener_whose_name_the_file_has_are_not_at_that_of_the_file() {
    let mut part = part_of_two(9000);
    for name in ["web", "gateway"] {
        part.listeners[1].value = Arc::new(Listener::new(name, ([127, 0, 0, 1], 9000).into()));
        part.routes.iter_mut().for_each(|piece| piece.value.listeners = vec![name.into()]);
        let merged = merged(&base(FILE), part.clone());
        assert_eq!(refused(&merged), [format!("Gateway other: the name \"{name}\" is taken")]);
        assert_eq!(merged.plan.routes_on("web").count(), 1);
        assert_eq!(merged.plan.routes_on("gateway").count(), if name == "web" { 1 } else { 2 });
    }
}

#[test]
fn a_listener_that_cannot_be_as_it_should_stays_as_it_runs() {
    let base = base(FILE);
    let running = merged(&base, part_of_two(8091)).plan;
    let next = [("kubernetes", Arc::new(part_of_two(8092)))];
    let mut unwanted = Unwanted::new();
    let (other, why) = ([Subject::Listener(2)], "cannot listen on 127.0.0.1:8092");
    assert!(merge(&base, &next, &unwanted, &running).blame(&other, why, &running, &mut unwanted));
    let kept = merge(&base, &next, &unwanted, &running);
    assert_eq!(refused(&kept), ["Gateway other: cannot listen on 127.0.0.1:8092"]);
    assert_eq!(kept.plan, running);
    // As it runs it is no longer possible either.
    assert!(kept.blame(&other, why, &running, &mut unwanted));
    let without = merge(&base, &next, &unwanted, &running);
    assert_eq!((without.plan.listener("other"), refused(&without).len()), (None, 1));
    assert!(!without.blame(&other, why, &without.plan, &mut unwanted));
    // The file has that address now.
    unwanted.clear();
    merge(&base, &next, &unwanted, &running).blame(&other, why, &running, &mut unwanted);
    let file = self::base(&FILE.replace("8080", "8091"));
    assert_eq!(merge(&file, &next, &unwanted, &running).plan.listener("other"), None);
}

#[test]
fn a_route_between_two_that_both_exclude_it_costs_neither() {
    let mut part = part(&["a.example", "b.example", "c.example"]);
    let hosts = ["a.example", "c.example"].map(|host| HostPattern::Exact(host.to_owned()));
    part.routes[1].value.matching.hosts = hosts.to_vec();
    let merged = merged(&base(FILE), part);
    assert_eq!(refused(&merged).len(), 1, "{:?}", refused(&merged));
    let names: Vec<_> = merged.plan.routes_on("gateway").map(|route| route.name.to_string()).collect();
    assert_eq!(names, ["a.example", "c.example"]);
}

/// A pool of the file that takes requests only, which a route of a provider leads sessions to: the error is about the file's
/// pool, and names no piece.
#[test]
fn an_error_that_names_no_piece_costs_the_piece_that_is_found_by_search() {
    let base =
        base(&FILE.replace("[pool.web]", "[pool.web]\nsticky = { secret = 'a secret of the file, 32 characters' }"));
    let hosts: Vec<String> = (0..40).map(|n| format!("{n}.example")).collect();
    let mut part = part(&hosts.iter().map(|host| &**host).collect::<Vec<_>>());
    let mut sessions = Listener::new("sessions", ([127, 0, 0, 1], 8091).into());
    sessions.mode = Mode::Tcp;
    part.listeners.push(Piece::new(&"Gateway bad".into(), Arc::new(sessions)));
    let bad = Route {
        name: "bad".into(),
        listeners: vec!["sessions".into()],
        ..Route::to(base.pool("web").expect("it has one"))
    };
    part.routes.insert(20, Piece::new(&"TCPRoute bad".into(), bad));
    let merged = merged(&base, part);
    let refused = refused(&merged);
    assert!(refused.iter().any(|text| text.starts_with("TCPRoute bad: a TCP session has no cookie")), "{refused:?}");
    assert!(refused.len() <= 2 && refused.iter().all(|text| text.contains("bad")), "{refused:?}");
    assert_eq!(merged.plan.routes_on("gateway").count(), 40);
    assert_eq!(merged.plan.routes_on("web").count(), 1);
}

/// 2,048 expressions of a single route took up to 1.6 GiB, and ten seconds of every reload.
#[test]
fn an_object_with_too_many_expressions_is_left_out_and_named_and_others_stay() {
    let mut part = part(&["a.example", "b.example", "c.example"]);
    let many: Vec<_> =
        (0..400).map(|n| (format!("x-{n}").into(), expected(&format!("/{n}/[0-9]+/(?:[ab]*a){{60}}")))).collect();
    part.routes[0].value.matching.criteria.headers = many;
    part.routes[2].value.matching.criteria.regex = Some("/u/[0-9]+".into());
    let merged = merged(&base(FILE), part);
    let [why] = &refused(&merged)[..] else { panic!("{:?}", refused(&merged)) };
    assert!(why.starts_with("a.example: its 400 regular expressions take") && why.contains("2048 KiB"), "{why}");
    let names: Vec<&str> = merged.plan.routes.iter().map(|route| &*route.name).collect();
    assert!(names.contains(&"b.example") && names.contains(&"c.example"), "{names:?}");
}

/// Nine objects of a tenant, each within the limit of an object and older than another tenant's object.
#[test]
fn expressions_of_one_tenant_take_no_room_from_another() {
    let names: Vec<String> = (0..10).map(|n| format!("{n}.example")).collect();
    let mut part = part(&names.iter().map(|name| &**name).collect::<Vec<_>>());
    let text = |n: usize, at: usize| format!("/{n}/{at:03}/[0-9]+/(?:[ab]*a){{60}}");
    // As many as nearly fill an object.
    let most =
        (2 << 20) * 19 / 20 / evenkeel_config::plan::regex_cost(&text(0, 0), evenkeel_config::plan::Extent::Whole);
    for (n, piece) in part.routes.iter_mut().enumerate() {
        let (of, count) = if n == 9 { ("Ingress shop/web".to_owned(), 1) } else { (format!("Ingress evil/{n}"), most) };
        piece.of = of.into();
        piece.tenant = Some(if n == 9 { "shop" } else { "evil" }.into());
        piece.value.matching.criteria.headers =
            (0..count).map(|at| (format!("x-{at}").into(), expected(&text(n, at)))).collect();
    }
    let refused = refused(&merged(&base(FILE), part));
    assert!(!refused.is_empty() && refused.iter().all(|text| text.starts_with("Ingress evil/")), "{refused:?}");
}

fn expected(regex: &str) -> Expected {
    Expected { regex: Some(regex.into()), ..Expected::default() }
}
