//! Errors of the command line, and exit codes.

use crate::support::{Endpoint, Folder, address, ends};
use std::net::TcpListener;

const GOOD: &str = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nendpoints = ['127.0.0.1:8081']\n";
const BAD: &str =
    "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.web]\nbalance = 'rondom'\nendpoints = ['127.0.0.1']\n";

#[test]
fn check_accepts_a_good_file() {
    let folder = Folder::new("good");
    let file = folder.file("good.toml", GOOD);
    let ok = "ok: 1 listener, 1 route, 1 pool, 1 endpoint\n";
    assert_eq!(ends(&["check", &file], 0, &[]), ok);
    assert_eq!(ends(&["check", "-c", &file], 0, &[]), ok);
    assert_eq!(ends(&["check", &file, "--json"], 0, &[]), "[]\n");
}

#[test]
fn check_says_everything_that_is_wrong_at_once() {
    let folder = Folder::new("bad");
    let file = folder.file("bad.toml", BAD);
    ends(
        &["check", &file],
        78,
        &["unknown algorithm \"rondom\"", "did you mean \"random\"?", "has no port", "2 errors"],
    );
    let json = ends(&["check", &file, "--json"], 78, &[]);
    let found: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!((&found[0]["severity"], &found[0]["line"]), (&"error".into(), &4.into()), "{json}");
}

/// Keys of a listener that the kernel forwards for, by round robin unless another balance is named.
const FORWARDED: &str = "[listener.db]\nbind = ['192.0.2.10:5432']\nmode = 'tcp'\nplane = 'nftables'\n\
                         [pool.db]\nendpoints = ['10.0.2.1:5432']\n[listener.web]\nbind = ['127.0.0.1:8080']\n\
                         [pool.web]\nendpoints = ['127.0.0.1:8081']\n[[route]]\npool = 'web'\n\
                         [[route]]\nmatch = { listener = ['db'] }\npool = 'db'\n";

#[test]
fn check_lists_what_planes_keep() {
    let folder = Folder::new("planes");
    let file = folder.file("kept.toml", &FORWARDED.replace("[pool.db]", "[pool.db]\nbalance = 'round_robin'"));
    let out = ends(&["check", &file, "--planes", "--elsewhere"], 0, &["ok: 2 listeners"]);
    for part in ["nftables", "round_robin", "approximated", "proxy http", "PROXY TCP/UDP", "survives a crash"] {
        assert!(out.contains(part), "no {part} in {out}");
    }
    let file = folder.file("refused.toml", &FORWARDED.replace("[pool.db]", "[pool.db]\nbalance = 'leastconn'"));
    let says = ["EK0208", "refused", "rules cannot compare open connections; kept by ebpf, ipvs, proxy tcp/udp"];
    ends(&["check", &file, "--planes", "--elsewhere"], 78, &says);
    let json = ends(&["check", &file, "--planes", "--elsewhere", "--json"], 78, &[]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["diagnostics"][0]["code"], "EK0208", "{json}");
    assert_eq!((&json["listeners"][0]["kept"], &json["listeners"][1]["kept"]), (&"refused".into(), &"exact".into()));
    assert_eq!(json["listeners"][0]["kept_by"][0], "ebpf");
    let first = &json["algorithms"][0];
    assert_eq!((&first["algorithm"], &first["planes"]["nftables"]["kept"]), (&"random".into(), &"exact".into()));
    assert!(json["settings"].as_array().is_some_and(|rows| rows.len() > 10) && json["costs"]["ebpf"].is_string());
}

#[test]
fn cleanup_needs_a_good_file() {
    let folder = Folder::new("cleanup");
    ends(&["cleanup", "--config", &folder.file("bad.toml", BAD)], 78, &["unknown algorithm"]);
    ends(&["cleanup", "--config", "nowhere.toml"], 78, &["cannot read nowhere.toml"]);
}

#[test]
fn convert_prints_a_configuration_and_reports_the_rest() {
    let folder = Folder::new("convert");
    let file = folder.file(
        "haproxy.cfg",
        "global\n  daemon\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\nfrontend www\n  bind 127.0.0.1:8080\n  http-request set-tos 1\n  default_backend app\n\
         backend app\n  timeout server 5s\n  server a 127.0.0.1:8081 check\n",
    );
    let said =
        ["changes (1):", "line 9 `http-request set-tos 1`", "harmless (1):", "line 2 `daemon`", "accepts the output"];
    let toml = ends(&["convert", &file], 10, &said);
    assert!(toml.contains("[listener.www]\nbind = [\"127.0.0.1:8080\"]\npool = \"app\"\n"), "{toml}");
    let converted = folder.file("evenkeel.toml", &toml);
    ends(&["check", &converted, "--elsewhere"], 0, &[]);
    let report = folder.0.join("report.txt").display().to_string();
    assert_eq!(ends(&["convert", &file, "--report", &report], 10, &["accepts the output"]), toml);
    assert!(std::fs::read_to_string(&report).expect("the report").contains("line 2 `daemon`"));
    let json = ends(&["convert", &file, "--json"], 10, &[]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["toml"], &json["from"]), (&toml.into(), &"HAProxy".into()));
    assert_eq!((&json["changes"][0]["line"], json["decide"].as_array().map(Vec::len)), (&9.into(), Some(0)));
    assert_eq!(json["errors"], serde_json::json!([]));
}

#[test]
fn convert_ends_with_zero_if_all_is_carried_over() {
    let folder = Folder::new("convert-whole");
    let whole = "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\nfrontend www\n  \
                 bind 127.0.0.1:8080\n  default_backend app\nbackend app\n  server a 127.0.0.1:8081\n";
    ends(&["convert", &folder.file("haproxy.cfg", whole)], 0, &["10 of 10 directives", "accepts the output"]);
    let missing = "frontend www\n  bind 127.0.0.1:8080\n  default_backend app\nbackend app\n  server a ${NOWHERE}:80\n";
    let said = ["finds 1 errors in the output", "NOWHERE"];
    ends(&["convert", &folder.file("missing.cfg", missing), "--from", "haproxy"], 1, &said);
}

#[test]
fn files_and_folders_of_traefik_are_one_configuration() {
    let folder = Folder::new("convert-folder");
    let router = |name: &str, host: &str| {
        format!("[http.routers.{name}]\nrule = 'Host(`{host}`)'\nservice = 'app'\nmiddlewares = ['inside']\n")
    };
    std::fs::create_dir(folder.0.join("more")).expect("the folder is new");
    let first = folder.file("a.toml", &router("app", "a.test"));
    let service = "[http.services.app.loadBalancer]\nservers = [{ url = 'http://10.0.0.1:80' }]\n";
    let second = folder.file("more/b.toml", &(router("app", "skipped.test") + &router("other", "b.test") + service));
    folder.file("more/c.yml", "http: { middlewares: { inside: { ipAllowList: { sourceRange: [10.0.0.0/8] } } } }\n");
    folder.file("more/note.txt", "no file of Traefik");
    let said = ["another file has a value of this name", "accepts the output"];
    let toml = ends(&["convert", &folder.0.display().to_string(), "--from", "traefik"], 10, &said);
    let expected = ["a.test", "b.test", "access = { allow = [\"10.0.0.0/8\"] }", "endpoints = [\"10.0.0.1:80\"]"];
    assert!(expected.iter().all(|part| toml.contains(part)) && !toml.contains("skipped.test"), "{toml}");
    let third = folder.0.join("more/c.yml").display().to_string();
    let named = ends(&["convert", &first, &second, &third, "--from", "traefik"], 10, &said);
    let routes = |toml: &str| toml.split_once('\n').map(|(_, rest)| rest.to_string());
    assert_eq!(routes(&named), routes(&toml));
    ends(&["convert", &first, &second, "--from", "haproxy"], 2, &["only the configuration of Traefik"]);
    let empty = Folder::new("convert-empty");
    ends(&["convert", &empty.0.display().to_string()], 1, &["has no file of Traefik"]);
}

#[test]
fn convert_is_compared_with_the_running_original() {
    let folder = Folder::new("convert-against");
    let endpoint = Endpoint::start("a");
    // Plays the original: it sends all requests to its endpoint, as the conversion does.
    let original = Endpoint::start("a");
    let url = format!("http://{}", original.addr);
    let text = |rule: &str| {
        let bind = &original.addr;
        let times = "  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n";
        format!(
            "defaults\n  mode http\n{times}frontend www\n  bind {bind}\n{rule}  default_backend app\nbackend app\n  server a {}\n",
            endpoint.addr
        )
    };
    let same = folder.file("same.cfg", &text(""));
    ends(&["convert", &same, "--from", "haproxy", "--against", &url], 0, &["200 requests (GET and HEAD)", "0 differ"]);
    let other = folder.file("other.cfg", &text("  http-request deny if { path_beg /admin }\n"));
    let said = ["status 200 there, 403 here (", "http://other.invalid/admin", "here:  403"];
    ends(&["convert", &other, "--from", "haproxy", "--against", &url], 10, &said);
    let json = ends(&["convert", &other, "--from", "haproxy", "--against", &url, "--json"], 10, &[]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["differences"][0]["kind"], "status 200 there, 403 here");
    ends(&["convert", &same, "--from", "haproxy", "--against", "https://a"], 2, &["does not begin with http://"]);
    let nobody = format!("http://{}", address());
    ends(&["convert", &same, "--from", "haproxy", "--against", &nobody], 1, &["the original at", "does not answer"]);
}

#[test]
fn convert_needs_a_file_that_it_knows() {
    let folder = Folder::new("convert-unknown");
    let file = folder.file("good.toml", GOOD);
    ends(&["convert", &file], 2, &["is not recognised as a haproxy.cfg, an nginx.conf, a Caddyfile", "--from haproxy"]);
    ends(&["convert", "nowhere.cfg"], 1, &["cannot read nowhere.cfg: no such file"]);
    ends(&["convert", &file, "--from", "apache"], 2, &["haproxy, nginx"]);
}

#[test]
fn a_missing_file_is_a_wrong_configuration() {
    ends(&["check", "nowhere.toml"], 78, &["cannot read nowhere.toml: no such file"]);
    ends(&["run", "-c", "nowhere.toml"], 78, &["cannot read nowhere.toml: no such file"]);
    ends(&["check", "nowhere.toml", "--json"], 78, &["\"severity\": \"error\""]);
}

#[test]
fn wrong_arguments_say_what_would_be_right() {
    ends(&["run", "--listen", ":8080"], 2, &["required", "ADDR"]);
    ends(&["run", "127.0.0.1"], 2, &["\"127.0.0.1\" is not an address: it has no port"]);
    ends(&["run", "evenkeel.toml"], 2, &["evenkeel run -c evenkeel.toml"]);
    ends(&["run", "127.0.0.1:1", "--balance", "rondom"], 2, &["similar value exists: 'random'"]);
    ends(&["run", "127.0.0.1:1", "--listen", "localhost:80"], 2, &["--listen"]);
    ends(&["run", "127.0.0.1:1", "127.0.0.1:1"], 2, &["endpoint 127.0.0.1:1 is in its pool twice"]);
    ends(&["algorithms", "rondom"], 2, &["similar value exists: 'random'"]);
}

#[test]
fn an_address_in_use_is_named() {
    let taken = address();
    let _listener = TcpListener::bind(&taken).expect("nobody else uses it");
    let says = format!("listener \"web\": cannot listen on {taken}: another process listens there");
    ends(&["run", "127.0.0.1:1", "--listen", &taken], 1, &[&says, "ss -ltnp"]);
    let says = format!("admin: cannot listen on {taken}: another process listens there");
    ends(&["run", "127.0.0.1:1", "--listen", &address(), "--admin", &taken], 1, &[&says, "ss -ltnp"]);
}

#[test]
fn an_access_log_that_cannot_be_opened_is_named() {
    let folder = Folder::new("log");
    let log = folder.0.join("nowhere/access.jsonl");
    let listen = address();
    let file = folder.file(
        "log.toml",
        &format!(
            "[telemetry]\naccess_log = {{ path = '{}' }}\n[listener.web]\nbind = ['{listen}']\n\
             [pool.web]\nendpoints = ['127.0.0.1:1']\n",
            log.display()
        ),
    );
    ends(&["run", "-c", &file], 1, &["access log: cannot open", "no such folder"]);
    ends(&["check", &file], 78, &["error[EK0212]: no such folder", "--elsewhere"]);
    ends(&["check", &file, "--elsewhere"], 0, &["ok: 1 listener"]);
}

#[test]
fn what_would_loop_does_not_start() {
    let listen = address();
    ends(&["run", &listen, "--listen", &listen], 2, &["error[EK0213]", "itself: every request would loop"]);
}

#[test]
fn algorithms_come_from_the_registry() {
    let listed = ends(&["algorithms"], 0, &["random", "p2c", "draws = 2"]);
    assert!(listed.lines().all(|line| line.chars().count() <= 100), "{listed}");
    let json: serde_json::Value = serde_json::from_str(&ends(&["algorithms", "--json"], 0, &[])).expect("JSON");
    let names: Vec<&str> = json.as_array().into_iter().flatten().filter_map(|a| a["name"].as_str()).collect();
    let registry: Vec<&str> = evenkeel_balance::algorithms::ALL.iter().map(|a| a.name).collect();
    assert_eq!(names, registry);
    for name in registry {
        ends(&["algorithms", name], 0, &[&format!("## {name}"), "- Source:"]);
    }
    ends(&["algorithms", "p2c", "--json"], 0, &["\"name\": \"random\""]);
}

#[test]
fn a_replay_says_what_agrees_and_what_does_not() {
    let folder = Folder::new("replay");
    let header = "evenkeel-journal 1 leastconn 0 1 5eed\nset 0 2 0 0:a:1:0:256:0 1:b:1:0:256:0\n";
    let picks = "pick 1 free - - 0 0\npick 2 free - - 1 1\nend 3 0 0 2 success -\n";
    let (first, second) = (folder.file("first", header), folder.file("second", picks));
    assert_eq!(ends(&["replay", &first, &second], 0, &[]), "ok: all 2 picks of one journal are the same\n");
    let other = folder.file("other", &picks.replace("- - 1 1", "- - 1 0"));
    let says = ["line 2: another pick, at 2 ns", "recorded: slot 0 (endpoint a): 1 in flight", "replayed: slot 1"];
    ends(&["replay", &first, &other], 10, &says);
    ends(&["replay", &second], 1, &["line 1: not a line of a journal: it does not begin with evenkeel-journal"]);
    let several = folder.file("several", &header.replace(" 0 1 ", " 0 4 "));
    ends(&["replay", &several], 1, &["cannot be compared: recorded with 4 workers"]);
    ends(&["replay", "nowhere"], 1, &["cannot read nowhere: no such file"]);
    ends(&["replay"], 2, &["FILE"]);
}

#[test]
fn the_committed_page_of_metrics_is_the_generated_one() {
    let page = ends(&["metrics"], 0, &["`evenkeel_http_requests_total` | counter |"]);
    crate::committed::same_as_committed(&[("docs/reference/metrics.md".into(), page)]);
}

#[test]
fn pages_and_scripts_are_printed() {
    ends(&["config", "reference"], 0, &["# Configuration"]);
    ends(&["config", "schema"], 0, &["\"$schema\"", "evenkeel configuration"]);
    ends(&["sim", "--schema"], 0, &["\"$schema\"", "evenkeel scenario"]);
    ends(&["completions", "bash"], 0, &["_evenkeel"]);
    ends(&["--version"], 0, &[env!("CARGO_PKG_VERSION")]);
}

#[test]
fn each_command_has_a_man_page_but_the_hidden_ones() {
    let folder = Folder::new("man");
    ends(&["man", &folder.0.display().to_string()], 0, &[]);
    let page = |name: &str| std::fs::read_to_string(folder.0.join(name));
    assert!(page("evenkeel.1").expect("a page").contains("evenkeel\\-run(1)"));
    assert!(page("evenkeel-config-apply.1").expect("a page").contains("\\-\\-dry\\-run"));
    assert!(page("evenkeel-man.1").is_err());
    ends(&["man", "/no/such/folder"], 1, &["cannot write man pages to /no/such/folder"]);
}
