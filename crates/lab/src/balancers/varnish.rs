//! Setup as a Varnish configuration: for responses from its cache, and over HTTP without TLS.

use super::kind::{Cannot, Kind, Reload, Site, Text, counts_nothing, newest_worker};
use super::setup::{Back, Front, Pool};
use rustix::process::Signal;

pub const KIND: Kind = Kind {
    name: "varnish",
    program: "varnishd",
    version_flag: "-V",
    files: |site| Ok(vec![("varnish.vcl", config(site)?)]),
    arguments,
    forks: true,
    logs_to_socket: false,
    reload: Reload::Signal(Signal::HUP),
    upgrades: false,
    generation: newest_worker,
    retries: |_| Err(counts_nothing()),
    settings: "As a cache only: everything in memory for an hour.",
};

fn arguments(site: &Site, config: &str) -> Vec<String> {
    let mut words: Vec<String> =
        ["-F", "-j", "none", "-T", "none", "-s", "malloc,256m", "-p", "thread_pools=1"].map(str::to_owned).to_vec();
    // A thread for each connection that is busy. More threads than connections cost nothing.
    words.extend(["-p", "thread_pool_min=200", "-p", "feature=+http2", "-n"].map(str::to_owned));
    words.extend([site.file("varnish").display().to_string(), "-f".to_owned(), config.to_owned()]);
    for listener in &site.setup.listeners {
        words.extend(["-a".to_owned(), listener.bind.to_string()]);
    }
    words
}

fn config(site: &Site) -> Text {
    let setup = site.setup;
    if !setup.routes.iter().all(|route| route.cached && !route.ruled && route.maps.is_none()) || setup.logs {
        return Err(Cannot("it is measured as a cache only"));
    }
    if setup.listeners.iter().any(|listener| !matches!(listener.front, Front::Http1 | Front::H2c)) {
        return Err(Cannot("it speaks HTTP without TLS only"));
    }
    let pool = setup.pools.first().filter(|pool| pool.back == Back::Http1);
    let pool = pool.ok_or(Cannot("it speaks HTTP/1.1 to endpoints only"))?;
    Ok(format!("vcl 4.1;\nimport directors;\n{}{}", backends(pool), HOUR))
}

fn backends(pool: &Pool) -> String {
    let name = |at: usize| format!("{}{at}", pool.name);
    let each = pool.endpoints.iter().enumerate().map(|(at, endpoint)| {
        format!("backend {} {{ .host = \"{}\"; .port = \"{}\"; }}\n", name(at), endpoint.ip(), endpoint.port())
    });
    let added = (0..pool.endpoints.len()).map(|at| format!("  pool.add_backend({});\n", name(at)));
    format!(
        "{}sub vcl_init {{\n  new pool = directors.round_robin();\n{}}}\n",
        each.collect::<String>(),
        added.collect::<String>()
    )
}

/// Every 200 for an hour, as the other caches are told.
const HOUR: &str = "sub vcl_recv {\n  set req.backend_hint = pool.backend();\n}\n\
sub vcl_backend_response {\n  if (beresp.status == 200) {\n    set beresp.ttl = 1h;\n  }\n}\n";
