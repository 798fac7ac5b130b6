//! Discovery by names and files while requests run, without a failed one: real clients, endpoints and name servers.

use crate::names::{A, Names, SRV, Says, srv, v4};
use crate::registries::{Fault, KINDS, Kind, Registry};
use crate::support::streams::{Load, Streaming};
use crate::support::{Adopted, Endpoint, Folder, Running, address, eventually, get};
use rustix::process::Signal;
use std::fs;

struct Setup {
    folder: Folder,
    names: Names,
    listen: String,
    admin: String,
}

impl Setup {
    fn new(name: &str) -> Setup {
        let names = Names::start();
        Setup { folder: Folder::new(&format!("discovery-{name}")), names, listen: address(), admin: address() }
    }

    /// Writes a configuration with this pool.
    fn write(&self, pool: &str) -> String {
        let Setup { names, listen, admin, .. } = self;
        self.folder.file(
            "evenkeel.toml",
            &format!(
                "[runtime]\nworkers = 2\n[admin]\nhttp = {{ bind = '{admin}' }}\n\
                 [resolver]\nnameservers = ['{}']\nmin_ttl = '100ms'\n[listener.web]\nbind = ['{listen}']\nerrors = 'detailed'\n\
                 [pool.web]\nbalance = 'round_robin'\n{pool}\n",
                names.addr
            ),
        )
    }

    /// The services that the name has from now on: these endpoints, all at one address.
    fn serve(&self, addrs: &[&str]) {
        let port = |addr: &&str| addr.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let services: Vec<_> = addrs.iter().map(|addr| (0, 1, port(addr), "all.test")).collect();
        let ip: Vec<u8> = addrs[0].split(['.', ':']).take(4).map(|part| part.parse().expect("a byte")).collect();
        self.names.say("all.test", A, v4(0, &[[ip[0], ip[1], ip[2], ip[3]]]));
        self.names.say("_http._tcp.web.test", SRV, srv(0, &services));
    }

    fn metrics(&self) -> String {
        get(&self.admin, "/metrics").map(|(_, body)| body).unwrap_or_default()
    }

    /// The sum of all series whose lines begin so.
    fn sum(&self, begin: &str) -> f64 {
        let metrics = self.metrics();
        let lines = metrics.lines().filter(|line| line.starts_with(begin));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Answers of sources that were lists.
    fn good(&self) -> f64 {
        let metrics = self.metrics();
        let lines = metrics.lines().filter(|line| line.starts_with("evenkeel_discovery_updates_total{"));
        let good = lines.filter(|line| !line.contains("result=\"failed\""));
        good.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Waits until the pool has just these endpoints.
    #[track_caller]
    fn becomes(&self, addrs: &[&str]) {
        eventually(&format!("just {addrs:?}"), || {
            let metrics = self.metrics();
            let weights = metrics
                .lines()
                .filter(|line| line.starts_with("evenkeel_endpoint_weight{") && line.contains("kind=\"configured\""));
            let weights: Vec<&str> = weights.collect();
            let has = |addr: &&&str| weights.iter().any(|line| line.contains(&format!("endpoint=\"{addr}\"")));
            (weights.len() == addrs.len() && addrs.iter().filter(has).count() == addrs.len()).then_some(())
        });
    }
}

const SERVICES: &str = "discover = { dns = { name = '_http._tcp.web.test', type = 'SRV' } }";

#[test]
fn endpoints_come_and_go_by_name_under_load_and_nothing_fails() {
    let [a, b, c] = [Streaming::start(), Streaming::start(), Streaming::start()];
    let (a, b, c) = (a.addr.as_str(), b.addr.as_str(), c.addr.as_str());
    let setup = Setup::new("load");
    setup.serve(&[a]);
    let file = setup.write(&format!("{SERVICES}\nhealth = {{ tcp = {{}}, interval = '100ms' }}"));
    let running = Running::start(&["run", "-c", &file]);
    setup.becomes(&[a]);
    let load = Load::start(&setup.listen);
    let many: &[&[&str]] = &[&[a, b], &[b], &[b, c, a], &[c], &[a, b, c], &[a]];
    for addrs in [many, many].concat() {
        setup.serve(addrs);
        setup.becomes(addrs);
        // Each of them is asked, and checked.
        let asked = |what: &str, addr: &str| setup.sum(&format!("{what}{{pool=\"web\",endpoint=\"{addr}\""));
        for addr in addrs {
            let before = asked("evenkeel_upstream_requests_total", addr);
            eventually("a request", || (asked("evenkeel_upstream_requests_total", addr) > before).then_some(()));
            eventually("a check", || (asked("evenkeel_health_checks_total", addr) > 0.0).then_some(()));
        }
    }
    // What cannot be right is not taken up.
    for says in [srv(0, &[]), Says::Code(2)] {
        setup.names.say("_http._tcp.web.test", SRV, says);
        let bad = || {
            setup.sum(
                "evenkeel_discovery_updates_total{pool=\"web\",source=\"dns:_http._tcp.web.test\",result=\"failed\"",
            ) + setup.sum(
                "evenkeel_discovery_updates_total{pool=\"web\",source=\"dns:_http._tcp.web.test\",result=\"empty\"",
            )
        };
        let before = bad();
        eventually("an answer that does not count", || (bad() > before).then_some(()));
        setup.becomes(&[a]);
    }
    let failed = load.end();
    assert!(failed.is_empty(), "{failed:?}\n{}", running.said());
    assert_eq!(setup.sum("evenkeel_config_generation "), 0.0, "it is no other configuration");
    assert!(running.said().contains("endpoints changed"), "{}", running.said());
    eventually("nothing in flight", || (setup.sum("evenkeel_upstream_requests_active") == 0.0).then_some(()));
}

#[test]
fn registries_are_killed_hang_and_forget_under_load_and_nothing_fails() {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let _entered = runtime.enter();
    for kind in KINDS {
        let [a, b] = [Streaming::start(), Streaming::start()];
        let (a, b) = (a.addr.as_str(), b.addr.as_str());
        let setup = Setup::new(&format!("{kind:?}").to_lowercase());
        let mut registry = runtime.block_on(Registry::start(kind, &[a]));
        let pool = format!("discover = {{ {} }}\n{}", registry.source(), registry.section());
        let running = Running::start(&["run", "-c", &setup.write(&pool)]);
        // Containers are named by themselves.
        let named = |addr: &str| match kind {
            Kind::Consul => format!("node-0/web-{}", addr.replace(':', "-")),
            Kind::Nomad => format!("_nomad-task-{}", addr.replace(':', "-")),
            Kind::Docker => format!("web-{}", addr.replace(':', "-")),
            Kind::Http => addr.to_owned(),
        };
        setup.becomes(&[&named(a)]);
        let load = Load::start(&setup.listen);
        let failed = || setup.sum("evenkeel_discovery_updates_total{pool=\"web\"") - setup.good();
        for (fault, addr) in [(Fault::Refuses(500), b), (Fault::Garbage, a), (Fault::Cuts, b)] {
            let before = failed();
            registry.change(|state| (state.fault, state.index) = (fault, state.index + 1));
            eventually("a failure", || (failed() > before).then_some(()));
            registry.change(|state| state.fault = Fault::None);
            registry.set(&[addr]);
            setup.becomes(&[&named(addr)]);
        }
        registry.change(|state| (state.fault, state.index) = (Fault::Hangs, state.index + 1));
        let before = failed();
        registry.stop();
        eventually("a failure", || (failed() > before).then_some(()));
        // The process that takes over cannot ask either.
        running.signal(Signal::USR2);
        let _successor = Adopted(eventually("the other process", || running.successor()));
        eventually("a takeover", || running.said().contains("the new process serves").then_some(()));
        setup.becomes(&[&named(b)]);
        // It comes back with an older state.
        registry.change(|state| (state.fault, state.index) = (Fault::None, 1));
        registry.set(&[a]);
        runtime.block_on(registry.restart());
        setup.becomes(&[&named(a)]);
        let failures = load.end();
        assert!(failures.is_empty(), "{kind:?}: {failures:?}\n{}", running.said());
    }
}

#[test]
fn a_list_in_a_file_is_followed_through_renames_links_and_mistakes() {
    let (a, b) = (Endpoint::start("a"), Endpoint::start("b"));
    let setup = Setup::new("file");
    let folder = &setup.folder.0;
    fs::create_dir(folder.join("v1")).expect("it can be made");
    fs::create_dir(folder.join("v2")).expect("it can be made");
    fs::write(folder.join("v1/web.json"), format!("[\"{}\"]", a.addr)).expect("it can be written");
    fs::write(folder.join("v2/web.json"), format!("[\"{}\", \"{}\"]", a.addr, b.addr)).expect("it can be written");
    std::os::unix::fs::symlink("v1", folder.join("data")).expect("it can be made");
    let list = folder.join("data/web.json").display().to_string();
    let running = Running::start(&["run", "-c", &setup.write(&format!("discover = {{ file = '{list}' }}"))]);
    assert_eq!(get(&setup.listen, "/").expect("an answer"), (200, "a".into()));
    // As Kubernetes changes a mounted ConfigMap.
    std::os::unix::fs::symlink("v2", folder.join("next")).expect("it can be made");
    fs::rename(folder.join("next"), folder.join("data")).expect("it can be renamed");
    setup.becomes(&[&a.addr, &b.addr]);
    fs::write(folder.join("v2/web.json"), "[\"127.0.0.1\"]").expect("it can be written");
    eventually("a line in the log", || running.said().contains("it has no port").then_some(()));
    setup.becomes(&[&a.addr, &b.addr]);
    let new =
        setup.folder.file("new.json", &format!("{{ \"endpoints\": [{{ \"addr\": \"{}\", \"weight\": 2 }}] }}", b.addr));
    fs::rename(new, folder.join("v2/web.json")).expect("it can be renamed");
    setup.becomes(&[&b.addr]);
    assert_eq!(get(&setup.listen, "/").expect("an answer"), (200, "b".into()));
}

#[test]
fn a_name_that_does_not_resolve_stops_no_start_and_is_taken_up_when_it_does() {
    let (a, b) = (Endpoint::start("a"), Endpoint::start("b"));
    let (setup, port) = (Setup::new("late"), b.addr.rsplit(':').next().expect("a port"));
    let file = setup.write(&format!("endpoints = ['{}', 'late.test:{port}']", a.addr));
    let running = Running::start(&["run", "-c", &file]);
    let says = format!("endpoint late.test:{port}: its name does not resolve: ");
    assert!(running.said().contains(&says), "{}", running.said());
    for _ in 0..4 {
        assert_eq!(get(&setup.listen, "/").expect("an answer"), (200, "a".into()));
    }
    let ip: Vec<u8> = b.addr.split(['.', ':']).take(4).map(|part| part.parse().expect("a byte")).collect();
    setup.names.say("late.test", A, v4(0, &[[ip[0], ip[1], ip[2], ip[3]]]));
    eventually("a request at b", || {
        let _ = get(&setup.listen, "/");
        (b.served() > 0).then_some(())
    });
}

#[test]
fn a_name_that_does_not_resolve_is_named_by_the_banner_the_answer_and_the_log() {
    for (pool, of_503) in [
        ("endpoints = ['late.test:80']", "0 of 1 endpoints eligible (1 without an address: the name does not resolve)"),
        (
            "endpoints = [{ addr = 'late.test:80', resolve = 'all' }]",
            "0 of 0 endpoints eligible (discovery has found none; see the log)",
        ),
    ] {
        let setup = Setup::new("nowhere");
        let running = Running::start(&["run", "-c", &setup.write(pool)]);
        let said = running.said();
        assert!(said.contains("endpoint late.test:80: its name does not resolve: it has no addresses"), "{said}");
        assert!(said.contains("until a name resolves, requests get a 503"), "{said}");
        assert!(said.contains("late.test does not resolve: it has no address"), "{said}");
        let (status, body) = get(&setup.listen, "/").expect("an answer");
        assert!(status == 503 && body.contains(of_503), "{status} {body}");
        // A server that fails is another reason.
        setup.names.say("late.test", A, Says::Code(2));
        eventually("a line in the log", || {
            running.said().contains("late.test does not resolve, and no earlier address is known").then_some(())
        });
    }
}

#[test]
fn a_reload_keeps_what_was_found_and_takes_up_what_is_new() {
    let [a, b] = [Streaming::start(), Streaming::start()];
    let setup = Setup::new("reload");
    setup.serve(&[&a.addr]);
    let running = Running::start(&["run", "-c", &setup.write(SERVICES)]);
    setup.becomes(&[&a.addr]);
    let load = Load::start(&setup.listen);
    // From now on its server says nothing, so that whoever forgets what it said has nothing.
    setup.names.say("_http._tcp.web.test", SRV, Says::Silence);
    let reloads = |result: &str| setup.sum(&format!("evenkeel_config_reloads_total{{result=\"{result}\"}}"));
    setup.write(&format!("{SERVICES}\nendpoints = ['{}']", b.addr));
    running.signal(Signal::HUP);
    eventually("a reload", || (reloads("applied") == 1.0).then_some(()));
    setup.becomes(&[&a.addr, &b.addr]);
    setup.write("discover = { file = 'a', dns = {} }");
    running.signal(Signal::HUP);
    eventually("a refusal", || (reloads("refused") == 1.0).then_some(()));
    setup.becomes(&[&a.addr, &b.addr]);
    setup.write(&format!("endpoints = ['{}']", b.addr));
    running.signal(Signal::HUP);
    eventually("a reload", || (reloads("applied") == 2.0).then_some(()));
    setup.becomes(&[&b.addr]);
    assert_eq!(setup.sum("evenkeel_discovery_endpoints"), 0.0, "nobody follows it any more");
    let failed = load.end();
    assert!(failed.is_empty(), "{failed:?}\n{}", running.said());
}
