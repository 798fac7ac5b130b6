//! Recognition of the program that a configuration is for, from its text.

use std::fmt;

/// Program whose configuration is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Haproxy,
    Nginx,
    /// Its dynamic file, as YAML or TOML, or a compose file with its labels.
    Traefik,
    Caddy,
    /// Its static configuration, as YAML or JSON.
    Envoy,
}

impl From {
    /// The program of this name, as in `--from`.
    pub fn named(name: &str) -> Option<From> {
        match name {
            "haproxy" => Some(From::Haproxy),
            "nginx" => Some(From::Nginx),
            "traefik" => Some(From::Traefik),
            "caddy" => Some(From::Caddy),
            "envoy" => Some(From::Envoy),
            _ => None,
        }
    }
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            From::Haproxy => "HAProxy",
            From::Nginx => "NGINX",
            From::Traefik => "Traefik",
            From::Caddy => "Caddy",
            From::Envoy => "Envoy",
        })
    }
}

/// First words of lines of haproxy.cfg.
const HAPROXY: &[&str] = &[
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "bind",
    "use_backend",
    "default_backend",
    "acl",
    "balance",
    "option",
    "mode",
    "http-request",
    "timeout",
    "server",
    "maxconn",
];

/// First words of lines of nginx.conf.
const NGINX: &[&str] = &[
    "events",
    "http",
    "server",
    "upstream",
    "location",
    "stream",
    "listen",
    "server_name",
    "proxy_pass",
    "proxy_set_header",
    "return",
    "include",
    "worker_processes",
    "ssl_certificate",
    "map",
    "add_header",
];

/// First words of lines of a Caddyfile that no other program has.
const CADDY: &[&str] = &[
    "reverse_proxy",
    "handle",
    "handle_path",
    "respond",
    "redir",
    "encode",
    "file_server",
    "header_up",
    "basic_auth",
    "basicauth",
    "auto_https",
    "tls",
    "uri",
];

/// Recognises the program by the name of the file and by its text, or `None` if it looks like none of them.
pub fn recognise(name: &str, text: &str) -> Option<From> {
    let file = name.rsplit('/').next().unwrap_or(name);
    if file == "Caddyfile" || file.starts_with("Caddyfile.") || file.to_ascii_lowercase().ends_with(".caddyfile") {
        return Some(From::Caddy);
    }
    by_tree(text).or_else(|| by_lines(text))
}

/// Recognises files of YAML and TOML by their keys.
fn by_tree(text: &str) -> Option<From> {
    let lines = || text.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
    let starts = |keys: &[&str]| lines().any(|line| keys.iter().any(|key| line.starts_with(key)));
    let is_envoy = |line: &str| line.trim_start_matches([' ', '{', '"']).starts_with("static_resources");
    if lines().any(is_envoy) {
        return Some(From::Envoy);
    }
    let labels =
        lines().any(|line| line.trim_start().trim_start_matches(['-', ' ', '"', '\'']).starts_with("traefik."));
    let has_http = starts(&["http:", "[http.", "[http]", "[[http.", "entryPoints:", "[entryPoints"]);
    let below = ["routers", "services", "middlewares", "entryPoints"].iter().any(|key| text.contains(key));
    let is_block = lines().any(|line| line.ends_with([';', '{']));
    (labels || has_http && below && !is_block).then_some(From::Traefik)
}

fn by_lines(text: &str) -> Option<From> {
    let caddy = |line: &str| {
        let line = line.split('#').next().unwrap_or_default().trim();
        !line.ends_with(';') && CADDY.contains(&line.split([' ', '\t', '{']).next().unwrap_or_default())
    };
    if text.contains('{') && text.lines().any(caddy) {
        return Some(From::Caddy);
    }
    let (mut haproxy, mut nginx) = (0_usize, 0_usize);
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let word = line.split([' ', '\t', '{', ';']).next().unwrap_or_default();
        let ends = line.ends_with([';', '{', '}']);
        // A key of TOML or of an INI file.
        if line.starts_with('[') || line[word.len()..].trim_start().starts_with('=') {
            continue;
        }
        haproxy += usize::from(!ends && HAPROXY.contains(&word));
        nginx += usize::from(ends && NGINX.contains(&word));
    }
    match haproxy.cmp(&nginx) {
        std::cmp::Ordering::Greater => Some(From::Haproxy),
        std::cmp::Ordering::Less => Some(From::Nginx),
        std::cmp::Ordering::Equal => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_recognised() {
        assert_eq!(recognise("f", "frontend a\n  bind :80\n  default_backend b\n"), Some(From::Haproxy));
        assert_eq!(recognise("f", "server {\n  listen 80;\n}\n"), Some(From::Nginx));
        assert_eq!(recognise("f", "[listener.web]\nbind = ['127.0.0.1:80']\n"), None);
        assert_eq!(recognise("f", "location = /x { return 200; }\nserver { }\n"), Some(From::Nginx));
    }
}
