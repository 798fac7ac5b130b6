//! Forms of strings: how each [`Form`] is described, matched by the schema, and parsed into a typed value.

// Order: hash_key, limit_key, media_type, network_list, network, cidr, origin, payload, pem, rate, request, retry,
// secret, socket, address, status, url, host, name, user_list, misfit
mod address;
mod cidr;
mod hash_key;
mod host;
mod limit_key;
mod media_type;
mod misfit;
mod name;
mod network;
mod network_list;
mod origin;
mod payload;
mod pem;
mod rate;
mod request;
mod retry;
mod secret;
mod socket;
mod status;
mod url;
mod user_list;

pub use address::Address;
pub use cidr::Cidr;
pub use hash_key::HashKey;
pub use host::HostPattern;
pub use limit_key::LimitKey;
pub use network_list::{NETWORK_LIST_MAX, network_list};
pub use origin::Origin;
pub use pem::Pem;
pub use rate::RequestRate;
pub use request::captures::{Captures, GROUPS_MAX, Groups, captures};
pub use request::field_name::steers;
pub use request::function::{Function, TooLong};
pub use request::key_source::KeySource;
pub use request::path::PathPattern;
pub use request::path_parts::PathPart;
pub use request::pieces::{End, Piece, Pieces};
pub use request::regex::{
    REGEX_SIZE_MAX, checked as checked_regex, compile as compile_regex, cost as regex_cost, without_case,
};
pub use request::send_host::SendHost;
pub use request::template::{Template, TemplatePart, escaped};
pub use request::token_field::TokenField;
pub use request::variable::Variable;
pub use request::{Expression, Expressions, Extent};
pub use socket::AdminSocket;
pub use user_list::{USER_LIST_MAX, user_list};

pub(crate) use address::braced;
pub(crate) use misfit::Misfit;
pub(crate) use name::is_domain;
pub(crate) use payload::written as payload_text;
pub(crate) use pem::{MASKED_KEY, pem_digest};
pub(crate) use retry::{RetryOn, percentile_text};
pub(crate) use status::{range as read_statuses, written as status_text};
pub(crate) use user_list::MASKED_USERS;

use crate::code::Code;
use crate::printable::is_hidden;
use crate::tree::quoted;
use name::{domain, is_token_char};
use request::variable::Use;
use request::{field_name, key_source, path, regex, send_host, template, token_field};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// Form that a string must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// IP address and port to listen on.
    Bind,
    /// IP address or host name, and port, to connect to.
    Address,
    /// Network of IP addresses, or a single address.
    Network,
    /// Unix socket, `unix:/PATH`, or `off`.
    Socket,
    /// Host pattern: `*.example.com`.
    Host,
    /// Path pattern: `/users/{id}`.
    Path,
    /// Path that stands for everything below it.
    Prefix,
    /// Text that a path begins with.
    PathStart,
    /// Regular expression, in the syntax of the crate regex.
    Regex,
    /// Method of requests, in upper case: `GET`.
    Method,
    /// Name of a gRPC service or method.
    GrpcName,
    /// Path without parameters: `/metrics`.
    PlainPath,
    /// DNS name of a zone or of a host in a zone.
    Domain,
    /// Name in a certificate: a DNS name, which may have a wildcard, or a URI.
    SubjectName,
    /// IP address without a port.
    Ip,
    /// Path with an optional query.
    Target,
    /// `Path` attribute of a cookie.
    CookiePath,
    /// Host name to resolve, without a port.
    DnsName,
    /// Host with an optional port.
    Authority,
    /// Name of a listener or pool.
    Name,
    /// Name of a pool, or `{map.NAME}`.
    PoolChoice,
    /// Name of a route, endpoint or locality zone.
    Label,
    /// Token (RFC 9110 section 5.6.2): names of fields and cookies.
    Token,
    /// Text of 1 to 1024 characters.
    Content,
    /// Bytes of a datagram, as text or after `hex:`.
    Payload,
    /// Secret key, 16 to 1024 bytes.
    Secret,
    /// URL of a resource fetched over TLS.
    HttpsUrl,
    /// URL of a telemetry collector, with or without TLS.
    CollectorUrl,
    /// URL of a server's API, with or without TLS, or a Unix socket.
    ServerUrl,
    /// URL of a list, with or without TLS.
    ListUrl,
    File,
    /// Path of a file in PEM, or its text.
    Pem,
    Users,
    /// Path in the file system, with `*` allowed in its last component.
    Include,
    /// Part of a request to hash.
    HashKey,
    /// Requests that share a limit.
    LimitKey,
    /// Requests in a unit of time: `100/s`.
    Rate,
    /// Status or range of statuses, 200 to 599.
    Status,
    /// Status or range of statuses, 400 to 599.
    ErrorStatus,
    /// Media type for `Content-Type`.
    MediaType,
    /// Failure that can be retried.
    RetryOn,
    /// First and longest pause: `25ms..250ms`.
    Backoff,
    /// Percentile such as `p95`, or `off`.
    Percentile,
    /// Name of a field that a filter may change.
    FieldName,
    /// Name of such a field, or the beginning of names before a star.
    FieldPattern,
    /// Value of a field of a request, with variables.
    RequestValue,
    /// Value of a field of a response, with variables.
    ResponseValue,
    /// Path of a rewrite: absolute, without query; `{id}` is a parameter of the route.
    PathTemplate,
    /// Such a path, which may have a query.
    TargetTemplate,
    /// URL or path to redirect to, with variables.
    Location,
    /// Host to redirect to, with variables.
    HostTemplate,
    /// The word `client` or `endpoint`, or a fixed host.
    SendHost,
    /// Origin of a page, or a pattern of origins.
    Origin,
    /// File or URL of a JWK set.
    KeySource,
    /// Place of a token in a request.
    TokenField,
}

/// Typed value of a parsed string.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Formed {
    Bind(SocketAddr),
    Address(Address),
    Network(Cidr),
    Socket(AdminSocket),
    Host(HostPattern),
    Ip(IpAddr),
    Path(PathPattern),
    HashKey(HashKey),
    LimitKey(LimitKey),
    Rate(RequestRate),
    Statuses(RangeInclusive<u16>),
    RetryOn(RetryOn),
    /// First and longest pause, nanoseconds.
    Backoff(u64, u64),
    /// Share above 0 and below 1; `None` for `off`.
    Percentile(Option<f64>),
    Payload(Vec<u8>),
    Template(Template),
    SendHost(SendHost),
    Origin(Origin),
    KeySource(KeySource),
    TokenField(TokenField),
    Text(String),
}

/// Name of the map of `{map.NAME}`; `None` for other texts.
pub(crate) fn map_in_braces(text: &str) -> Option<&str> {
    text.strip_prefix("{map.")?.strip_suffix('}')
}

impl Form {
    /// Description for docs and messages, with an article where it takes an article.
    pub fn describe(self) -> &'static str {
        match self {
            Form::Bind => "an IP address and port, such as \"127.0.0.1:8080\" or \"[::]:80\"",
            Form::Address => {
                "an address and port, such as \"10.0.0.1:8080\", \"[::1]:8080\" or \"web.internal:8080\", or a socket, such as \"unix:/run/app.sock\""
            }
            Form::Network => "a network or an address, such as \"10.0.0.0/8\", \"fd00::/8\" or \"127.0.0.1\"",
            Form::Socket => "a Unix socket, such as \"unix:/run/evenkeel/admin.sock\", or \"off\"",
            Form::Host => "a host, such as \"api.example.com\" or \"*.example.com\"",
            Form::Path => "a path, such as \"/x\", \"/users/{id}\" or \"/v1/{*rest}\"",
            Form::Prefix => "a path prefix, such as \"/api\" or \"/users/{id}\"",
            Form::PathStart => "the beginning of a path, such as \"/api\"",
            Form::Regex => "a regular expression, such as \"/u/[0-9]+\"",
            Form::Method => "a method, such as \"GET\"",
            Form::GrpcName => "a name, such as \"shop.v1.Orders\"",
            Form::PlainPath => "a path, such as \"/metrics\"",
            Form::Domain => "a domain name, such as \"gslb.example.com\"",
            Form::SubjectName => {
                "a DNS name or a URI, such as \"api.internal\", \"*.internal\" or \"spiffe://prod.internal/api\""
            }
            Form::Ip => "an IP address, such as \"192.0.2.1\" or \"2001:db8::1\"",
            Form::Target => "a path, optionally with a query, such as \"/healthz\"",
            Form::CookiePath => "a path without \";\", such as \"/\"",
            Form::DnsName => "a host name, such as \"web.internal\" or \"_http._tcp.web.internal\"",
            Form::Authority => "a host, optionally with a port, such as \"web.internal\"",
            Form::Name => "a name of up to 64 letters, digits, _, - or .",
            Form::PoolChoice => "the name of a pool, or a map that names it, such as \"{map.tenant}\"",
            Form::Label => "a name of up to 128 visible characters",
            Form::Token => "a name of up to 128 letters, digits or !#$%&'*+-.^_`|~",
            Form::Content => "text of 1 to 1024 characters",
            Form::Payload => "text, or bytes in hex, such as \"hex:00ff\"",
            Form::Secret => "text of 16 to 1024 bytes",
            Form::HttpsUrl => "a URL, such as \"https://ca.internal/acme/directory\"",
            Form::CollectorUrl => "a URL, such as \"http://127.0.0.1:4318\"",
            Form::ServerUrl => {
                "a URL, such as \"https://consul.internal:8501\", or a socket, such as \"unix:/run/api.sock\""
            }
            Form::ListUrl => "a URL, such as \"https://lists.internal/web.json\"",
            Form::File => "a file path",
            Form::Pem => "a file path, or PEM text with a line that begins with \"-----BEGIN \"",
            Form::Users => "lines of NAME:HASH, as written by htpasswd -B",
            Form::Include => "a file path, with * and ? allowed in its last component",
            Form::HashKey => "\"client-ip\", \"path\", \"header:NAME\", \"cookie:NAME\" or \"query:NAME\"",
            Form::LimitKey => {
                "\"client\", \"client/24\" or another network, \"header:NAME\", \"cookie:NAME\", \"claim:NAME\", \"map:NAME\" or \"route\""
            }
            Form::Rate => "a rate, such as \"100/s\", \"20/m\" or \"1000/h\"",
            Form::Status => "statuses, such as \"204..=299\" or \"2xx\"",
            Form::ErrorStatus => "error statuses, such as \"502..=504\" or \"5xx\"",
            Form::MediaType => "a media type, such as \"text/html; charset=utf-8\"",
            Form::RetryOn => {
                "\"connect\", \"reset\", \"timeout\", a status such as \"503\" or \"5xx\", or a gRPC status such as \"grpc:unavailable\""
            }
            Form::Backoff => "first and longest pause, such as \"25ms..250ms\"",
            Form::Percentile => "\"off\", or a percentile, such as \"p95\" or \"p99.5\"",
            Form::FieldName => "the name of a field, such as \"X-Real-IP\"",
            Form::FieldPattern => "the name of a field, such as \"Server\" or \"X-Internal-*\"",
            Form::RequestValue => "a value, such as \"yes\" or \"{client.ip}\"",
            Form::ResponseValue => "a value, such as \"DENY\" or \"{endpoint}\"",
            Form::PathTemplate => "a path, such as \"/index.html\" or \"/users/{id}\"",
            Form::TargetTemplate => "a path, such as \"/users/{1}\" or \"/index.php?page={1}\"",
            Form::HostTemplate => "a host, such as \"www.{host}\"",
            Form::Location => "a URL or a path, such as \"https://{host}{path}\"",
            Form::SendHost => "\"client\", \"endpoint\", or a host, such as \"app.internal\"",
            Form::KeySource => "a file path, or a URL, such as \"https://idp.example/jwks.json\"",
            Form::TokenField => "\"bearer\", \"cookie:NAME\" or \"header:NAME\"",
            Form::Origin => "an origin, such as \"https://a.example\", \"https://*.a.example\" or \"*\"",
        }
    }

    /// Regular expression for the JSON Schema, matched by every string of this form; looser than
    /// [`Form::read`].
    pub(crate) fn regex(self) -> &'static str {
        match self {
            Form::Bind => "^[^\\s/]+:[0-9]{1,5}$",
            Form::Address => "^([^\\s/]+:[0-9]{1,5}|unix:[/@][^\\s]+)$",
            Form::Network => "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$",
            Form::Socket => "^(off|unix:/.+)$",
            Form::Host => "^(\\*\\.)?[^\\s/*]+$",
            Form::Regex => "^[\\s\\S]{1,4096}$",
            Form::Method => "^[A-Z0-9!#$%&'*+.^_`|~-]{1,32}$",
            Form::GrpcName => "^[A-Za-z0-9_.]{1,256}$",
            Form::Path | Form::Prefix | Form::PathStart | Form::PlainPath => "^/[^\\s?#]*$",
            Form::Domain => "^[A-Za-z0-9_.-]{1,254}$",
            Form::SubjectName => "^[!-~]{1,2048}$",
            Form::Ip => "^[0-9A-Fa-f:.]+$",
            Form::Target => "^/[^\\s#]*$",
            Form::CookiePath => "^/[^\\s?#;]*$",
            Form::DnsName => "^[A-Za-z0-9_.-]{1,254}$",
            Form::Authority => "^[^\\s/*]+$",
            Form::Name => "^[A-Za-z0-9_.-]{1,64}$",
            Form::PoolChoice => "^([A-Za-z0-9_.-]{1,64}|\\{map\\.[A-Za-z0-9_.-]{1,64}\\})$",
            Form::Label | Form::File | Form::Include => "^.+$",
            Form::Token => "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$",
            Form::HttpsUrl => "^https://[^\\s]+$",
            Form::CollectorUrl | Form::ListUrl => "^https?://[^\\s]+$",
            Form::ServerUrl => "^(https?://[^\\s]+|unix:/.+)$",
            Form::Content => "^[\\s\\S]{1,1024}$",
            Form::Payload | Form::Pem | Form::Users => "^[\\s\\S]+$",
            Form::Secret => "^[\\s\\S]{4,1024}$",
            Form::Status => "^([2-5]xx|[2-5][0-9][0-9](\\.\\.=[2-5][0-9][0-9])?)$",
            Form::ErrorStatus => "^([45]xx|[45][0-9][0-9]((\\.\\.=|-)[45][0-9][0-9])?)$",
            Form::MediaType => "^[^\\s/]+/[^\\s/;]+( *;.+)?$",
            Form::RetryOn => "^(connect|reset|timeout|grpc:[a-z-]+|[45]xx|[45][0-9][0-9](\\.\\.=[45][0-9][0-9])?)$",
            Form::Backoff => "^[0-9.a-zµμ]+\\.\\.[0-9.a-zµμ]+$",
            Form::FieldName => "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$",
            Form::FieldPattern => "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,129}$",
            Form::RequestValue | Form::ResponseValue | Form::TargetTemplate => "^[^\\r\\n]*$",
            Form::PathTemplate => "^/.*$",
            Form::HostTemplate => "^.+$",
            Form::Location => "^(https?://|\\{scheme\\}://|/).*$",
            Form::SendHost => "^[^\\s/*]+$",
            Form::Origin => "^(\\*|null|[A-Za-z][A-Za-z0-9+.-]*://[^\\s/?#]+)$",
            Form::KeySource => "^.+$",
            Form::TokenField => "^(bearer|(cookie|header):.+)$",
            Form::Percentile => "^(off|[pP][0-9]{1,2}(\\.[0-9]{1,4})?)$",
            Form::LimitKey => "^(client(/[0-9]{1,3})?|route|(header|cookie|claim|map):.+)$",
            Form::Rate => "^[0-9_]+ */ *[smh]$",
            Form::HashKey => "^(client-ip|path|(header|cookie|query):.+)$",
        }
    }

    /// Parses a string into its typed value.
    pub(crate) fn read(self, text: &str) -> Result<Formed, Misfit> {
        match self {
            Form::Bind => address::bind(text).map(Formed::Bind),
            Form::Address => address::upstream(text).map(Formed::Address),
            Form::Network => network::read(text).map(Formed::Network),
            Form::Socket => socket::read(text).map(Formed::Socket),
            Form::Host => host::read(text).map(Formed::Host),
            Form::Path => path::read(text).map(Formed::Path),
            Form::Prefix => path::prefix(text).map(Formed::Path),
            Form::PathStart => path::start(text).map(Formed::Path),
            Form::Regex => regex::read(text).map(Formed::Text),
            Form::Method => name::method(text).map(Formed::Text),
            Form::GrpcName => name::of_grpc(text).map(Formed::Text),
            Form::HashKey => hash_key::read(text).map(Formed::HashKey),
            Form::LimitKey => limit_key::read(text).map(Formed::LimitKey),
            Form::Rate => rate::read(text).map(Formed::Rate),
            Form::Status => status::read(text, 200..=599).map(Formed::Statuses),
            Form::ErrorStatus => status::read(text, 400..=599).map(Formed::Statuses),
            Form::MediaType => media_type::read(text).map(|()| Formed::Text(text.to_string())),
            Form::RetryOn => retry::failure(text).map(Formed::RetryOn),
            Form::Backoff => retry::backoff(text).map(|(first, last)| Formed::Backoff(first, last)),
            Form::Percentile => retry::percentile(text).map(Formed::Percentile),
            Form::Payload => payload::read(text).map(Formed::Payload),
            Form::FieldName => field_name::read(text).map(|()| Formed::Text(text.to_string())),
            Form::FieldPattern => field_name::pattern(text).map(|()| Formed::Text(text.to_string())),
            Form::RequestValue => template::read(text, Use::Request).map(Formed::Template),
            Form::ResponseValue => template::read(text, Use::Response).map(Formed::Template),
            Form::PathTemplate => template::read(text, Use::Path).map(Formed::Template),
            Form::TargetTemplate => template::read(text, Use::Target).map(Formed::Template),
            Form::HostTemplate => template::host(text).map(Formed::Template),
            Form::Location => template::location(text).map(Formed::Template),
            Form::SendHost => send_host::read(text).map(Formed::SendHost),
            Form::Origin => origin::read(text).map(Formed::Origin),
            Form::KeySource => key_source::read(text).map(Formed::KeySource),
            Form::TokenField => token_field::read(text).map(Formed::TokenField),
            Form::Secret => secret::read(text).map(Formed::Text),
            Form::Pem => pem::read(text).map(Formed::Text),
            Form::Users => user_list::read_text(text).map(Formed::Text),
            Form::PlainPath => path::plain(text).map(|()| Formed::Text(text.to_string())),
            Form::Domain => domain(text).map(Formed::Text),
            Form::SubjectName => name::of_subject(text).map(Formed::Text),
            Form::Ip => match text.parse() {
                Ok(ip) => Ok(Formed::Ip(ip)),
                Err(_) => {
                    let message = format!("{} is not an IP address", quoted(text));
                    Err(Misfit::new(Code::BadAddress, message, "write \"192.0.2.1\" or \"2001:db8::1\""))
                }
            },
            Form::Target => path::target(text).map(|()| Formed::Text(text.to_string())),
            Form::CookiePath => path::of_cookie(text).map(|()| Formed::Text(text.to_string())),
            Form::DnsName => address::dns_name(text).map(Formed::Text),
            Form::Authority => host::authority(text).map(Formed::Text),
            Form::ServerUrl => url::server(text).map(|()| Formed::Text(text.to_string())),
            Form::ListUrl => url::list(text).map(|()| Formed::Text(text.to_string())),
            Form::CollectorUrl => url::collector(text).map(|()| Formed::Text(text.to_string())),
            Form::HttpsUrl => url::https(text).map(|()| Formed::Text(text.to_string())),
            Form::PoolChoice => match map_in_braces(text) {
                Some(map) => Form::Name.read(map).map(|_| Formed::Text(text.to_string())),
                None => Form::Name.read(text),
            },
            Form::Name | Form::Label | Form::Token | Form::Content | Form::File | Form::Include => {
                if self.is_name(text) {
                    Ok(Formed::Text(text.to_string()))
                } else {
                    let what = match self {
                        Form::Name | Form::Label | Form::Token => "a name",
                        Form::Content => "a text to look for",
                        _ => "the path of a file",
                    };
                    let message = format!("{} is not {what}", quoted(text));
                    Err(Misfit::new(Code::BadName, message, format!("allowed: {}", self.describe())))
                }
            }
        }
    }

    fn is_name(self, text: &str) -> bool {
        let (max, fits): (usize, fn(char) -> bool) = match self {
            Form::Name => (64, |c| c.is_ascii_alphanumeric() || "_-.".contains(c)),
            Form::Label => (128, |c| !is_hidden(c)),
            Form::Token => (128, is_token_char),
            Form::Content => (1024, |_| true),
            _ => (4096, |c| c != '\0'),
        };
        !text.is_empty() && text.chars().count() <= max && text.chars().all(fits)
    }
}
