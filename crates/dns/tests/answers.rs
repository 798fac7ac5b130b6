//! Answers to any message, in any state of the endpoints: without sockets, with pools owned by the test.

use domain::base::Message;
use evenkeel_balance::eligible::{Panic, PanicMode};
use evenkeel_balance::health::{self, Initial};
use evenkeel_balance::{EndpointId, EndpointSpec, Instant, Params, Pool, Seat, algorithms, control};
use evenkeel_config::{Plan, parse_str};
use evenkeel_dns::answer::{Answerer, Moment, PAYLOAD};
use evenkeel_dns::cookie::Secret;
use evenkeel_dns::metrics::Numbers;
use evenkeel_dns::pools::WorkerPool;
use evenkeel_dns::stats::{ListenerStats, PoolStats};
use evenkeel_dns::zone::Zone;
use evenkeel_dns::{Endpoint, Found, PoolParts};
use evenkeel_net::listen::Protocol;
use evenkeel_runtime::Generation;
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

const NEAR: &str =
    "localities = [{ zone = 'a', clients = ['192.0.2.0/24'] }, { zone = 'b', clients = ['198.51.100.0/24'] }]";

/// An answerer over a pool of three endpoints with checks, and the state to inspect.
struct Setup {
    pool: Pool,
    answerer: Answerer,
    stats: Arc<ListenerStats>,
    of_pool: Arc<PoolStats>,
    out: Vec<u8>,
}

const ENDPOINTS: [(&str, &str); 3] = [("10.0.0.1:80", "a"), ("10.0.0.2:80", "b"), ("10.0.0.3:80", "b")];

impl Setup {
    fn new(algorithm: &str, zone: &str) -> Setup {
        let text = format!(
            "[listener.dns]\nbind = ['127.0.0.1:1']\nmode = 'dns'\n[listener.dns.zone]\nname = 'a.example'\n{zone}\n\
             records = {{ www = {{ pool = 'web' }}, near = {{ pool = 'web', policy = 'locality' }}, \
             '_x._tcp' = {{ pool = 'web', type = 'srv' }}, h3 = {{ pool = 'web', https = {{ port = 8443 }}, answers = 2 }} }}\n[pool.web]\nendpoints = ['10.0.0.1:80']\n"
        );
        let outcome = parse_str("test.toml", &text, &|_| None);
        let plan: Plan = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics));
        let mut pool = Pool::new(1);
        let machine = health::Settings { rise: 1, fall: 1, initial: Initial::Healthy };
        // Without panic mode, which would name unhealthy endpoints before all are.
        let panic = Panic { healthy_below: 0.0, mode: PanicMode::UseAll };
        pool.configure(control::Settings { health: Some(machine), panic, ..control::Settings::default() }, Instant(0));
        pool.update(&ENDPOINTS.map(|(name, _)| EndpointSpec::new(name)), Instant(0));
        let algorithm = algorithms::find(algorithm).expect("a row");
        let balancer = pool.balancer(algorithm, &Params::defaults(algorithm.params), Seat::default(), 1);
        let endpoint = |(name, zone): (&str, &str)| {
            let addr: SocketAddr = name.parse().expect("an address");
            let slot = pool.slot_of(EndpointId::of(name)).expect("it is in the pool");
            (slot, Endpoint { addr, weight: 1, priority: 0, zone: Some(zone.into()), stats: Arc::default() })
        };
        let parts = PoolParts {
            balancer: balancer.expect("its defaults"),
            goes_by_key: algorithm.needs.key,
            endpoints: ENDPOINTS.map(endpoint).to_vec(),
            leaving: Vec::new(),
        };
        let (stats, of_pool) = (Arc::<ListenerStats>::default(), Arc::<PoolStats>::default());
        let zone = plan.listeners[0].zone.as_ref().expect("it has one");
        let zone = Arc::new(Zone::new(zone));
        let secret = Secret::random().expect("chance");
        let pools = vec![WorkerPool::new(parts, of_pool.clone())];
        let answerer = Answerer::new(zone, pools, secret, stats.clone(), 1);
        Setup { pool, answerer, stats, of_pool, out: Vec::new() }
    }

    /// The answer to a message; `None` if there is none.
    fn ask(&mut self, message: &[u8], client: &str, protocol: Protocol) -> Option<&[u8]> {
        let client = SocketAddr::new(client.parse().expect("an address"), 5353);
        let at = Moment { now: Instant(1), unix: 1_000_000 };
        let said = self.answerer.answer(message, client, protocol, at, &mut self.out);
        said.then_some(&self.out[..])
    }

    /// Addresses of a name, for a client at `client`.
    fn addresses(&mut self, name: &str, client: &str, options: &[u8]) -> Vec<IpAddr> {
        let answer = self.ask(&question(name, 1, options), client, Protocol::Udp).expect("an answer");
        let message = Message::from_octets(answer).expect("a message");
        let records = message.answer().expect("a section").limit_to::<domain::rdata::A>();
        records.map(|record| IpAddr::from(record.expect("an address").data().addr())).collect()
    }

    fn check(&mut self, endpoint: usize, passed: bool) {
        self.pool.on_check(EndpointId::of(ENDPOINTS[endpoint].0), passed, Instant(1));
    }
}

/// A query with EDNS and these options.
fn question(name: &str, qtype: u16, options: &[u8]) -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&qtype.to_be_bytes());
    message.extend_from_slice(&[0, 1, 0, 0, 41, 16, 0, 0, 0, 0, 0, 0, options.len() as u8]);
    message.extend_from_slice(options);
    message
}

/// Client subnet option for 198.51.100.0/24.
const TOLD: [u8; 11] = [0, 8, 0, 7, 0, 1, 24, 0, 198, 51, 100];

fn ip(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

#[test]
fn endpoints_that_are_not_well_are_not_named_and_all_are_when_none_is() {
    for (fail_open, all) in [(true, 3), (false, 0)] {
        let mut setup = Setup::new("round_robin", &format!("fail_open = {fail_open}"));
        assert_eq!(setup.addresses("www.a.example", "192.0.2.1", &[]).len(), 3);
        setup.check(0, false);
        let mut named = setup.addresses("www.a.example", "192.0.2.1", &[]);
        named.sort();
        assert_eq!(named, [ip(2), ip(3)]);
        assert_eq!(setup.of_pool.failed_open.get(), 0);
        (1..3).for_each(|i| setup.check(i, false));
        assert_eq!(setup.addresses("www.a.example", "192.0.2.1", &[]).len(), all);
        assert_eq!(setup.out[3] & 15, if fail_open { 0 } else { 2 }, "SERVFAIL where there is nobody to name");
        assert_eq!(setup.of_pool.failed_open.get(), u64::from(fail_open));
        setup.check(1, true);
        assert_eq!(setup.addresses("www.a.example", "192.0.2.1", &[]), [ip(2)]);
    }
}

#[test]
fn other_endpoints_are_named_once_they_can_be_picked_and_those_before_until_then() {
    let mut setup = Setup::new("round_robin", "");
    let found = ["10.0.0.4:80", "[2001:db8::4]:80"];
    let specs = found.map(EndpointSpec::new);
    setup.pool.reserve(&specs);
    let of = |name: &str| {
        let slot = setup.pool.slot_of(EndpointId::of(name)).expect("it is in the pool");
        (
            slot,
            Endpoint {
                addr: name.parse().expect("an address"),
                weight: 1,
                priority: 0,
                zone: None,
                stats: Arc::default(),
            },
        )
    };
    setup.answerer.apply_endpoints(&Found::from([("web".into(), found.map(of).to_vec())]));
    assert_eq!(setup.addresses("www.a.example", "192.0.2.1", &[]).len(), 3, "those before");
    setup.pool.update(&specs, Instant(1));
    assert_eq!(setup.addresses("www.a.example", "192.0.2.1", &[]), [ip(4)]);
    let aaaa = question("www.a.example", 28, &[]);
    assert_eq!(setup.ask(&aaaa, "192.0.2.1", Protocol::Udp).expect("an answer")[7], 1);

    // Without any endpoint the absence of a family is not final, so resolvers must not cache it.
    setup.pool.update(&[], Instant(1));
    setup.answerer.apply_endpoints(&Found::from([("web".into(), Vec::new())]));
    let answer = setup.ask(&aaaa, "192.0.2.1", Protocol::Udp).expect("an answer");
    assert_eq!(answer[3] & 15, 2, "SERVFAIL");
}

#[test]
fn clients_get_endpoints_that_are_near_while_one_is_well() {
    let mut setup = Setup::new("round_robin", NEAR);
    assert_eq!(setup.addresses("near.a.example", "192.0.2.1", &[]), [ip(1)]);
    let mut b = setup.addresses("near.a.example", "198.51.100.1", &[]);
    b.sort();
    assert_eq!(b, [ip(2), ip(3)]);
    assert_eq!(setup.addresses("near.a.example", "203.0.113.1", &[]).len(), 3, "nowhere near");
    assert_eq!(setup.addresses("www.a.example", "192.0.2.1", &[]).len(), 3, "the record does not ask");
    setup.check(0, false);
    assert_eq!(setup.addresses("near.a.example", "192.0.2.1", &[]).len(), 2, "none that is near is well");
}

#[test]
fn a_name_with_https_has_a_record_with_protocols_port_and_the_addresses_that_are_well() {
    let mut setup = Setup::new("round_robin", "");
    setup.check(1, false);
    let mut data = |name: &str| {
        let answer = setup.ask(&question(name, 65, &[]), "192.0.2.1", Protocol::Udp).expect("an answer");
        let message = Message::from_octets(answer).expect("a message");
        let records = message.answer().expect("a section");
        let texts: Vec<String> = records
            .limit_to::<domain::rdata::Https<_, _>>()
            .map(|record| record.expect("a record").data().to_string())
            .collect();
        (message.header().rcode().to_int(), texts)
    };
    let (code, mut texts) = data("h3.a.example");
    let text = texts.pop().expect("a record").replace('"', "");
    assert!(code == 0 && texts.is_empty(), "a single record");
    for part in ["1 . ", "alpn=h3,h2", "port=8443", "10.0.0.1", "10.0.0.3"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("10.0.0.2"), "{text}");
    assert_eq!(data("www.a.example"), (0, Vec::new()), "only where it is set");
}

#[test]
fn the_network_that_a_resolver_tells_counts_where_that_is_on() {
    let mut off = Setup::new("round_robin", NEAR);
    assert_eq!(off.addresses("near.a.example", "192.0.2.1", &TOLD), [ip(1)], "the resolver's own");
    assert!(!off.out.ends_with(&TOLD), "no option in the answer");
    let mut on = Setup::new("round_robin", &format!("client_subnet = true\n{NEAR}"));
    assert_eq!(on.addresses("near.a.example", "192.0.2.1", &TOLD).len(), 2);
    assert!(on.out.ends_with(&[0, 8, 0, 7, 0, 1, 24, 24, 198, 51, 100]), "its scope is what was used: {:?}", on.out);
    on.addresses("www.a.example", "192.0.2.1", &TOLD);
    assert!(on.out.ends_with(&TOLD), "a scope of 0, as it made no difference: {:?}", on.out);
}

#[test]
fn maglev_names_the_same_endpoint_first_to_the_same_network() {
    let mut setup = Setup::new("maglev", "");
    let mut firsts = std::collections::BTreeSet::new();
    for net in 0..50 {
        let first = setup.addresses("www.a.example", &format!("10.1.{net}.1"), &[])[0];
        assert_eq!(setup.addresses("www.a.example", &format!("10.1.{net}.200"), &[])[0], first);
        firsts.insert(first);
    }
    assert_eq!(firsts.len(), 3);
}

#[test]
fn a_cookie_of_ours_and_tcp_are_free_of_the_limit_of_a_network() {
    let mut setup = Setup::new("round_robin", "responses_per_subnet = 10");
    let asked = question("www.a.example", 1, &[0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    let answer = setup.ask(&asked, "192.0.2.1", Protocol::Udp).expect("the first is free").to_vec();
    let cookie = question("www.a.example", 1, &answer[answer.len() - 28..]);
    let mut seen = [0; 3];
    for _ in 0..100 {
        let kind = setup.ask(&asked, "192.0.2.77", Protocol::Udp).map_or(0, |a| if a[2] & 2 == 0 { 1 } else { 2 });
        seen[kind] += 1;
    }
    assert_eq!(seen, [46, 9, 45], "none, whole, and to come by TCP");
    assert_eq!(setup.stats.limited.each_ref().map(|n| n.get()), [46, 45]);
    for _ in 0..100 {
        let whole = |answer: Option<&[u8]>| answer.is_some_and(|a| a[2] & 2 == 0);
        assert!(whole(setup.ask(&cookie, "192.0.2.1", Protocol::Udp)), "it proves where it is");
        assert!(whole(setup.ask(&asked, "192.0.2.1", Protocol::Tcp)));
    }
    let forged = setup.ask(&cookie, "192.0.2.2", Protocol::Udp).map(<[u8]>::to_vec);
    assert!(forged.is_none_or(|a| a[2] & 2 != 0), "the cookie of another address");
}

#[test]
fn numbers_go_on_through_a_reload() {
    let text = "[listener.dns]\nbind = ['127.0.0.1:1']\nmode = 'dns'\nzone = { name = 'a.example', apex = { pool = 'web' } }\n\
                [pool.web]\nendpoints = ['127.0.0.1:2']";
    let plan = parse_str("test.toml", text, &|_| None).plan.expect("a good plan");
    let generation = Generation::first(Arc::new(plan), Vec::new());
    let first = Numbers::next(&generation, 2, &Numbers::default());
    let second = Numbers::next(&generation, 2, &first);
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
}

/// Messages of strangers: arbitrary bytes, or damaged queries.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let names =
        prop::sample::select(vec!["www.a.example", "near.a.example", "_x._tcp.a.example", "10-0-0-1.a.example", "x.y"]);
    let options = prop::collection::vec(any::<u8>(), 0..40);
    let damaged =
        (names, any::<u16>(), options, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4));
    let damaged = damaged.prop_map(|(name, qtype, options, changes)| {
        let mut message = question(name, [1, 28, 33, 255, 6, 2, qtype][usize::from(qtype) % 7], &options);
        changes.into_iter().for_each(|(at, to)| *at.get_mut(&mut message) = to);
        message
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..600), damaged]
}

proptest! {
    #[test]
    fn whatever_comes_gets_a_whole_message_that_fits_or_none(
        all in prop::collection::vec(messages(), 1..20), tcp in any::<bool>(), subnet in any::<bool>(),
    ) {
        let mut setup = Setup::new("round_robin", &format!("responses_per_subnet = 0\nclient_subnet = {subnet}\n{NEAR}"));
        for message in &all {
            let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
            let Some(answer) = setup.ask(message, "192.0.2.1", protocol) else {
                prop_assert!(message.len() < 12 || message[2] & 0x80 != 0, "only what is no query gets nothing");
                continue;
            };
            prop_assert_eq!(&answer[..2], &message[..2]);
            prop_assert!(answer[2] & 0x80 != 0 && (tcp || answer.len() <= usize::from(PAYLOAD)));
            let read = Message::from_octets(answer).expect("a header");
            prop_assert!(read.iter().all(|record| record.is_ok()), "{:?} to {:?}", answer, message);
            let counts = read.header_counts();
            let records = counts.ancount() + counts.nscount() + counts.arcount();
            prop_assert_eq!(read.iter().count(), usize::from(records));
            let question = counts.qdcount() == 0 || answer[12..].starts_with(&message[12..17.min(message.len())]);
            prop_assert!(question, "{:?} to {:?}", answer, message);
        }
    }
}
