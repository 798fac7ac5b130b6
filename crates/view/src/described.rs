//! Requests that are described, and not sent: as clients of the API write them, and taken apart.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use utoipa::ToSchema;

/// A request that is described, and not sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// Method; `GET` by default.
    #[serde(default)]
    pub method: Option<String>,
    /// `http://HOST/PATH`, `https://HOST/PATH`, or a path alone.
    #[schema(pattern = r"^(/|https?://[^/?#])")]
    pub url: String,
    /// Fields, each as `NAME: VALUE`.
    #[serde(default)]
    #[schema(value_type = Vec<FieldLine>)]
    pub fields: Vec<String>,
    /// The listener that it would come in at; the first for HTTP, if it is left out.
    #[serde(default)]
    pub listener: Option<String>,
    /// The client's address; 127.0.0.1, if it is left out.
    #[serde(default)]
    #[schema(value_type = Option<IpText>)]
    pub client: Option<String>,
}

/// A field of a request: `NAME: VALUE`.
#[derive(ToSchema)]
#[schema(pattern = ":")]
#[expect(dead_code, reason = "only its schema is used")]
struct FieldLine(String);

/// IP address of a client, without a port.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum IpText {
    /// IPv4: four numbers.
    #[schema(format = Ipv4)]
    V4(String),
    /// IPv6: colons.
    #[schema(format = Ipv6)]
    V6(String),
}

/// A description, taken apart.
#[derive(Clone, Debug)]
pub struct Parts {
    pub method: String,
    /// Host as a client would write it, with its port if any.
    pub host: String,
    /// Path and query as a client would send them.
    pub target: String,
    /// Header fields: names and values.
    pub fields: Vec<(String, String)>,
    /// Listener that it would come in at; the first listener for HTTP by default.
    pub listener: Option<String>,
    /// The client that would send it.
    pub client: Option<IpAddr>,
}

impl Described {
    /// Returns the parts of the description.
    ///
    /// # Errors
    /// The part that does not describe a request.
    pub fn parts(self) -> Result<Parts, String> {
        let (host, target) = host_and_target(&self.url)?;
        let field = |field: &String| {
            let (name, value) =
                field.split_once(':').ok_or_else(|| format!("the field \"{field}\" is not NAME: VALUE"))?;
            Ok((name.trim().to_string(), value.trim().to_string()))
        };
        let client = self.client.map(|ip| ip.parse().map_err(|_| format!("\"{ip}\" is not an IP address")));
        Ok(Parts {
            method: self.method.unwrap_or_else(|| "GET".to_string()),
            host,
            target,
            fields: self.fields.iter().map(field).collect::<Result<_, String>>()?,
            listener: self.listener,
            client: client.transpose()?,
        })
    }
}

/// Splits `http://HOST/PATH?QUERY`, or a path alone.
fn host_and_target(url: &str) -> Result<(String, String), String> {
    if url.starts_with('/') {
        return Ok((String::new(), url.to_string()));
    }
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let rest = rest.ok_or_else(|| format!("\"{url}\" is not http://HOST/PATH, https://HOST/PATH or /PATH"))?;
    let rest = rest.split('#').next().unwrap_or_default();
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(at);
    let target = if target.starts_with('/') { target.to_string() } else { format!("/{target}") };
    if host.is_empty() { Err(format!("\"{url}\" names no host")) } else { Ok((host.to_string(), target)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_urls_apart() {
        let taken = |url| host_and_target(url).unwrap();
        assert_eq!(taken("https://a.test:8443/x?y#z"), ("a.test:8443".into(), "/x?y".into()));
        assert_eq!(taken("http://[::1]?q"), ("[::1]".into(), "/?q".into()));
        assert_eq!(taken("/only"), (String::new(), "/only".into()));
        assert!(["a.test/x", "http:///x", "ftp://a/"].iter().all(|url| host_and_target(url).is_err()));
    }
}
