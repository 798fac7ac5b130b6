//! A real Prometheus reads the metrics, and the alerts of `deploy` fire when they should.

use crate::support::{Endpoint, Folder, Running, address, eventually, get};
use serde_json::Value;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn alerts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus")
}

/// Runs promtool, which has to find nothing.
#[track_caller]
fn promtool(words: &[&str], input: &str) {
    let mut promtool = Command::new(evenkeel_peers::find("promtool").expect("the test looked"))
        .args(words)
        .current_dir(alerts())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    promtool.stdin.take().expect("it is piped").write_all(input.as_bytes()).expect("it reads");
    let done = promtool.wait_with_output().expect("it ends");
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&said));
}

/// Answer of Prometheus, once there is one.
fn asked(prometheus: &str, path: &str) -> Option<Value> {
    let (status, body) = get(prometheus, path).ok()?;
    if status == 200 { serde_json::from_str(&body).ok() } else { None }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn prometheus_scrapes_and_its_alerts_fire() {
    crate::judges!("prometheus", "promtool");
    promtool(&["check", "rules", "alerts.yaml"], "");
    promtool(&["test", "rules", "alerts_test.yaml"], "");

    let (folder, one) = (Folder::new("prometheus"), Endpoint::start("one"));
    let two = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let [admin, web, tcp, udp, dns, prometheus]: [String; 6] = std::array::from_fn(|_| address());
    let text = format!(
        "[admin]\nhttp = {{ bind = '{admin}' }}\n[listener]\nweb = {{ bind = ['{web}'], pool = 'shop' }}\n\
         tcp = {{ bind = ['{tcp}'], mode = 'tcp', pool = 'shop' }}\nudp = {{ bind = ['{udp}'], mode = 'udp', pool = 'plain' }}\n\
         dns = {{ bind = ['{dns}'], mode = 'dns', zone = {{ name = 'a.example', records = {{ www = {{ pool = 'plain' }} }} }} }}\n\
         [pool.shop]\nendpoints = ['{0}']\n[pool.plain]\nendpoints = [{{ name = 'one', addr = '{0}' }}, \
         {{ name = 'two', addr = '{1}' }}]\nhealth = {{ tcp = {{}}, interval = '200ms' }}\n",
        one.addr,
        two.local_addr().expect("it is bound"),
    );
    let _running = Running::start(&["run", "-c", &folder.file("evenkeel.toml", &text)]);
    let metrics = || get(&admin, "/metrics").expect("an answer").1;
    promtool(&["check", "metrics"], &metrics());
    for _ in 0..50 {
        assert_eq!(get(&web, "/").expect("an answer").0, 200);
        assert!(TcpStream::connect(&tcp).is_ok());
    }
    promtool(&["check", "metrics"], &metrics());

    // As they are, but at once.
    let rules = std::fs::read_to_string(alerts().join("alerts.yaml")).expect("it is there");
    let rules: Vec<&str> = rules.lines().filter(|line| !line.trim_start().starts_with("for: ")).collect();
    let rules = folder.file("alerts.yaml", &(rules.join("\n") + "\n"));
    let config = folder.file(
        "prometheus.yaml",
        &format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{rules}']\nscrape_configs:\n\
             - {{job_name: evenkeel, static_configs: [{{targets: ['{admin}']}}]}}\n"
        ),
    );
    let _prometheus = Ended(
        Command::new(evenkeel_peers::find("prometheus").expect("the test looked"))
            .args(["--config.file", &config, "--log.level=error", "--web.listen-address", &prometheus])
            .arg("--enable-feature=native-histograms")
            .args(["--storage.tsdb.path", &folder.0.join("data").display().to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("it can be started"),
    );
    let value = |query: &str| {
        let answer = asked(&prometheus, &format!("/api/v1/query?query={query}"))?;
        answer["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    };
    eventually("a scrape", || value("up").filter(|up| up == "1"));
    eventually("the requests", || {
        let said = value("sum(evenkeel_http_requests_total%7Blistener=%22web%22%7D)")?;
        assert_eq!(said, "50");
        Some(said)
    });
    // Each request is in the native histogram by its time to the response, and each session by its time to connect.
    let native = "evenkeel_endpoint_ttfb_seconds%7Bpool=%22shop%22%7D";
    eventually("the native histogram", || value(&format!("histogram_count({native})")).filter(|count| count == "100"));
    let number = |query: &str| value(query)?.parse::<f64>().ok();
    let median = number(&format!("histogram_quantile(0.5,{native})")).expect("a number");
    let mean = number(&format!("histogram_sum({native})")).expect("a number") / 100.0;
    assert!(median > 0.0 && median < 1.0 && mean > 0.0 && mean < 1.0, "{median} {mean}");
    let is_firing = || {
        let answer = asked(&prometheus, "/api/v1/alerts")?;
        let alerts = answer["data"]["alerts"].as_array()?.clone();
        let down = |alert: &Value| alert["labels"]["alertname"] == "EvenkeelEndpointDown";
        Some(alerts.into_iter().filter(down).filter(|alert| alert["state"] == "firing").collect::<Vec<_>>())
    };
    eventually("rules that were looked at", || value("ALERTS").or(value("up")));
    assert_eq!(is_firing(), Some(Vec::new()));
    drop(two);
    let alert = eventually("the alert", || is_firing()?.pop());
    assert_eq!((&alert["labels"]["pool"], &alert["labels"]["endpoint"]), (&"plain".into(), &"two".into()), "{alert}");
    assert_eq!(alert["annotations"]["summary"], "plain: endpoint two is down");
    // Every scrape could be read.
    assert_eq!(value("min_over_time(up%5B1m%5D)").as_deref(), Some("1"));
}
