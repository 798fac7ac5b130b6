//! Configurations that operators write from habit. Each gets an error or a warning with the text to write
//! instead, and that text is accepted without a finding.

use evenkeel_config::{Outcome, parse_str, render_text};

/// A wrong file, and the valid one that its advice leads to.
struct Row {
    wrong: &'static str,
    /// Code and line of the finding with the advice.
    finding: (&'static str, usize),
    /// Text that the help must contain.
    help: &'static str,
    right: &'static str,
}

const fn row(wrong: &'static str, finding: (&'static str, usize), help: &'static str, right: &'static str) -> Row {
    Row { wrong, finding, help, right }
}

/// `WEB` and `APP` stand for a listener and a pool; keys after them belong to those tables, on line 3.
const ROWS: &[Row] = &[
    row(
        "[pool.app]\nendpoints = [\"https://app:443\"]\nWEB",
        ("EK0108", 2),
        "write \"app:443\", and tls = true in the pool",
        "[pool.app]\nendpoints = [\"app:443\"]\ntls = true\nWEB",
    ),
    row("WEB redirect = \"https\"\nAPP", ("EK0101", 3), "redirect_https = true", "WEB redirect_https = true\nAPP"),
    row(
        "APP health = { http = \"http://10.0.0.1:8080/healthz\" }\nWEB",
        ("EK0111", 3),
        "write http = \"/healthz\": each endpoint is checked at its own address",
        "APP health = { http = \"/healthz\" }\nWEB",
    ),
    row("APP health = { tcp = true }\nWEB", ("EK0103", 3), "write tcp = {}", "APP health = { tcp = {} }\nWEB"),
    row(
        "APP health = \"/x\"\nWEB",
        ("EK0103", 3),
        "write health = { http = \"/x\" }",
        "APP health = { http = \"/x\" }\nWEB",
    ),
    row(
        "APP sticky = true\nWEB",
        ("EK0103", 3),
        "write sticky = { secret_file = \"/etc/evenkeel/sticky.key\" }",
        "APP sticky = { secret_file = \"/etc/evenkeel/sticky.key\" }\nWEB",
    ),
    row("APP retry = 3\nWEB", ("EK0103", 3), "write retry = { attempts = 3 }", "APP retry = { attempts = 3 }\nWEB"),
    row(
        "APP retry = 50\nWEB",
        ("EK0103", 3),
        "write retry = { attempts = 10 }: 10 is the maximum",
        "APP retry = { attempts = 10 }\nWEB",
    ),
    row("APP queue = 100\nWEB", ("EK0103", 3), "write queue = { max = 100 }", "APP queue = { max = 100 }\nWEB"),
    row("APP slow_start = 30\nWEB", ("EK0103", 3), "write slow_start = \"30s\"", "APP slow_start = \"30s\"\nWEB"),
    row(
        "WEB mode = \"https\"\nAPP",
        ("EK0109", 3),
        "mode = \"http\", and tls = { certificates = [{ cert = \"FILE.pem\", key = \"FILE.key\" }] }",
        "WEB mode = \"http\"\ntls = { certificates = [{ cert = \"FILE.pem\", key = \"FILE.key\" }] }\nAPP",
    ),
    row(
        "WEB http2 = true\nAPP",
        ("EK0103", 3),
        "leave it out: HTTP/2 is on wherever tls is set; for HTTP/2 without TLS, write h2c = true",
        "WEB h2c = true\nAPP",
    ),
    row("APP http2 = true\nWEB", ("EK0103", 3), "write protocol = \"h2\"", "APP protocol = \"h2\"\nWEB"),
    row(
        "WEB http3 = true\nAPP",
        ("EK0211", 3),
        "add tls = { ... }, or leave \"http3\" out",
        "WEB tls = { self_signed = true }\nhttp3 = true\nAPP",
    ),
    row(
        "WEB tls = { cert = \"/a.pem\", key = \"/a.key\" }\nAPP",
        ("EK0101", 3),
        "certificates = [{ cert = \"/a.pem\", key = \"/a.key\" }]",
        "WEB tls = { certificates = [{ cert = \"/a.pem\", key = \"/a.key\" }] }\nAPP",
    ),
    row(
        "APP insecure_skip_verify = true\nWEB",
        ("EK0101", 3),
        "tls = { verify = false }, which trusts any endpoint; tls = { ca = \"FILE.pem\" } is safer",
        "APP tls = { ca = \"FILE.pem\" }\nWEB",
    ),
    row(
        "APP tls = { insecure_skip_verify = true }\nWEB",
        ("EK0101", 3),
        "verify = false, which trusts any endpoint; ca = \"FILE.pem\" is safer",
        "APP tls = { ca = \"FILE.pem\" }\nWEB",
    ),
    row(
        "APP retry = { retry_on = \"5xx,connect-failure\" }\nWEB",
        ("EK0101", 3),
        "here this is on = [\"connect\", \"reset\", \"5xx\"]",
        "APP retry = { on = [\"connect\", \"reset\", \"5xx\"] }\nWEB",
    ),
    row(
        "APP retry_on = \"gateway-error,reset\"\nWEB",
        ("EK0101", 3),
        "retry = { on = [\"502..=504\", \"reset\"] }",
        "APP retry = { on = [\"502..=504\", \"reset\"] }\nWEB",
    ),
    row(
        "APP retry = { num_retries = 3 }\nWEB",
        ("EK0101", 3),
        "here this is attempts = 3",
        "APP retry = { attempts = 3 }\nWEB",
    ),
    row("APP num_retries = 3\nWEB", ("EK0101", 3), "retry = { attempts = 3 }", "APP retry = { attempts = 3 }\nWEB"),
    row(
        "APP retry = { per_try_timeout = \"2s\" }\nWEB",
        ("EK0101", 3),
        "try_timeout = \"2s\", with \"timeout\" in on",
        "APP retry = { try_timeout = \"2s\", on = [\"connect\", \"timeout\"] }\nWEB",
    ),
    row(
        "APP per_try_timeout = 2\nWEB",
        ("EK0101", 3),
        "retry = { try_timeout = \"2s\", on = [\"connect\", \"reset\", \"timeout\"] }",
        "APP retry = { try_timeout = \"2s\", on = [\"connect\", \"reset\", \"timeout\"] }\nWEB",
    ),
    row(
        "APP outlier = { base_ejection_time = \"20s\" }\nWEB",
        ("EK0101", 3),
        "eject = \"20s\"",
        "APP outlier = { eject = \"20s\" }\nWEB",
    ),
    row(
        "APP outlier = { max_ejection_percent = 50 }\nWEB",
        ("EK0101", 3),
        "eject_at_most = 0.5",
        "APP outlier = { eject_at_most = 0.5 }\nWEB",
    ),
    row(
        "[pool.app]\ndiscover = { consul = \"app\" }\nWEB",
        ("EK0103", 2),
        "consul = { service = \"app\" }",
        "[pool.app]\ndiscover = { consul = { service = \"app\" } }\nWEB",
    ),
    row(
        "[pool.app]\ndiscover = { eds = \"app\" }\nWEB",
        ("EK0101", 2),
        "xds = { cluster = \"app\" }",
        "[pool.app]\ndiscover = { xds = { cluster = \"app\" } }\nWEB",
    ),
    row(
        "[pool.app]\ndiscover = { etcd = \"/app/\" }\nWEB",
        ("EK0103", 2),
        "etcd = { prefix = \"/app/\" }",
        "[pool.app]\ndiscover = { etcd = { prefix = \"/app/\" } }\nWEB",
    ),
    row(
        "[pool.app]\ndiscover = { kubernetes = \"app\" }\nWEB",
        ("EK0103", 2),
        "kubernetes = { service = \"app\" }",
        "[pool.app]\ndiscover = { kubernetes = { service = \"app\" } }\nWEB",
    ),
    row(
        "[pool.app]\ndiscover = { srv = \"_http._tcp.app.internal\" }\nWEB",
        ("EK0101", 2),
        "dns = { name = \"_http._tcp.app.internal\", type = \"SRV\" }",
        "[pool.app]\ndiscover = { dns = { name = \"_http._tcp.app.internal\", type = \"SRV\" } }\nWEB",
    ),
    row(
        "[pool.app]\ndiscover = { dns = \"app.internal\" }\nWEB",
        ("EK0103", 2),
        "write dns = { name = \"app.internal\", port = 8080 }",
        "[pool.app]\ndiscover = { dns = { name = \"app.internal\", port = 8080 } }\nWEB",
    ),
    row(
        "[pool.app]\ndns = \"app.internal\"\nWEB",
        ("EK0101", 2),
        "discover = { dns = { name = \"app.internal\", port = 8080 } }",
        "[pool.app]\ndiscover = { dns = { name = \"app.internal\", port = 8080 } }\nWEB",
    ),
    row(
        "WEB allow = [\"10.0.0.0/8\"]\nAPP",
        ("EK0101", 3),
        "access = { allow = [\"10.0.0.0/8\"], deny = [\"10.1.0.0/16\"] } in a [[route]]",
        "WEB [[route]]\npool = \"app\"\naccess = { allow = [\"10.0.0.0/8\"], deny = [\"10.1.0.0/16\"] }\nAPP",
    ),
    row(
        "[[route]]\npool = \"app\"\ndeny = [\"192.0.2.0/24\"]\nWEB\nAPP",
        ("EK0101", 3),
        "access = { allow = ",
        "[[route]]\npool = \"app\"\naccess = { deny = [\"192.0.2.0/24\"] }\nWEB\nAPP",
    ),
    row(
        "[[route]]\npool = \"app\"\nrate_limit = 100\nWEB\nAPP",
        ("EK0101", 3),
        "limits = [{ requests = \"100/s\", key = \"client\" }]",
        "[[route]]\npool = \"app\"\nlimits = [{ requests = \"100/s\", key = \"client\" }]\nWEB\nAPP",
    ),
    row(
        "[[route]]\npool = \"app\"\nadd_header = { X-Request-Id = \"x\" }\nWEB\nAPP",
        ("EK0101", 3),
        "request_headers = { set = { X-Real-IP = \"{client.ip}\" } }",
        "[[route]]\npool = \"app\"\nrequest_headers = { set = { X-Real-IP = \"{client.ip}\" } }\nWEB\nAPP",
    ),
    row(
        "[listener.web]\nbind = 8080\nAPP",
        ("EK0103", 2),
        "write bind = [\"[::]:8080\"]",
        "[listener.web]\nbind = [\"[::]:8080\"]\nAPP",
    ),
    row(
        "[listener.web]\nbind = [8080]\nAPP",
        ("EK0103", 2),
        "write \"[::]:8080\"",
        "[listener.web]\nbind = [\"[::]:8080\"]\nAPP",
    ),
    row(
        "[[route]]\npool = \"app\"\nmatch = { path = \"/\" }\nWEB\nAPP",
        ("EK0309", 3),
        "write prefix = \"/\", or leave path out",
        "[[route]]\npool = \"app\"\nmatch = { prefix = \"/\" }\nWEB\nAPP",
    ),
    row("// a comment\nWEB\nAPP", ("EK0003", 1), "write # instead of //", "# a comment\nWEB\nAPP"),
    row("; a comment\nWEB\nAPP", ("EK0003", 1), "write # instead of ;", "# a comment\nWEB\nAPP"),
    row(
        "[listener.web]\nbind = 0.0.0.0:8080\nAPP",
        ("EK0003", 2),
        "write bind = [\"0.0.0.0:8080\"]",
        "[listener.web]\nbind = [\"0.0.0.0:8080\"]\nAPP",
    ),
    row(
        "[pool.app]\nendpoints = [10.0.0.1:80, app:80]\nWEB",
        ("EK0003", 2),
        "write endpoints = [\"10.0.0.1:80\", \"app:80\"]",
        "[pool.app]\nendpoints = [\"10.0.0.1:80\", \"app:80\"]\nWEB",
    ),
    row(
        "[server.www]\nlisten = 80\nAPP",
        ("EK0101", 1),
        "[listener.www], with bind = [\"[::]:80\"] and pool = \"NAME\"",
        "[listener.www]\nbind = [\"[::]:80\"]\npool = \"app\"\nAPP",
    ),
    row(
        "[pool.app]\nendpoints = [\"$BACKEND\"]\nWEB",
        ("EK0108", 2),
        "write \"${BACKEND}\"",
        "[pool.app]\nendpoints = [\"${BACKEND}\"]\nWEB",
    ),
    row(
        "[pool.app]\nendpoints = \"$HOST:8080\"\nWEB",
        ("EK0103", 2),
        "[\"${HOST}:8080\"]",
        "[pool.app]\nendpoints = [\"${HOST}:8080\"]\nWEB",
    ),
    row(
        "[pool.app]\nendpoints = \"https://app:443\"\nWEB",
        ("EK0103", 2),
        "[\"app:443\"], and tls = true in the pool",
        "[pool.app]\nendpoints = [\"app:443\"]\ntls = true\nWEB",
    ),
    row(
        "[pool.app]\nendpoints = 8080\nWEB",
        ("EK0103", 2),
        "write endpoints = [\"127.0.0.1:8080\"]",
        "[pool.app]\nendpoints = [\"127.0.0.1:8080\"]\nWEB",
    ),
    row(
        "[pool.app]\nendpoints = [\n  10.0.0.1:80,\n]\nWEB",
        ("EK0003", 3),
        "write \"10.0.0.1:80\"",
        "[pool.app]\nendpoints = [\n  \"10.0.0.1:80\",\n]\nWEB",
    ),
    row(
        "APP tls = { insecure_skip_verify = false }\nWEB",
        ("EK0101", 3),
        "leave it out: certificates of endpoints are verified unless verify = false",
        "APP tls = true\nWEB",
    ),
    row(
        "APP timeouts = \"30\"\nWEB",
        ("EK0103", 3),
        "write timeouts = { request = \"30s\" }",
        "APP timeouts = { request = \"30s\" }\nWEB",
    ),
    // Keys that evenkeel has under another name, or in another table.
    row(
        "[runtime]\nstate_dir = \"/var/lib/evenkeel\"\nWEB\nAPP",
        ("EK0101", 2),
        "state = \"/var/lib/evenkeel/state\"",
        "[runtime]\nstate = \"/var/lib/evenkeel/state\"\nWEB\nAPP",
    ),
    row(
        "[admin.http]\nbind = \"127.0.0.1:9900\"\ntoken_file = \"/x\"\nWEB\nAPP",
        ("EK0101", 3),
        "read_token = \"/etc/evenkeel/read.token\"",
        "[admin.http]\nbind = \"127.0.0.1:9900\"\nread_token = \"/etc/evenkeel/read.token\"\nWEB\nAPP",
    ),
    row(
        "[admin.http]\nbind = \"127.0.0.1:9900\"\nallow_write = true\nWEB\nAPP",
        ("EK0101", 3),
        "write_token = \"/etc/evenkeel/write.token\"",
        "[admin.http]\nbind = \"127.0.0.1:9900\"\nwrite_token = \"/etc/evenkeel/write.token\"\nWEB\nAPP",
    ),
    row(
        "[telemetry]\ntracing = true\nWEB\nAPP",
        ("EK0101", 2),
        "traces = { endpoint = \"http://127.0.0.1:4318\" }",
        "[telemetry]\ntraces = { endpoint = \"http://127.0.0.1:4318\" }\nWEB\nAPP",
    ),
    row(
        "WEB protocols = [\"h2\"]\nAPP",
        ("EK0101", 3),
        "tls = { protocols = [\"h2\"] }",
        "WEB tls = { self_signed = true, protocols = [\"h2\"] }\nAPP",
    ),
    row(
        "WEB limits = { h2_streams = 50 }\nAPP",
        ("EK0101", 3),
        "http2 = { streams = 50 } of the listener",
        "WEB http2 = { streams = 50 }\nAPP",
    ),
    row(
        "APP limits = { connections_per_endpoint = 9 }\nWEB",
        ("EK0101", 3),
        "requests_per_endpoint = 9",
        "APP limits = { requests_per_endpoint = 9 }\nWEB",
    ),
    row(
        "[[route]]\nweighted_clusters = { app = 1 }\nWEB\nAPP",
        ("EK0101", 2),
        "split = { weights = { stable = 95, canary = 5 } }",
        "[[route]]\nsplit = { weights = { app = 95, canary = 5 } }\nWEB\nAPP\n[pool.canary]\nendpoints = [\"10.0.0.9:80\"]",
    ),
    row(
        "[[route]]\npool = \"app\"\nmatch = { method = \"GET\" }\nWEB\nAPP",
        ("EK0103", 3),
        "write it as an array: [\"GET\"]",
        "[[route]]\npool = \"app\"\nmatch = { method = [\"GET\"] }\nWEB\nAPP",
    ),
    row(
        "[[route]]\npool = \"app\"\nmatch = { headers = { X-Canary = \"1\" } }\nWEB\nAPP",
        ("EK0101", 3),
        "header = { X-Canary = \"1\" }",
        "[[route]]\npool = \"app\"\nmatch = { header = { X-Canary = \"1\" } }\nWEB\nAPP",
    ),
];

fn read(text: &str) -> Outcome {
    let whole = text
        .replace("WEB ", "WEB\n")
        .replace("APP ", "APP\n")
        .replace("WEB", "[listener.web]\nbind = [\"[::]:80\"]")
        .replace("APP", "[pool.app]\nendpoints = [\"10.0.0.1:8080\"]");
    parse_str("evenkeel.toml", &whole, &|name| match name {
        "BACKEND" => Some("10.0.0.1:8080".to_string()),
        "HOST" => Some("10.0.0.1".to_string()),
        _ => None,
    })
}

#[test]
fn each_habit_gets_the_advice_that_leads_to_a_right_file() {
    for Row { wrong, finding: (code, line), help, right } in ROWS {
        let found = read(wrong).diagnostics;
        let shown = render_text(&found, false);
        let has = |text: &Option<String>| text.as_deref().is_some_and(|text| text.contains(help));
        let at = found.iter().find(|d| has(&d.help)).unwrap_or_else(|| panic!("{wrong}\nno {help}:\n{shown}"));
        let place = at.at.range.as_ref().map(|range| range.start.line);
        assert_eq!((at.code.as_str(), place), (*code, Some(*line)), "{wrong}\n{shown}");
        let right = read(right);
        assert!(
            right.plan.is_some() && right.diagnostics.is_empty(),
            "{wrong}:\n{}",
            render_text(&right.diagnostics, false)
        );
    }
}

#[test]
fn a_habit_is_one_error_for_each_key() {
    for Row { wrong, .. } in ROWS {
        let (found, keys) =
            (read(wrong).diagnostics, 1 + wrong.matches("key = ").count() + wrong.matches("listen").count());
        assert!(found.len() <= keys, "{wrong}\n{}", render_text(&found, false));
    }
}

#[test]
fn a_root_beside_other_paths_is_meant_as_it_is() {
    let root = "[[route]]\nmatch = { path = \"/\" }\npool = \"app\"\n";
    for other in ["[[route]]\nmatch = { prefix = \"/api\" }\npool = \"app\"\nWEB\nAPP", "WEB pool = \"app\"\nAPP"] {
        let found = read(&format!("{root}{other}")).diagnostics;
        assert!(found.is_empty(), "{other}\n{}", render_text(&found, false));
    }
}
