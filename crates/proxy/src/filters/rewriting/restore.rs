//! Filter that puts the prefix that a rewrite removed back into responses: into `Location`, `Content-Location`,
//! `Refresh` and `Link`, and, through [`cookies`](crate::filters::headers::cookies), into the path of cookies.
//! Conversely, it removes the prefix from `Destination` of a request.

use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use crate::filters::template::parameters::Parameters;
use evenkeel_config::plan::SendHost;
use evenkeel_wire::head::Fields;
use evenkeel_wire::http1::fields::append;
use evenkeel_wire::prefixes::{Prefixes, Restored};
use std::borrow::Cow;
use std::sync::Arc;

struct Restore {
    matched: Parameters,
    /// Prefix of paths at endpoints, without a slash at its end.
    inner: Arc<str>,
    send_host: SendHost,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    let route = from.route.as_ref()?.plan;
    let rewritten = route.filters.rewrite.as_ref().and_then(|rewrite| rewrite.prefix.as_ref());
    let inner = rewritten.map(ToString::to_string).unwrap_or_default();
    route.filters.restore_prefix.then(|| {
        Box::new(Restore {
            matched: Parameters::of_route(route, from.listener.ignore_case),
            inner: inner.trim_end_matches('/').into(),
            send_host: route.filters.send_host.clone(),
        }) as _
    })
}

impl Filter for Restore {
    type State = ();

    /// Keeps the prefixes, as the head may be gone when the response comes.
    fn request(&self, _: &mut Own<()>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        let path = head.request.path();
        let outer = path.split_at(self.matched.prefix_len(path).unwrap_or(0)).0.trim_end_matches('/');
        // Readers take the text behind two slashes for a host, and the client could choose that host.
        if !matches!(outer.as_bytes(), [b'/', b'/' | b'\\', ..]) && outer.bytes().all(|b| b.is_ascii_graphic()) {
            let prefixes = Prefixes::new(outer, self.inner.clone(), head.request.host);
            restore_destination(&prefixes, head);
            cx.facts.prefixes = Some(Box::new(prefixes));
        }
        Verdict::Next
    }

    fn interim(&self, _: &mut Own<()>, cx: &Exchange<'_>, fields: &mut Fields<'_, '_>, added: &mut Vec<u8>) {
        if let Some(prefixes) = cx.facts.prefixes.as_deref() {
            self.restore(cx, prefixes, fields, added);
        }
    }

    /// Changes the responses of endpoints only.
    fn response(&self, _: &mut Own<()>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let Some(prefixes) = cx.facts.prefixes.as_deref().filter(|_| head.is_of_endpoint(cx)) else { return };
        self.restore(cx, prefixes, head.fields, head.added);
    }

    fn did(&self, _: Option<&()>, cx: &Exchange<'_>) -> Cow<'static, str> {
        cx.facts.prefixes.as_ref().map_or("".into(), |prefixes| format!("prefix of links {}", prefixes.outer()).into())
    }
}

impl Pure for Restore {}

/// Field with a reference to a resource.
#[derive(Clone, Copy)]
enum Reference {
    /// The value is the reference.
    Whole,
    Link,
    Refresh,
}

impl Reference {
    fn of(name: &[u8]) -> Option<Reference> {
        let (known, reference): (&[u8], _) = match name.len() {
            4 => (b"link", Reference::Link),
            7 => (b"refresh", Reference::Refresh),
            8 => (b"location", Reference::Whole),
            16 => (b"content-location", Reference::Whole),
            _ => return None,
        };
        name.eq_ignore_ascii_case(known).then_some(reference)
    }
}

/// Replaces the `Destination` of a request of WebDAV by the path that the endpoint knows.
fn restore_destination(prefixes: &Prefixes, head: &mut RequestHead<'_, '_, '_>) {
    let bytes = head.request.fields.bytes;
    for row in head.request.fields.rows.iter_mut().filter(|row| !row.dropped) {
        if row.name(bytes).eq_ignore_ascii_case(b"destination")
            && let Some(Restored { outer, rest }) = prefixes.destination(row.value(bytes))
        {
            append(&[b"Destination: ", outer, rest, b"\r\n"], head.edits.lines());
            row.dropped = true;
        }
    }
}

impl Restore {
    /// Replaces the references in these fields of a response by references for the client.
    fn restore(&self, cx: &Exchange<'_>, prefixes: &Prefixes, fields: &mut Fields<'_, '_>, added: &mut Vec<u8>) {
        let bytes = fields.bytes;
        let mut sent = None;
        for row in fields.rows.iter_mut().filter(|row| !row.dropped) {
            let (name, value) = (row.name(bytes), row.value(bytes));
            let Some(reference) = Reference::of(name) else { continue };
            let sent = sent.get_or_insert_with(|| self.sent_host(cx, prefixes));
            let start = added.len();
            append(&[name, b": "], added);
            row.dropped = match reference {
                Reference::Whole => prefixes.location(value, sent).is_some_and(|(kept, path)| {
                    append(&[kept, path.outer, path.rest], added);
                    true
                }),
                Reference::Link => prefixes.links(value, sent, added),
                Reference::Refresh => prefixes.refresh(value, sent, added),
            };
            if row.dropped {
                added.extend_from_slice(b"\r\n");
            } else {
                added.truncate(start);
            }
        }
    }

    /// The host that the endpoint got.
    fn sent_host(&self, cx: &Exchange<'_>, prefixes: &Prefixes) -> Vec<u8> {
        match (&self.send_host, cx.facts.pool, &cx.facts.endpoint) {
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
