//! How is evenkeel set up?

use super::kind::{Kind, Site};
use crate::experiments::protocol_cost::case::Back;

pub const KIND: Kind = Kind {
    name: "evenkeel",
    config_name: "evenkeel.toml",
    config,
    arguments: |program, _, config| vec![program, "run".into(), "-c".into(), config.display().to_string()],
    version_flag: "--version",
    forks: false,
    cannot: |_| None,
};

fn config(site: &Site) -> String {
    let front = match site.certificate {
        None => "h2c = true\n".to_owned(),
        Some(files) => format!(
            "[listener.web.tls]\ncertificates = [{{ cert = \"{}\", key = \"{}\" }}]\n",
            files.certificate.display(),
            files.key.display()
        ),
    };
    let back = match site.back {
        Back::Http1 => "",
        Back::H2c | Back::Grpc => "protocol = \"h2\"\n",
    };
    let [first, second] = site.endpoints;
    format!(
        r#"version = 1
[runtime]
workers = 1
[listener.web]
bind = ["127.0.0.1:{port}"]
{front}[[route]]
match = {{ path = "/{{*rest}}" }}
pool = "app"
[pool.app]
balance = "random"
{back}health = {{ tcp = {{}}, interval = "2s" }}
limits = {{ requests_per_endpoint = 10000, idle_per_endpoint = 1024 }}
endpoints = [ {{ addr = "127.0.0.1:{first}" }}, {{ addr = "127.0.0.1:{second}" }} ]
"#,
        port = site.port,
    )
}
