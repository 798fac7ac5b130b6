//! Recognition of files that are configurations of other programs. A clear error then replaces the TOML
//! parser's complaint about their first line.

/// Program and format that a file seems to be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Description, such as `a configuration of Envoy, in YAML`.
    pub name: &'static str,
    /// Heading of its section in the guide; empty if there is none.
    pub heading: &'static str,
}

const fn kind(name: &'static str, heading: &'static str) -> Kind {
    Kind { name, heading }
}

const HAPROXY: Kind = kind("a configuration of HAProxy", "HAProxy");
const NGINX: Kind = kind("a configuration of NGINX", "NGINX");
const CADDY: Kind = kind("a configuration of Caddy", "Caddy");

/// Words that identify the program of a YAML or JSON file.
const BY_WORD: &[(&str, &[&str], Kind)] = &[
    ("yaml", &["static_resources", "lb_policy", "load_assignment"], kind("a configuration of Envoy, in YAML", "Envoy")),
    (
        "yaml",
        &["entryPoints", "routers", "loadBalancer", "providers"],
        kind("a configuration of Traefik, in YAML", "Traefik"),
    ),
    ("yaml", &["apiVersion"], kind("a configuration of Kubernetes, in YAML", "")),
    ("yaml", &["services", "image"], kind("a configuration of Docker Compose, in YAML", "")),
    ("yaml", &[""], kind("YAML", "")),
    ("json", &["static_resources", "lb_policy"], kind("a configuration of Envoy, in JSON", "Envoy")),
    ("json", &["apps", "handle"], kind("a configuration of Caddy, in JSON", "Caddy")),
    ("json", &[""], kind("JSON", "")),
];

/// Words that start a line of HAProxy's configuration, as section or within a section.
const HAPROXY_SECTIONS: &[&str] =
    &["global", "defaults", "frontend", "backend", "listen", "resolvers", "peers", "userlist", "program"];
const HAPROXY_KEYS: &[&str] = &[
    "acl",
    "balance",
    "bind",
    "cookie",
    "default_backend",
    "default-server",
    "http-request",
    "http-response",
    "log",
    "maxconn",
    "mode",
    "option",
    "server",
    "stats",
    "timeout",
    "use_backend",
    "user",
    "group",
    "daemon",
    "nbthread",
];

/// Words that start a block or line of NGINX's configuration.
const NGINX_BLOCKS: &[&str] = &["http", "events", "upstream", "server", "location", "stream", "map", "types"];

/// Words that start a line of a Caddyfile.
const CADDY_KEYS: &[&str] = &[
    "reverse_proxy",
    "file_server",
    "handle",
    "handle_path",
    "handle_errors",
    "encode",
    "respond",
    "root",
    "import",
    "lb_policy",
    "health_uri",
    "php_fastcgi",
    "tls",
    "header",
    "log",
    "redir",
    "to",
    "route",
];

/// Recognises a file, with the byte range of the first line that shows it. `None` if it may well be TOML with
/// a mistake.
pub(crate) fn recognise(text: &str) -> Option<(Kind, usize, usize)> {
    let mut votes = Votes::default();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, bare) = (at, line.trim());
        at += line.len();
        if !bare.is_empty() && !bare.starts_with(['#', '/']) {
            let from = start + line.find(bare).unwrap_or(0);
            votes.line(line, bare, (from, from + bare.len()));
        }
    }
    votes.winner(text)
}

/// Evidence for each language: number of lines, and the first line.
#[derive(Default)]
struct Votes {
    toml: usize,
    haproxy: Vote,
    nginx: Vote,
    caddy: Vote,
    yaml: Vote,
    json: Vote,
}

#[derive(Default)]
struct Vote {
    lines: usize,
    first: Option<(usize, usize)>,
}

impl Vote {
    fn add(&mut self, lines: usize, at: (usize, usize)) {
        self.lines += lines;
        self.first.get_or_insert(at);
    }
}

impl Votes {
    fn line(&mut self, line: &str, bare: &str, at: (usize, usize)) {
        let mut words = bare.split_whitespace();
        let (first, rest) = (words.next().unwrap_or_default(), words.next());
        let is_indented = line.starts_with([' ', '\t']);
        if (bare.starts_with('[') && bare.ends_with(']')) || is_entry(bare) {
            self.toml += 1;
            return;
        }
        if self.json.first.is_none() && bare.starts_with('{') {
            self.json.add(usize::from(!bare.ends_with('{') || bare == "{"), at);
        }
        let is_json = bare.starts_with('"') && bare.contains("\":");
        if is_json {
            self.json.add(1, at);
            return;
        }
        if bare.ends_with(';') {
            self.nginx.add(1, at);
        } else if NGINX_BLOCKS.contains(&first) && (bare.ends_with('{') || bare.ends_with("; }")) {
            self.nginx.add(2, at);
        } else if bare.ends_with('{') && !first.starts_with('"') {
            self.caddy.add(1, at);
        }
        let key = bare
            .trim_start_matches("- ")
            .split_once(':')
            .filter(|(_, value)| value.is_empty() || value.starts_with(' '));
        if !is_indented && !bare.contains(['{', '=', ':']) && HAPROXY_SECTIONS.contains(&first) {
            self.haproxy.add(2, at);
        } else if is_indented
            && HAPROXY_KEYS.contains(&first)
            && rest.is_some()
            && key.is_none()
            && !bare.ends_with(';')
        {
            self.haproxy.add(1, at);
        }
        if CADDY_KEYS.contains(&first) && rest.is_some() && key.is_none() && !bare.ends_with(';') {
            self.caddy.add(2, at);
        }
        if bare == "---" || key.is_some_and(|(key, _)| is_yaml_key(key)) {
            self.yaml.add(1, at);
        }
    }

    fn winner(self, text: &str) -> Option<(Kind, usize, usize)> {
        // Thresholds above the accidental evidence of TOML with a mistake.
        let haproxy = (self.haproxy.lines >= 3).then_some((self.haproxy, HAPROXY));
        let nginx = (self.nginx.lines >= 2).then_some((self.nginx, NGINX));
        let caddy = (self.caddy.lines >= 2).then_some((self.caddy, CADDY));
        let of = |format: &str| {
            let fits = |words: &[&str]| words.iter().any(|word| text.contains(word));
            BY_WORD.iter().find(|(f, words, _)| *f == format && fits(words)).map(|(.., kind)| *kind)
        };
        let yaml = (self.yaml.lines >= 2).then(|| of("yaml")).flatten().map(|kind| (self.yaml, kind));
        let json = text.trim_start().starts_with('{').then(|| of("json")).flatten();
        let is_json = self.json.lines >= 2 || (text.trim_end().ends_with('}') && text.contains("\":"));
        let json = json.filter(|_| is_json).map(|kind| (self.json, kind));
        let all = [json, haproxy, nginx, caddy, yaml];
        let (vote, kind) = all.into_iter().flatten().max_by_key(|(vote, _)| vote.lines)?;
        let (start, end) = vote.first?;
        (vote.lines > self.toml).then_some((kind, start, end))
    }
}

/// True if the line starts like a TOML entry: a key, possibly dotted, and an equals sign.
fn is_entry(bare: &str) -> bool {
    let is_key = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-.\"".contains(c));
    bare.split_once('=').is_some_and(|(key, _)| is_key(key.trim_end())) && !bare.ends_with(';')
}

fn is_yaml_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-.\"'@/ ".contains(c)) && !key.contains("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> &'static str {
        recognise(text).map_or("", |(kind, ..)| kind.name.trim_start_matches("a configuration of "))
    }

    #[test]
    fn files_of_others_are_recognised() {
        for (text, is) in [
            ("global\n  maxconn 100\n\nfrontend web\n  bind *:80\n  default_backend app\n", "HAProxy"),
            ("defaults\n    mode http\nlisten a\n    bind :80\n    server s1 10.0.0.1:80 check\n", "HAProxy"),
            ("http {\n  upstream app {\n    server 10.0.0.1:80;\n  }\n}\n", "NGINX"),
            ("worker_processes 4;\nevents { worker_connections 10; }\n", "NGINX"),
            ("example.com {\n\treverse_proxy 10.0.0.1:80 10.0.0.2:80\n}\n", "Caddy"),
            (":80\n\nreverse_proxy localhost:9000\nfile_server browse\n", "Caddy"),
            ("static_resources:\n  clusters:\n  - name: app\n    lb_policy: LEAST_REQUEST\n", "Envoy, in YAML"),
            ("http:\n  routers:\n    app:\n      rule: Host(`a.b`)\n      service: app\n", "Traefik, in YAML"),
            ("listener:\n  web:\n    bind: [\"[::]:80\"]\n", "YAML"),
            ("---\nlistener: 1\n", "YAML"),
            ("{\n  \"static_resources\": {\n    \"clusters\": []\n  }\n}\n", "Envoy, in JSON"),
            ("{\"listener\": {\"web\": {\"bind\": [\"[::]:80\"]}}}", "JSON"),
            ("{\n  \"apps\": {\n    \"http\": {}\n  }\n}\n", "Caddy, in JSON"),
        ] {
            assert_eq!(name(text), is, "{text}");
        }
    }

    #[test]
    fn toml_with_a_mistake_stays_toml() {
        for text in [
            "[listener.web]\nbind = [\"[::]:80\"\n\n[pool.web]\nendpoints = [\"10.0.0.1:80\"]\n",
            "[pool.web]\nendpoints = [\n  \"10.0.0.1:80\",\n  \"10.0.0.2:80\"\n",
            "[listener.web\nbind = 1\n",
            "# server { listen 80; }\n[pool.web]\nbalance = leastconn\n",
            "[listener.web]\nbind=[\":80\"]\nmode=http\ntimeouts={client_idle=\"5s\"}\n[pool.web]\nendpoints=[\n{addr=\"a:1\"},\n{addr=\"b:1\"}]\n",
            "bind: 80\n[pool.web]\nendpoints = [\"a:1\"]\nbalance = \"x\"\n",
            "a",
            "",
            "{",
        ] {
            assert_eq!(name(text), "", "{text}");
        }
    }

    #[test]
    fn the_first_line_that_shows_it_is_pointed_at() {
        let text = "# a comment\n\n  server {\n    listen 80;\n  }\n";
        let (_, start, end) = recognise(text).expect("it is NGINX");
        assert_eq!(&text[start..end], "server {");
    }
}
