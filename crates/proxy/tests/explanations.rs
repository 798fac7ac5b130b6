//! Explanations of requests: tries, picks, waits and ends as they were, without an effect of asking.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::ok;
use crate::support::log::Log;
use crate::support::pki::Pki;
use crate::support::{Endpoint, Proxy, SOON, own_addr, wait_until};
use evenkeel_view::described::Parts;
use evenkeel_view::picks::Explained;
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// Blocks on an answer of the workers.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an event loop");
    runtime.block_on(answer)
}

fn kept(proxy: &Proxy) -> Vec<Explained> {
    wait(proxy.server().looker().explanations())
}

const ALL: &str = "[telemetry.explain]\nsample = 1\n";

#[test]
fn a_sampled_request_is_explained_with_its_comparison_and_its_endpoint() {
    let endpoints = [Endpoint::saying("a"), Endpoint::saying("b")];
    let log = Log::new();
    let config = format!("{ALL}{}", log.config());
    let proxy = Proxy::with(&[endpoints[0].addr, endpoints[1].addr], "", "", &config);
    let body = proxy.client().get("/path?query").body_text();
    wait_until("it is kept", || kept(&proxy).len() == 1);
    let one = kept(&proxy).remove(0);
    let went = usize::from(body == "b");
    let names = endpoints.each_ref().map(|endpoint| endpoint.addr.to_string());
    assert_eq!((&*one.pool, &*one.listener, &*one.path, one.status), ("web", "web", "/path", 200));
    assert_eq!((&*one.asked, &*one.end, one.tries.len()), ("sample", "normal", 1));
    let (first, pick) = (&one.tries[0], one.tries[0].pick.as_ref().expect("it was picked"));
    assert_eq!((&*first.how, first.endpoint.as_deref()), ("picked", Some(&*names[went])));
    assert_eq!((pick.picked.as_deref(), &*pick.rule), (Some(&*names[went]), "its turn: the earliest virtual deadline"));
    assert_eq!(pick.candidates.len(), 2, "{pick:?}");
    assert_eq!(pick.candidates[0].tier, Some(0));
    let again = wait(proxy.server().looker().explanation(&one.request_id)).expect("it is kept");
    assert_eq!(again.request_id, one.request_id);
    assert!(wait(proxy.server().looker().explanation("0")).is_none());
    let lines = log.lines(proxy);
    assert_eq!(lines[0]["req_id"], one.request_id, "the access log has the same id");
}

#[test]
fn a_retried_request_is_explained_with_the_failure_of_its_first_try() {
    let (refusing, b) = (own_addr(), Endpoint::saying("b"));
    let proxy =
        Proxy::with(&[refusing, b.addr], "", "retry = { attempts = 2, on = ['connect'] }\noutlier = 'off'", ALL);
    let answers: Vec<_> = (0..2).map(|_| proxy.client().get("/").body_text()).collect();
    assert_eq!(answers, ["b", "b"]);
    wait_until("both are kept", || kept(&proxy).len() == 2);
    let retried = kept(&proxy).into_iter().find(|one| one.tries.len() == 2).expect("one went to the other first");
    let [first, second] = &retried.tries[..] else { panic!("{retried:?}") };
    assert_eq!(first.endpoint.as_deref(), Some(&*refusing.to_string()));
    assert!(first.failed.is_some() && second.failed.is_none(), "{retried:?}");
    let excluded = &second.pick.as_ref().expect("it was picked").excluded;
    assert_eq!(excluded.iter().map(|e| &*e.reason).collect::<Vec<_>>(), ["already tried"]);
    assert_eq!(second.endpoint.as_deref(), Some(&*b.addr.to_string()));
}

#[test]
fn a_request_that_waited_is_explained_by_the_pick_that_it_got() {
    let (go_on, may_go_on) = channel::<()>();
    let may_go_on = Mutex::new(may_go_on);
    let endpoint = Endpoint::start(move |conn| {
        while conn.request().is_some() {
            may_go_on.lock().expect("no panic").recv_timeout(SOON).expect("the test goes on");
            conn.send(ok("done"));
        }
    });
    let pool = "limits = { requests_per_endpoint = 1 }\nqueue = { timeout = '20s' }";
    let proxy = Proxy::with(&[endpoint.addr], "", pool, ALL);
    let mut clients = [proxy.client(), proxy.client()];
    clients[0].send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the first is there", || proxy.in_flight() == 1);
    clients[1].send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the second waits", || proxy.waiting() == 1);
    for client in &mut clients {
        go_on.send(()).expect("it waits");
        assert_eq!(client.response().status(), 200);
    }
    wait_until("both are kept", || kept(&proxy).len() == 2);
    let waited = kept(&proxy).into_iter().find(|one| one.path == "/2").expect("it is kept");
    let how: Vec<_> = waited.tries.iter().map(|one| (&*one.how, one.endpoint.is_some())).collect();
    assert_eq!(how, [("picked", false), ("waited", true)]);
    let refused = waited.tries[0].pick.as_ref().expect("it was tried");
    assert_eq!(refused.excluded.iter().map(|e| &*e.reason).collect::<Vec<_>>(), ["at its limit"]);
    assert!(waited.queue_ns > 0 && waited.tries[1].pick.as_ref().is_some_and(|pick| pick.candidates.len() == 1));
}

#[test]
fn only_the_next_request_of_the_pool_is_explained() {
    let endpoint = Endpoint::saying("a");
    let proxy = Proxy::before(&[endpoint.addr]);
    proxy.client().get("/before");
    let looker = proxy.server().looker();
    assert!(looker.arm("nix").unwrap_err().contains("pools: web"));
    looker.arm("web").unwrap();
    // Workers handle queries in order, so the explanation is armed now.
    assert!(kept(&proxy).is_empty());
    let mut client = proxy.client();
    ["/next", "/after"].iter().for_each(|path| assert_eq!(client.get(path).status(), 200));
    wait_until("it is kept", || !kept(&proxy).is_empty());
    let paths: Vec<_> = kept(&proxy).into_iter().map(|one| (one.asked, one.path)).collect();
    assert_eq!(paths, [("next".into(), "/next".to_string())]);
}

#[test]
fn a_request_with_the_secret_is_explained_and_its_endpoint_does_not_see_it() {
    let token = std::env::temp_dir().join(format!("evenkeel-explain-{}", std::process::id()));
    std::fs::write(&token, "a secret of enough bytes\n").expect("a folder for files");
    let endpoint = Endpoint::saying("a");
    let config = format!("[telemetry.explain]\ntoken_file = '{}'\n", token.display());
    let proxy = Proxy::with(&[endpoint.addr], "", "", &config);
    let mut client = proxy.client();
    for value in ["a secret of enough bytes", "another secret of some bytes"] {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nEvenkeel-Explain: {value}\r\n\r\n"));
        assert_eq!(client.response().status(), 200);
    }
    wait_until("it is kept", || !kept(&proxy).is_empty());
    assert_eq!(kept(&proxy).iter().map(|one| one.asked.clone()).collect::<Vec<_>>(), ["token"]);
    for seen in endpoint.seen() {
        assert!(!seen.head.to_ascii_lowercase().contains("evenkeel-explain"), "{}", seen.head);
    }
    std::fs::remove_file(&token).expect("it is there");
}

#[test]
fn explains_where_a_request_would_go_and_sends_none() {
    let endpoints = [Endpoint::saying("a"), Endpoint::saying("b")];
    let addrs = [endpoints[0].addr, endpoints[1].addr];
    let config = "[[route]]\nname = 'shop'\npool = 'web'\nmatch = { path = '/shop/{*rest}' }";
    let proxy = Proxy::with(&addrs, "", "", config);
    let looker = proxy.server().looker();
    let described = |target: &str| Parts {
        method: "GET".into(),
        host: "a.test".into(),
        target: target.into(),
        fields: Vec::new(),
        listener: None,
        client: None,
    };
    for _ in 0..4 {
        let would = wait(looker.would_go(described("/shop/1"))).unwrap();
        let picked = would.pick.as_ref().and_then(|pick| pick.picked.clone()).expect("there is one");
        assert_eq!(would.routed.route.as_deref(), Some("shop"));
        let body = proxy.client().get("/shop/1").body_text();
        let went = addrs[usize::from(body == "b")].to_string();
        assert_eq!(*picked, *went, "what it would pick is the next pick");
    }
    let nowhere = wait(looker.would_go(described("/"))).unwrap();
    assert!(nowhere.routed.route.is_none() && nowhere.pick.is_none());
    assert_eq!(endpoints.iter().map(|e| e.seen().len()).sum::<usize>(), 4, "nothing was sent");
}

#[test]
fn filters_of_listeners_answer_first_and_the_scheme_is_that_of_the_listener() {
    let pki = Pki::new();
    let proxy = Proxy::start(&format!(
        "[listener.web]\nbind = ['$BIND']\ntls = {{ certificates = [{}] }}\n\
         [listener.plain]\nbind = ['{}']\nredirect_https = true\n\
         [pool.web]\nendpoints = ['127.0.0.1:1']\n\
         [[route]]\nmatch = {{ listener = ['web'] }}\nredirect = {{ path = '/new' }}\n",
        pki.issue("a.test").entry(),
        own_addr()
    ));
    let answer = |listener: &str| {
        let described = Parts {
            method: "GET".into(),
            host: "a.test".into(),
            target: "/old?x".into(),
            fields: Vec::new(),
            listener: Some(listener.into()),
            client: None,
        };
        let answer = wait(proxy.server().looker().would_go(described)).unwrap().answer.expect("a filter answers");
        (answer.filter, answer.status, answer.location.expect("it is a redirect"))
    };
    assert_eq!(answer("web"), ("redirect".into(), 302, "https://a.test/new?x".into()));
    assert_eq!(answer("plain"), ("https_redirect".into(), 308, "https://a.test/old?x".into()));
}

#[test]
fn requests_of_a_pool_with_shadows_are_remembered() {
    let endpoints = [Endpoint::saying("a"), Endpoint::saying("b"), Endpoint::saying("c")];
    let addrs = endpoints.each_ref().map(|endpoint| endpoint.addr);
    let proxy = Proxy::with(&addrs, "", "shadow = ['round_robin', 'first']", "");
    let mut client = proxy.client();
    let answers: String = (0..9).map(|_| client.get("/").body_text()).collect();
    assert!(["a", "b", "c"].iter().all(|name| answers.matches(name).count() == 3), "{answers}");
    let remembered = wait(proxy.server().looker().remembered(Some("web"))).unwrap().remove(0);
    let rows: Vec<_> = remembered.recent.iter().flat_map(|of| &of.rows).collect();
    assert_eq!((rows.len(), remembered.names.len(), remembered.pool.shadow.len()), (9, 3, 2));
    // The client gets the last response before the worker notes its end.
    assert!(rows[..8].iter().all(|row| row.held_ns >= row.latency_ns && row.latency_ns > 0 && !row.failed), "{rows:?}");
    assert!(wait(proxy.server().looker().remembered(Some("nix"))).is_err());
}

/// A pool that keeps its balancer must not keep the hash key of the plan it was made with.
#[test]
fn requests_are_hashed_by_the_key_that_shadows_have_after_a_reload() {
    let endpoint = Endpoint::saying("a");
    let config = |shadow: &str| {
        let addr = endpoint.addr;
        format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['$BIND']\n\
             [pool.web]\nbalance = 'round_robin'\nshadow = [{shadow}]\nendpoints = ['{addr}']"
        )
    };
    let mut proxy = Proxy::start(&config("'first'"));
    assert_eq!(proxy.client().get("/").status(), 200);
    proxy.reload(&config("{ maglev = { key = 'client-ip' } }")).expect("nothing fails");
    assert_eq!(proxy.client().get("/").status(), 200);
    let remembered = wait(proxy.server().looker().remembered(Some("web"))).unwrap().remove(0);
    let keyed: Vec<bool> = remembered.recent.iter().flat_map(|of| &of.rows).map(|row| row.keyed).collect();
    assert_eq!(keyed, [false, true]);
}

#[test]
fn a_request_that_another_route_answers_is_explained_with_the_filters_of_both() {
    let endpoint = Endpoint::saying("page");
    let routes = "[pool.down]\nendpoints = [{ addr = '127.0.0.1:2', drain = true }]\n\
                  [[route]]\nname = 'app'\npool = 'down'\nerror_pages = { 503 = { route = 'page', path = '/x' } }\n\
                  [[route]]\nname = 'page'\npool = 'web'\ninternal = true\nresponse_headers = { set = { X-A = '1' } }\n";
    let proxy = Proxy::with(&[endpoint.addr], "", "", &format!("{routes}{ALL}"));
    assert_eq!(proxy.client().get("/").status(), 503);
    wait_until("it is kept", || !kept(&proxy).is_empty());
    let one = kept(&proxy).remove(0);
    let did = |name: &str| one.filters.iter().find(|step| &*step.name == name).map(|step| &*step.did);
    assert_eq!(did("error_pages"), Some("had route \"page\" answer"), "{one:?}");
    assert!(did("response_headers").is_some(), "{one:?}");
    assert_eq!((&*one.route, &*one.pool, one.status, one.tries.len()), ("page", "web", 503, 2), "{one:?}");
    let described = Parts {
        method: "GET".into(),
        host: "a".into(),
        target: "/".into(),
        fields: Vec::new(),
        listener: None,
        client: None,
    };
    let would = wait(proxy.server().looker().would_go(described)).expect("it is explained");
    let why = would.routed.routes.iter().map(|route| (&*route.route, &*route.why)).find(|(name, _)| *name == "page");
    assert_eq!(why.map(|(_, why)| why), Some("it is internal: only error pages and internal redirects lead to it"));
}
