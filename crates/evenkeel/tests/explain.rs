//! Explanations of a running evenkeel: of picks that were made, of one that would be made, and of other algorithms.

use crate::support::{Endpoint, Folder, Running, address, evenkeel, eventually, get, text};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;

struct Setup {
    _folder: Folder,
    listen: String,
    file: String,
}

impl Setup {
    /// Two endpoints, `one` and `two`, in the pool `shop`.
    fn new(name: &str, endpoints: [&Endpoint; 2], pool: &str, more: &str) -> Setup {
        let (folder, listen) = (Folder::new(name), address());
        let text = format!(
            "[admin]\nbind = 'unix:{}'\n[listener.web]\nbind = ['{listen}']\n{more}\n[pool.shop]\n{pool}\n\
             endpoints = [{{ name = 'one', addr = '{}' }}, {{ name = 'two', addr = '{}', drain = true }}]\n",
            folder.0.join("admin.sock").display(),
            endpoints[0].addr,
            endpoints[1].addr
        );
        let file = folder.file("evenkeel.toml", &text);
        Setup { _folder: folder, listen, file }
    }

    #[track_caller]
    fn command(&self, words: &[&str]) -> String {
        let done = evenkeel(&[words, &["-c", &self.file]].concat());
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout)
    }

    #[track_caller]
    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.command(&[words, &["--json"]].concat())).expect("JSON")
    }
}

#[test]
fn requests_are_listed_and_each_is_explained_with_what_was_left_out() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let setup = Setup::new("explain", [&one, &two], "", "[telemetry.explain]\nsample = 1");
    let _running = Running::start(&["run", "-c", &setup.file]);
    assert!(setup.command(&["explain"]).starts_with("no explanation is kept"), "none has come");
    get(&setup.listen, "/cart").expect("an answer");
    let all = eventually("it is kept", || {
        let all = setup.json(&["explain"]);
        (!all.as_array().expect("a list").is_empty()).then_some(all)
    });
    let id = all[0]["request_id"].as_str().expect("it has an id").to_string();
    assert!(setup.command(&["explain"]).starts_with(&id));
    let pick = &setup.json(&["explain", &id])["tries"][0]["pick"];
    assert_eq!((&pick["picked"], &pick["excluded"][0]["endpoint"]), (&json!("one"), &json!("two")));
    assert!(pick["excluded"][0]["since_ms"].as_u64().is_some_and(|since| since > 1_600_000_000_000), "{pick}");
    let said = setup.command(&["explain", &id]);
    for part in ["listener web -> route ", "-> pool shop", "  * one: 0 in flight", "  - two: draining, as it is since "]
    {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    let unknown = evenkeel(&["explain", "nix", "-c", &setup.file]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("no explanation of request \"nix\" is kept"), "{}", text(&unknown.stderr));
}

#[test]
fn the_next_request_of_a_pool_is_waited_for() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let setup = Setup::new("explain-next", [&one, &two], "", "");
    let _running = Running::start(&["run", "-c", &setup.file]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let mut waiting = command
        .args(["explain", "--next", "shop", "-c", &setup.file])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program is there");
    // It may not wait yet when the first request comes.
    eventually("it has one", || {
        get(&setup.listen, "/next").expect("an answer");
        waiting.try_wait().expect("it can be waited for")
    });
    let said = text(&waiting.wait_with_output().expect("it has ended").stdout);
    assert!(said.contains("/next  status 200") && said.contains("  * one: "), "{said}");
    let wrong = evenkeel(&["explain", "--next", "nix", "-c", &setup.file]);
    assert!(text(&wrong.stderr).contains("unknown pool \"nix\"; pools: shop"), "{}", text(&wrong.stderr));
}

#[test]
fn says_which_route_takes_a_request_and_what_the_pool_would_pick() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let routes = "[[route]]\nname = 'cart'\npool = 'shop'\nmatch = { path = '/cart' }\n\
                  [[route]]\nname = 'host'\npool = 'shop'\nmatch = { host = ['b.test'] }";
    let setup = Setup::new("explain-would", [&one, &two], "balance = { maglev = { key = 'header:x-user' } }", routes);
    let _running = Running::start(&["run", "-c", &setup.file]);
    let said = setup.command(&["explain", "GET", "https://a.test/cart?x=1", "-H", "X-User: bob"]);
    for part in [
        "listener web -> route cart -> pool shop",
        "  * cart: host and path match",
        "    host: it is for other hosts (b.test)",
        "would pick one",
        "the key's home in the table",
        "  key: ",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert!(
        setup.command(&["explain", "GET", "http://a.test/nix"]).contains("no route matches, so the response is a 404")
    );
    let wrong = evenkeel(&["explain", "GET", "a.test/cart", "-c", &setup.file]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("is not http://HOST/PATH"), "{}", text(&wrong.stderr));
}

/// Routes, each with a filter that answers some of its requests. With paths as sent, as one of them has two readings.
const ANSWERING: &str = "[defaults]\npaths = 'as_sent'\n\
    [[route]]\nname = 'plain'\npool = 'shop'\n\
    [[route]]\nname = 'inside'\npool = 'shop'\nmatch = { path = '/inside' }\naccess = { allow = ['10.0.0.0/8'] }\n\
    [[route]]\nname = 'closed'\npool = 'shop'\nmatch = { path = '/closed' }\nmaintenance = { allow = ['10.0.0.1'] }\n\
    [[route]]\nname = 'moved'\nmatch = { prefix = '/moved' }\nredirect = { prefix = '/new', scheme = 'https', status = 308 }\n\
    [[route]]\nname = 'gone'\nmatch = { path = '/gone' }\nrespond = 410\n\
    [[route]]\nname = 'staff'\npool = 'shop'\nmatch = { path = '/staff' }\nbasic_auth = { file = '$USERS' }\n\
    [[route]]\nname = 'pages'\npool = 'shop'\nmatch = { path = '/pages' }\ncors = { origins = ['https://a.test'] }\n\
    [[route]]\nname = 'small'\npool = 'shop'\nmatch = { path = '/small' }\nbody_max = '8B'\n\
    [[route]]\nname = 'asked'\npool = 'shop'\nmatch = { path = '/asked' }\nforward_auth = { pool = 'shop' }\n\
    [[route]]\nname = 'rare'\npool = 'shop'\nmatch = { path = '/rare' }\nlimits = [{ requests = '1/h' }]\n";

#[test]
fn says_which_filter_would_answer_a_request_and_has_no_effect() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let users = Folder::new("explain-users");
    let file = users.file("users", "ann:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G\n");
    let setup = Setup::new("explain-filters", [&one, &two], "", &ANSWERING.replace("$USERS", &file));
    let _running = Running::start(&["run", "-c", &setup.file]);
    let preflight: &[&str] = &["-H", "Origin: https://a.test", "-H", "Access-Control-Request-Method: PUT"];
    let answered: [(&str, &str, &[&str], &str); 9] = [
        ("GET", "/inside", &[], "filter access answers with 403: 127.0.0.1 is in no allowed network"),
        ("GET", "/closed", &[], "filter maintenance answers with 503: the route is under maintenance"),
        ("GET", "/moved/x?y", &[], "filter redirect answers with 308 to https://a.test/new/x?y"),
        ("GET", "/moved/../x", &[], "filter redirect answers with 400: the request cannot be redirected: "),
        ("GET", "/gone", &[], "filter respond answers with 410"),
        ("GET", "/staff", &[], "filter basic_auth answers with 401: the request has no credentials"),
        ("OPTIONS", "/pages", preflight, "filter preflight answers with 204: the request is a preflight"),
        ("POST", "/small", &["-H", "Content-Length: 9"], "filter body_max answers with 413: a body of 9 bytes "),
        ("GET", "/inside", &["--client", "192.0.2.7"], "filter access answers with 403: 192.0.2.7 is in no "),
    ];
    for (method, path, more, wanted) in answered {
        let said = setup.command(&[&["explain", method, &format!("http://a.test{path}")], more].concat());
        let line = said.lines().find(|line| line.starts_with(wanted)).unwrap_or_else(|| panic!("{wanted}: {said}"));
        assert!(line.ends_with("; no endpoint is picked") && !said.contains("would pick"), "{said}");
    }
    let basic: &[&str] = &["-H", "Authorization: Basic YW5uOndyb25n"];
    let passed: [(&str, &[&str], &str); 8] = [
        ("/plain", &[], ""),
        ("/inside", &["--client", "10.1.2.3"], "filter access: 10.1.2.3 is in an allowed network\n"),
        ("/closed", &["--client", "10.0.0.1"], ""),
        ("/staff", basic, "filter basic_auth: verifies the password of \"ann\"\n"),
        ("/pages", &preflight[..2], "filter cors: pages of https://a.test may read the response\n"),
        ("/small", &["-H", "Content-Length: 8"], ""),
        ("/asked", &[], "filter forward_auth: asks pool \"shop\", which decides\n"),
        ("/rare", &[], "filter limits: within 1/h by client"),
    ];
    for (path, more, wanted) in passed {
        // Twice: the first time takes no token from a limit.
        for _ in 0..2 {
            let said = setup.command(&[&["explain", "GET", &format!("http://a.test{path}")], more].concat());
            assert!(said.contains(wanted) && said.contains("would pick one\n"), "{path}: {said}");
            assert_eq!(said.contains("filter "), !wanted.is_empty(), "{path}: {said}");
        }
    }
    let would = setup.json(&["explain", "GET", "http://a.test/moved"]);
    assert_eq!(
        (&would["answer"]["filter"], &would["answer"]["status"], &would["answer"]["location"], &would["pick"]),
        (&json!("redirect"), &json!(308), &json!("https://a.test/new"), &json!(null))
    );
    assert_eq!(one.served() + two.served(), 0, "nothing was sent");
    // Requests that are sent do count.
    get(&setup.listen, "/rare").expect("an answer");
    let said = setup.command(&["explain", "GET", "http://a.test/rare"]);
    assert!(said.contains("filter limits answers with 429: too many requests: more than 1/h by client"), "{said}");
}

#[test]
fn shadows_need_requests_and_are_exact_where_picks_ignore_the_load() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let setup = Setup::new("shadow", [&one, &two], "shadow = ['leastconn', { random = { draws = 3 } }]", "");
    let _running = Running::start(&["run", "-c", &setup.file]);
    let none = setup.command(&["shadow", "shop"]);
    assert!(
        none.contains("nothing to predict from: 0 requests since its endpoints last changed; 100 are needed"),
        "{none}"
    );
    (0..150).for_each(|_| assert_eq!(get(&setup.listen, "/").expect("an answer").1, "one"));
    let said = setup.command(&["shadow"]);
    // The other endpoint drains, so that every algorithm has the same choice.
    for part in
        ["pool shop, balanced by random, by its latest 1", "  leastconn (exact: its picks ", "  random{draws=3} ("]
    {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert_eq!(setup.json(&["shadow", "shop"])[0]["shadows"][0]["endpoints"][0]["shadow"], json!(1.0));
}

/// Requests of this test, enough to know the slow endpoint.
const REQUESTS: usize = 1_500;

#[test]
fn a_share_is_predicted_as_it_is_or_withheld_with_the_reason() {
    let takes = [("one", 8), ("two", 8), ("slow", 120)];
    let endpoints = takes.map(|(name, ms)| (name, Endpoint::slow(name, Duration::from_millis(ms))));
    let folder = Folder::new("shadow-shares");
    let listen = address();
    let named = |(name, endpoint): &(&str, Endpoint)| format!("{{ name = '{name}', addr = '{}' }}", endpoint.addr);
    let config = format!(
        "runtime.workers = 2\n[admin]\nbind = 'unix:{}'\n[listener.web]\nbind = ['{listen}']\n[pool.shop]\nbalance = 'leastconn'\n\
         shadow = ['round_robin', 'leastconn']\nendpoints = [{}]\n",
        folder.0.join("admin.sock").display(),
        endpoints.each_ref().map(named).join(", ")
    );
    let file = folder.file("evenkeel.toml", &config);
    let _running = Running::start(&["run", "-c", &file]);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| (0..REQUESTS / 12).for_each(|_| drop(get(&listen, "/").expect("an answer"))));
        }
    });
    let done = evenkeel(&["shadow", "--json", "-c", &file]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let shown: Value = serde_json::from_str(&text(&done.stdout)).expect("JSON");
    let pool = &shown[0];
    let [turns, own] = [0, 1].map(|at| &pool["shadows"][at]);
    for (at, (name, endpoint)) in endpoints.iter().enumerate() {
        let served = endpoint.served() as f64 / REQUESTS as f64;
        let share = |shadow: &Value| shadow["endpoints"][at]["shadow"].as_f64();
        assert_eq!(turns["endpoints"][at]["endpoint"], json!(name));
        assert!(share(turns).is_some_and(|share| (share - 1.0 / 3.0).abs() < 0.01), "{shown:#}");
        match share(own) {
            Some(share) => assert!((share - served).abs() <= 0.03, "{name} got {served}, predicted: {shown:#}"),
            None => assert_ne!(own["withheld"], json!([]), "{shown:#}"),
        }
    }
    assert_eq!(turns["exact"], json!(true), "{shown:#}");
}

#[test]
fn a_replay_says_what_was_compared_at_a_pick() {
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let folder = Folder::new("replay-explain");
    let journal = folder.0.join("shop.journal").display().to_string();
    let more = format!("[runtime]\nworkers = 1\n[telemetry]\njournal = {{ path = '{journal}', pool = 'shop' }}");
    let setup = Setup::new("replay", [&one, &two], "", &more);
    let running = Running::start(&["run", "-c", &setup.file]);
    (0..3).for_each(|_| _ = get(&setup.listen, "/").expect("an answer"));
    drop(running);
    // The process was ended at once: what its batch held is gone, if the request was the latest.
    let lines = std::fs::read_to_string(&journal).expect("it was made");
    if !lines.lines().any(|line| line.starts_with("pick")) {
        return;
    }
    let done = evenkeel(&["replay", &journal, "--explain", "1"]);
    let said = text(&done.stdout);
    assert!(done.status.success() && said.starts_with("pick 1, line "), "{said}{}", text(&done.stderr));
    assert!(said.contains("compared slot ") && said.contains("left out slot "), "{said}");
    let beyond = evenkeel(&["replay", &journal, "--explain", "999"]);
    assert!(text(&beyond.stderr).contains("there is no pick 999"), "{}", text(&beyond.stderr));
}
