//! A model of Traefik, which is judged in its place: rules of routers, their priorities, and middlewares, written from its
//! documentation (version 3: "Routers", "Middlewares") and, where that is silent, its source. It reads only the YAML of the
//! grammar.

use crate::yaml::{Value, read};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A request as a server reads it.
struct Request {
    method: String,
    host: String,
    path: String,
    query: Option<String>,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    client: IpAddr,
}

/// Response of the model itself, or the endpoint that gets the request, with changes to its response.
enum Outcome {
    Answer(u16, Vec<(String, String)>, String),
    Endpoint(String, Vec<(String, String)>),
}

/// Starts the model at an address. It ends with the process.
///
/// # Errors
/// The part of the text that Traefik would not accept.
pub fn start(text: &str, at: SocketAddr) -> Result<(), String> {
    let root = Arc::new(read(text)?);
    let routers = root.at("http.routers").map_or(&[][..], Value::entries);
    if routers.is_empty() {
        return Err("no router".into());
    }
    for (name, router) in routers {
        let rule = router.text("rule").ok_or_else(|| format!("router {name} has no rule"))?;
        let service = router.text("service").unwrap_or_default();
        root.at(&format!("http.services.{service}")).ok_or_else(|| format!("no service {service}"))?;
        for middleware in router.texts("middlewares") {
            root.at(&format!("http.middlewares.{middleware}")).ok_or_else(|| format!("no middleware {middleware}"))?;
        }
        crate::rules::holds(rule, &|_, _| false)?;
    }
    let listener = TcpListener::bind(at).map_err(|error| error.to_string())?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let root = Arc::clone(&root);
            thread::spawn(move || serve(stream, &root));
        }
    });
    Ok(())
}

fn serve(stream: TcpStream, root: &Value) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut request = request(&mut reader, stream.peer_addr().ok()?.ip())?;
    let mut writer = stream;
    match outcome(root, &mut request) {
        Outcome::Answer(status, fields, body) => {
            let mut head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {}\r\n", body.len());
            for (name, value) in fields {
                head += &format!("{name}: {value}\r\n");
            }
            writer.write_all(format!("{head}\r\n{body}").as_bytes()).ok()
        }
        Outcome::Endpoint(addr, changes) => {
            let response = forward(&addr, &request)?;
            let (head, body) = response.split_once("\r\n\r\n")?;
            let mut lines: Vec<String> = head.split("\r\n").map(str::to_string).collect();
            for (name, value) in changes {
                let start = format!("{}:", name.to_ascii_lowercase());
                lines.retain(|line| !line.to_ascii_lowercase().starts_with(&start));
                if !value.is_empty() {
                    lines.push(format!("{name}: {value}"));
                }
            }
            writer.write_all(format!("{}\r\n\r\n{body}", lines.join("\r\n")).as_bytes()).ok()
        }
    }
}

fn request(reader: &mut impl BufRead, client: IpAddr) -> Option<Request> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        Some(line.trim_end().to_string())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
    let mut fields = Vec::new();
    while let Some((name, value)) = line()?.split_once(':') {
        fields.push((name.to_string(), value.trim().to_string()));
    }
    let find = |name: &str| fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone());
    let mut body = vec![0; find("content-length").and_then(|n| n.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let host = find("host").unwrap_or_default();
    let (path, query) =
        target.split_once('?').map_or((&*target, None), |(path, query)| (path, Some(query.to_string())));
    // Entry points sanitise paths before routers see them.
    let path = crate::grammars::normal(path);
    Some(Request { method, host, path, query, fields, body, client })
}

fn outcome(root: &Value, request: &mut Request) -> Outcome {
    let mut routers: Vec<&(String, Value)> = root.at("http.routers").map_or(&[][..], Value::entries).iter().collect();
    let priority = |router: &Value| {
        let own = router.text("priority").and_then(|text| text.parse::<usize>().ok()).filter(|n| *n > 0);
        own.unwrap_or(router.text("rule").unwrap_or_default().len())
    };
    routers.sort_by_key(|(_, router)| std::cmp::Reverse(priority(router)));
    for (_, router) in routers {
        let rule = router.text("rule").unwrap_or_default();
        if !crate::rules::holds(rule, &|name, values| is(request, name, values)).unwrap_or(false) {
            continue;
        }
        let mut changes = Vec::new();
        let outer = root.at("entryPoints.web.http").map(|http| http.texts("middlewares").collect::<Vec<_>>());
        for name in outer.into_iter().flatten().chain(router.texts("middlewares")) {
            match pass(root, name, request, &mut changes) {
                Some(Outcome::Answer(status, mut fields, body)) => {
                    for (name, value) in changes.into_iter().rev() {
                        fields.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
                        if !value.is_empty() {
                            fields.push((name, value));
                        }
                    }
                    return Outcome::Answer(status, fields, body);
                }
                Some(outcome) => return outcome,
                None => {}
            }
        }
        let service = router.text("service").unwrap_or_default();
        let servers = root.at(&format!("http.services.{service}.loadBalancer.servers"));
        let url = servers.and_then(|all| all.list().first()).and_then(|one| one.text("url")).unwrap_or_default();
        changes.reverse();
        return Outcome::Endpoint(url.trim_start_matches("http://").to_string(), changes);
    }
    Outcome::Answer(404, Vec::new(), "404 page not found\n".into())
}

/// True if a matcher of a rule holds.
fn is(request: &Request, name: &str, values: &[String]) -> bool {
    let host = request.host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let (first, second) = (&*values[0], values.get(1).map_or("", String::as_str));
    let decoded = decoded(&request.path);
    let field = |of: &dyn Fn(&str) -> bool| {
        request.fields.iter().any(|(name, value)| name.eq_ignore_ascii_case(first) && of(value))
    };
    let parameter = || {
        let pairs =
            request.query.as_deref().unwrap_or("").split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.filter(|(name, _)| *name == first).any(|(_, value)| value == second)
    };
    match name {
        "Host" => host.trim_end_matches('.') == first.to_ascii_lowercase().trim_end_matches('.'),
        "HostRegexp" => crate::rules::finds(first, &host),
        "Path" => decoded == first,
        "PathPrefix" => decoded.starts_with(first),
        "PathRegexp" => crate::rules::finds(first, &decoded),
        "Method" => request.method == first.to_ascii_uppercase(),
        "Header" => field(&|value| value == second),
        "HeaderRegexp" => field(&|value| crate::rules::finds(second, value)),
        "Query" => parameter(),
        "ClientIP" => within(request.client, first),
        _ => false,
    }
}

/// A path without escapes, but for those of reserved characters.
fn decoded(path: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' && !b":/?#[]@!$&'()*+,;=%".contains(&byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// True if an address is in a network of whole bytes.
fn within(ip: IpAddr, network: &str) -> bool {
    let (net, bits) = network.split_once('/').unwrap_or((network, "32"));
    let bytes = bits.parse::<usize>().unwrap_or(32) / 8;
    match (ip, net.parse()) {
        (IpAddr::V4(ip), Ok(IpAddr::V4(net))) => ip.octets()[..bytes] == net.octets()[..bytes],
        _ => false,
    }
}

/// Passes a request through a middleware. Returns the response, if the middleware answers.
fn pass(root: &Value, name: &str, request: &mut Request, changes: &mut Vec<(String, String)>) -> Option<Outcome> {
    let (kind, set) = root.at(&format!("http.middlewares.{name}"))?.entries().first()?;
    let set_path = |request: &mut Request, path: String| {
        request.path = if path.starts_with('/') { path } else { format!("/{path}") };
    };
    match &**kind {
        "stripPrefix" => {
            let rest = set.texts("prefixes").find_map(|prefix| request.path.strip_prefix(prefix)).map(str::to_string);
            if let Some(rest) = rest {
                request.path = led(&rest);
            }
        }
        "stripPrefixRegex" => {
            let of = |regex: &str| crate::rules::first(regex, &request.path).filter(|found| !found.is_empty());
            let found = set.texts("regex").find_map(of).filter(|found| request.path.starts_with(found));
            if let Some(found) = found {
                request.path = led(&request.path[found.len()..]);
            }
        }
        "addPrefix" => request.path = led(&format!("{}{}", set.text("prefix")?, request.path)),
        "replacePath" => set_path(request, set.text("path")?.to_string()),
        "replacePathRegex" => {
            let path = crate::rules::replaced(set.text("regex")?, &request.path, set.text("replacement")?);
            set_path(request, path);
        }
        "headers" => {
            for (name, value) in set.at("customRequestHeaders").map_or(&[][..], Value::entries) {
                request.fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
                let value = value.as_text().unwrap_or_default();
                if !value.is_empty() {
                    request.fields.push((name.clone(), value.to_string()));
                }
            }
            for (name, value) in set.at("customResponseHeaders").map_or(&[][..], Value::entries) {
                changes.push((name.clone(), value.as_text().unwrap_or_default().to_string()));
            }
        }
        "redirectScheme" => {
            let permanent = set.text("permanent") == Some("true");
            let status = match (request.method == "GET", permanent) {
                (true, false) => 302,
                (true, true) => 301,
                (false, false) => 307,
                (false, true) => 308,
            };
            if set.text("scheme") == Some("http") {
                return None;
            }
            let host = request.host.split(':').next().unwrap_or_default();
            let to = format!("{}://{host}{}", set.text("scheme")?, request.target());
            return Some(Outcome::Answer(status, vec![("Location".into(), to)], String::new()));
        }
        "redirectRegex" => {
            let from = format!("http://{}{}", request.host, request.target());
            let to = crate::rules::replaced(set.text("regex")?, &from, set.text("replacement")?);
            if to == from || !crate::rules::finds(set.text("regex")?, &from) {
                return None;
            }
            let status = match (request.method == "GET", set.text("permanent") == Some("true")) {
                (true, false) => 302,
                (true, true) => 301,
                (false, false) => 307,
                (false, true) => 308,
            };
            return Some(Outcome::Answer(status, vec![("Location".into(), to)], String::new()));
        }
        "buffering" if request.body.len() as u64 > set.text("maxRequestBodyBytes")?.parse().ok()? => {
            return Some(Outcome::Answer(413, Vec::new(), "Request Entity Too Large".into()));
        }
        "basicAuth" => {
            let field = request.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
            // The only user of the grammar is `joe` with the password `s3`.
            if field.is_none_or(|(_, value)| value != "Basic am9lOnMz") {
                let challenge = ("WWW-Authenticate".to_string(), "Basic realm=\"traefik\"".to_string());
                return Some(Outcome::Answer(401, vec![challenge], "401 Unauthorized\n".into()));
            }
        }
        "ipAllowList" if !set.texts("sourceRange").any(|network| within(request.client, network)) => {
            return Some(Outcome::Answer(403, Vec::new(), "Forbidden".into()));
        }
        "chain" => {
            let inner: Vec<String> = set.texts("middlewares").map(str::to_string).collect();
            return inner.iter().find_map(|name| pass(root, name, request, changes));
        }
        _ => {}
    }
    None
}

/// A path with a slash at its beginning, unless it is empty.
fn led(path: &str) -> String {
    if path.is_empty() || path.starts_with('/') { path.to_string() } else { format!("/{path}") }
}

impl Request {
    /// Path and query. An empty path is a slash.
    fn target(&self) -> String {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        format!("{path}{}", self.query.as_ref().map_or(String::new(), |query| format!("?{query}")))
    }
}

fn forward(addr: &str, request: &Request) -> Option<String> {
    let mut stream = TcpStream::connect(addr).ok()?;
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target());
    let mut seen = BTreeMap::new();
    for (name, value) in request.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("connection")) {
        *seen.entry(name.to_ascii_lowercase()).or_insert(0) += 1;
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).ok()?;
    stream.write_all(&request.body).ok()?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).ok()?;
    loop {
        let n = stream.read(&mut chunk).ok()?;
        bytes.extend_from_slice(&chunk[..n]);
        let text = String::from_utf8_lossy(&bytes);
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().to_string())
            });
            let length = length.and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
            request.method == "HEAD" || body.len() >= length
        });
        if whole || n == 0 {
            return Some(text.into_owned());
        }
    }
}
