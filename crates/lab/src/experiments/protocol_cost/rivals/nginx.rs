//! How is NGINX set up?

use super::kind::{Kind, Site};
use crate::experiments::protocol_cost::case::{Back, Front};
use crate::origin;

pub const KIND: Kind = Kind {
    name: "nginx",
    config_name: "nginx.conf",
    config,
    arguments: |program, folder, config| origin::nginx_command(program, folder, config),
    version_flag: "-v",
    forks: true,
    cannot: |back| (back == Back::H2c).then_some("it speaks HTTP/2 to endpoints of gRPC only"),
};

fn config(site: &Site) -> String {
    let listen = match site.front {
        Front::H2c => "http2",
        Front::H2(_) => "ssl http2",
        Front::Https(_) => "ssl",
    };
    let tls = site.certificate.map_or_else(String::new, |files| {
        format!(
            "    ssl_protocols TLSv1.2 TLSv1.3;\n    ssl_certificate {};\n    ssl_certificate_key {};\n",
            files.certificate.display(),
            files.key.display()
        )
    });
    let pass = match site.back {
        Back::Grpc => "grpc_pass grpc://app;",
        Back::Http1 | Back::H2c => {
            "proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffers 8 32k;
      proxy_busy_buffers_size 64k;
      proxy_max_temp_file_size 0;"
        }
    };
    let [first, second] = site.endpoints;
    // 16 x 32 streams have as many requests at once, each with a connection of its own. Frames of 16 kB instead of 8 cost
    // the same or a little less here. Sessions resume by tickets, on by default; a cache beside them would only cost.
    format!(
        "{preamble}  access_log off;
  tcp_nodelay on;
  keepalive_timeout 3600s;
  keepalive_requests 1000000000;
  http2_max_concurrent_streams 256;
  http2_chunk_size 16k;
  upstream app {{
    random two least_conn;
    server 127.0.0.1:{first};
    server 127.0.0.1:{second};
    keepalive 1024;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port} {listen} backlog=4096 deferred;
{tls}    location / {{
      {pass}
    }}
  }}
}}
",
        preamble = origin::nginx_preamble(site.folder),
        port = site.port,
    )
}
