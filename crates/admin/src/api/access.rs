//! Callers of the API and their rights. The mode of the Unix socket's file decides which users get in; over TCP a
//! caller needs a token, and pages of other sites are refused.

use super::problem::Problem;
use super::waiting;
use crate::admission::Place;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use evenkeel_config::printable::is_hidden;
use std::sync::Arc;

/// Tokens. Clients over TCP send a token as `Authorization: Bearer TOKEN`, browsers as the password of any user, whose
/// name the event log has then.
#[derive(Clone, Default)]
pub struct Tokens {
    /// Token for reading; `None` lets everyone read.
    pub read: Option<Token>,
    /// Token for reading and changing; `None` refuses all changes over TCP.
    pub write: Option<Token>,
}

/// Secret of at least [`Token::MIN`] bytes, compared in constant time.
#[derive(Clone)]
pub struct Token(Arc<[u8]>);

impl Token {
    /// Least number of bytes: shorter tokens can be guessed.
    pub const MIN: usize = 16;

    /// Makes a token of the content of a file; `None` if it is too short.
    pub fn new(text: &[u8]) -> Option<Token> {
        let text = text.trim_ascii();
        (text.len() >= Token::MIN).then(|| Token(text.into()))
    }

    /// Compares all bytes, whatever the first bytes are.
    fn is(&self, sent: &[u8]) -> bool {
        let differ = self.0.iter().zip(sent).fold(0, |differ, (a, b)| differ | (a ^ b));
        differ == 0 && self.0.len() == sent.len()
    }
}

/// Conditions that clients of a listener meet before they get an answer.
#[derive(Clone)]
pub enum Rules {
    /// Rules of the Unix socket: its clients may do everything.
    Local,
    /// Rules of TCP: clients need tokens, and name this host.
    Remote {
        tokens: Tokens,
        /// Names of this host, in addition to `localhost` and IP addresses.
        hosts: Arc<[String]>,
    },
}

/// Client of the API or the dashboard, with its rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the caller in events and logs.
    pub name: String,
    /// True if it may change things.
    pub may_change: bool,
    /// True if it could change things with a token.
    pub may_sign_in: bool,
}

/// Path at which browsers are asked for a token that may change things. It is at the root, so that they send the token
/// to every page.
pub const SIGN_IN: &str = "/sign-in";

/// Adds the [`Caller`] to a request and answers it, or refuses it. Nothing that costs more than reading the head is
/// done before.
pub async fn check(State(rules): State<Rules>, mut request: Request, next: Next) -> Response {
    let local = request.extensions().get::<LocalUser>().copied();
    let place = request.extensions().get::<Arc<Place>>().cloned();
    match caller(&rules, local, request.method(), request.uri(), request.headers()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            waiting::answer(request, place, next).await.unwrap_or_else(Problem::into_response)
        }
        Err(problem) => problem.into_response(),
    }
}

/// The user at the other end of a Unix socket.
#[derive(Clone, Copy, Debug)]
pub struct LocalUser(pub u32);

fn caller(
    rules: &Rules,
    local: Option<LocalUser>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Caller, Problem> {
    let changes = !matches!(*method, Method::GET | Method::HEAD);
    let caller = match rules {
        Rules::Local => {
            let name = local.map_or("uid ?".into(), |user| format!("uid {}", user.0));
            Caller { name, may_change: true, may_sign_in: false }
        }
        Rules::Remote { tokens, .. } => {
            is_of_this_site(method, headers)?;
            let caller = by_token(tokens, headers)?;
            if uri.path() == SIGN_IN && caller.may_sign_in {
                return Err(Problem::unauthorized("any name, and as password the token of admin.http.write_token"));
            }
            caller
        }
    };
    let changes = changes || uri.path() == SIGN_IN;
    if changes && !caller.may_change {
        let how = "over TCP only clients with the token of admin.http.write_token change anything; the Unix socket of \
                   admin.bind needs none";
        return Err(Problem::forbidden(how));
    }
    // A form of another site cannot send such a body without asking first.
    let has_body =
        headers.get("content-length").is_some_and(|length| length != "0") || headers.contains_key("transfer-encoding");
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let kinds = ["application/json", "application/merge-patch+json", "application/toml"];
    if changes && has_body && !kinds.contains(&kind) {
        return Err(Problem::media_type(format!("Content-Type must be one of {}", kinds.join(", "))));
    }
    Ok(caller)
}

/// Checks the fields by which browsers name the site of the page that sends a request.
fn is_of_this_site(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let is_other = |site: &axum::http::HeaderValue| site == "cross-site" || site == "same-site";
    let same = |origin: &axum::http::HeaderValue| {
        let authority = origin.to_str().ok().and_then(|text| text.split_once("://")).map(|(_, authority)| authority);
        authority.is_some() && authority == headers.get(HOST).and_then(|host| host.to_str().ok())
    };
    // A link on another site leads here; its target is not for that site's scripts.
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|sent| sent == value);
    let is_link = *method == Method::GET && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
    if !is_link && headers.get("sec-fetch-site").is_some_and(is_other)
        || headers.get(ORIGIN).is_some_and(|origin| !same(origin))
    {
        return Err(Problem::forbidden("pages of other sites get no answer"));
    }
    Ok(())
}

fn by_token(tokens: &Tokens, headers: &HeaderMap) -> Result<Caller, Problem> {
    let sent = headers.get(AUTHORIZATION).map(|field| field.as_bytes());
    let Some(sent) = sent else {
        return match tokens.read {
            None => Ok(Caller { name: "anyone".into(), may_change: false, may_sign_in: tokens.write.is_some() }),
            Some(_) => Err(Problem::unauthorized("Authorization: Bearer TOKEN is needed")),
        };
    };
    let by_name = sent.strip_prefix(b"Basic ").and_then(|text| BASE64_STANDARD.decode(text.trim_ascii()).ok());
    let (name, sent) = match &by_name {
        Some(text) => {
            let colon = text.iter().position(|&byte| byte == b':').unwrap_or(text.len());
            (user(&text[..colon]), &text[(colon + 1).min(text.len())..])
        }
        None => (None, sent.strip_prefix(b"Bearer ").unwrap_or_default().trim_ascii()),
    };
    // Both are compared, so that the time does not depend on the value that differs.
    let writes = tokens.write.as_ref().is_some_and(|token| token.is(sent));
    let reads = tokens.read.as_ref().is_some_and(|token| token.is(sent));
    match (writes, reads) {
        (true, _) => {
            let name = name.map_or("the write token".into(), |name| format!("{name}, with the write token"));
            Ok(Caller { name, may_change: true, may_sign_in: false })
        }
        (_, true) => {
            Ok(Caller { name: "the read token".into(), may_change: false, may_sign_in: tokens.write.is_some() })
        }
        _ => Err(Problem::unauthorized("the token is not known")),
    }
}

/// Returns the name that a browser sent, if it can be written into a log.
fn user(name: &[u8]) -> Option<String> {
    const MOST: usize = 40;
    let name = std::str::from_utf8(name).ok()?.trim();
    let is_fine = !name.is_empty() && name.chars().count() <= MOST && !name.chars().any(is_hidden);
    is_fine.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(read: bool, write: bool) -> Rules {
        let token = |text: &str| Token::new(text.as_bytes());
        let tokens = Tokens {
            read: read.then(|| token("reads-reads-reads").unwrap()),
            write: write.then(|| token("writes-writes-writes\n").unwrap()),
        };
        Rules::Remote { tokens, hosts: ["admin.example".to_string()].into() }
    }

    /// Returns the status of a refusal, or 200 for a caller that is let in.
    fn asked(rules: &Rules, method: Method, fields: &[(&'static str, &str)]) -> u16 {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "127.0.0.1:9900".parse().unwrap());
        for (name, value) in fields {
            headers.insert(*name, value.parse().unwrap());
        }
        caller(rules, None, &method, &Uri::from_static("/v1/status"), &headers)
            .map_or_else(|problem| problem.status, |_| 200)
    }

    #[test]
    fn tokens_say_who_may_read_and_who_may_change() {
        let (read, write) =
            (("authorization", "Bearer reads-reads-reads"), ("authorization", "Bearer writes-writes-writes"));
        let wrong = ("authorization", "Bearer reads-reads-readz");
        for (rules, of_get, of_patch) in [
            (remote(false, false), [200, 401, 401, 401], [403, 401, 401, 401]),
            (remote(true, false), [401, 200, 401, 401], [401, 403, 401, 401]),
            (remote(true, true), [401, 200, 200, 401], [401, 403, 200, 401]),
            (remote(false, true), [200, 401, 200, 401], [403, 401, 200, 401]),
        ] {
            for (fields, get, patch) in [
                (vec![], of_get[0], of_patch[0]),
                (vec![read], of_get[1], of_patch[1]),
                (vec![write], of_get[2], of_patch[2]),
                (vec![wrong], of_get[3], of_patch[3]),
            ] {
                assert_eq!(asked(&rules, Method::GET, &fields), get, "{fields:?}");
                assert_eq!(asked(&rules, Method::PATCH, &fields), patch, "{fields:?}");
            }
        }
        assert!(Token::new(b" fifteen-bytes--\n").is_none());
        assert_eq!(asked(&remote(true, true), Method::GET, &[("authorization", "Basic reads-reads-reads")]), 401);
        assert_eq!(asked(&Rules::Local, Method::PATCH, &[]), 200);
    }

    #[test]
    fn browsers_send_tokens_as_passwords() {
        let said = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let by = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "localhost:9900".parse().unwrap());
            headers.insert(AUTHORIZATION, said(text).parse().unwrap());
            let uri = Uri::from_static(SIGN_IN);
            caller(&remote(true, true), None, &Method::GET, &uri, &headers).map_err(|problem| problem.status)
        };
        let name = |text: &str| by(text).map(|caller| caller.name);
        assert_eq!(name("anna:writes-writes-writes"), Ok("anna, with the write token".to_owned()));
        assert_eq!(name(":writes-writes-writes"), Ok("the write token".to_owned()));
        assert_eq!(name("a\u{7}b:writes-writes-writes"), Ok("the write token".to_owned()));
        let wrong = ["anna:reads-reads-reads", "anna:writes-writes-writez", "anna", ""];
        assert_eq!(wrong.map(name), [const { Err(401) }; 4]);
    }

    #[test]
    fn pages_of_other_sites_get_nothing() {
        let rules = remote(false, true);
        for (field, want) in [
            (("origin", "http://127.0.0.1:9900"), 200),
            (("origin", "http://127.0.0.1:9901"), 403),
            (("origin", "null"), 403),
            (("sec-fetch-site", "same-origin"), 200),
            (("sec-fetch-site", "none"), 200),
            (("sec-fetch-site", "cross-site"), 403),
            (("sec-fetch-site", "same-site"), 403),
        ] {
            assert_eq!(asked(&rules, Method::GET, &[field]), want, "{field:?}");
        }
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert_eq!(asked(&rules, Method::GET, &link), 200, "a link is no script");
        assert_eq!(asked(&rules, Method::GET, &link[..2]), 403, "nor a frame");
        assert_eq!(asked(&rules, Method::POST, &link), 403);
    }

    #[test]
    fn a_body_is_of_a_type_that_no_form_sends() {
        let patch = |kind| asked(&Rules::Local, Method::PATCH, &[("content-length", "2"), ("content-type", kind)]);
        let kinds =
            ["application/json", "application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded"];
        assert_eq!(kinds.map(patch), [200, 200, 415, 415]);
        assert_eq!(asked(&Rules::Local, Method::POST, &[("content-length", "0")]), 200);
    }
}
