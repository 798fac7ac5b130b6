//! Pages that are generated from tables: the configuration, its schema, and the metrics, as in docs/reference.

use crate::arguments::{Config, ConfigPage};
use crate::commands::{configure, running};
use crate::configured::reload::Reloads;
use crate::failure::Failure;
use crate::output::print;
use crate::registry::{Rooms, registry, render};
use crate::traces::Metrics as Spans;
use crate::window::native;
use evenkeel_config::render_text;
use evenkeel_discovery::Discovery;
use evenkeel_discovery::providers::parts::Parts;
use evenkeel_dns::metrics as dns;
use evenkeel_kernel::numbers as kernel;
use evenkeel_proxy::{Numbers, metrics, table};
use evenkeel_runtime::{Control, Generation, Metrics};
use evenkeel_tls::Store;
use evenkeel_tokens::{Metrics as Keys, Tokens};
use std::fmt::Write;
use std::sync::Arc;
use tokio::sync::watch;

/// Runs `evenkeel config`.
pub fn config(arguments: &Config) -> Result<(), Failure> {
    match &arguments.page {
        ConfigPage::Show(arguments) => running::show(arguments),
        ConfigPage::Diff(arguments) => running::diff(arguments),
        ConfigPage::Apply(arguments) => configure::apply(arguments),
        ConfigPage::Rollback(arguments) => configure::rollback(arguments),
        ConfigPage::History(arguments) => configure::history(arguments),
        ConfigPage::Save(place) => configure::save(place),
        ConfigPage::Reference => print(&evenkeel_config::reference()),
        ConfigPage::Schema => print(&format!("{:#}\n", evenkeel_config::schema())),
    }
}

/// Configuration with a listener of every kind and with discovery, so that each metric shows its labels.
const SAMPLE: &str = "
[telemetry]
metrics = { unused = true }
[listener]
http = { bind = ['127.0.0.1:1'], tls = { self_signed = true } }
tcp = { bind = ['127.0.0.1:2'], mode = 'tcp', pool = 'web' }
udp = { bind = ['127.0.0.1:3'], mode = 'udp', pool = 'web' }
kernel = { bind = ['192.0.2.1:7'], mode = 'tcp', plane = 'nftables', pool = 'kernel' }
dns = { bind = ['127.0.0.1:4'], mode = 'dns', zone = { name = 'a.example', records = { www = { pool = 'web' } } } }
[[route]]
pool = 'web'
match = { listener = ['http'] }
limits = [{ requests = '100/s' }]
cache = true
compress = true
internal_redirects = 'X-Accel-Redirect'
jwt = { keys = 'https://idp.example/jwks.json' }
[[route]]
pool = 'grpc'
match = { listener = ['http'], path = '/grpc' }
[[route]]
split = { weights = { web = 95, grpc = 5 } }
match = { listener = ['http'], path = '/split' }
[pool.kernel]
balance = 'round_robin'
endpoints = ['127.0.0.1:8']
[pool.grpc]
protocol = 'h2'
endpoints = ['127.0.0.1:6']
[pool.web]
endpoints = ['127.0.0.1:5']
discover = { file = 'endpoints.toml' }
";

/// The failure of all of these together.
fn failed(all: impl Iterator<Item = impl std::fmt::Display>) -> Failure {
    Failure::running(all.map(|one| one.to_string()).collect::<Vec<_>>().join("; "))
}

/// Runs `evenkeel metrics`.
pub fn metrics() -> Result<(), Failure> {
    let outcome = evenkeel_config::parse_str("sample", SAMPLE, &|_| None);
    let plan = outcome.plan.ok_or_else(|| Failure::running(render_text(&outcome.diagnostics, false)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::running(format!("cannot create an event loop: {e}")))?;
    let discovery = Discovery::default();
    discovery.keep(runtime.block_on(discovery.follow(&plan)));
    let certificates = Store::default().next(&plan).map_err(|all| failed(all.iter()))?;
    let resources = table::resources(&plan).map_err(|all| failed(all.iter()))?;
    let verifiers = resources.get::<Tokens>().cloned().unwrap_or_default();
    let control = Control::unattended(&plan, 1);
    let generation = Arc::new(Generation::first(Arc::new(plan), Vec::new()));
    let answers = watch::channel(Arc::new(dns::Numbers::next(&generation, 1, &dns::Numbers::default()))).1;
    let counted = watch::channel(Arc::new(Numbers::first(generation.clone(), 1, resources))).1;
    let in_kernel = kernel::Numbers::first(&generation);
    in_kernel.drivers.values().for_each(|stats| stats.set_totals(vec![("ports-exhausted", 0)]));
    let in_kernel = watch::channel(Arc::new(in_kernel)).1;
    let shared = Metrics::new(watch::channel(generation).1, control);
    let providers = Parts::default();
    // A single provider is enough to show the labels.
    providers.of("kubernetes");
    let registry = registry(Rooms {
        planes: vec![
            Box::new(shared),
            Box::new(metrics::Metrics::new(counted)),
            Box::new(dns::Metrics::new(answers)),
            Box::new(kernel::Metrics(in_kernel)),
        ],
        reloads: Arc::new(Reloads::new()),
        discovery: &discovery,
        providers,
        certificates: &certificates,
        orders: Arc::default(),
        spans: Spans::default(),
        tokens: Keys::new(watch::channel(verifiers).1),
        admin: evenkeel_admin::Numbers::default(),
    });
    let text = render(&registry);
    let mut families = families(&text);
    let (name, help) = native::NATIVE;
    families.push(Family { name, help, kind: "native histogram", labels: vec!["pool", "endpoint"] });
    print(&page(&families))
}

/// A metric as it is served.
#[derive(Debug, Default, PartialEq)]
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    labels: Vec<&'a str>,
}

/// Reads the metrics back from their own text, so that the page cannot say anything else.
fn families(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.push(Family { name, help, ..Family::default() });
            continue;
        }
        let Some(family) = families.last_mut() else { continue };
        if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            family.kind = kind;
        } else if let Some((name, rest)) = line.split_once('{') {
            let labels = rest.split_once('}').map_or("", |(labels, _)| labels);
            for key in labels.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)) {
                let bound = key == "le" && name.ends_with("_bucket");
                if !bound && !family.labels.contains(&key) {
                    family.labels.push(key);
                }
            }
        }
    }
    families
}

fn page(families: &[Family<'_>]) -> String {
    let mut out = String::from(
        "# Metrics\n\n<!-- Generated from what is served. `make bless` writes it anew. -->\n\nMetrics that the admin \
         listener serves at `/metrics`. Clients that accept OpenMetrics 1.0, such as Prometheus, get that format. A \
         Prometheus with native histograms gets protocol buffers, and all other clients get the Prometheus text \
         format. Numbers are sums over the workers; durations are in seconds. Series start at zero, with two \
         exceptions: requests by a method and status other than `GET` and `200` appear with their first request, and \
         so do most series of pools, endpoints and routes unless `unused` is set. Listeners and their pools have only \
         the series of their mode: a listener for datagrams has no requests, and only pools with a `protocol` other \
         than `http1` have series of HTTP/2. `telemetry.metrics` of the [configuration](config.md) sets the path, the \
         buckets of histograms, `unused`, and whether series have a label for the endpoint.\n\n| Metric | Type | \
         Labels | Meaning |\n|---|---|---|---|\n",
    );
    for family in families {
        let suffix = match family.kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (family.name, family.kind, family.help.trim_end_matches('.'));
        let _ = writeln!(out, "| `{name}{suffix}` | {kind} | {} | {help} |", labels.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_kinds_and_labels_back() {
        let text = "# HELP a_b Help, with a comma.\n# TYPE a_b histogram\na_b_sum{x=\"1\"} 0\na_b_bucket{le=\"1\",x=\"1\"} 0\n";
        let want = Family { name: "a_b", help: "Help, with a comma.", kind: "histogram", labels: vec!["x"] };
        assert_eq!(families(text), [want]);
    }
}
