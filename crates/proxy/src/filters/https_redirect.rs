//! Redirects plain HTTP requests to the same URL over HTTPS, at the default port.

use super::exchange::Exchange;
use super::filter::{DryRun, Filter, RequestHead, Verdict};
use super::row::Build;
use crate::body::response::Response;
use evenkeel_wire::host;

struct Redirect;

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    from.listener.redirect_https.then(|| Box::new(Redirect) as _)
}

impl Filter for Redirect {
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        match cx.peer.tls() {
            Some(_) => Verdict::Next,
            None => Verdict::Answer(redirect(head.request.host, head.request.target)),
        }
    }

    fn dry_run<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        self.request(cx, head).into()
    }
}

#[cold]
fn redirect(host: &[u8], target: &str) -> Response {
    let name = String::from_utf8_lossy(host::without_port(host));
    if name.is_empty() || !target.starts_with('/') {
        return Response::new(400, "it requires TLS, and the request names no host");
    }
    Response::new(308, "it requires TLS").with("Location", &format!("https://{name}{target}"))
}
