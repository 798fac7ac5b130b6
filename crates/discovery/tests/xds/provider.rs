//! The provider `xds` beside go-control-plane: whole plans, in both forms of the protocol.

use super::control::{Control, PROGRAM, assignment};
use super::resources::{assigned, cluster, listener, listener_of, manager, proxy, routes, to};
use evenkeel_config::Plan;
use evenkeel_config::plan::Action;
use evenkeel_discovery::providers::Providers;
use evenkeel_discovery::providers::file::File;
use evenkeel_discovery::providers::merge::Unwanted;
use evenkeel_discovery::{Discovery, Following};
use evenkeel_peers::installed;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Both caches of go-control-plane with both forms of the protocol.
const FORMS: [(&str, bool); 4] = [("snapshot", false), ("linear", false), ("snapshot", true), ("linear", true)];

/// Providers of a process whose file has nothing else.
struct Edge {
    providers: Providers,
    discovery: Discovery,
    base: Plan,
    plan: Plan,
}

impl Edge {
    fn new(control: &Control, delta: bool) -> Edge {
        let server =
            format!("[discovery.xds]\nurl = 'http://{}'\nnode_id = 'edge-1'\nping_after = '1s'\n", control.addr);
        let mut file = File::typed(format!("{server}[provider.xds]\ndelta = {delta}\n"));
        let outcome = file.read();
        let base = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics));
        let (mut providers, discovery) = (Providers::new(file, evenkeel_config::Machine::this()), Discovery::default());
        providers.share(&discovery);
        providers.follow_remote(&base);
        Edge { providers, discovery, plan: base.clone(), base }
    }

    /// Takes plans until one fits, as the process does.
    async fn becomes(&mut self, what: &str, fits: impl Fn(&Plan) -> bool) {
        let until = Instant::now() + Duration::from_secs(40);
        while !fits(&self.plan) {
            let came = timeout(until - Instant::now(), self.providers.contributed()).await;
            assert!(came.is_ok(), "{what}: {}", self.plan.to_toml());
            self.take().await;
        }
    }

    async fn take(&mut self) {
        let (merged, numbers) = self.providers.merge(&self.base, &Unwanted::new(), &self.base);
        self.providers.settle(&merged, &numbers);
        assert!(merged.refused.is_empty(), "{:?}", merged.refused);
        let following: Following = self.discovery.follow(&merged.plan).await;
        self.discovery.keep(following);
        self.plan = merged.plan;
    }

    /// Updates of the pool `web` that had a result.
    fn updates(&self, result: &str) -> f64 {
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(evenkeel_discovery::Numbers::new(&self.discovery)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes everything");
        let is_it = |line: &&str| {
            line.starts_with("evenkeel_discovery_updates_total{")
                && line.contains("pool=\"web\"")
                && line.contains(&format!("result=\"{result}\""))
        };
        let value = text.lines().find(is_it).and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
        value.unwrap_or_else(|| panic!("{result}: {text}"))
    }

    /// Endpoints of a pool, those of the plan and those that were assigned.
    fn endpoints(&self, pool: &str) -> Vec<String> {
        let lists = self.discovery.lists();
        let found = lists.iter().find(|(name, _)| **name == *pool).map(|(_, all)| all.clone());
        let all = found.unwrap_or_else(|| self.plan.pool(pool).map(|pool| pool.endpoints.clone()).unwrap_or_default());
        all.iter().map(|one| one.addr.to_string()).collect()
    }
}

/// Pools that the routes of a plan lead to, by route.
fn leads(plan: &Plan) -> Vec<String> {
    let pool = |action: &Action| match action {
        Action::Pool(pool) => pool.to_string(),
        other => other.to_string(),
    };
    plan.routes.iter().map(|route| format!("{} {}", route.name, pool(&route.action))).collect()
}

fn errors(control: &Control) -> Vec<String> {
    let lines = control.lines();
    let all = lines.iter().filter_map(|line| line["error"].as_str()).filter(|error| !error.is_empty());
    all.map(str::to_owned).collect()
}

fn first_state() -> Value {
    json!({
        "clusters": [assigned("web"), cluster("api", &["10.0.1.1:80"])],
        "resources": [assignment("web", &["10.0.0.1", "10.0.0.2"])],
        "listeners": [listener("main", "127.0.0.1:18080", "main")],
        "routes": [routes("main", &["*"], &[to("/api/", "api"), to("/", "web")])],
    })
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_plan_comes_from_a_control_plane_alone() {
    if !installed(&[PROGRAM]) {
        return;
    }
    for (cache, delta) in FORMS {
        let form = format!("{cache} delta={delta}");
        let mut control = Control::started(cache);
        control.serve("1", &first_state());
        let mut edge = Edge::new(&control, delta);
        edge.becomes(&form, |plan| plan.listeners.len() == 1 && plan.routes.len() == 2).await;
        assert_eq!(leads(&edge.plan), ["main/all/0 api", "main/all/1 web"], "{form}");
        assert_eq!(edge.endpoints("web"), ["10.0.0.1:80", "10.0.0.2:80"], "{form}: endpoints are there with the plan");
        assert_eq!(edge.endpoints("api"), ["10.0.1.1:80"]);
        // One stream for the provider and the pools.
        let lines = control.lines();
        assert_eq!(lines.iter().filter(|line| line.get("opened").is_some()).count(), 1, "{form}");
        assert_eq!(lines.iter().any(|line| line["delta"] == true), delta);
        // Clusters before endpoints before listeners before routes.
        let asked: Vec<_> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
        assert!(asked[0].ends_with("Cluster"), "{form}: {asked:?}");
        // Another cluster, before the route to it.
        control.serve(
            "2",
            &json!({
                "clusters": [assigned("web"), cluster("api", &["10.0.1.1:80"]), assigned("new")],
                "resources": [assignment("web", &["10.0.0.1"]), assignment("new", &["10.0.2.1"])],
                "listeners": [listener("main", "127.0.0.1:18080", "main"), listener("more", "127.0.0.1:18081", "more")],
                "routes": [
                    routes("main", &["*"], &[to("/", "new")]),
                    routes("more", &["a.test", "*.b.test"], &[to("/", "web")]),
                ],
            }),
        );
        edge.becomes(&form, |plan| plan.listeners.len() == 2 && leads(plan)[0] == "main/all/0 new").await;
        edge.becomes(&form, |plan| plan.routes.iter().any(|route| &*route.name == "more/all/0")).await;
        assert_eq!(edge.endpoints("new"), ["10.0.2.1:80"], "{form}");
        // What is not listed any more is gone, once nothing needs it.
        control.serve(
            "3",
            &json!({
                "clusters": [assigned("new")],
                "resources": [assignment("new", &["10.0.2.1"])],
                "listeners": [listener("main", "127.0.0.1:18080", "main")],
                "routes": [routes("main", &["*"], &[to("/", "new")])],
            }),
        );
        edge.becomes(&form, |plan| plan.listeners.len() == 1 && plan.pools.len() == 1).await;
        assert!(errors(&control).is_empty(), "{form}: {:?}", errors(&control));
    }
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_resource_that_cannot_be_kept_is_refused_by_name_and_the_last_one_stays() {
    if !installed(&[PROGRAM]) {
        return;
    }
    for (cache, delta) in FORMS {
        let form = format!("{cache} delta={delta}");
        let mut control = Control::started(cache);
        control.serve("1", &first_state());
        let mut edge = Edge::new(&control, delta);
        edge.becomes(&form, |plan| plan.routes.len() == 2).await;
        let before = edge.plan.to_toml();
        let mut state = first_state();
        let router = json!({ "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz" });
        let mut filter = manager("rds", &json!({ "routeConfigName": "main", "configSource": { "ads": {} } }));
        filter["typedConfig"]["httpFilters"] = json!([{ "name": "auth", "typedConfig": router }]);
        state["listeners"] = json!([
            listener("main", "127.0.0.1:18080", "main"),
            listener_of("guarded", "127.0.0.1:18081", &[json!({ "filters": [filter] })]),
        ]);
        state["clusters"][1]["lbPolicy"] = json!("CLUSTER_PROVIDED");
        state["routes"] = json!([routes(
            "main",
            &["*"],
            &[json!({ "match": { "prefix": "/" }, "route": { "cluster": "web", "internalRedirectPolicy": {} } }),]
        )]);
        control.serve("2", &state);
        let refused = |kind: &'static str, parts: &'static [&'static str]| {
            move |line: &Value| {
                let is = line["type"].as_str().is_some_and(|of| of.ends_with(kind));
                is && line["error"]
                    .as_str()
                    .is_some_and(|why| !why.is_empty() && parts.iter().all(|part| why.contains(part)))
            }
        };
        control.sees(refused("Listener", &["guarded: filter_chains[0]", "http_filters", "\"auth\""])).await;
        control.sees(refused("Cluster", &["api: lb_policy"])).await;
        control
            .sees(refused("RouteConfiguration", &["main: not supported here", "routes.route.internal_redirect_policy"]))
            .await;
        edge.take().await;
        assert_eq!(edge.plan.to_toml(), before, "{form}");
        control.serve("3", &first_state());
        let last = control.lines().len();
        let good =
            move |line: &Value| line["error"] == "" && line["type"].as_str().is_some_and(|of| of.ends_with("Listener"));
        control.sees(good).await;
        assert!(control.lines().len() >= last);
    }
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_control_plane_that_is_killed_hangs_or_forgets_leaves_the_plan() {
    if !installed(&[PROGRAM]) {
        return;
    }
    for (cache, delta) in FORMS {
        let form = format!("{cache} delta={delta}");
        let mut control = Control::new(cache, &[]);
        let mut edge = Edge::new(&control, delta);
        assert!(
            edge.plan.listeners.is_empty() && !edge.providers.is_complete(&edge.base),
            "{form}: it does not run yet"
        );
        control.start();
        control.serve("7", &first_state());
        edge.becomes(&form, |plan| plan.routes.len() == 2).await;
        // An empty cache: nothing is answered, or nothing is in the answer.
        control.kill();
        control.start();
        control.sees(|line| line["type"].as_str().is_some_and(|of| of.ends_with("Listener"))).await;
        let _ = timeout(Duration::from_secs(2), edge.providers.contributed()).await;
        edge.take().await;
        assert_eq!(leads(&edge.plan), ["main/all/0 api", "main/all/1 web"], "{form}");
        assert_eq!(edge.endpoints("web"), ["10.0.0.1:80", "10.0.0.2:80"], "{form}");
        // Lower versions, with other resources.
        let mut state = first_state();
        state["routes"] = json!([routes("main", &["*"], &[to("/", "web")])]);
        state["resources"] = json!([assignment("web", &["10.0.0.3"])]);
        control.serve("1", &state);
        edge.becomes(&form, |plan| plan.routes.len() == 1).await;
        let until = Instant::now() + Duration::from_secs(20);
        while edge.endpoints("web") != ["10.0.0.3:80"] {
            assert!(Instant::now() < until, "{form}: {:?}", edge.endpoints("web"));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // It is explicit where it has had some.
        state["listeners"] = json!([]);
        control.serve("2", &state);
        edge.becomes(&form, |plan| plan.listeners.is_empty()).await;
        control.signal("STOP");
        let _ = timeout(Duration::from_secs(1), edge.providers.contributed()).await;
        control.signal("CONT");
        control.serve("3", &first_state());
        edge.becomes(&form, |plan| plan.listeners.len() == 1).await;
    }
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn sessions_inline_routes_and_server_names_come_too() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let mut control = Control::started("snapshot");
    let inline =
        routes("inline", &["*"], &[json!({ "match": { "prefix": "/" }, "directResponse": { "status": 204 } })]);
    control.serve(
        "1",
        &json!({
            "clusters": [cluster("db", &["10.0.3.1:5432"])],
            "listeners": [
                listener_of("sessions", "127.0.0.1:18090", &[json!({ "filters": [proxy("db")] })]),
                listener_of("answers", "127.0.0.1:18091", &[json!({ "filters": [manager("routeConfig", &inline)] })]),
                listener("late", "127.0.0.1:18092", "none"),
            ],
        }),
    );
    let mut edge = Edge::new(&control, false);
    // A route configuration that does not come is waited for, and the others are used meanwhile.
    let began = Instant::now();
    edge.becomes("all", |plan| plan.listeners.len() == 3).await;
    assert!(began.elapsed() >= Duration::from_secs(14), "{:?}", began.elapsed());
    let mut leads = leads(&edge.plan);
    leads.sort();
    let wanted = ["answers/inline/all/0 respond 204", "late/(none) respond 404", "sessions/filter_chains[0] db"];
    assert_eq!(leads, wanted);
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_response_of_a_hundred_megabytes_leaves_the_plan_and_the_next_one_counts() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let mut control = Control::started("snapshot");
    control.serve("1", &first_state());
    let mut edge = Edge::new(&control, false);
    edge.becomes("the first", |plan| plan.routes.len() == 2).await;
    let mut state = first_state();
    state["padding"] = json!(60_000_000);
    control.serve("2", &state);
    control.sees(|line| line.get("closed").is_some()).await;
    assert_eq!(leads(&edge.plan).len(), 2);
    state = first_state();
    state["routes"] = json!([routes("main", &["*"], &[to("/", "web")])]);
    control.serve("3", &state);
    edge.becomes("the next", |plan| plan.routes.len() == 1).await;
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_thousand_clusters_come_at_once() {
    if !installed(&[PROGRAM]) {
        return;
    }
    let names: Vec<String> = (0..1000).map(|n| format!("c{n}")).collect();
    let (mut clusters, mut lists, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for name in &names {
        clusters.push(assigned(name));
        lists.push(assignment(name, &["10.0.0.1"]));
        all.push(to(&format!("/{name}/"), name));
    }
    let state = json!({
        "clusters": clusters, "resources": lists, "routes": [routes("main", &["*"], &all)],
        "listeners": [listener("main", "127.0.0.1:18080", "main")],
    });
    for delta in [false, true] {
        let mut control = Control::started("snapshot");
        control.serve("1", &state);
        let began = Instant::now();
        let mut edge = Edge::new(&control, delta);
        edge.becomes("all of them", |plan| plan.routes.len() == 1000 && plan.pools.len() == 1000).await;
        eprintln!("delta={delta}: {:?}", began.elapsed());
    }
}

#[tokio::test]
#[ignore = "make test-xds"]
async fn a_control_plane_that_comes_back_with_the_same_state_has_not_failed() {
    if !installed(&[PROGRAM]) {
        return;
    }
    for (cache, delta) in FORMS {
        let form = format!("{cache} delta={delta}");
        let mut control = Control::started(cache);
        control.serve("1", &first_state());
        let mut edge = Edge::new(&control, delta);
        edge.becomes(&form, |plan| plan.routes.len() == 2).await;
        let fault = |edge: &Edge| edge.providers.parts().states()[0].fault.clone();
        let until = Instant::now() + Duration::from_secs(60);
        control.kill();
        while fault(&edge).is_none() {
            assert!(Instant::now() < until, "{form}: its loss is not noticed");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        control.start();
        control.serve("1", &first_state());
        control.sees(|line| line.get("opened").is_some()).await;
        let failed = edge.updates("failed");
        let unchanged = edge.updates("unchanged");
        // With differences, nothing need be sent: the endpoints are known to be current after 15 s of silence.
        while fault(&edge).is_some() || edge.updates("unchanged") == unchanged {
            assert!(Instant::now() < until, "{form}: its return is not noticed: {:?}", fault(&edge));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(edge.updates("failed"), failed, "{form}");
        assert_eq!(edge.endpoints("web"), ["10.0.0.1:80", "10.0.0.2:80"], "{form}");
    }
}
