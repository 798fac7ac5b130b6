//! Redirects requests that came without TLS to the same URL over HTTPS. The scheme of a request is the scheme of its
//! connection, or the scheme that a trusted proxy reports.

use super::exchange::Exchange;
use super::filter::{Filter, Own, Pure, RequestHead, Verdict};
use super::row::Build;
use super::step::Step;
use crate::body::response::Response;
use evenkeel_config::plan::Scheme;
use evenkeel_wire::host;

struct Redirect {
    /// Port of the URL with its colon; empty for the default port.
    port: String,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let redirect = from.listener.redirect_https.as_ref()?;
    let port = if redirect.port == 443 { String::new() } else { format!(":{}", redirect.port) };
    Some(Box::new(Redirect { port }))
}

impl Filter for Redirect {
    type State = ();

    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match cx.sender().scheme {
            Scheme::Https => Verdict::Next,
            Scheme::Http => Verdict::Answer(redirect(head.request.host, &self.port, head.request.target)),
        }
    }
}

impl Pure for Redirect {}

#[cold]
fn redirect(host: &[u8], port: &str, target: &str) -> Response {
    let name = String::from_utf8_lossy(host::without_port(host));
    if name.is_empty() || !target.starts_with('/') {
        return Response::new(400, "it requires TLS, and the request names no host");
    }
    Response::new(308, "it requires TLS").with("Location", &format!("https://{name}{port}{target}"))
}
