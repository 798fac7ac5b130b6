//! How is evenkeel set up?

use super::kind::{Kind, Site, and};
use crate::experiments::protocol_cost::cases::{Back, Front, Setup};

pub const KIND: Kind = Kind {
    name: "evenkeel",
    program: "evenkeel",
    config_name: "evenkeel.toml",
    config,
    arguments: |command, _, config| and(command, &["run", "-c", &config.display().to_string()]),
    version_flag: "--version",
    forks: false,
    logs_to_socket: false,
    cannot: |_, _| None,
};

fn config(site: &Site) -> String {
    let log = match site.front.setup() {
        Setup::Logged => {
            format!("[telemetry]\naccess_log = {{ path = \"{}\", format = \"json\" }}\n", site.log().display())
        }
        Setup::Plain | Setup::CloseUpstream => String::new(),
    };
    let route = "[[route]]\nmatch = { path = \"/{*rest}\" }\npool = \"app\"\n";
    let front = match (site.front, site.certificate) {
        (Front::Tcp, _) => "mode = \"tcp\"\npool = \"app\"\n".to_owned(),
        (_, Some(files)) => format!(
            "[listener.web.tls]\ncertificates = [{{ cert = \"{}\", key = \"{}\" }}]\n{route}",
            files.certificate.display(),
            files.key.display()
        ),
        (Front::Http1(_), None) => route.to_owned(),
        (_, None) => format!("h2c = true\n{route}"),
    };
    let back = match site.back {
        Back::Http1 => "",
        Back::H2c | Back::Grpc => "protocol = \"h2\"\n",
    };
    let idle = match site.front {
        Front::Http1(Setup::CloseUpstream) => ", idle_per_endpoint = 0",
        Front::Http1(_) | Front::Tcp => "",
        // 16 x 32 streams have as many requests at once, each with a connection of its own.
        Front::H2c | Front::H2(_) | Front::Https(_) => ", idle_per_endpoint = 1024",
    };
    let [first, second] = site.endpoints;
    format!(
        r#"version = 1
[runtime]
workers = 1
{log}[listener.web]
bind = ["127.0.0.1:{port}"]
{front}[pool.app]
balance = "random"
{back}health = {{ tcp = {{}}, interval = "2s" }}
limits = {{ requests_per_endpoint = 10000{idle} }}
endpoints = [ {{ addr = "127.0.0.1:{first}" }}, {{ addr = "127.0.0.1:{second}" }} ]
"#,
        port = site.port,
    )
}
