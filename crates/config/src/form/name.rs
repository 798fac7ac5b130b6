//! Characters of names: domains, hosts, and tokens of HTTP.

use super::misfit::Misfit;
use crate::code::Code;
use crate::tree::quoted;

/// True for characters of a token (RFC 9110, section 5.6.2): names of fields and cookies.
pub(super) fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

/// Parses a domain name into lower case, without a final dot.
pub(super) fn domain(text: &str) -> Result<String, Misfit> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if is_domain(&name) {
        return Ok(name);
    }
    let message = format!("{} is not a domain name", quoted(text));
    Err(Misfit::new(Code::BadName, message, "labels are 1 to 63 letters, digits, - and _, separated by dots"))
}

/// Parses a name in a certificate: a URI as it is (RFC 3986 section 3), or a DNS name in lower case, of which the first
/// label may be a star.
pub(super) fn of_subject(text: &str) -> Result<String, Misfit> {
    let Some((scheme, rest)) = text.split_once(':') else {
        let below = text.strip_prefix("*.");
        let star = if below.is_some() { "*." } else { "" };
        return domain(below.unwrap_or(text)).map(|name| format!("{star}{name}"));
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if is_scheme && !rest.is_empty() && text.len() <= 2048 && text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(text.to_string());
    }
    let message = format!("{} is neither a DNS name nor a URI", quoted(text));
    Err(Misfit::new(Code::BadName, message, "write \"api.internal\" or \"spiffe://prod.internal/api\""))
}

/// Parses a request method, which is case-sensitive.
pub(super) fn method(text: &str) -> Result<String, Misfit> {
    let is_token = (1..=32).contains(&text.len()) && text.chars().all(is_token_char);
    if is_token && !text.bytes().any(|b| b.is_ascii_lowercase()) {
        return Ok(text.to_string());
    }
    let message = format!("{} is not a method", quoted(text));
    let help = match is_token {
        true => format!("methods are case-sensitive: write {}", quoted(&text.to_ascii_uppercase())),
        false => "write it as clients send it, such as \"GET\"".to_string(),
    };
    Err(Misfit::new(Code::BadName, message, help))
}

/// Parses the name of a gRPC service or method: labels, separated by dots.
pub(super) fn of_grpc(text: &str) -> Result<String, Misfit> {
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if text.len() <= 256 && text.split('.').all(is_label) {
        return Ok(text.to_string());
    }
    let message = format!("{} is not a name of gRPC", quoted(text));
    Err(Misfit::new(Code::BadName, message, "write it as in the .proto file, such as \"shop.v1.Orders\""))
}

/// True if the text has labels only, separated by dots, within the length of a domain name.
pub(crate) fn is_domain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_label(l: &str) -> bool {
    (1..=63).contains(&l.len()) && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// True if the text is a host name: labels of letters, digits, - and _, separated by dots, the last of which
/// is not all digits (that would be a broken IPv4 address).
pub(super) fn is_host_name(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or_default();
    is_domain(text) && !last.bytes().all(|b| b.is_ascii_digit())
}
