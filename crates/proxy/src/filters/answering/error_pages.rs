//! Filter that sends error pages: instead of the lines of text of this proxy, and instead of those responses of endpoints
//! that `intercept` names. The route's page goes before the listener's, and a page for fewer statuses before one for more.
//! A page that is sent passes all filters anew, and no other page replaces it. If a page is from another route, that route
//! answers the request, once; should it fail, pages of other sources apply.

use crate::body::internal_redirect::{Changes, InternalRedirect, To};
use crate::body::response::{Response, TEXT};
use crate::filters::exchange::Exchange;
use crate::filters::filter::{Filter, Own, Pure, RequestHead, ResponseHead, Verdict};
use crate::filters::row::Build;
use crate::filters::services::copied::{copied, keep};
use crate::filters::step::Step;
use crate::filters::template::lines;
use crate::filters::template::maps::Maps;
use crate::filters::template::parameters::Parameters;
use crate::filters::template::source::Source;
use crate::filters::template::value::Value;
use crate::resource::Resource;
use crate::side::request::SideRequest;
use crate::side::send::{Destination, send};
use crate::upstream::retries::Retries;
use bytes::Bytes;
use evenkeel_balance::Clock;
use evenkeel_config::plan::{self, Action, ERROR_PAGE_MAX, Respond, Variable};
use evenkeel_config::{Plan, Subject};
use evenkeel_runtime::Diagnostic;
use evenkeel_runtime::plane::reason;
use evenkeel_wire::head::Table;
use evenkeel_wire::http1::fields::append;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Media type of a page from a file, unless the page states another type.
pub const HTML: &str = "text/html; charset=utf-8";

/// Time limit of a request for a page, if the route has no limit for requests.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of a page that a pool sends.
const SENT_MAX: u64 = 1 << 20;

/// Fields of a response that belong to its connection or its framing.
const OF_CONNECTION: [&str; 7] =
    ["connection", "content-length", "keep-alive", "proxy-connection", "trailer", "transfer-encoding", "upgrade"];

/// Fields of a request that are about its body, or for the response to another request.
const OF_OTHERS: [&str; 11] = [
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "transfer-encoding",
];

/// Fields by which a client knows how to go on after an error (RFC 9110). A page has them, too, unless it sets them itself.
const OF_ERROR: [&str; 4] = ["www-authenticate", "proxy-authenticate", "allow", "retry-after"];

/// Files of pages, read when a plan comes.
#[derive(Debug, Default)]
pub struct ErrorPages {
    bodies: HashMap<PathBuf, Bytes>,
    /// Responses of `errorfile`.
    whole: HashMap<PathBuf, Arc<Whole>>,
}

/// A response from a file, with its head.
#[derive(Debug)]
pub struct Whole {
    status: u16,
    fields: Table,
    body: Bytes,
}

impl Resource for ErrorPages {
    /// Reads the files of a plan, each once.
    ///
    /// # Errors
    /// The files that cannot be read, are larger than [`ERROR_PAGE_MAX`] bytes, or are not a response, each with the
    /// subject that names it.
    fn next(plan: &Plan, _: Option<&Arc<ErrorPages>>) -> Result<Arc<ErrorPages>, Vec<Diagnostic>> {
        let (mut pages, mut wrong) = (ErrorPages::default(), Vec::new());
        let mut note = |subject, of: &Path, error: &io::Error| wrong.push(unreadable(subject, of, error));
        let of_listeners = plan.listeners.iter().enumerate().map(|(at, of)| (Subject::Listener(at), &of.error_pages));
        let of_routes = plan.routes.iter().enumerate().map(|(id, of)| (Subject::Route(id), &of.filters.error_pages));
        for (subject, page) in
            of_listeners.chain(of_routes).flat_map(|(of, pages)| pages.iter().map(move |page| (of, page)))
        {
            if let Some(path) = &page.file {
                pages.read(path).unwrap_or_else(|error| note(subject, path, &error));
            }
            if let Some(path) = &page.errorfile {
                pages.read_whole(path).unwrap_or_else(|error| note(subject, path, &error));
            }
        }
        for (id, route) in plan.routes.iter().enumerate() {
            if let Action::Respond(Respond { file: Some(path), .. }) = &route.action {
                pages.read(path).unwrap_or_else(|error| note(Subject::Route(id), path, &error));
            }
        }
        if wrong.is_empty() { Ok(pages.into()) } else { Err(wrong) }
    }
}

impl ErrorPages {
    /// Content of a file of the plan.
    pub fn body(&self, path: &Path) -> Option<&Bytes> {
        self.bodies.get(path)
    }

    fn read(&mut self, path: &Path) -> io::Result<()> {
        if !self.bodies.contains_key(path) {
            self.bodies.insert(path.into(), read(path)?);
        }
        Ok(())
    }

    fn read_whole(&mut self, path: &Path) -> io::Result<()> {
        if !self.whole.contains_key(path) {
            let whole = Whole::read(&read(path)?).map_err(io::Error::other)?;
            self.whole.insert(path.into(), whole.into());
        }
        Ok(())
    }
}

impl Whole {
    /// Reads a response in HTTP/1, whose body extends to the end. Lines may end in LF alone.
    ///
    /// # Errors
    /// The reason why it is not a response.
    fn read(text: &[u8]) -> Result<Whole, String> {
        let end = [&b"\r\n\r\n"[..], b"\n\n"]
            .into_iter()
            .filter_map(|end| Some((memchr::memmem::find(text, end)?, end.len())));
        let (at, len) =
            end.min().ok_or("it has no empty line behind its head: use `file` for a page without a head")?;
        let head = std::str::from_utf8(&text[..at]).map_err(|_| "its head is not text")?;
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().splitn(3, ' ');
        let (version, status) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let status = status.parse().ok().filter(|status| (200..=599).contains(status) && version.starts_with("HTTP/"));
        let status = status.ok_or("its first line is not like \"HTTP/1.1 503 Service Unavailable\"")?;
        let mut fields = Table::default();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| format!("{line:?} is not a field"))?;
            let value = value.trim();
            let is_plain =
                evenkeel_wire::endpoint_head::is_token(name.as_bytes()) && !value.bytes().any(|b| b.is_ascii_control());
            if !is_plain {
                return Err(format!("{line:?} is not a field"));
            }
            if !OF_CONNECTION.iter().any(|known| name.eq_ignore_ascii_case(known)) {
                fields.push(name.as_bytes(), value.as_bytes());
            }
        }
        Ok(Whole { status, fields, body: Bytes::copy_from_slice(&text[at + len..]) })
    }
}

fn unreadable(of: Subject, path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::Machine {
        problem: format!("error page {}: {}", path.display(), reason(error)),
        help: Some("the user that runs evenkeel must be able to read it; see error_pages".to_string()),
        of: vec![of],
    }
}

fn read(path: &Path) -> io::Result<Bytes> {
    let mut page = Vec::new();
    File::open(path)?.take(ERROR_PAGE_MAX as u64 + 1).read_to_end(&mut page)?;
    match page.len() <= ERROR_PAGE_MAX {
        true => Ok(page.into()),
        false => Err(io::Error::other(format!("it is larger than the limit of {ERROR_PAGE_MAX} bytes"))),
    }
}

/// Filter of a listener or route with pages.
struct Pages {
    /// Pages for fewer statuses first.
    pages: Box<[Page]>,
    /// Statuses of endpoints whose responses are replaced.
    intercept: Box<[RangeInclusive<u16>]>,
    /// Values of the request that fields of pages use, kept when the request comes.
    kept: Box<[Value]>,
    /// True if a page is from a pool, which gets the fields of the request.
    asks_pools: bool,
    /// True if a page is from another route, which gets the request.
    asks_routes: bool,
}

/// A page for some statuses.
struct Page {
    statuses: RangeInclusive<u16>,
    source: Content,
    status: Option<u16>,
    fields: Box<[(Arc<str>, Value)]>,
}

/// Bytes of a page with their type, or the pool or route that has them.
#[derive(Clone)]
enum Content {
    Body(Arc<str>, Bytes),
    Whole(Arc<Whole>),
    /// Pool that is asked, and the path of the request if it is not the client's.
    Pool(Rc<Destination>, Option<Arc<str>>),
    /// Index and name of the route that answers, and the path of the request if it is not the client's.
    Route(usize, Arc<str>, Option<Arc<str>>),
}

/// State of a request that may get a page.
#[derive(Default)]
pub struct State {
    /// Request for a page from a pool.
    asked: Option<Box<SideRequest>>,
    kept: Vec<Vec<u8>>,
    /// Index of the page that is sent.
    sent: Option<usize>,
    /// Status of the error and its lines of [`OF_ERROR`].
    of_error: (u16, Vec<u8>),
    /// Name of the route that was asked.
    asked_route: Option<Arc<str>>,
}

pub fn of_listener(from: &Build<'_>) -> Option<Step> {
    Pages::build(from, &from.listener.error_pages, &from.listener.intercept, "")
}

pub fn of_route(from: &Build<'_>) -> Option<Step> {
    let filters = &from.route.as_ref()?.plan.filters;
    Pages::build(from, &filters.error_pages, &filters.intercept, &from.route.as_ref()?.plan.name)
}

impl Pages {
    fn build(from: &Build<'_>, pages: &[plan::ErrorPage], own: &[RangeInclusive<u16>], route: &str) -> Option<Step> {
        let (files, maps) = (from.resources.of::<ErrorPages>(), from.resources.of::<Maps>());
        let (mut kept, mut all) = (Vec::<Variable>::new(), Vec::new());
        let mut pools =
            from.route.as_ref().and_then(|route| route.services).map(|of| of.pages.iter()).into_iter().flatten();
        for page in pages {
            let typed = |otherwise: &str| page.media_type.as_deref().unwrap_or(otherwise).into();
            let source = match page {
                plan::ErrorPage { file: Some(path), .. } => Content::Body(typed(HTML), files.body(path)?.clone()),
                plan::ErrorPage { errorfile: Some(path), .. } => Content::Whole(files.whole.get(path)?.clone()),
                plan::ErrorPage { body: Some(body), .. } => {
                    Content::Body(typed(TEXT), Bytes::copy_from_slice(body.as_bytes()))
                }
                // From [defaults.route], which apply to this route, too.
                plan::ErrorPage { route: Some(name), path: None, .. } if **name == *route => continue,
                plan::ErrorPage { route: Some(name), path, .. } => {
                    let route = from.routes.iter().position(|route| route.name == *name)?;
                    let listeners = &from.routes[route].listeners;
                    if !listeners.is_empty() && !listeners.contains(&from.listener.name) {
                        continue;
                    }
                    Content::Route(route, name.clone(), path.clone())
                }
                plan::ErrorPage { path, .. } => {
                    let of = from.route.as_ref()?;
                    let core = of.prober.core();
                    let to = Destination {
                        pool: pools.next()?.clone(),
                        prober: of.prober.clone(),
                        retries: Retries::new(of.plan, core.index, of.workers, core.clock.now()),
                        timeout: of.plan.timeouts.request.unwrap_or(TIMEOUT),
                    };
                    Content::Pool(to.into(), path.clone())
                }
            };
            for statuses in &page.statuses {
                let mut value = |template| Value::of_response(template, route, &mut kept, maps);
                let fields = page.fields.iter().map(|(name, template)| (name.clone(), value(template))).collect();
                all.push(Page { statuses: statuses.clone(), source: source.clone(), status: page.send_status, fields });
            }
        }
        if all.is_empty() {
            return None;
        }
        all.sort_by_key(|page| page.statuses.len());
        let path = Rc::new(
            from.route
                .as_ref()
                .map_or_else(Parameters::default, |of| Parameters::of_route(of.plan, from.listener.ignore_case)),
        );
        Some(Box::new(Pages {
            asks_pools: all.iter().any(|page| matches!(page.source, Content::Pool(..))),
            asks_routes: all.iter().any(|page| matches!(page.source, Content::Route(..))),
            pages: all.into(),
            intercept: own.into(),
            kept: kept.into_iter().map(|variable| Value::of_variable(variable, &path, maps)).collect(),
        }))
    }

    /// Index of the page that replaces a response.
    fn page(&self, cx: &Exchange<'_>, head: &ResponseHead<'_, '_, '_>) -> Option<usize> {
        let redirects = cx.facts.redirects.as_deref();
        let is_page = redirects.is_some_and(|redirects| redirects.is_page);
        let is_replaced = match head.is_of_endpoint(cx) {
            true => !is_page && self.intercept.iter().any(|statuses| statuses.contains(&head.status)),
            false => head.is_line,
        };
        let may_ask = redirects.is_some() && !is_page;
        let fits = |page: &Page| {
            page.statuses.contains(&head.status) && (may_ask || !matches!(page.source, Content::Route(..)))
        };
        is_replaced.then(|| self.pages.iter().position(fits))?
    }
}

impl Filter for Pages {
    type State = State;

    fn request(&self, own: &mut Own<State>, cx: &mut Exchange<'_>, head: &mut RequestHead<'_, '_, '_>) -> Verdict {
        if self.asks_routes {
            keep(cx, head);
        }
        if self.asks_pools || !self.kept.is_empty() {
            let asked = self.asks_pools.then(|| copied(cx, head).into());
            let source = Source::of_request(cx, head.request, &[]);
            let text = |value: &Value| {
                let mut text = Vec::new();
                // A value that does not fit makes its field unfit: the mark is a control character.
                if value.render(&source, &mut text).is_err() {
                    text.push(0);
                }
                text
            };
            let kept = self.kept.iter().map(text).collect();
            *own = Some(Box::new(State { asked, kept, ..State::default() }));
        }
        Verdict::Next
    }

    fn response(&self, own: &mut Own<State>, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        if let Some(state) = own.as_mut().filter(|state| state.sent.is_some()) {
            return self.add_fields(state, cx, head);
        }
        if head.status < 400 {
            return;
        }
        let Some(at) = self.page(cx, head) else { return };
        let page = &self.pages[at];
        let state = own.get_or_insert_default();
        state.sent = Some(at);
        state.of_error = (head.status, of_error(head));
        let status = page.status.unwrap_or(head.status);
        let response = match &page.source {
            Content::Body(media_type, body) => Response::page(media_type.to_string(), body.clone()).status(status),
            Content::Whole(whole) => whole.response(page.status),
            Content::Pool(to, path) => {
                let Some(asked) = state.asked.take() else { return };
                fetched(to.clone(), *asked, path.clone(), (head.status, page.status))
            }
            Content::Route(route, name, path) => {
                (state.sent, state.asked_route) = (None, Some(name.clone()));
                let target = path.as_ref().map(|path| path.replace("{status}", &head.status.to_string()).into());
                let mut lines = self.fields(page, state, cx, head.status);
                if page.status.is_none_or(|status| status == head.status) {
                    lines::retain(&mut state.of_error.1, |name, _| !lines::has(&lines, name));
                    lines.append(&mut state.of_error.1);
                }
                let mut fields = Table::default();
                fields.push_lines(&lines);
                let changes = Changes { status: page.status.or(path.is_some().then_some(head.status)), fields };
                let to = To::Page { route: *route, target };
                Response::redirected(head.status, InternalRedirect { to, changes })
            }
        };
        // The response is from here on of this proxy.
        cx.facts.serves_stored.set(false);
        head.instead = Some(response.into());
    }

    fn did(&self, own: Option<&State>, _: &Exchange<'_>) -> Cow<'static, str> {
        match own {
            Some(State { sent: Some(_), .. }) => "sent an error page".into(),
            Some(State { asked_route: Some(name), .. }) => format!("had route \"{name}\" answer").into(),
            _ => "".into(),
        }
    }
}

impl Pure for Pages {}

impl Pages {
    /// Adds the fields of the page that is sent.
    fn add_fields(&self, state: &State, cx: &Exchange<'_>, head: &mut ResponseHead<'_, '_, '_>) {
        let Some(page) = state.sent.and_then(|at| self.pages.get(at)) else { return };
        let added = self.fields(page, state, cx, head.status);
        let set = page.fields.iter().filter(|(name, _)| lines::has(&added, name.as_bytes()));
        set.for_each(|(name, _)| head.fields.leave_out(name));
        head.added.extend_from_slice(&added);
        let (status, of_error) = &state.of_error;
        if *status == head.status {
            for (name, value) in lines::each(of_error) {
                let is_set =
                    lines::has(&added, name) || head.fields.kept().any(|(of, _)| of.eq_ignore_ascii_case(name));
                if !is_set {
                    append(&[name, b": ", value, b"\r\n"], head.added);
                }
            }
        }
    }

    /// Fields of a page for this status, as lines.
    fn fields(&self, page: &Page, state: &State, cx: &Exchange<'_>, status: u16) -> Vec<u8> {
        let source = Source::of_response(cx, status, &state.kept);
        let (mut text, mut lines) = (cx.core.scratch(), Vec::new());
        for (name, value) in &page.fields {
            text.clear();
            if value.render(&source, &mut text).is_ok() && !text.is_empty() && !text.contains(&0) {
                append(&[name.as_bytes(), b": ", &text, b"\r\n"], &mut lines);
            }
        }
        text.clear();
        cx.core.give_back(text);
        lines
    }
}

/// Lines of [`OF_ERROR`] of a response.
fn of_error(head: &ResponseHead<'_, '_, '_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for name in OF_ERROR {
        head.fields.values(name).for_each(|value| append(&[name.as_bytes(), b": ", value, b"\r\n"], &mut lines));
    }
    lines
}

impl Whole {
    fn response(&self, status: Option<u16>) -> Response {
        let mut response = Response::page("", self.body.clone()).status(status.unwrap_or(self.status));
        self.fields.iter().for_each(|(name, value)| response.fields.push(name, value));
        response
    }
}

/// Response that a pool sends for an error. `statuses`: of the error, and the one that the client is to get.
fn fetched(
    to: Rc<Destination>,
    mut asked: SideRequest,
    path: Option<Arc<str>>,
    statuses: (u16, Option<u16>),
) -> Response {
    let (error, wanted) = statuses;
    let is_other = |name: &[u8]| OF_OTHERS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    asked.fields = asked.fields.iter().filter(|(name, _)| !is_other(name)).collect();
    (asked.method, asked.has_body) = ("GET".into(), false);
    if let Some(path) = &path {
        asked.target = path.replace("{status}", &error.to_string()).into();
    }
    Response::later(async move {
        let failed = |why: &str| {
            let why = format!("pool \"{}\" has sent no error page for {error}: {why}", to.pool.name);
            Response::new(wanted.filter(|status| *status >= 400).unwrap_or(error), why)
        };
        match send(&to, &mut asked, None, SENT_MAX).await {
            Ok(answer) if answer.is_whole => {
                let of_pool = if path.is_none() { answer.status } else { error };
                let mut response = Response::page("", answer.body).status(wanted.unwrap_or(of_pool));
                let is_left =
                    |name: &[u8]| OF_CONNECTION.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
                let fields = answer.fields.iter().filter(|(name, _)| !is_left(name));
                fields.for_each(|(name, value)| response.fields.push(name, value));
                response
            }
            Ok(_) => failed("it is larger than 1 MiB"),
            Err(why) => failed(&why),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errorfile_is_a_response_with_its_head() {
        let text = "HTTP/1.0 503 Service Unavailable\r\nCache-Control: no-cache\r\nConnection: close\r\n\
                    Content-Type: text/html\r\n\r\n<p>busy\r\n\r\n</p>";
        for text in [text.to_owned(), text.replace("\r\n", "\n")] {
            let whole = Whole::read(text.as_bytes()).expect("a response");
            assert_eq!(whole.status, 503);
            assert!(whole.body.starts_with(b"<p>busy") && whole.body.ends_with(b"</p>"));
            let names: Vec<_> = whole.fields.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
            assert_eq!(names, ["Cache-Control", "Content-Type"]);
        }
        for (text, why) in [
            ("<html></html>", "no empty line"),
            ("<html>\n\n</html>", "its first line"),
            ("HTTP/1.1 99 x\n\n", "its first line"),
            ("HTTP/1.1 503 x\nno field\n\n", "is not a field"),
        ] {
            assert!(Whole::read(text.as_bytes()).expect_err(text).contains(why), "{text}");
        }
    }
}
