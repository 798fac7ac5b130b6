//! How is NGINX set up where algorithms are compared?

use super::kind::{Algorithm, Kind, Setup};
use crate::origin;
use std::path::Path;

pub const KIND: Kind = Kind {
    name: "nginx",
    version_flag: "-v",
    config_name: "nginx.conf",
    config,
    arguments: |folder, config, _| origin::nginx_command(String::new(), folder, config).split_off(1),
    forks: true,
};

fn config(folder: &Path, setup: &Setup) -> String {
    let algorithm = match setup.algorithm {
        Algorithm::RoundRobin => "",
        Algorithm::LeastConn => "least_conn;",
        Algorithm::Random | Algorithm::PeakEwma => "random two least_conn;",
    };
    let server = |endpoint: &String| format!("    server {endpoint} max_fails=0;\n");
    let servers: String = setup.endpoints.iter().map(server).collect();
    // Workers balance each by itself, unless a zone shares what they know.
    format!(
        "{}  access_log off;
  upstream app {{
    zone app 1m;
    {algorithm}
{servers}    keepalive 256;
  }}
  server {{
    listen 0.0.0.0:{} backlog=4096;
    keepalive_requests 1000000000;
    location / {{
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_next_upstream off;
      proxy_read_timeout 60s;
    }}
  }}
}}
",
        origin::nginx_preamble(folder).replace("worker_processes 1;", &format!("worker_processes {};", setup.workers)),
        setup.port
    )
}
