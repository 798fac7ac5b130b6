//! Filter for pages of other origins (CORS, as in the Fetch standard): adds the fields by which browsers let pages read
//! responses. Preflights are answered by [`preflight`](super::preflight).

use crate::filters::exchange::Exchange;
use crate::filters::filter::{DryRun, Filter, Own, Predict, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::step::Step;
use evenkeel_config::plan::{Cors, Origin};
use evenkeel_wire::head::Request;
use evenkeel_wire::http1::fields::append;
use std::borrow::Cow;

/// Origin of the page that sent a request, as a route with `cors` sees it.
pub enum Page {
    /// The route does not allow the origin.
    Refused,
    /// The route allows every origin.
    Any,
    /// The route allows this origin.
    Allowed(Box<[u8]>),
}

/// Beginning of the names of fields that this filter replaces.
const FAMILY: &[u8] = b"access-control-";

pub struct Readers {
    origins: Vec<Origin>,
    /// True if every page may read.
    any: bool,
    /// True if every page may read without credentials, so that no response depends on the origin. With credentials,
    /// browsers accept no star.
    star: bool,
    /// Lines behind the line of the origin, each with its CRLF.
    credentials: &'static str,
    expose: String,
}

pub fn build(from: &Build<'_>) -> Option<Step> {
    Some(Box::new(Readers::new(from.route.as_ref()?.plan.filters.cors.as_ref()?)))
}

/// True if a browser asks for permission to send a request.
pub fn is_preflight(request: &Request<'_, '_>) -> bool {
    request.method == "OPTIONS"
        && request.field("origin").is_some()
        && request.field("access-control-request-method").is_some()
}

impl Filter for Readers {
    type State = Page;

    /// Keeps the origin, as the head may be gone when the response comes.
    fn request(&self, own: &mut Own<Page>, _: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        *own = self.page(head.request).map(Box::new);
        Verdict::Next
    }

    fn response(&self, own: &mut Own<Page>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        // A preflight's response keeps its fields; no other response of this proxy has any.
        if head.is_of_endpoint(cx) {
            let bytes = head.fields.bytes;
            for row in head.fields.rows.iter_mut() {
                let name = row.name(bytes);
                row.dropped |= name.get(..FAMILY.len()).is_some_and(|start| start.eq_ignore_ascii_case(FAMILY));
            }
        }
        // The same for every request, so that a cache may give it to any page.
        let origin: &[u8] = if self.star {
            b"*"
        } else {
            if !varies_by_origin(head) {
                head.added.extend_from_slice(b"Vary: Origin\r\n");
            }
            let Some(Page::Allowed(origin)) = own.as_deref() else { return };
            origin
        };
        append(
            &[b"Access-Control-Allow-Origin: ", origin, b"\r\n", self.credentials.as_bytes(), self.expose.as_bytes()],
            head.added,
        );
    }

    fn did(&self, own: Option<&Page>, _: &Exchange<'_>) -> Cow<'static, str> {
        match own {
            None => "".into(),
            Some(Page::Any) => "pages of every origin may read the response".into(),
            Some(Page::Refused) => "pages of this origin may not read the response".into(),
            Some(Page::Allowed(origin)) => {
                format!("pages of {} may read the response", String::from_utf8_lossy(origin)).into()
            }
        }
    }
}

impl Predict for Readers {
    fn dry_run(&self, own: &mut Own<Page>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> DryRun {
        match self.request(own, cx, head) {
            Verdict::Next => DryRun::Next(self.did(own.as_deref(), cx)),
            verdict => verdict.into(),
        }
    }
}

impl Readers {
    pub fn new(cors: &Cors) -> Readers {
        Readers {
            origins: cors.origins.clone(),
            any: cors.origins.contains(&Origin::Any),
            star: cors.origins.contains(&Origin::Any) && !cors.credentials,
            credentials: if cors.credentials { "Access-Control-Allow-Credentials: true\r\n" } else { "" },
            expose: match cors.expose[..] {
                [] => String::new(),
                _ => format!("Access-Control-Expose-Headers: {}\r\n", cors.expose.join(", ")),
            },
        }
    }

    /// The page that sent a request; `None` if it has no origin.
    pub fn page(&self, request: &Request<'_, '_>) -> Option<Page> {
        let mut origins = request.values("origin");
        Some(match (origins.next()?, origins.next()) {
            // No browser sends two.
            (_, Some(_)) => Page::Refused,
            (_, None) if self.star => Page::Any,
            (origin, None) if self.allows(origin) => Page::Allowed(origin.into()),
            (_, None) => Page::Refused,
        })
    }

    /// True if pages of this origin may read. If pages have credentials, the origin of sandboxed pages and files,
    /// `null`, has to be listed: any site can have it.
    fn allows(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|allowed| *allowed != Origin::Any && allowed.matches(origin))
            || self.any && origin != b"null"
    }
}

/// True if the response states already that it depends on the origin.
fn varies_by_origin(head: &ResponseHead<'_, '_, '_>) -> bool {
    let vary = head.fields.kept().filter(|(name, _)| name.eq_ignore_ascii_case(b"vary"));
    let mut names = vary.flat_map(|(_, value)| value.split(|byte| *byte == b','));
    names.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"origin") || name.trim_ascii() == b"*")
}
