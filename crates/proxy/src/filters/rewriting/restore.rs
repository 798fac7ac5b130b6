//! Filter that puts the prefix that a rewrite removed back into responses: into `Location` and `Content-Location`, and,
//! through [`cookies`](crate::filters::headers::cookies), into the path of cookies.

use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::template::parameters::Parameters;
use evenkeel_config::plan::SendHost;
use evenkeel_wire::http1::fields::append;
use evenkeel_wire::prefixes::Prefixes;
use std::borrow::Cow;
use std::sync::Arc;

struct Restore {
    matched: Parameters,
    /// Prefix of paths at endpoints, without a slash at its end.
    inner: Arc<str>,
    send_host: SendHost,
}

pub fn build(from: &Build<'_>) -> Option<Box<dyn Filter>> {
    let route = from.route.as_ref()?.plan;
    let rewritten = route.rewrite.as_ref().and_then(|rewrite| rewrite.prefix.as_ref());
    let inner = rewritten.map(ToString::to_string).unwrap_or_default();
    route.restore_prefix.then(|| {
        Box::new(Restore {
            matched: Parameters::of_route(route),
            inner: inner.trim_end_matches('/').into(),
            send_host: route.send_host.clone(),
        }) as _
    })
}

impl Filter for Restore {
    /// Keeps the prefixes, as the head may be gone when the response comes.
    fn request<'c>(&'c self, cx: &mut Exchange<'c>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let path = head.request.path();
        let outer = path.split_at(self.matched.prefix_len(path).unwrap_or(0)).0.trim_end_matches('/');
        // Readers take what follows two slashes for a host, and the client chose it.
        if !matches!(outer.as_bytes(), [b'/', b'/' | b'\\', ..]) && outer.bytes().all(|b| b.is_ascii_graphic()) {
            cx.prefixes = Some(Box::new(Prefixes::new(outer, self.inner.clone(), head.request.host)));
        }
        Verdict::Next
    }

    /// Changes the responses of endpoints only.
    fn response(&self, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let Some(prefixes) = cx.prefixes.as_deref().filter(|_| head.is_of_endpoint(cx)) else { return };
        let bytes = head.fields.bytes;
        let mut sent = None;
        for row in head.fields.rows.iter_mut().filter(|row| !row.dropped) {
            let name = row.name(bytes);
            if !name.eq_ignore_ascii_case(b"location") && !name.eq_ignore_ascii_case(b"content-location") {
                continue;
            }
            let sent = sent.get_or_insert_with(|| self.sent_host(cx, prefixes));
            if let Some((kept, path)) = prefixes.location(row.value(bytes), sent) {
                append(&[name, b": ", kept, path.outer, path.rest, b"\r\n"], head.added);
                row.dropped = true;
            }
        }
    }

    fn did(&self, cx: &Exchange<'_>) -> Cow<'static, str> {
        cx.prefixes.as_ref().map_or("".into(), |prefixes| format!("prefix of links {}", prefixes.outer()).into())
    }
}

impl Restore {
    /// The host that the endpoint got.
    fn sent_host(&self, cx: &Exchange<'_>, prefixes: &Prefixes) -> Vec<u8> {
        match (&self.send_host, cx.pool, &cx.endpoint) {
            (SendHost::Fixed(host), ..) => host.as_bytes().to_vec(),
            (SendHost::Endpoint, Some(pool), Some(endpoint)) => {
                let mut host = Vec::new();
                pool.write_host(endpoint, &mut host);
                host
            }
            _ => prefixes.host().to_vec(),
        }
    }
}
