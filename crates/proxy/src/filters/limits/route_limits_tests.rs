//! Limits apply by their keys, give places back, and keep their state over reloads.

use super::*;
use evenkeel_wire::head::Table;

fn plan(limits: &str) -> Plan {
    let text = format!(
        "[listener.a]\nbind = ['127.0.0.1:1']\n[pool.p]\nendpoints = ['127.0.0.1:2']\n[[route]]\nname = 'r'\npool = 'p'\nlimits = [{limits}]"
    );
    let outcome = evenkeel_config::parse_str("plan", &text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}

fn next(limits: &str, before: Option<&Arc<AllLimits>>) -> Arc<AllLimits> {
    AllLimits::next(&plan(limits), before).expect("limits cannot fail")
}

fn limits(text: &str) -> Arc<RouteLimits> {
    next(text, None).of("r").expect("it has limits").clone()
}

/// Passes a request with these fields through the limits. The error is the index of the limit that refuses it.
fn admit(limits: &Arc<RouteLimits>, client: &str, fields: &[(&str, &str)]) -> Result<Option<Box<Held>>, usize> {
    let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let request = Request { method: "GET", target: "/", host: b"a", fields: table.fields() };
    let admitted = limits.admit(&request, client.parse().expect(client), |_, _| None, || Instant(1));
    admitted.map_err(|over| limits.all().iter().position(|limit| std::ptr::eq(limit, over.limit)).expect("its own"))
}

#[test]
fn clients_count_by_their_networks() {
    for (key, same, others) in [
        ("client", ["10.0.0.1", "::ffff:10.0.0.1"], ["10.0.0.2", "2001:db8::1"]),
        ("client", ["2001:db8::1", "2001:db8::2"], ["2001:db8:0:1::1", "10.0.0.1"]),
        ("client/24", ["10.0.0.1", "10.0.0.255"], ["10.0.1.0", "2001:db8::1"]),
        ("client/56", ["2001:db8::1", "2001:db8:0:ff::1"], ["2001:db8:0:100::1", "10.0.0.1"]),
        ("route", ["10.0.0.1", "2001:db8::1"], ["", ""]),
    ] {
        let limits = limits(&format!("{{ requests = '1/h', key = '{key}' }}"));
        let passes = |client: &str| admit(&limits, client, &[]).is_ok();
        assert!(passes(same[0]) && !passes(same[1]), "{key}");
        assert!(others.iter().filter(|client| !client.is_empty()).all(|client| passes(client)), "{key}");
        assert_eq!(limits.all()[0].refused(), 1);
    }
}

#[test]
fn fields_and_cookies_count_by_value_and_requests_without_them_are_not_limited() {
    let limits = limits("{ requests = '1/h', key = 'header:X-Key' }, { requests = '1/h', key = 'cookie:id' }");
    let passes = |fields: &[(&str, &str)]| admit(&limits, "10.0.0.1", fields).map(|_| ());
    assert_eq!(passes(&[("x-key", "a")]), Ok(()));
    assert_eq!(passes(&[("X-Key", "a")]), Err(0));
    assert_eq!(passes(&[("x-key", "b"), ("cookie", "id=1")]), Ok(()));
    // HTTP/2 may split cookies into several fields.
    assert_eq!(passes(&[("x-key", "c"), ("cookie", "a=b"), ("cookie", "id=1; c=d")]), Err(1));
    assert!((0..3).all(|_| passes(&[]).is_ok()));
}

#[test]
fn places_of_requests_in_flight_are_given_back_also_when_a_later_limit_refuses() {
    let limits = limits("{ in_flight = 2 }, { in_flight = 1, key = 'header:k' }");
    let first = admit(&limits, "10.0.0.1", &[("k", "a")]).expect("there is room");
    assert!(first.is_some());
    for _ in 0..5 {
        assert_eq!(admit(&limits, "10.0.0.1", &[("k", "a")]).map(|_| ()), Err(1), "the second limit");
    }
    let second = admit(&limits, "10.0.0.1", &[]).expect("the refused ones have left");
    assert_eq!(admit(&limits, "10.0.0.1", &[]).map(|_| ()), Err(0), "the first limit");
    drop(second);
    drop(first);
    let again: Vec<_> = (0..2).map(|_| admit(&limits, "10.0.0.1", &[])).collect();
    assert!(again.iter().all(Result::is_ok));
    assert!(limits.all()[0].counts.table.get().is_some());
}

#[test]
fn a_refusal_is_predicted_without_counting() {
    let limits = limits("{ requests = '1/h' }, { in_flight = 1, key = 'header:k' }");
    let would = |client: &str, key: &str| {
        let mut table: Table = [(&b"k"[..], key.as_bytes())].into_iter().collect();
        let request = Request { method: "GET", target: "/", host: b"a", fields: table.fields() };
        let over = limits.would_refuse(&request, client.parse().expect(client), |_, _| None, Instant(1))?;
        limits.all().iter().position(|limit| std::ptr::eq(limit, over.limit))
    };
    assert_eq!((would("10.0.0.1", "a"), limits.all()[0].counts.table.get().is_some()), (None, false));
    let held = admit(&limits, "10.0.0.1", &[("k", "a")]).expect("there is room");
    for _ in 0..3 {
        let all = [("10.0.0.1", "a"), ("10.0.0.1", "b"), ("10.0.0.2", "a"), ("10.0.0.2", "b")];
        assert_eq!(all.map(|(client, key)| would(client, key)), [Some(0), Some(0), Some(1), None]);
    }
    drop(held);
    assert_eq!(would("10.0.0.2", "a"), None);
    assert_eq!([0, 1].map(|at| limits.all()[at].refused()), [0, 0]);
    assert!(admit(&limits, "10.0.0.2", &[("k", "a")]).is_ok(), "nothing was taken");
}

#[test]
fn a_limit_keeps_its_state_while_its_key_and_size_stay() {
    let first = next("{ requests = '1/h' }, { in_flight = 1, key = 'route' }", None);
    let before = first.of("r").expect("it has limits").clone();
    let held = admit(&before, "10.0.0.1", &[]).expect("both have room");
    // Another rate and order; the bucket is as empty as before.
    let second = next("{ in_flight = 2, key = 'route' }, { requests = '2/h', burst = 1 }", Some(&first));
    let after = second.of("r").expect("it has limits");
    assert_eq!(admit(after, "10.0.0.1", &[]).map(|_| ()), Err(1));
    let other = admit(after, "10.0.0.2", &[]).expect("another client");
    assert_eq!(admit(after, "10.0.0.3", &[]).map(|_| ()), Err(0), "the request of the old plan counts");
    drop((held, other));
    // Another key or size is another limit.
    let third = next("{ requests = '2/h', burst = 1, keys = 1000 }", Some(&second));
    assert!(admit(third.of("r").expect("it has limits"), "10.0.0.1", &[]).is_ok());
    let without = Plan { routes: [].into(), ..plan("{ in_flight = 1 }") };
    assert!(AllLimits::next(&without, Some(&third)).expect("limits cannot fail").of("r").is_none());
}

/// A plan with two routes that use the limit `shared`.
fn sharing(limit: &str) -> Plan {
    let text = format!(
        "[listener.a]\nbind = ['127.0.0.1:1']\n[pool.p]\nendpoints = ['127.0.0.1:2']\n[limit.shared]\n{limit}\n\
         [[route]]\nname = 'r'\npool = 'p'\nlimits = ['shared']\n\
         [[route]]\nname = 's'\npool = 'p'\nmatch = {{ path = '/s' }}\nlimits = [{{ in_flight = 5 }}, 'shared']\n\
         [[route]]\nname = 'own'\npool = 'p'\nmatch = {{ path = '/o' }}\nlimits = [{{ requests = '2/h' }}]\n"
    );
    let outcome = evenkeel_config::parse_str("plan", &text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}

#[test]
fn routes_that_use_a_limit_share_its_counts_also_over_plans() {
    let all = AllLimits::next(&sharing("requests = '2/h'"), None).expect("limits cannot fail");
    let passes = |all: &AllLimits, route: &str, client: &str| {
        admit(all.of(route).expect("it has limits"), client, &[]).map(|_| ())
    };
    assert_eq!([passes(&all, "r", "10.0.0.1"), passes(&all, "s", "10.0.0.1")], [Ok(()), Ok(())]);
    assert_eq!([passes(&all, "r", "10.0.0.1"), passes(&all, "s", "10.0.0.1")], [Err(0), Err(1)]);
    assert_eq!([passes(&all, "own", "10.0.0.1"), passes(&all, "r", "10.0.0.2")], [Ok(()), Ok(())]);
    let refused = |all: &AllLimits, route: &str| {
        all.of(route).expect("it has limits").all().iter().map(Limit::refused).sum::<u64>()
    };
    assert_eq!([refused(&all, "r"), refused(&all, "s")], [1, 1], "each route counts its refusals");
    let next = AllLimits::next(&sharing("requests = '3/h'"), Some(&all)).expect("limits cannot fail");
    assert_eq!([passes(&next, "s", "10.0.0.1"), passes(&next, "r", "10.0.0.1")], [Err(1), Err(0)], "its counts stay");
    let other =
        AllLimits::next(&sharing("requests = '3/h'\nkey = 'client/24'"), Some(&next)).expect("limits cannot fail");
    assert_eq!(passes(&other, "s", "10.0.0.1"), Ok(()), "another key counts anew");
}

#[test]
fn requests_in_flight_of_all_routes_count_together() {
    let all = AllLimits::next(&sharing("in_flight = 2\nkey = 'route'"), None).expect("limits cannot fail");
    let (r, s) = (all.of("r").expect("it has limits"), all.of("s").expect("it has limits"));
    let (first, second) = (admit(r, "10.0.0.1", &[]).expect("room"), admit(s, "10.0.0.2", &[]).expect("room"));
    assert_eq!(admit(r, "10.0.0.3", &[]).map(|_| ()), Err(0));
    drop(first);
    let third = admit(s, "10.0.0.3", &[]).expect("a place was given back");
    assert_eq!(admit(r, "10.0.0.3", &[]).map(|_| ()), Err(0));
    drop((second, third));
}
