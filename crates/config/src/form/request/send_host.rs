//! Hosts that endpoints get: `client`, `endpoint`, or a fixed host.

use crate::form::host;
use crate::form::misfit::Misfit;
use std::fmt;
use std::sync::Arc;

/// Host that an endpoint gets with a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SendHost {
    /// The host that the client sent.
    #[default]
    Client,
    /// Host of the endpoint's address as configured, at each try.
    Endpoint,
    /// Always this host, with a port unless it is the port of the scheme.
    Fixed(Arc<str>),
}

pub(in crate::form) fn read(text: &str) -> Result<SendHost, Misfit> {
    match text {
        "client" => Ok(SendHost::Client),
        "endpoint" => Ok(SendHost::Endpoint),
        other => host::authority(other).map(|host| SendHost::Fixed(host.into())),
    }
}

impl fmt::Display for SendHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendHost::Client => f.write_str("client"),
            SendHost::Endpoint => f.write_str("endpoint"),
            SendHost::Fixed(host) => f.write_str(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_have_a_meaning_and_others_are_hosts() {
        assert_eq!(read("client"), Ok(SendHost::Client));
        assert_eq!(read("endpoint"), Ok(SendHost::Endpoint));
        for text in ["app.internal", "app.internal:8080", "[::1]:80", "10.0.0.1"] {
            assert_eq!(read(text).map(|host| host.to_string()), Ok(text.to_string()));
        }
        for text in ["", "a b", "http://a", "a/b", "*.a", "a\r\nb"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
