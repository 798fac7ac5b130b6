//! Keys of the cache (RFC 9111 section 2): the URL, and the parts that an operator adds to it.

use crate::refusal::Bypass;
use crate::syntax::list;
use evenkeel_wire::head::Request;
use std::borrow::Cow;

/// Parts of a request that make up its key, in addition to scheme, host and path. `Default` takes the whole query.
#[derive(Clone, Debug, Default)]
pub struct KeyRules {
    pub query: Query,
    /// True if parameters of the query are sorted by their names.
    pub sorts_query: bool,
    /// Names of fields whose values are part of the key, as received.
    pub fields: Vec<Box<str>>,
}

/// Parameters of the query that count. Names are compared byte for byte, before any decoding.
#[derive(Clone, Debug, Default)]
pub enum Query {
    #[default]
    All,
    /// No parameter of the query counts.
    None,
    /// Only parameters with these names.
    Only(Vec<Box<str>>),
    /// All but those with these names.
    Except(Vec<Box<str>>),
}

/// Fields by which a client may make an endpoint answer for a scheme, host, path or method outside the key. The shell
/// drops them from the requests that fill the cache, unless the key has them: otherwise a client chooses the response
/// that others get. Fields that the proxy itself sets, as `X-Forwarded-Host`, follow from the request of the key.
///
/// The names are fields that frameworks are known to read (Kettle, "Practical Web Cache Poisoning", 2018, and his Param
/// Miner).
pub const UNKEYED: [&str; 27] = [
    "forwarded",
    "front-end-https",
    "x-envoy-original-path",
    "x-forwarded-host",
    "x-forwarded-path",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-protocol",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-http-path-override",
    "x-matched-path",
    "x-method-override",
    "x-original-host",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
    "x-scheme",
    "x-script-name",
    "x-url-scheme",
];

/// Beginnings of further such names: fields between the parts of a server (Next.js), by which it routes and renders, and
/// which it does not always tell apart from fields of clients.
pub const UNKEYED_PREFIXES: [&str; 3] = ["x-invoke-", "x-middleware-", "x-now-"];

/// True if a name is in [`UNKEYED`], or begins as [`UNKEYED_PREFIXES`] do.
fn is_unkeyed(name: &[u8]) -> bool {
    // Every request has each of its names looked at, and few of them begin so.
    if !matches!(name.first(), Some(b'x' | b'X' | b'f' | b'F')) {
        return false;
    }
    let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| list::is_like(start, prefix.as_bytes()));
    UNKEYED.into_iter().any(|known| list::is_like(name, known.as_bytes())) || UNKEYED_PREFIXES.into_iter().any(begins)
}

/// Key of a stored response: the URL, then everything else. Two requests have the same bytes only if they have the same
/// parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    bytes: Box<[u8]>,
    url_end: u32,
}

impl Key {
    /// Whole key, by which a response is found.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// URL that it begins with: scheme, host, path and the query that counts. An invalidation or a purge of a URL is for
    /// every key that has it, whatever follows.
    pub fn url(&self) -> &[u8] {
        &self.bytes[..self.url_end as usize]
    }
}

/// Parts of a key that are not in the request itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'p> {
    /// True if the client's connection is TLS, or a trusted proxy reports TLS.
    pub is_https: bool,
    /// Name of the route, or of anything else that decides on the endpoint: two routes with the same URL, distinguished
    /// by a field, have different responses.
    pub route: &'p str,
    /// Name of the pool that gets the request: the pools of a split have different responses.
    pub pool: &'p str,
    /// User of the request, if responses are stored for each user apart. `None` and an empty name are different.
    pub user: Option<&'p [u8]>,
    /// Target that the endpoint gets, if the shell has rewritten the target of the request.
    pub sent: Option<&'p str>,
    /// Host that a trusted proxy reports, and that the endpoint gets in addition to the host of the request.
    pub reported_host: Option<&'p [u8]>,
    /// Further values, each with a name that is not the name of a field.
    pub values: &'p [(Box<str>, Vec<u8>)],
}

/// Parts of the bytes of a [`Key`], for pages of operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyParts<'k> {
    /// URL without the byte that ends it.
    pub url: &'k [u8],
    pub route: &'k [u8],
    pub pool: &'k [u8],
    pub user: Option<&'k [u8]>,
    /// Target that the endpoint gets, if it differs.
    pub sent: Option<&'k [u8]>,
    /// Host that a trusted proxy reports.
    pub reported_host: Option<&'k [u8]>,
    /// Host as it was sent, if it is not spelled as in the URL.
    pub host: Option<&'k [u8]>,
    /// Names of [`KeyRules::fields`] and of [`Place::values`], each with its values.
    pub fields: Vec<(&'k [u8], Vec<&'k [u8]>)>,
}

impl<'k> KeyParts<'k> {
    /// Splits the bytes of a key into its parts; `None` if they are not a key.
    pub fn of(bytes: &'k [u8], url_len: usize) -> Option<KeyParts<'k>> {
        let (url, mut rest) = bytes.split_at_checked(url_len)?;
        let (route, pool) = (pull(&mut rest)?, pull(&mut rest)?);
        let (user, sent) = (pull_if(&mut rest)?, pull_if(&mut rest)?);
        let (reported_host, host) = (pull_if(&mut rest)?, pull_if(&mut rest)?);
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let name = pull(&mut rest)?;
            let count = pull_count(&mut rest)?;
            fields.push((name, (0..count).map(|_| pull(&mut rest)).collect::<Option<_>>()?));
        }
        let url = url.strip_suffix(b"\0").unwrap_or(url);
        Some(KeyParts { url, route, pool, user, sent, reported_host, host, fields })
    }
}

fn pull_if<'k>(rest: &mut &'k [u8]) -> Option<Option<&'k [u8]>> {
    let (has_part, after) = rest.split_first()?;
    *rest = after;
    if *has_part == 0 { Some(None) } else { Some(Some(pull(rest)?)) }
}

fn pull_count(rest: &mut &[u8]) -> Option<u32> {
    let (count, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_le_bytes(*count))
}

fn pull<'k>(rest: &mut &'k [u8]) -> Option<&'k [u8]> {
    let (part, after) = rest
        .get(4..)
        .zip(rest.first_chunk())
        .and_then(|(after, length)| after.split_at_checked(u32::from_le_bytes(*length) as usize))?;
    *rest = after;
    Some(part)
}

impl KeyRules {
    /// Returns the path and query that count.
    ///
    /// The shell sends exactly this target to the endpoint when it fills the cache: if the endpoint saw a parameter
    /// that the key lacks, a client could choose the response that others get.
    pub fn target<'t>(&self, target: &'t str) -> Cow<'t, str> {
        let Some((path, query)) = target.split_once('?') else { return Cow::Borrowed(target) };
        let name = |parameter: &'t str| parameter.split('=').next().unwrap_or_default();
        let is_in = |names: &[Box<str>], parameter| names.iter().any(|known| **known == *name(parameter));
        let counts = |parameter: &&'t str| match &self.query {
            Query::All => true,
            Query::None => false,
            Query::Only(names) => is_in(names, parameter),
            Query::Except(names) => !is_in(names, parameter),
        };
        if matches!(self.query, Query::All) && !self.sorts_query {
            return Cow::Borrowed(target);
        }
        let mut parameters: Vec<&str> = query.split('&').filter(counts).collect();
        if self.sorts_query {
            // Values of the same name keep their order, which may matter.
            parameters.sort_by_key(|parameter| name(parameter));
        }
        match parameters.join("&") {
            query if query.is_empty() => Cow::Borrowed(path),
            query => Cow::Owned(format!("{path}?{query}")),
        }
    }

    /// True if a request that fills the cache goes to the endpoint without this field. The field is in [`UNKEYED`] but
    /// not in the key, or CGI and its descendants cannot tell its name from a field of the key.
    pub fn drops(&self, name: &[u8]) -> bool {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if self.fields.iter().any(|known| is(known)) {
            return false;
        }
        let is_like = |known: &str| list::is_like(name, known.as_bytes());
        is_unkeyed(name) || self.fields.iter().any(|known| is_like(known))
    }

    /// Returns the key of a request. GET and HEAD share a key.
    ///
    /// # Errors
    /// If host or target could be read in two ways: an empty host, one with a slash, or a target that is not a path.
    pub fn key(&self, request: &Request<'_, '_>, place: &Place<'_>) -> Result<Key, Bypass> {
        let mut bytes = self.url(place.is_https, request.host, request.target)?;
        let url_end = bytes.len() as u32;
        push(&mut bytes, place.route.as_bytes());
        push(&mut bytes, place.pool.as_bytes());
        push_if(&mut bytes, place.user);
        push_if(&mut bytes, place.sent.map(str::as_bytes));
        push_if(&mut bytes, place.reported_host);
        // The URL has the normalised host. Endpoints get the host as sent, and may know only one spelling of it.
        push_if(&mut bytes, (normal_host(place.is_https, request.host) != request.host).then_some(request.host));
        for name in &self.fields {
            // A store outlives the rules, so that a value must not count for another field.
            push(&mut bytes, name.as_bytes());
            let count = request.values(name).count() as u32;
            bytes.extend_from_slice(&count.to_le_bytes());
            request.values(name).for_each(|value| push(&mut bytes, value));
        }
        for (name, value) in place.values {
            push(&mut bytes, name.as_bytes());
            bytes.extend_from_slice(&1_u32.to_le_bytes());
            push(&mut bytes, value);
        }
        Ok(Key { bytes: bytes.into_boxed_slice(), url_end })
    }

    /// Makes the [`Key::url`] of a host, and of a path with its query.
    ///
    /// # Errors
    /// If host or target could be read in two ways, see [`KeyRules::key`].
    pub fn url(&self, is_https: bool, host: &[u8], target: &str) -> Result<Vec<u8>, Bypass> {
        let is_plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'/' | b'?' | b'#' | b'\\');
        let host = normal_host(is_https, host);
        if host.is_empty() || !host.iter().all(is_plain) || !target.starts_with('/') {
            return Err(Bypass::Target);
        }
        if target.bytes().any(|b| b.is_ascii_control() || b == b' ' || b == b'#') {
            return Err(Bypass::Target);
        }
        let target = self.target(target);
        let mut url = Vec::with_capacity(8 + host.len() + target.len() + 16);
        url.extend_from_slice(if is_https { b"https://" } else { b"http://" });
        url.extend_from_slice(&host);
        url.extend_from_slice(target.as_bytes());
        // No byte of a URL: it ends here, whatever follows.
        url.push(0);
        Ok(url)
    }
}

/// Host in lower case, without a dot at its end and without the default port.
pub(crate) fn normal_host(is_https: bool, host: &[u8]) -> Vec<u8> {
    let mut host = host.to_ascii_lowercase();
    let port: &[u8] = if is_https { b":443" } else { b":80" };
    let name = host.strip_suffix(port).or_else(|| host.strip_suffix(b":")).unwrap_or(&host);
    let is_default = name.len() < host.len();
    if is_default {
        host.truncate(name.len());
    }
    // A dot before a port that stays is taken out, too.
    let name_end = if host.ends_with(b"]") { None } else { memchr::memrchr(b':', &host) }.unwrap_or(host.len());
    if name_end > 1 && host[name_end - 1] == b'.' {
        host.remove(name_end - 1);
    }
    host
}

fn push(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
    bytes.extend_from_slice(part);
}

fn push_if(bytes: &mut Vec<u8>, part: Option<&[u8]>) {
    bytes.push(u8::from(part.is_some()));
    part.into_iter().for_each(|part| push(bytes, part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    fn key(
        rules: &KeyRules,
        host: &str,
        target: &str,
        fields: &[(&str, &str)],
        place: &Place<'_>,
    ) -> Result<Key, Bypass> {
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        rules.key(&Request { method: "GET", target, host: host.as_bytes(), fields: table.fields() }, place)
    }

    fn url(host: &str, target: &str, is_https: bool) -> String {
        let place = Place { is_https, ..Place::default() };
        let key = key(&KeyRules::default(), host, target, &[], &place).unwrap();
        String::from_utf8(key.url().to_vec()).unwrap()
    }

    #[test]
    fn hosts_are_normalised_and_targets_are_not() {
        assert_eq!(url("A.Example.:80", "/a/../%41?x", false), "http://a.example/a/../%41?x\0");
        assert_eq!(url("a.example:443", "/", true), "https://a.example/\0");
        assert_eq!(url("a.example.:8443", "/", true), "https://a.example:8443/\0");
        assert_eq!(url("a:443", "/", false), "http://a:443/\0");
        assert_eq!(url("[::1]:80", "/", false), "http://[::1]/\0");
        assert_eq!(url("[2001:db8::80]", "/", false), "http://[2001:db8::80]/\0");
        assert_eq!(url("a:", "/", false), "http://a/\0");
    }

    #[test]
    fn what_could_be_read_in_two_ways_has_no_key() {
        for (host, target) in [
            ("", "/"),
            ("a/b", "/"),
            ("a b", "/"),
            ("a?", "/"),
            ("a", "*"),
            ("a", "http://b/"),
            ("a", "/ x"),
            ("a", "/\0"),
            ("a", "/#x"),
        ] {
            let key = key(&KeyRules::default(), host, target, &[], &Place::default());
            assert_eq!(key, Err(Bypass::Target), "{host} {target}");
        }
    }

    #[test]
    fn parameters_count_as_the_rules_say() {
        let names = || vec!["a".into(), "b".into()];
        let of = |query, sorts_query| KeyRules { query, sorts_query, ..KeyRules::default() };
        for (rules, target, expected) in [
            (of(Query::All, false), "/?b&a=2&c", "/?b&a=2&c"),
            (of(Query::All, true), "/?b&a=2&a=1", "/?a=2&a=1&b"),
            (of(Query::None, false), "/?b&a=2", "/"),
            (of(Query::Only(names()), false), "/?c=1&b&a=2&%61=3", "/?b&a=2"),
            (of(Query::Only(names()), false), "/?c=1", "/"),
            (of(Query::Except(names()), true), "/?d&c=1&b&a=2&%61=3", "/?%61=3&c=1&d"),
            (of(Query::Except(names()), false), "/", "/"),
            (of(Query::All, false), "/?", "/?"),
        ] {
            assert_eq!(rules.target(target), expected, "{target}");
        }
    }

    #[test]
    fn fields_that_name_another_url_are_part_of_the_key_or_dropped() {
        let rules = KeyRules { fields: vec!["X-Host".into()], ..KeyRules::default() };
        let dropped = [
            "X-Forwarded-Host",
            "x_original_url",
            "X_Host",
            "x-forwarded_prefix",
            "X-Script-Name",
            "x-scheme",
            "X-Matched-Path",
            "X-Invoke-Path",
            "X_Invoke_Status",
            "X-Now-Route-Matches",
            "x-middleware-prefetch",
        ];
        assert!(UNKEYED.iter().all(|name| is_unkeyed(name.as_bytes())), "the first bytes are not those of the names");
        assert!(dropped.iter().all(|name| rules.drops(name.as_bytes())));
        assert!(
            ["x-host", "x-forwarded-for", "x-hosts", "x-nowhere", "accept"]
                .iter()
                .all(|name| !rules.drops(name.as_bytes()))
        );
    }

    #[test]
    fn a_key_is_taken_apart_and_other_bytes_are_not() {
        let rules = KeyRules { fields: vec!["x".into(), "y".into()], ..KeyRules::default() };
        let place =
            Place { is_https: true, route: "r", pool: "p", user: Some(b""), sent: Some("/c"), ..Place::default() };
        let key = key(&rules, "A", "/b?c", &[("x", "1"), ("X", "")], &place).unwrap();
        let parts = KeyParts::of(key.bytes(), key.url().len()).unwrap();
        assert_eq!((parts.url, parts.route, parts.pool), (&b"https://a/b?c"[..], &b"r"[..], &b"p"[..]));
        assert_eq!((parts.user, parts.sent, parts.reported_host), (Some(&b""[..]), Some(&b"/c"[..]), None));
        assert_eq!((parts.host, &parts.fields[0]), (Some(&b"A"[..]), &(&b"x"[..], vec![&b"1"[..], b""])));
        assert_eq!(parts.fields[1], (&b"y"[..], vec![]));
        for end in 0..key.bytes().len() {
            let cut = KeyParts::of(&key.bytes()[..end], key.url().len());
            // Whole fields may be missing.
            assert!(cut.is_none_or(|cut| cut.fields.len() < 2), "{end}");
        }
    }

    #[test]
    fn every_part_tells_keys_apart() {
        let rules = KeyRules { fields: vec!["x".into(), "y".into()], ..KeyRules::default() };
        let place = |route, user| Place { route, user, ..Place::default() };
        let of = |fields: &[(&str, &str)], place: Place<'_>| key(&rules, "a", "/", fields, &place).unwrap();
        let keys = [
            of(&[], place("r", None)),
            of(&[], place("", None)),
            of(&[], place("r", Some(b""))),
            of(&[], place("r", Some(b"u"))),
            of(&[("x", "")], place("r", None)),
            of(&[("y", "")], place("r", None)),
            of(&[("x", ""), ("x", "")], place("r", None)),
            of(&[("x", "1"), ("y", "")], place("r", None)),
            of(&[("x", ""), ("y", "1")], place("r", None)),
            of(&[], Place { pool: "p", ..place("r", None) }),
            of(&[], Place { sent: Some(""), ..place("r", None) }),
            of(&[], Place { sent: Some("/other"), ..place("r", None) }),
            of(&[], Place { reported_host: Some(b"b"), ..place("r", None) }),
            of(&[], Place { values: &[("map:m".into(), b"1".to_vec())], ..place("r", None) }),
            of(&[], Place { values: &[("map:m".into(), Vec::new())], ..place("r", None) }),
            key(&rules, "A", "/", &[], &place("r", None)).unwrap(),
            key(&rules, "a.", "/", &[], &place("r", None)).unwrap(),
            key(&rules, "a:80", "/", &[], &place("r", None)).unwrap(),
        ];
        for (index, one) in keys.iter().enumerate() {
            assert!(keys.iter().skip(index + 1).all(|other| other != one), "{index}");
            assert_eq!(one.url(), b"http://a/\0");
        }
        assert_eq!(of(&[("X", "1")], place("r", None)), of(&[("x", "1"), ("z", "1")], place("r", None)));
        let others = KeyRules { fields: vec!["x".into(), "z".into()], ..KeyRules::default() };
        assert_ne!(key(&others, "a", "/", &[], &place("r", None)).unwrap(), of(&[], place("r", None)));
    }
}
