//! Classification of header fields by their meaning to a proxy, by length and then by name.

/// The meaning of a field to a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// None: the field is forwarded unchanged.
    Other,
    Host,
    Connection,
    ContentLength,
    TransferEncoding,
    Upgrade,
    Expect,
    /// Hop-by-hop without meaning to this proxy: `Proxy-Connection`, `TE`, `HTTP2-Settings`.
    HopByHop,
    /// `Keep-Alive`: hop-by-hop. An endpoint may state the time after which it closes.
    KeepAlive,
    /// `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`, `Forwarded`, and the fields about a client's
    /// certificate (RFC 9440 section 2.4): written by the proxy itself.
    Forwarded,
    /// `CDN-Loop`: forwarded, and lists the proxies that a request has passed.
    Loop,
    /// A name that differs from these names only by underscores, which CGI and its descendants cannot distinguish from
    /// hyphens.
    Lookalike,
}

/// Length of the longest name with a meaning.
pub const NAME_MAX: usize = 25;

/// Classifies a field by its name. Length and first letter leave a single name to compare with, and none for most
/// fields.
pub fn kind(name: &[u8]) -> Kind {
    let (ours, kind): (&[u8], Kind) = match (name.len(), name.first().map_or(0, |b| b | 0x20)) {
        (2, b't') => (b"te", Kind::HopByHop),
        (4, b'h') => (b"host", Kind::Host),
        (6, b'e') => (b"expect", Kind::Expect),
        (7, b'u') => (b"upgrade", Kind::Upgrade),
        (8, b'c') => (b"cdn-loop", Kind::Loop),
        (9, b'f') => (b"forwarded", Kind::Forwarded),
        (10, b'c') => (b"connection", Kind::Connection),
        (10, b'k') => (b"keep-alive", Kind::KeepAlive),
        (11, b'c') => (b"client-cert", Kind::Forwarded),
        (14, b'c') => (b"content-length", Kind::ContentLength),
        (14, b'h') => (b"http2-settings", Kind::HopByHop),
        (15, b'x') => (b"x-forwarded-for", Kind::Forwarded),
        (16, b'p') => (b"proxy-connection", Kind::HopByHop),
        (16, b'x') => (b"x-forwarded-host", Kind::Forwarded),
        (17, b't') => (b"transfer-encoding", Kind::TransferEncoding),
        (17, b'c') => (b"client-cert-chain", Kind::Forwarded),
        (17, b'x') => (b"x-forwarded-proto", Kind::Forwarded),
        (20, b'x') if name[14] | 0x20 == b'i' => (b"x-client-cert-issuer", Kind::Forwarded),
        (20, b'x') => (b"x-client-cert-serial", Kind::Forwarded),
        (21, b'x') => (b"x-client-cert-subject", Kind::Forwarded),
        (22, b'x') => (b"x-client-cert-verified", Kind::Forwarded),
        (25, b'x') => (b"x-client-cert-fingerprint", Kind::Forwarded),
        _ => return Kind::Other,
    };
    // Of all bytes that a name may contain, only capital letters are mapped to bytes of `ours` by the bit.
    if name.iter().zip(ours).all(|(n, o)| n | 0x20 == *o) {
        kind
    } else if looks_like(name, ours) {
        Kind::Lookalike
    } else {
        Kind::Other
    }
}

/// True if a name of the same length differs only in case and underscores.
#[cold]
fn looks_like(name: &[u8], ours: &[u8]) -> bool {
    name.iter().zip(ours).all(|(n, o)| n.eq_ignore_ascii_case(o) || (*n, *o) == (b'_', b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_in_any_case_one_with_underscores_as_a_lookalike_and_none_that_differs() {
        let names = "te host expect upgrade http2-settings cdn-loop forwarded connection keep-alive content-length x-forwarded-for \
                     proxy-connection x-forwarded-host transfer-encoding x-forwarded-proto client-cert client-cert-chain \
                     x-client-cert-verified x-client-cert-fingerprint x-client-cert-subject x-client-cert-issuer \
                     x-client-cert-serial";
        let kind = |name: &str| kind(name.as_bytes());
        for name in names.split_whitespace() {
            assert_ne!(kind(name), Kind::Other, "{name}");
            assert!(name.len() <= NAME_MAX, "{name}");
            assert_eq!(kind(&name.to_ascii_uppercase()), kind(name), "{name}");
            let lookalike = if name.contains('-') { Kind::Lookalike } else { kind(name) };
            assert_eq!(kind(&name.to_ascii_uppercase().replace('-', "_")), lookalike, "{name}");
            assert_eq!(kind(&name.replacen('-', "_", 1)), lookalike, "{name}");
            // Each bit of each byte counts, except the bit of lower case.
            for (at, bit) in (0..name.len()).flat_map(|at| (0..7).map(move |bit| (at, 1 << bit))) {
                let mut other = name.as_bytes().to_vec();
                other[at] ^= bit;
                let other = String::from_utf8(other).expect("seven bits");
                let same = bit == 0x20 && name.as_bytes()[at] != b'-';
                assert!(same == (kind(&other) == kind(name)) || other.contains('\r'), "{other:?}");
            }
        }
        assert_eq!([kind(""), kind("-"), kind("x_requested_with"), kind("host_")], [Kind::Other; 4]);
    }
}
