//! Keys of limits: `client`, `client/24`, `header:NAME`, `cookie:NAME`, `claim:NAME`, `map:NAME`, `route`.

use super::misfit::Misfit;
use super::name::is_token_char;
use crate::code::Code;
use crate::nearest::nearest;
use crate::tree::quoted;
use std::fmt;

/// Bits of the network that stands for an IPv6 client by default: the least that a subscriber has (RFC 6177
/// section 2).
const CLIENT_V6: u8 = 64;

/// Requests that share a limit: those with the same value of this.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// Network of the client: the first bits of an IPv4 and of an IPv6 address.
    Client {
        /// Bits of an IPv4 address, 1 to 32.
        v4: u8,
        /// Bits of an IPv6 address, 1 to 128.
        v6: u8,
    },
    /// Value of this header field (lower case).
    Header(String),
    /// Value of the cookie of this name.
    Cookie(String),
    /// Value of the claim of this name, of the token that `jwt` verified.
    Claim(String),
    /// Value of the map of this name.
    Map(String),
    /// All requests of the route.
    Route,
}

impl LimitKey {
    /// The address of a client, for IPv6 its /64.
    pub(crate) const CLIENT: LimitKey = LimitKey::Client { v4: 32, v6: CLIENT_V6 };
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitKey::Client { v4: 32, v6: CLIENT_V6 } => f.write_str("client"),
            LimitKey::Client { v4: 32, v6 } => write!(f, "client/{v6}"),
            LimitKey::Client { v4, .. } => write!(f, "client/{v4}"),
            LimitKey::Header(name) => write!(f, "header:{name}"),
            LimitKey::Cookie(name) => write!(f, "cookie:{name}"),
            LimitKey::Claim(name) => write!(f, "claim:{name}"),
            LimitKey::Map(name) => write!(f, "map:{name}"),
            LimitKey::Route => f.write_str("route"),
        }
    }
}

pub(super) fn read(text: &str) -> Result<LimitKey, Misfit> {
    let bad = |why: String, help: String| {
        Err(Misfit::new(Code::BadHashKey, format!("{} is not the key of a limit: {why}", quoted(text)), help))
    };
    if let Some(prefix) = text.strip_prefix("client/") {
        let digits = prefix.bytes().all(|b| b.is_ascii_digit());
        return match prefix.parse::<u8>().ok().filter(|_| digits) {
            // /32 is the default of IPv4, and a whole provider of IPv6: which of them is meant would be a guess.
            Some(v4 @ 1..=31) => Ok(LimitKey::Client { v4, v6: CLIENT_V6 }),
            Some(v6 @ 33..=128) => Ok(LimitKey::Client { v4: 32, v6 }),
            _ => bad(
                "its prefix length is out of range".to_string(),
                "allowed: client/1 to client/31 for networks of IPv4, client/33 to client/128 for those of IPv6"
                    .to_string(),
            ),
        };
    }
    let (kind, name) = text.split_once(':').map_or((text, None), |(kind, name)| (kind, Some(name)));
    let token = |name: &str| name.chars().all(is_token_char) && name.len() <= 128;
    match (kind, name) {
        ("client", None) => Ok(LimitKey::CLIENT),
        ("route", None) => Ok(LimitKey::Route),
        ("client" | "route", Some(_)) => bad("it takes no name".to_string(), format!("write \"{kind}\"")),
        ("header" | "cookie" | "claim" | "map", None | Some("")) => {
            bad(format!("{kind} needs a name"), format!("write which one, as \"{kind}:{}\"", example(kind)))
        }
        ("header", Some(name)) if token(name) => Ok(LimitKey::Header(name.to_ascii_lowercase())),
        ("cookie", Some(name)) if token(name) => Ok(LimitKey::Cookie(name.to_string())),
        ("map", Some(name)) if token(name) => Ok(LimitKey::Map(name.to_string())),
        // A claim may have any name, but the name of the policy in `RateLimit` must need no escapes.
        ("claim", Some(name))
            if name.len() <= 128 && name.bytes().all(|b| b.is_ascii_graphic() && !b"\"\\".contains(&b)) =>
        {
            Ok(LimitKey::Claim(name.to_string()))
        }
        ("header" | "cookie" | "claim" | "map", Some(name)) => {
            bad(format!("{} cannot be its name", quoted(name)), format!("write it as \"{kind}:{}\"", example(kind)))
        }
        _ => {
            let near = nearest(kind, ["client", "header", "cookie", "claim", "map", "route"]);
            let did = near.map(|word| format!("did you mean \"{word}\"? ")).unwrap_or_default();
            let allowed =
                "allowed: client, client/24 or another network, header:NAME, cookie:NAME, claim:NAME, map:NAME, route";
            bad(format!("{} is not known", quoted(kind)), format!("{did}{allowed}"))
        }
    }
}

fn example(kind: &str) -> &'static str {
    match kind {
        "header" => "x-api-key",
        "claim" => "sub",
        "map" => "tenant",
        _ => "session",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_keys() {
        for (text, shown) in [
            ("client", "client"),
            ("client/24", "client/24"),
            ("client/64", "client"),
            ("client/56", "client/56"),
            ("header:X-Api-Key", "header:x-api-key"),
            ("cookie:Session", "cookie:Session"),
            ("claim:https://a.example/role", "claim:https://a.example/role"),
            ("route", "route"),
        ] {
            assert_eq!(read(text).map(|key| key.to_string()), Ok(shown.to_string()));
        }
        assert_eq!(read("client/24"), Ok(LimitKey::Client { v4: 24, v6: 64 }));
        assert_eq!(read("client/56"), Ok(LimitKey::Client { v4: 32, v6: 56 }));
    }

    #[test]
    fn refuses_the_rest_with_a_fix() {
        for (text, help) in [
            ("", "client, client/24"),
            ("clint", "did you mean \"client\"?"),
            ("client:x", "write \"client\""),
            ("client/", "client/1 to client/31"),
            ("client/0", "client/1 to client/31"),
            ("client/32", "client/1 to client/31"),
            ("client/129", "client/1 to client/31"),
            ("client/+8", "client/1 to client/31"),
            ("header", "header:x-api-key"),
            ("header:a b", "header:x-api-key"),
            ("cookie:", "cookie:session"),
            ("claim", "claim:sub"),
            ("claim:a\"b", "claim:sub"),
            ("claims:sub", "did you mean \"claim\"?"),
            ("path", "client, client/24"),
        ] {
            let misfit = read(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }
}
