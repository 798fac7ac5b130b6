//! Recognition of the program that a configuration is for, from its text.

use std::fmt;

/// Program whose configuration is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Haproxy,
    Nginx,
}

impl From {
    /// The program of this name, as in `--from`.
    pub fn named(name: &str) -> Option<From> {
        match name {
            "haproxy" => Some(From::Haproxy),
            "nginx" => Some(From::Nginx),
            _ => None,
        }
    }
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            From::Haproxy => "HAProxy",
            From::Nginx => "NGINX",
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

/// Recognises the program, or `None` if the text looks like neither.
pub fn recognise(text: &str) -> Option<From> {
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
        assert_eq!(recognise("frontend a\n  bind :80\n  default_backend b\n"), Some(From::Haproxy));
        assert_eq!(recognise("server {\n  listen 80;\n}\n"), Some(From::Nginx));
        assert_eq!(recognise("[listener.web]\nbind = ['127.0.0.1:80']\n"), None);
        assert_eq!(recognise("location = /x { return 200; }\nserver { }\n"), Some(From::Nginx));
    }
}
