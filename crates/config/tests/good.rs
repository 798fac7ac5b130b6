//! Valid files and the plans they give.

use evenkeel_balance::endpoint::stable_hash;
use evenkeel_balance::{concurrency, eligible, health, hedge, outlier, queue, retry, slow_start};
use evenkeel_config::plan::{
    Address, Admin, AdminHttp, AdminSocket, Check, HostPattern, LineSink, PathPattern, Pem, Plan, Pool, Probe,
    ReportLoad, Retry, Secret, Subset, Workers,
};
use evenkeel_config::{Files, Outcome, changes, load, load_from, parse_str, render_text};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

fn nothing(_: &str) -> Option<String> {
    None
}

#[track_caller]
fn clean(outcome: Outcome) -> Plan {
    assert!(outcome.diagnostics.is_empty(), "{}", render_text(&outcome.diagnostics, false));
    outcome.plan.expect("a plan without an error")
}

#[track_caller]
fn plan(text: &str) -> Plan {
    clean(parse_str("test.toml", text, &nothing))
}

fn examples() -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(EXAMPLES).expect("the examples are there");
    let paths = entries.filter_map(|e| Some(e.ok()?.path()));
    paths.filter(|p| p.extension().is_some_and(|e| e == "toml")).collect()
}

#[test]
fn every_example_is_clean_and_survives_being_written() {
    assert!(examples().len() >= 2);
    for path in examples() {
        let first = clean(load(&path, &nothing));
        assert_eq!(plan(&first.to_toml()), first, "{}", first.to_toml());
    }
}

#[test]
fn every_whole_file_in_readme_and_guides_is_clean() {
    let root = Path::new(EXAMPLES).with_file_name("");
    let pages = |folder: &str| {
        let entries = std::fs::read_dir(root.join(folder)).expect("the guides are there");
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.extension().is_some())
    };
    let mut files = 0;
    for page in pages("docs/guide").chain(pages("docs/guide/coming-from")).chain([root.join("README.md")]) {
        let page = std::fs::read_to_string(page).expect("a text");
        let blocks = page.split("```toml\n").skip(1).filter_map(|block| block.split("```").next());
        for block in blocks.filter(|block| ["[listener.", "[pool."].iter().all(|table| block.contains(table))) {
            plan(block);
            files += 1;
        }
    }
    assert!(files >= 10, "{files}");
}

#[test]
fn a_file_that_sets_nothing_has_every_default() {
    let plan = plan("[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nendpoints = ['localhost:8081']");
    assert_eq!(plan.runtime.workers, Workers::Auto);
    assert_eq!(plan.runtime.drain_timeout, Duration::from_secs(30));
    assert_eq!((plan.admin.is_none(), plan.telemetry.access_log.is_none()), (true, true));
    assert_eq!(plan.telemetry.metrics.buckets.len(), 13);
    let listener = plan.listener("web").expect("it is there");
    assert_eq!((listener.limits.headers, listener.limits.header_count), (32 << 10, 100));
    assert_eq!(listener.timeouts.client_header, Duration::from_secs(10));
    let pool = plan.pool("web").expect("it is there");
    assert_eq!(pool.balance.algorithm.name, evenkeel_balance::algorithms::default().name);
    assert_eq!(pool.endpoints[0].addr, Address::Name { host: "localhost".to_string(), port: 8081 });
    assert_eq!((pool.endpoints[0].weight, &*pool.endpoints[0].name), (1, "localhost:8081"));
    assert_eq!((pool.timeouts.request, pool.timeouts.connect), (None, Duration::from_secs(1)));
    let [route] = &*plan.routes else { panic!("one route: {:?}", plan.routes) };
    assert_eq!(
        (&*route.action.to_string(), &route.matching.path, route.matching.hosts.len()),
        ("web", &PathPattern::Any, 0)
    );
    assert_eq!(route.timeouts.response, Some(Duration::from_secs(30)));
}

#[test]
fn what_sets_nothing_about_failures_has_the_defaults_that_balance_states() {
    let pool = &plan("[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nendpoints = ['h:1']").pools[0];
    assert_eq!(pool.outlier, Some(outlier::Settings::default()));
    assert_eq!(pool.retry, Retry { settings: retry::Settings::default(), hedge: None });
    assert_eq!(pool.panic, eligible::Panic::default());
    assert_eq!(pool.queue, queue::Settings { max: 1024, timeout_ns: 2_000_000_000 });
    assert!(pool.health.is_none() && pool.slow_start.is_none() && pool.locality.is_none());
    assert!(pool.sticky.is_none() && pool.proxy_protocol.is_none() && pool.limits.concurrency.is_none());
    // Keys in their short form.
    let named = in_pool(
        "health = { tcp = {} }\nlimits = { concurrency = 'adaptive' }\nretry = { hedge_after = 'p95' }\n\
         outlier = {}\nslow_start = '30s'",
    );
    let health = named.health.expect("it is set");
    assert_eq!(
        (health.check, health.machine),
        (Check::Tcp { send: None, expect: None, quit: None }, health::Settings::default())
    );
    assert_eq!((health.interval, health.timeout), (Duration::from_secs(2), Duration::from_secs(1)));
    assert_eq!((health.port, health.jitter), (None, 0.2));
    assert_eq!(named.limits.concurrency, Some(concurrency::Settings::default()));
    assert_eq!(named.retry.hedge, Some(hedge::Settings::default()));
    assert_eq!(named.outlier, pool.outlier);
    let ramp = slow_start::Settings { window_ns: 30_000_000_000, aggression: 1.0, min_weight: 0.1 };
    assert_eq!(named.slow_start, Some(ramp));
}

/// The pool of a file with these keys in it.
#[track_caller]
fn in_pool(keys: &str) -> Pool {
    let text = format!("[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nendpoints = ['h:1']\n{keys}");
    Arc::unwrap_or_clone(plan(&text).pools.remove(0))
}

#[test]
fn a_health_check_says_what_is_asked_and_what_passes() {
    let check = |http: &str| in_pool(&format!("health = {{ http = {http} }}")).health.map(|health| health.check);
    let expected = |path: &str, expect| {
        let (method, path) = ("GET".to_string(), path.to_string());
        Some(Check::Http { method, path, host: None, expect, body: None })
    };
    assert_eq!(check("{}"), expected("/", vec![200..=299]));
    assert_eq!(check("'/healthz?full=1'"), expected("/healthz?full=1", vec![200..=299]));
    let statuses = check("{ expect = [200, '204', '300..=399', '5xx'] }");
    assert_eq!(statuses, expected("/", vec![200..=200, 204..=204, 300..=399, 500..=599]));
}

#[test]
fn a_check_never_takes_longer_than_its_interval_by_default() {
    let timeout = |keys: &str| in_pool(&format!("health = {{ tcp = {{}}, {keys} }}")).health.map(|h| h.timeout);
    assert_eq!(timeout("interval = '250ms'"), Some(Duration::from_millis(250)));
    assert_eq!(timeout("interval = '250ms', timeout = '100ms'"), Some(Duration::from_millis(100)));
    assert_eq!(timeout("interval = '1h'"), Some(Duration::from_secs(1)));
}

#[test]
fn retries_are_inherited_key_by_key_from_defaults_then_pool_then_route() {
    let plan = plan(
        "[defaults.retry]\nattempts = 2\nbudget = 0.5\nhedge_budget = 0.01\nbackoff = '1ms..2ms'\n\
         [listener.web]\nbind = ['127.0.0.1:8080']\n\
         [[route]]\npool = 'web'\nretry = { on = ['503', 504, 'timeout'], budget = 0.1, hedge_after = 'p99.5' }\n\
         [pool.web]\nendpoints = ['127.0.0.1:1']\nretry = { attempts = 3, try_timeout = '1s', on = ['timeout'] }",
    );
    let (pool, route) = (&plan.pools[0].retry, &plan.routes[0].retry);
    assert_eq!((pool.settings.attempts, route.settings.attempts), (3, 3));
    assert_eq!((pool.settings.budget, route.settings.budget), (0.5, 0.1));
    assert_eq!((route.settings.backoff_ns, route.settings.backoff_max_ns), (1_000_000, 2_000_000));
    assert_eq!(route.settings.try_timeout_ns, Some(1_000_000_000));
    let on = |statuses: &[u16]| retry::Conditions { timeout: true, statuses: statuses.to_vec(), ..Default::default() };
    assert_eq!((&pool.settings.on, &route.settings.on), (&on(&[]), &on(&[503, 504])));
    let hedge = hedge::Settings { percentile: 0.995, budget: 0.01, ..hedge::Settings::default() };
    assert_eq!((pool.hedge, route.hedge), (None, Some(hedge)));
    assert_eq!(self::plan(&plan.to_toml()), plan, "{}", plan.to_toml());
}

#[test]
fn outliers_can_be_turned_off() {
    assert_eq!(in_pool("outlier = 'off'").outlier, None);
}

#[test]
fn a_zone_is_known_by_its_name_and_its_hash() {
    let text = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nlocality = { zone = '${ZONE:-a}' }\n\
                endpoints = [{ addr = 'h:1', zone = 'a' }, { addr = 'h:2', zone = 'b' }, 'h:3']";
    let pool = &plan(text).pools[0];
    let zones: Vec<Option<&str>> = pool.endpoints.iter().map(|e| e.zone.as_deref()).collect();
    assert_eq!((pool.zone.as_deref(), zones), (Some("a"), vec![Some("a"), Some("b"), None]));
    let locality = eligible::Locality { zone: stable_hash(b"a"), spill_at: 0.8 };
    assert_eq!(pool.locality, Some(locality));
}

#[test]
fn a_part_of_the_endpoints_is_of_an_instance_that_may_have_a_name() {
    let subset = |keys: &str| in_pool(&format!("subset = {{ {keys} }}")).subset.expect("it is set");
    assert_eq!(subset("size = 20"), Subset { size: 20, instance: None });
    let named = subset("size = 5, instance = '${HOSTNAME:-edge-7}'");
    assert_eq!(named, Subset { size: 5, instance: Some("edge-7".into()) });
}

#[test]
fn the_start_of_an_adaptive_limit_stays_within_its_bounds() {
    let limit = |keys: &str| in_pool(&format!("limits = {{ concurrency = {{ {keys} }} }}")).limits.concurrency;
    let start = |keys: &str| limit(keys).map(|l| l.start);
    assert_eq!(start("max = 10"), Some(10));
    assert_eq!(start("min = 30"), Some(30));
    assert_eq!(start("max = 10, start = 4"), Some(4));
}

#[test]
fn a_pool_without_endpoints_has_a_status_for_that() {
    let text = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nempty_status = 503";
    let plan = clean(parse_str("test.toml", text, &nothing));
    assert_eq!((plan.pools[0].empty_status, plan.pools[0].endpoints.len()), (Some(503), 0));
    assert_eq!(self::plan(&plan.to_toml()), plan, "{}", plan.to_toml());
    assert_eq!(in_pool("empty_status = 500").empty_status, Some(500));
}

#[test]
fn pem_may_stand_in_the_file_and_its_keys_are_never_shown() {
    let pem = |label: &str, body: &str| format!("-----BEGIN {label}-----\\n{body}\\n-----END {label}-----\\n");
    let (cert, key, crl) = (pem("CERTIFICATE", "MAMC"), pem("EC PRIVATE KEY", "horse"), pem("X509 CRL", "MAMC"));
    let file = |cert: &str, key: &str| {
        format!(
            "[listener.web]\nbind = ['127.0.0.1:8080']\n[listener.web.tls]\n\
             certificates = [{{ cert = \"{cert}\", key = \"{key}\" }}]\nclient_auth = {{ ca = \"{cert}\", crl = \"{crl}\" }}\n\
             [pool.web]\nendpoints = ['h:1']\ntls = {{ ca = \"{cert}\", cert = '/etc/a.pem', key = \"${{KEY}}\" }}\n"
        )
    };
    let env = |name: &str| (name == "KEY").then(|| key.replace("\\n", "\n"));
    let plan = clean(parse_str("test.toml", &file(&cert, &key), &env));
    let tls = plan.pools[0].tls.as_ref().expect("it is set");
    assert!(matches!((&tls.ca, &tls.cert, &tls.key), (Some(Pem::Text(_)), Some(Pem::File(_)), Some(Pem::Text(_)))));
    let written = plan.to_toml();
    assert!(!format!("{plan:?}{written}").contains("horse") && written.contains("MAMC"), "{plan:?}\n{written}");
    assert_eq!(self::plan(&plan.to_toml_with_secrets()), plan);
    // The asterisks that mask a key are not a valid key, so the masked file is rejected.
    let again = parse_str("again.toml", &written, &nothing);
    assert_eq!((again.plan, again.diagnostics.len()), (None, 2), "{written}");

    let other = clean(parse_str("test.toml", &file(&cert.replace("MAMC", "MAMD"), &key), &env));
    let lines = changes(&plan, &other);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("(CERTIFICATE in PEM, ") && !line.contains("MAMC")), "{lines:?}");

    // Neither is one in the wrong place, or beside an error.
    for wrong in [file(&key, "/a.key"), file(&cert, &key).replace("crl =", "clr ="), file(&cert, &format!("{key}\nx"))]
    {
        let outcome = parse_str("test.toml", &wrong, &env);
        let shown = format!("{:?}{}", outcome.diagnostics, render_text(&outcome.diagnostics, false));
        assert!(!shown.contains("horse"), "{shown}");
    }
}

#[test]
fn users_may_stand_in_the_file_and_are_never_shown() {
    const HASH: &str = "$2y$05$......................21jzCB1r6pN6rp5O2Ev0ejjTAboskKm";
    let file = format!(
        "[listener.web]\nbind = ['127.0.0.1:8080']\n[[route]]\npool = 'web'\nbasic_auth = {{ users = \"ann:{HASH}\\n\" }}\n\
         [pool.web]\nendpoints = ['h:1']\n"
    );
    let plan = plan(&file);
    let written = plan.to_toml();
    assert!(!format!("{plan:?}{written}").contains("$05$"), "{plan:?}\n{written}");
    assert_eq!(self::plan(&plan.to_toml_with_secrets()), plan);
    // Masked users are none, so a masked file is rejected.
    let again = parse_str("again.toml", &written, &nothing);
    assert_eq!((again.plan, again.diagnostics.len()), (None, 1), "{written}");
}

#[test]
fn secret_fields_of_a_pool_are_masked() {
    let text = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nendpoints = ['h:1']\n\
                request_headers = { set = { Authorization = 'Basic horse', X-A = 'shown', X-Api-Key = '{header.x}' } }";
    let plan = clean(parse_str("test.toml", text, &nothing));
    let written = plan.to_toml();
    assert!(!written.contains("horse") && written.contains("shown") && written.contains("{header.x}"), "{written}");
    assert_eq!(self::plan(&plan.to_toml_with_secrets()), plan);
}

#[test]
fn a_secret_is_never_shown() {
    let env = |name: &str| (name == "KEY").then(|| "correct horse battery".to_string());
    let text = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nendpoints = ['h:1']\n\
                sticky = { secret = '${KEY}', ttl = '1h' }";
    let plan = clean(parse_str("test.toml", text, &env));
    let sticky = plan.pools[0].sticky.as_ref().expect("it is set");
    assert_eq!(sticky.secret, Secret::Inline("correct horse battery".to_string()));
    assert_eq!((sticky.cookie.as_str(), sticky.ttl), ("evenkeel", Some(Duration::from_secs(3600))));
    let written = plan.to_toml();
    assert!(!format!("{plan:?}{written}").contains("horse"), "{plan:?}\n{written}");
    // The placeholder written for it is not a valid key, so a file with it is rejected.
    let again = parse_str("again.toml", &written, &nothing);
    assert!(again.plan.is_none() && again.diagnostics.len() == 1, "{written}");

    // An error on the same line does not reveal it either.
    let beside = text.replace("${KEY}", "correct horse battery").replace("'1h'", "1");
    let outcome = parse_str("test.toml", &beside, &nothing);
    let shown = render_text(&outcome.diagnostics, false);
    assert!(shown.contains("sticky = { secret = ***********************, ttl = 1 }"), "{shown}");
}

#[test]
fn an_admin_may_have_a_socket_an_address_or_both() {
    let web = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nendpoints = ['127.0.0.1:8081']\n";
    let admin = |keys: &str| plan(&format!("{web}[admin]\n{keys}")).admin;
    let bind = "127.0.0.1:9900".parse().expect("an address");
    let of_tcp = Some(AdminHttp::at(bind));
    let socket = AdminSocket::At("/run/evenkeel/admin.sock".into());
    let (http, unix) = ("http = { bind = '127.0.0.1:9900' }", "bind = 'unix:/run/evenkeel/admin.sock'");
    assert_eq!(admin(""), None);
    assert_eq!(admin(http), Some(Admin { http: of_tcp.clone(), socket: AdminSocket::Found }));
    assert_eq!(admin(unix), Some(Admin { http: None, socket: socket.clone() }));
    assert_eq!(admin(&format!("{http}\n{unix}")), Some(Admin { http: of_tcp, socket }));
    assert_eq!(admin("bind = 'off'"), Some(Admin { http: None, socket: AdminSocket::Off }));
    let off = plan(&format!("{web}[admin]\nbind = 'off'"));
    assert_eq!(plan(&off.to_toml()), off);
}

#[test]
fn a_burst_is_a_second_of_the_rate_unless_it_is_set() {
    let burst = |limits: &str| {
        let text = format!(
            "[listener.web]\nbind = ['127.0.0.1:8080']\nlimits = {{ {limits} }}\n[pool.web]\nendpoints = ['h:1']\n"
        );
        plan(&text).listeners[0].limits.burst_per_address
    };
    assert_eq!(burst(""), 0, "there is no limit");
    assert_eq!(burst("requests_per_address = 0.1"), 1);
    assert_eq!(burst("requests_per_address = 20.5"), 21);
    assert_eq!(burst("requests_per_address = 20, burst_per_address = 5"), 5);
}

#[test]
fn timeouts_are_inherited_from_defaults_then_pool_then_route() {
    let plan = plan(
        "[defaults.timeouts]\nconnect = '2s'\nresponse = 'off'\nidle = '1h'\nclient_idle = '1m30s'\n\
         [listener.web]\nbind = ['127.0.0.1:8080']\ntimeouts = { client_body = '1s' }\n\
         [[route]]\npool = 'web'\ntimeouts = { request = '9s', idle = '250ms' }\n\
         [pool.web]\nendpoints = ['127.0.0.1:1']\ntimeouts = { connect = '3s', request = '8s' }",
    );
    let (pool, route) = (plan.pools[0].timeouts, plan.routes[0].timeouts);
    assert_eq!((pool.connect, pool.response), (Duration::from_secs(3), None));
    assert_eq!((pool.request, pool.idle), (Some(Duration::from_secs(8)), Duration::from_secs(3600)));
    assert_eq!((route.connect, route.response), (pool.connect, None));
    assert_eq!((route.request, route.idle), (Some(Duration::from_secs(9)), Duration::from_millis(250)));
    let client = plan.listeners[0].timeouts;
    assert_eq!((client.client_idle, client.client_body), (Duration::from_secs(90), Duration::from_secs(1)));
}

#[test]
fn routes_keep_hosts_paths_and_listeners_and_get_names() {
    let plan = plan(
        "[listener.a]\nbind = ['127.0.0.1:8080']\n[listener.b]\nbind = ['[::1]:8080']\n\
         [pool.p]\nendpoints = ['127.0.0.1:1']\n\
         [[route]]\npool = 'p'\nmatch = { host = ['*.Example.com', 'x.org'], path = '/v1/{*rest}' }\n\
         [[route]]\npool = 'p'\nmatch = { listener = ['b'], host = ['*.example.com'], path = '/v1/{*rest}' }\n\
         [[route]]\npool = 'p'\nname = 'all'",
    );
    let first = &plan.routes[0];
    assert_eq!(&*first.name, "*.example.com/v1/{*rest}");
    let wildcard = HostPattern::Wildcard(".example.com".to_string());
    assert_eq!(first.matching.hosts, [wildcard, HostPattern::Exact("x.org".to_string())]);
    // Same host and path, but this route names a listener, so it is more specific there.
    assert_eq!(&*plan.routes[1].name, "*.example.com/v1/{*rest}-2");
    assert_eq!(plan.routes[1].listeners.iter().map(|l| &**l).collect::<Vec<_>>(), ["b"]);
    let on_b: Vec<&str> = plan.routes_on("b").map(|r| &*r.name).collect();
    assert_eq!(on_b, ["*.example.com/v1/{*rest}-2", "*.example.com/v1/{*rest}", "all"]);
    assert_eq!(plan.routes_on("a").count(), 2);
    assert_eq!(self::plan(&plan.to_toml()), plan, "{}", plan.to_toml());
}

#[test]
fn a_prefix_is_a_path_with_everything_below_it() {
    let plan = plan(
        "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.p]\nendpoints = ['127.0.0.1:1']\n\
         [[route]]\npool = 'p'\nmatch = { prefix = '/api' }\n[[route]]\npool = 'p'\nmatch = { path = '/api' }\n\
         [[route]]\npool = 'p'\nmatch = { host = ['a.b'], prefix = '/users/{id}/' }\n\
         [[route]]\npool = 'p'\nname = 'all'\nmatch = { prefix = '/' }",
    );
    let paths: Vec<&PathPattern> = plan.routes.iter().map(|r| &r.matching.path).collect();
    let prefix = |path: &str| PathPattern::Prefix(path.to_string());
    let exact = PathPattern::Pattern("/api".to_string());
    assert_eq!(paths, [&prefix("/api"), &exact, &prefix("/users/{id}"), &PathPattern::Any]);
    let names: Vec<&str> = plan.routes.iter().map(|r| &*r.name).collect();
    assert_eq!(names, ["/api/*", "/api", "a.b/users/{id}/*", "all"]);
    assert_eq!(self::plan(&plan.to_toml()), plan, "{}", plan.to_toml());
}

#[test]
fn the_pool_of_a_listener_takes_what_no_route_of_it_takes() {
    let file = |routes: &str| {
        plan(&format!(
            "[listener.a]\nbind = ['127.0.0.1:8080']\npool = 'p'\n[listener.b]\nbind = ['127.0.0.1:8081']\n\
             [pool.p]\nendpoints = ['127.0.0.1:1']\n{routes}"
        ))
    };
    let on = |plan: &Plan, listener: &str| -> Vec<String> {
        plan.routes_on(listener).map(|r| format!("{} -> {}", r.name, r.action)).collect()
    };
    // Without a route, a file with one pool sends all requests to it.
    let plan = file("");
    assert_eq!(
        (on(&plan, "a"), on(&plan, "b")),
        (vec!["a -> p".into(), "default -> p".into()], vec!["default -> p".into()])
    );
    assert_eq!(self::plan(&plan.to_toml()), plan, "{}", plan.to_toml());

    let plan = file("[pool.q]\nendpoints = ['127.0.0.1:2']\ntimeouts = { request = '9s' }\n[[route]]\npool = 'q'");
    let own = plan.routes_on("a").next().expect("it is there");
    assert_eq!(
        (&*own.name, &*own.action.to_string(), &own.matching.path, own.matching.hosts.len()),
        ("a", "p", &PathPattern::Any, 0)
    );
    assert_eq!(on(&plan, "b"), ["default -> q"]);
    assert_eq!(self::plan(&plan.to_toml()), plan, "{}", plan.to_toml());
}

#[test]
fn the_environment_is_put_into_strings() {
    let env = |name: &str| (name == "PORT").then(|| "8081".to_string());
    let text = "[listener.web]\nbind = ['127.0.0.1:${PORT}']\n[pool.web]\nendpoints = ['${HOST:-localhost}:80']\n\
                [telemetry]\naccess_log = { path = 'a-$${X}-$Y' }";
    let plan = clean(parse_str("test.toml", text, &env));
    assert_eq!(plan.listeners[0].bind[0].port(), 8081);
    assert_eq!(plan.pools[0].endpoints[0].addr.to_string(), "localhost:80");
    let log = plan.telemetry.access_log.as_ref().expect("it is set");
    assert_eq!(log.to, LineSink::File("a-${X}-$Y".into()));
    assert_eq!(self::plan(&plan.to_toml()), plan, "a literal survives being written");
}

struct Memory(BTreeMap<&'static str, &'static str>);

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let found = path.to_str().and_then(|p| self.0.get(p));
        found.map(|t| t.as_bytes().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let inside = self.0.keys().map(Path::new).filter(|p| p.parent() == Some(directory));
        Ok(inside.filter_map(|p| Some(p.file_name()?.to_str()?.to_string())).collect())
    }
}

#[test]
fn included_files_are_joined_key_by_key() {
    let files = Memory(BTreeMap::from([
        (
            "etc/main.toml",
            "[include]\nfiles = ['conf.d/*.toml']\n[listener.web]\nbind = ['127.0.0.1:8080']\n[[route]]\npool = 'a'\n[pool.a]\nbalance = 'random'",
        ),
        ("etc/conf.d/1.toml", "[pool.a]\nendpoints = ['127.0.0.1:1']\n"),
        ("etc/conf.d/2.toml", "[pool.b]\nendpoints = ['127.0.0.1:2']\n[[route]]\npool = 'b'\nmatch = { path = '/b' }"),
        ("etc/conf.d/.hidden.toml", "broken ="),
        ("etc/conf.d/notes.txt", "broken ="),
    ]));
    let plan = clean(load_from(&files, Path::new("etc/main.toml"), &nothing));
    assert_eq!(plan.pools.iter().map(|p| &*p.name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(plan.routes.iter().map(|r| r.action.to_string()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn an_error_in_an_included_file_names_that_file_and_line() {
    let files = Memory(BTreeMap::from([
        ("main.toml", "[include]\nfiles = ['more.toml']\n[listener.web]\nbind = ['127.0.0.1:8080']"),
        ("more.toml", "[pool.a]\nendpoints = ['127.0.0.1:1']\nbalance = 'rondom'"),
    ]));
    let outcome = load_from(&files, Path::new("main.toml"), &nothing);
    let at = &outcome.diagnostics[0].at;
    assert_eq!((at.file.as_str(), at.range.as_ref().map(|r| r.start.line)), ("more.toml", Some(3)));
}

#[test]
fn addresses_alone_make_a_plan_and_its_file() {
    let plan =
        clean(Plan::for_addresses("127.0.0.1:8080", &["127.0.0.1:8081", "web:8082"], Some("round_robin"), false));
    assert_eq!(
        plan.to_toml(),
        "version = 1\n\n[listener.web]\nbind = [\"127.0.0.1:8080\"]\nerrors = \"detailed\"\n\n[pool.web]\nbalance = \"round_robin\"\n\
         endpoints = [\n  \"127.0.0.1:8081\",\n  \"web:8082\",\n]\n"
    );
    let wrong = Plan::for_addresses("8080", &["a\"b${C}:1"], None, false);
    assert!(wrong.plan.is_none());
    assert!(wrong.diagnostics.iter().all(|d| d.code.as_str() == "EK0108"), "{:?}", wrong.diagnostics);
}

#[test]
fn a_byte_order_mark_and_windows_lines_mean_nothing() {
    plan("\u{feff}[listener.web]\r\nbind = ['127.0.0.1:8080']\r\n[pool.web]\r\nendpoints = ['127.0.0.1:1']\r\n");
}

#[test]
fn everything_that_can_be_set_survives_being_written() {
    let text = r#"
        [runtime]
        workers = 1
        drain_timeout = "1m30s"
        watch = true
        log = { level = "trace", format = "json" }
        [admin]
        bind = "unix:/run/a b/admin.sock"
        http = { bind = "[::1]:9900" }
        [telemetry]
        metrics = { path = "/m", per_endpoint = false, buckets = [0.5, 1, 2.25] }
        access_log = { path = "stdout", format = "json" }
        journal = { path = "/var/log/p.journal", pool = "p" }
        [listener."a.b"]
        bind = ["127.0.0.1:8080", "[::1]:8080"]
        accept_proxy_protocol = ["::ffff:10.0.0.0/104", "fd00::/8"]
        trusted_proxies = ["127.0.0.1"]
        errors = "detailed"
        detect_loops = false
        h2c = true
        http2 = { streams = 7, stream_window = "1MiB", connection_window = "2MiB", header_table = "0B", ping_after = "off",
                  ping_timeout = "3s" }
        error_pages = [{ status = [503, "5xx"], file = "/a b/5xx.html" },
                       { status = ["502..=504"], file = "e.json", type = "application/json" }]
        limits = { connections = 7, connections_per_address = 3, requests_per_address = 2.5, burst_per_address = 4,
                   headers = "1500B", header_count = 9, requests_per_connection = 11 }
        timeouts = { client_header = "1s", client_idle = "2s", client_body = "3s" }
        [[route]]
        name = "odd \"name\""
        match = { listener = ["a.b"], host = ["[::1]"], path = "/{{x}}/{id}" }
        pool = "p"
        timeouts = { connect = "1ms", response = "off", request = "1h", idle = "1500ms" }
        error_pages = [{ status = [404], file = "404.html" }]
        [[route]]
        pool = "q"
        [pool.p]
        balance = { random = { draws = 5 } }
        endpoints = [{ addr = "[::1]:1", name = "n", weight = 0, priority = 15, drain = true }, "h:2"]
        limits = { requests_per_endpoint = 10, idle_per_endpoint = 0 }
        timeouts = { connect = "5s", response = "6s", request = "7s", idle = "8s", upstream_idle = "0s" }
        proxy_protocol = "v2"
        [pool.p.health]
        http = { method = "OPTIONS", path = "/a?b", host = "[::1]:80", expect = [204, "3xx"], body = "a \"b\" ${X:-c}" }
        port = 9
        interval = "7s"
        jitter = 0
        timeout = "3s"
        fall = 4
        rise = 5
        initial = "unhealthy"
        [pool.p.outlier]
        consecutive_5xx = 0
        consecutive_gateway = 1
        consecutive_connect = 2
        success_rate = { deviations = 2.5, min_requests = 7, min_endpoints = 3 }
        latency = { factor = 1.5, min_requests = 8 }
        interval = "1s"
        eject = "2s"
        eject_max = "3s"
        eject_at_most = 1
        [pool.p.retry]
        attempts = 4
        on = ["connect", "reset", "timeout", 500, "502..=504", "4xx"]
        non_idempotent = true
        budget = 0.125
        budget_floor = 0
        backoff = "0s..1m"
        try_timeout = "1500ms"
        hedge_after = "p99.95"
        hedge_budget = 1
        [pool.q]
        endpoints = [{ addr = "127.0.0.1:3", zone = "x y" }]
        limits = { concurrency = { min = 1, max = 9, start = 2, tolerance = 2, interval = "100ms" } }
        slow_start = { window = "1m", aggression = 2.5, min_weight = 0.5 }
        panic = { healthy_below = 0, mode = "refuse" }
        locality = { zone = "x y", spill_at = 1 }
        queue = { max = 0, timeout = "1ms" }
        outlier = "off"
        sticky = { cookie = "a", secret_file = "/k", ttl = "1d", path = "/x", secure = true, same_site = "none" }
    "#;
    let first = plan(text);
    assert_eq!(first.pools[0].balance.params.int("draws"), 5);
    assert_eq!(first.telemetry.access_log.as_ref().map(|l| l.to.clone()), Some(LineSink::Stdout));
    assert_eq!(first.telemetry.journal.as_ref().map(|journal| &*journal.pool), Some("p"));
    assert_eq!(plan(&first.to_toml()), first, "{}", first.to_toml());
}

#[test]
fn reports_may_be_switched_on_with_a_word() {
    assert_eq!(in_pool("load_reports = false").load_reports, None);
    let all = in_pool("load_reports = true").load_reports;
    assert_eq!(all, in_pool("load_reports = {}").load_reports);
    let all = all.expect("it is on");
    assert_eq!((all.in_band, all.probe, all.pass), (true, Probe::Off, false));
    assert_eq!((&all.in_flight[..], all.timeout), (&["in_flight".to_string(), "rif".to_string()][..], MS * 100));
    let told = |keys: &str| {
        let text =
            format!("[listener.web]\nbind = ['127.0.0.1:8080']\nreport_load = {keys}\n[pool.web]\nendpoints = ['h:1']");
        let first = plan(&text);
        assert_eq!(plan(&first.to_toml()), first);
        first.listeners[0].report_load.clone()
    };
    assert_eq!(told("false"), None);
    let path = "/.well-known/evenkeel/load".to_string();
    assert_eq!(told("true"), Some(ReportLoad { header: true, udp: true, path }));
    let path = "/load".to_string();
    assert_eq!(told("{ udp = false, path = '/load' }"), Some(ReportLoad { header: true, udp: false, path }));
}
