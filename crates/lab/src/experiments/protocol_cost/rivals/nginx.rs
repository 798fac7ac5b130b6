//! How is NGINX set up?

use super::kind::{Kind, Site};
use crate::experiments::protocol_cost::cases::{Back, Front, Setup};
use crate::origin;

pub const KIND: Kind = Kind {
    name: "nginx",
    program: "nginx",
    config_name: "nginx.conf",
    config: |site| if site.front == Front::Tcp { sessions(site) } else { config(site) },
    arguments: |command, folder, config| origin::nginx_command(command[0].clone(), folder, config),
    version_flag: "-v",
    forks: true,
    logs_to_socket: false,
    cannot: |_, back| (back == Back::H2c).then_some("it speaks HTTP/2 to endpoints of gRPC only"),
};

/// Where Debian's packages put NGINX's stream module.
pub const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

fn sessions(site: &Site) -> String {
    let [first, second] = site.endpoints;
    format!(
        "load_module {STREAM_MODULE};
{process}stream {{
  access_log off;
  tcp_nodelay on;
  upstream app {{
    random two least_conn;
    server 127.0.0.1:{first};
    server 127.0.0.1:{second};
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    proxy_pass app;
    proxy_timeout 300s;
    proxy_buffer_size 32k;
  }}
}}
",
        process = origin::nginx_process(site.folder),
        port = site.port,
    )
}

fn config(site: &Site) -> String {
    let log = match site.front.setup() {
        Setup::Logged => format!("access_log {} combined buffer=64k", site.log().display()),
        Setup::Plain | Setup::CloseUpstream => "access_log off".into(),
    };
    // Frames of 16 kB instead of 8 cost the same or a little less here.
    let streams = "  http2_max_concurrent_streams 256;\n  http2_chunk_size 16k;\n";
    let (listen, streams) = match site.front {
        Front::Http1(_) | Front::Tcp => ("", ""),
        Front::H2c => (" http2", streams),
        Front::H2(_) => (" ssl http2", streams),
        Front::Https(_) => (" ssl", ""),
    };
    // Sessions of TLS resume by tickets, on by default; a cache beside them would only cost.
    let tls = site.certificate.map_or_else(String::new, |files| {
        format!(
            "    ssl_protocols TLSv1.2 TLSv1.3;\n    ssl_certificate {};\n    ssl_certificate_key {};\n",
            files.certificate.display(),
            files.key.display()
        )
    });
    // 16 x 32 streams have as many requests at once, each with a connection of its own.
    let (keep, connection) = match site.front {
        Front::Http1(Setup::CloseUpstream) => ("", "close"),
        Front::Http1(_) | Front::Tcp => ("keepalive 256; keepalive_requests 1000000000;", "\"\""),
        _ => ("keepalive 1024; keepalive_requests 1000000000;", "\"\""),
    };
    // More buffers cost more here: 1 MB took 850 us through 32 of them and 430 through 8. Without a file to spill to, a
    // slow client slows the endpoint and spares the disk. `deferred`: 52 -> 41 us where clients close.
    let pass = match site.back {
        Back::Grpc => "grpc_pass grpc://app;".to_owned(),
        Back::Http1 | Back::H2c => format!(
            "proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection {connection};
      proxy_buffers 8 32k;
      proxy_busy_buffers_size 64k;
      proxy_max_temp_file_size 0;"
        ),
    };
    let [first, second] = site.endpoints;
    format!(
        "{preamble}  {log};
  tcp_nodelay on;
  keepalive_timeout 3600s;
  keepalive_requests 1000000000;
{streams}  upstream app {{
    random two least_conn;
    server 127.0.0.1:{first};
    server 127.0.0.1:{second};
    {keep}
  }}
  server {{
    listen 127.0.0.1:{port}{listen} backlog=4096 deferred;
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
