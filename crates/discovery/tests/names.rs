//! Pools that follow DNS names, against a scripted server on real sockets.

use crate::support::{A, AAAA, Names, SRV, Says, srv, v4, wait_until};
use evenkeel_config::Plan;
use evenkeel_discovery::{Discovery, Numbers};
use prometheus_client::registry::Registry;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// A plan with one pool, whose server is queried ten times a second unless its TTLs are longer.
fn plan(servers: &[&Names], pool: &str) -> Plan {
    let servers: Vec<String> = servers.iter().map(|names| names.addr.to_string()).collect();
    let text = format!(
        "[resolver]\nnameservers = {servers:?}\nmin_ttl = '100ms'\n[listener.web]\nbind = ['127.0.0.1:1']\n\
         [pool.web]\n{pool}\n"
    );
    let outcome = evenkeel_config::parse_str("test.toml", &text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}

const WEB: &str = "discover = { dns = { name = 'web.test', port = 80 } }";

fn found(discovery: &Discovery) -> Vec<String> {
    discovery.lists()[0].1.iter().map(|e| e.name.to_string()).collect()
}

/// Follows the plan, and returns the names of its endpoints.
async fn follow(discovery: &Discovery, plan: Plan) -> Vec<String> {
    let following = discovery.follow(&plan).await;
    let lists = following.lists();
    discovery.keep(following);
    lists[0].1.iter().map(|e| e.name.to_string()).collect()
}

/// Waits until the pool has these endpoints.
async fn becomes(discovery: &mut Discovery, wanted: &[&str]) {
    let until = Instant::now() + Duration::from_secs(30);
    while found(discovery) != wanted {
        assert!(Instant::now() < until, "{:?}, not {wanted:?}", found(discovery));
        let _ = tokio::time::timeout(Duration::from_secs(5), discovery.changed()).await;
    }
}

fn metric(discovery: &Discovery, line: &str) -> f64 {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Numbers::new(discovery)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes everything");
    let line = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' ')?.parse().ok());
    line.unwrap_or_else(|| panic!("{text}"))
}

fn updates(discovery: &Discovery, result: &str) -> f64 {
    let labels = format!("pool=\"web\",source=\"dns:web.test:80\",result=\"{result}\"");
    metric(discovery, &format!("evenkeel_discovery_updates_total{{{labels}}}"))
}

#[tokio::test]
async fn a_pool_follows_the_addresses_of_a_name() {
    let (names, mut discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(0, &[[10, 0, 0, 2], [10, 0, 0, 1]]));
    assert_eq!(follow(&discovery, plan(&[&names], WEB)).await, ["10.0.0.1:80", "10.0.0.2:80"]);
    names.say("web.test", A, v4(0, &[[10, 0, 0, 3], [10, 0, 0, 2]]));
    becomes(&mut discovery, &["10.0.0.2:80", "10.0.0.3:80"]).await;
    assert_eq!(updates(&discovery, "changed"), 2.0);
    let labels = "{pool=\"web\",source=\"dns:web.test:80\"}";
    assert_eq!(metric(&discovery, &format!("evenkeel_discovery_endpoints{labels}")), 2.0);
    assert!(metric(&discovery, &format!("evenkeel_discovery_list_age_seconds{labels}")) < 30.0);
    // Used only without IPv4 addresses, because a machine with both would count twice.
    names.say("web.test", AAAA, Says::Records(vec![(0, vec![0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9])]));
    names.say("web.test", A, v4(0, &[]));
    becomes(&mut discovery, &["[fd00::9]:80"]).await;
}

#[tokio::test]
async fn a_server_that_fails_takes_no_endpoint_away() {
    let (names, mut discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(0, &[[10, 0, 0, 1]]));
    follow(&discovery, plan(&[&names], WEB)).await;
    let (servfail, refused) = (2, 5);
    for says in [Says::Code(servfail), Says::Code(refused), Says::Silence] {
        let failed = updates(&discovery, "failed");
        names.say("web.test", A, says);
        // Both tries of one poll have ended when the next poll starts.
        names.asked_again("web.test", A, 5).await;
        assert!(updates(&discovery, "failed") > failed);
        assert_eq!(found(&discovery), ["10.0.0.1:80"]);
        names.say("web.test", A, v4(0, &[[10, 0, 0, 1]]));
        let unchanged = updates(&discovery, "unchanged");
        wait_until("a poll without a change", || updates(&discovery, "unchanged") > unchanged).await;
    }
    // The same holds for a name that no longer exists.
    names.forget("web.test");
    names.asked_again("web.test", A, 1).await;
    wait_until("a poll that finds nothing", || updates(&discovery, "empty") > 0.0).await;
    assert_eq!(found(&discovery), ["10.0.0.1:80"]);
    names.say("web.test", A, v4(0, &[[10, 0, 0, 2]]));
    becomes(&mut discovery, &["10.0.0.2:80"]).await;
}

#[tokio::test]
async fn a_name_that_is_gone_empties_the_pool_where_it_may() {
    let (names, mut discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(0, &[[10, 0, 0, 1]]));
    let may = "discover = { dns = { name = 'web.test', port = 80 }, allow_empty = true }";
    follow(&discovery, plan(&[&names], may)).await;
    names.forget("web.test");
    becomes(&mut discovery, &[]).await;
}

#[tokio::test]
async fn what_is_truncated_comes_by_tcp() {
    let (names, discovery) = (Names::start(), Discovery::default());
    let many: Vec<_> = (0..1000u16).map(|n| (60, [[10, 1], n.to_be_bytes()].concat())).collect();
    names.say("web.test", A, Says::Truncated(many));
    assert_eq!(follow(&discovery, plan(&[&names], WEB)).await.len(), 1000);
}

#[tokio::test]
async fn a_time_to_live_of_nothing_is_no_flood_and_a_long_one_is_kept() {
    let (names, discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(0, &[[10, 0, 0, 1]]));
    names.say("long.test", A, v4(3600, &[[10, 0, 0, 2]]));
    let both = "endpoints = ['web.test:80', 'long.test:80']";
    follow(&discovery, plan(&[&names], both)).await;
    names.asked_again("web.test", A, 5).await;
    let asked = names.asked("web.test", A);
    for pair in asked.windows(2) {
        // The server records a query when it handles it, which may be a little late.
        assert!(pair[1] - pair[0] > Duration::from_millis(80), "{:?}", pair[1] - pair[0]);
    }
    assert_eq!(names.asked("long.test", A).len(), 1);
}

#[tokio::test]
async fn services_say_port_priority_and_weight() {
    let (names, discovery) = (Names::start(), Discovery::default());
    names.say("_http._tcp.web.test", SRV, srv(0, &[(20, 1, 81, "b.test"), (10, 7, 80, "a.test")]));
    names.say("a.test", A, v4(0, &[[10, 0, 0, 1], [10, 0, 0, 2]]));
    names.say("b.test", A, v4(0, &[[10, 0, 0, 3]]));
    let pool = "discover = { dns = { name = '_http._tcp.web.test', type = 'SRV' } }";
    follow(&discovery, plan(&[&names], pool)).await;
    let (_, endpoints) = &discovery.lists()[0];
    let seen: Vec<_> = endpoints.iter().map(|e| (&*e.name, e.weight, e.priority)).collect();
    assert_eq!(seen, [("10.0.0.1:80", 7, 0), ("10.0.0.2:80", 7, 0), ("10.0.0.3:81", 1, 1)]);
    // A target that cannot be resolved now was not removed.
    names.say("a.test", A, Says::Code(2));
    names.asked_again("a.test", A, 3).await;
    assert_eq!(found(&discovery).len(), 3);
}

/// Targets with addresses of both families, of which as many are sent along as fit: a different part each
/// time, often IPv6 only.
#[tokio::test]
async fn a_list_of_services_does_not_depend_on_what_comes_along() {
    // Within the EDNS limit but above 512 bytes; and above both.
    for services in [8, 20] {
        let (names, discovery) = (Names::start(), Discovery::default());
        let targets: Vec<String> = (10..10 + services).map(|n| format!("t{n}.test")).collect();
        let records: Vec<_> = targets.iter().map(|target| (5, 1, 80, target.as_str())).collect();
        let Says::Records(records) = srv(0, &records) else { unreachable!("services are records") };
        let mut beside = Vec::new();
        for (target, n) in targets.iter().zip(10..) {
            let v6 = [&[0xfd][..], &[0; 14], &[n]].concat();
            names.say(target, A, v4(0, &[[10, 0, 1, n]]));
            names.say(target, AAAA, Says::Records(vec![(0, v6.clone())]));
            beside.extend([(target.clone(), AAAA, v6), (target.clone(), A, vec![10, 0, 1, n])]);
        }
        names.say("_http._tcp.web.test", SRV, Says::Beside(records, beside));
        let pool = "discover = { dns = { name = '_http._tcp.web.test', type = 'SRV' } }";
        let wanted: Vec<String> = (10..10 + services).map(|n| format!("10.0.1.{n}:80")).collect();
        assert_eq!(follow(&discovery, plan(&[&names], pool)).await, wanted);
        for _ in 0..20 {
            names.asked_again("_http._tcp.web.test", SRV, 1).await;
            assert_eq!(found(&discovery), wanted);
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_know_edns_is_asked_without() {
    let (names, discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, Says::NoEdns(vec![(60, vec![10, 0, 0, 1])]));
    assert_eq!(follow(&discovery, plan(&[&names], WEB)).await, ["10.0.0.1:80"]);
    assert_eq!(names.asked("web.test", A).len(), 2);
}

#[tokio::test]
async fn another_server_is_asked_when_the_first_cannot_say() {
    let (refuses, names, discovery) = (Names::start(), Names::start(), Discovery::default());
    refuses.say("web.test", A, Says::Code(5));
    names.say("web.test", A, v4(60, &[[10, 0, 0, 1]]));
    assert_eq!(follow(&discovery, plan(&[&refuses, &names], WEB)).await, ["10.0.0.1:80"]);
    assert_eq!(refuses.asked("web.test", A).len(), 1);
}

#[tokio::test]
async fn an_endpoint_with_a_name_keeps_its_address_while_the_name_has_it() {
    let (names, mut discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(0, &[[10, 0, 0, 5]]));
    let pool = "endpoints = [{ addr = 'web.test:80', weight = 3 }, '10.0.0.9:80']";
    let following = discovery.follow(&plan(&[&names], pool)).await;
    discovery.keep(following);
    let first = |discovery: &Discovery| discovery.lists()[0].1[0].clone();
    assert_eq!((first(&discovery).addr.to_string(), first(&discovery).weight), ("10.0.0.5:80".into(), 3));
    names.say("web.test", A, v4(0, &[[10, 0, 0, 1], [10, 0, 0, 5]]));
    discovery.changed().await;
    assert_eq!(first(&discovery).addr.to_string(), "10.0.0.5:80");
    names.say("web.test", A, v4(0, &[[10, 0, 0, 1]]));
    wait_until("the other address", || first(&discovery).addr.to_string() == "10.0.0.1:80").await;
    assert_eq!(found(&discovery), ["web.test:80", "10.0.0.9:80"], "it is the same endpoint all the time");
}

#[tokio::test]
async fn a_name_may_stand_for_many_endpoints() {
    let (names, discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(0, &[[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 9]]));
    let pool = "endpoints = [{ addr = 'web.test:80', resolve = 'all', priority = 1 }, '10.0.0.9:80',\n\
                { addr = 'web.test:81', name = 'b', resolve = 'all' }]";
    let seen = follow(&discovery, plan(&[&names], pool)).await;
    // Each address occurs once.
    let own = ["b/10.0.0.1:81", "b/10.0.0.2:81", "b/10.0.0.9:81"];
    assert_eq!(seen, [&["10.0.0.1:80", "10.0.0.2:80", "10.0.0.9:80"][..], &own].concat());
    let tiers: Vec<u8> = discovery.lists()[0].1.iter().map(|e| e.priority).collect();
    assert_eq!(tiers, [1, 1, 1, 0, 0, 0]);
}

#[tokio::test]
async fn another_plan_keeps_what_was_found_by_sources_that_stay() {
    let (names, discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(3600, &[[10, 0, 0, 1]]));
    names.say("new.test", A, v4(3600, &[[10, 0, 0, 2]]));
    follow(&discovery, plan(&[&names], WEB)).await;
    let more = format!("endpoints = ['new.test:80']\nbalance = 'first'\n{WEB}");
    assert_eq!(follow(&discovery, plan(&[&names], &more)).await, ["new.test:80", "10.0.0.1:80"]);
    assert_eq!((names.asked("web.test", A).len(), names.asked("new.test", A).len()), (1, 1));
    // A plan that is dropped leaves everything unchanged.
    drop(discovery.follow(&plan(&[&names], "endpoints = ['10.0.0.3:80']")).await);
    assert_eq!(found(&discovery), ["new.test:80", "10.0.0.1:80"]);
}

#[tokio::test]
async fn a_dead_server_stops_no_start() {
    // Nobody answers at this address, and the port stays reserved.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut dead = Names::start();
    dead.addr = socket.local_addr().expect("it has one");
    let (began, discovery) = (Instant::now(), Discovery::default());
    assert!(follow(&discovery, plan(&[&dead], WEB)).await.is_empty());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let listed = follow(&discovery, plan(&[&dead], "endpoints = ['web.test:80', '10.0.0.9:80']")).await;
    assert_eq!(listed, ["web.test:80", "10.0.0.9:80"], "it is there, at no address yet");
}

#[tokio::test]
async fn changes_are_combined_for_ten_milliseconds() {
    let (names, mut discovery) = (Names::start(), Discovery::default());
    let hosts: Vec<String> = (0..20).map(|n| format!("h{n}.test")).collect();
    let say = |last: u8| hosts.iter().for_each(|host| names.say(host, A, v4(0, &[[10, 0, 0, last]])));
    say(0);
    let list: Vec<String> = hosts.iter().map(|host| format!("{host}:80")).collect();
    follow(&discovery, plan(&[&names], &format!("endpoints = {list:?}"))).await;
    discovery.changed().await;
    for last in 1..6 {
        let before = Instant::now();
        say(last);
        discovery.changed().await;
        assert!(before.elapsed() > Duration::from_millis(9), "{:?}", before.elapsed());
    }
}

#[tokio::test]
async fn a_name_of_others_that_resolves_to_this_machine_leads_nowhere() {
    let (names, mut discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(0, &[[10, 0, 0, 1], [127, 0, 0, 1], [169, 254, 169, 254]]));
    follow(&discovery, plan(&[&names], &format!("refuse_local = true\n{WEB}"))).await;
    becomes(&mut discovery, &["10.0.0.1:80"]).await;
    let skipped = "evenkeel_discovery_skipped_entries{pool=\"web\",source=\"dns:web.test:80\"}";
    assert_eq!(metric(&discovery, skipped), 2.0);
    names.say("web.test", A, v4(0, &[[127, 0, 0, 1]]));
    becomes(&mut discovery, &[]).await;
    names.say("web.test", A, v4(0, &[[10, 0, 0, 2]]));
    becomes(&mut discovery, &["10.0.0.2:80"]).await;

    let (names, mut discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(0, &[[10, 0, 0, 1]]));
    follow(&discovery, plan(&[&names], "refuse_local = true\nendpoints = ['web.test:80']")).await;
    names.say("web.test", A, v4(0, &[[127, 0, 0, 1]]));
    let until = Instant::now() + Duration::from_secs(30);
    while discovery.unresolved().is_empty() {
        assert!(Instant::now() < until, "{:?}", discovery.lists());
        let _ = tokio::time::timeout(Duration::from_millis(100), discovery.changed()).await;
    }
    let unresolved = &discovery.unresolved()[0];
    assert!(unresolved.why.contains("127.0.0.1 is a loopback address"), "{unresolved:?}");
    let addr = &discovery.lists()[0].1[0].addr;
    assert!(matches!(addr, evenkeel_config::plan::Address::Name { .. }), "{addr}");
}

#[tokio::test]
async fn a_name_that_resolves_to_no_machine_has_no_endpoint() {
    let (names, mut discovery) = (Names::start(), Discovery::default());
    names.say("web.test", A, v4(0, &[[0, 0, 0, 0], [127, 0, 0, 1], [255, 255, 255, 255]]));
    follow(&discovery, plan(&[&names], WEB)).await;
    becomes(&mut discovery, &["127.0.0.1:80"]).await;
}
