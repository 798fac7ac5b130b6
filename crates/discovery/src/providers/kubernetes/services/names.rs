//! Names of listeners, routes and pools, made from the names of objects.

use evenkeel_balance::EndpointId;
use std::net::SocketAddr;
use std::sync::Arc;

/// Longest name of a listener or pool.
const NAME_MAX: usize = 64;

const LABEL_MAX: usize = 128;

/// Name of a listener or pool. A name that is too long ends in a hash.
pub fn name(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain: String = text.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    fit(plain, text, NAME_MAX)
}

/// Name of the listener at an address. It does not depend on the objects that want the listener: their connections outlive the
/// arrival of others.
pub fn listener(addr: SocketAddr, is_udp: bool) -> Arc<str> {
    let (ip, port) = (addr.ip(), addr.port());
    let transport = if is_udp { "-udp" } else { "" };
    match ip.is_unspecified() {
        true => format!("port-{port}{transport}").into(),
        false => name(&format!("port-{ip}-{port}{transport}")).into(),
    }
}

/// Returns a name for a route, which may have any characters.
pub fn label(text: &str) -> String {
    fit(text.to_owned(), text, LABEL_MAX)
}

/// Eight hex digits: a 32-bit hash of the text.
pub fn hash(text: &str) -> String {
    format!("{:08x}", EndpointId::of(text).0 as u32)
}

fn fit(text: String, whole: &str, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let mut end = max - 9;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{}", &text[..end], hash(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_fit_and_stay_apart() {
        let long = |end: &str| format!("{}.{}.{end}", "n".repeat(63), "s".repeat(63));
        let (one, other) = (name(&long("80")), name(&long("81")));
        assert_eq!((one.len(), other.len()), (64, 64));
        assert_ne!(one, other);
        assert_eq!(name("shop.web.80"), "shop.web.80");
        assert_eq!(&*listener(([0, 0, 0, 0, 0, 0, 0, 1], 80).into(), false), "port---1-80");
        assert_eq!(&*listener(([0, 0, 0, 0], 53).into(), true), "port-53-udp");
        assert_eq!(label("shop/web"), "shop/web");
        assert_eq!(label(&"ä".repeat(100)).len(), 128 - 1);
    }
}
