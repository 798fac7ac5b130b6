//! The API of a running evenkeel, as commands use it: over the Unix socket of its admin, or over TCP with a token.

use crate::arguments::{At, Where};
use crate::commands::place;
use crate::failure::{Failure, reason};
use crate::output;
use bytes::Bytes;
use evenkeel_admin::api::problem::{Problem, WRONG_CONFIG};
use evenkeel_fetch::{Fault, Lines, Server, Unreachable};
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH};
use hyper::{Method, Request, StatusCode};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::io::{self, ErrorKind, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Reason that is given for an answer that makes no sense.
const OTHER: &str = "the response is not from an evenkeel of this version";

/// Variable of the environment with the token for an address over TCP. Not an argument: any user of the machine can read those.
const TOKEN: &str = "EVENKEEL_TOKEN";

/// Time without an event after which a command that follows events looks if its output is still read.
const READER_EVERY: Duration = Duration::from_secs(1);

/// A running evenkeel, to be asked.
pub struct Client {
    at: At,
    token: RefCell<Option<String>>,
    /// True if a person can be asked for a token.
    may_prompt: bool,
    runtime: Runtime,
}

/// A request that may have to be sent twice.
struct Sent<'a> {
    method: &'a Method,
    path: &'a str,
    fields: HeaderMap,
    body: String,
    names: Option<Renamed>,
}

/// A file that the other side knows by another name.
#[derive(Clone, Debug)]
pub struct Renamed {
    /// Name that the running process uses.
    pub from: String,
    /// Name on the command line.
    pub to: String,
}

impl Renamed {
    /// Diagnostics with the name that the file has here.
    pub fn text(&self, text: &str) -> String {
        let line = |line: &str| {
            let (margin, place) = line.split_once("--> ")?;
            let rest = place.strip_prefix(&self.from).filter(|rest| rest.is_empty() || rest.starts_with(':'))?;
            margin.trim().is_empty().then(|| format!("{margin}--> {}{rest}\n", self.to))
        };
        text.lines().map(|same| line(same).unwrap_or_else(|| format!("{same}\n"))).collect()
    }
}

impl Sent<'_> {
    fn new<'a>(method: &'a Method, path: &'a str) -> Sent<'a> {
        Sent { method, path, fields: HeaderMap::new(), body: String::new(), names: None }
    }

    /// Adds a body of this media type, which the API demands to be named.
    fn body(mut self, kind: &'static str, body: Option<String>) -> Self {
        if let Some(body) = body {
            self.fields.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            self.body = body;
        }
        self
    }

    /// Has it refused if another version is there by now.
    fn unless_changed(mut self, version: &str) -> Self {
        // A version comes from a field of a response.
        self.fields.extend(HeaderValue::from_str(version).map(|version| (IF_MATCH, version)));
        self
    }
}

impl Client {
    /// Finds the evenkeel that the arguments mean.
    ///
    /// # Errors
    /// There is none, or a file cannot be used.
    pub fn new(place: &Where) -> Result<Client, Failure> {
        let token = |file: &PathBuf| {
            let text = std::fs::read_to_string(file).map(|text| text.trim().to_owned());
            text.map_err(|error| Failure::running(format!("cannot read {}: {}", file.display(), reason(&error))))
        };
        let token = place.token_file.as_ref().map(token).transpose()?;
        let token = token.or_else(|| std::env::var(TOKEN).ok().filter(|token| !token.is_empty()));
        let may_prompt = io::stdin().is_terminal() && io::stderr().is_terminal();
        Ok(Client { token: RefCell::new(token), may_prompt, ..Client::at(place::find(place)?)? })
    }

    /// A client of this address, without a token.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn at(at: At) -> Result<Client, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::running(format!("cannot create an event loop: {error}")))?;
        Ok(Client { at, token: RefCell::default(), may_prompt: false, runtime })
    }

    /// Opens further clients of the same address with the same token, which never prompt.
    pub fn opener(&self) -> impl Fn() -> Result<Client, Failure> + Clone + Send + use<> {
        let (at, token) = (self.at.clone(), self.token.borrow().clone());
        move || Ok(Client { token: RefCell::new(token.clone()), ..Client::at(at.clone())? })
    }

    /// Never prompts for a token.
    #[must_use]
    pub fn quiet(self) -> Client {
        Client { may_prompt: false, ..self }
    }

    /// Reads the resource at this path.
    ///
    /// # Errors
    /// The process does not respond, or responds with a problem.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(&Method::GET, path, None)
    }

    /// Asks for a change. `body`: JSON.
    ///
    /// # Errors
    /// The process does not respond, or responds with a problem.
    pub fn ask<T: DeserializeOwned>(&self, method: &Method, path: &str, body: Option<String>) -> Result<T, Failure> {
        let text = self.text(method, path, body)?;
        serde_json::from_str(&text).map_err(|_| self.failed(OTHER))
    }

    /// Asks for a change, and returns the response as it arrived.
    ///
    /// # Errors
    /// The process does not respond, or responds with a problem.
    pub fn text(&self, method: &Method, path: &str, body: Option<String>) -> Result<String, Failure> {
        self.answer(&Sent::new(method, path).body("application/json", body))
    }

    /// Reads the resource at this path, if the response arrives within this time.
    ///
    /// # Errors
    /// The process does not respond, or responds with a problem.
    pub fn get_within<T: DeserializeOwned>(&self, path: &str, patience: Duration) -> Result<T, Failure> {
        let sent = Sent::new(&Method::GET, path);
        let answer = self.runtime.block_on(async { tokio::time::timeout(patience, self.exchange_text(&sent)).await });
        let (_, text) = answer.map_err(|_| self.failed(&format!("no response within {patience:?}")))??;
        serde_json::from_str(&text).map_err(|_| self.failed(OTHER))
    }

    /// Reads the reasons why the process is not ready, if the response arrives within this time.
    ///
    /// # Errors
    /// The process does not respond in time.
    pub fn reasons_against(&self, patience: Duration) -> Result<Vec<String>, Failure> {
        #[derive(serde::Deserialize)]
        struct Readiness {
            reasons: Vec<String>,
        }
        let sent = Sent::new(&Method::GET, "/readyz");
        let answer = self.runtime.block_on(async { tokio::time::timeout(patience, self.exchange_text(&sent)).await });
        let (_, text) = answer.map_err(|_| self.failed(&format!("no response within {patience:?}")))??;
        serde_json::from_str(&text).map(|Readiness { reasons }| reasons).map_err(|_| self.failed(OTHER))
    }

    /// Asks for something with the text of a configuration, if this generation runs. `names`: of its file, there and here.
    ///
    /// # Errors
    /// The process does not respond, or responds with a problem.
    pub fn propose<T: DeserializeOwned>(
        &self,
        path: &str,
        generation: u64,
        text: String,
        names: Renamed,
    ) -> Result<T, Failure> {
        let mut sent = Sent::new(&Method::POST, path).body("application/toml", Some(text));
        sent.names = Some(names);
        let text = self.answer(&sent.unless_changed(&format!("\"{generation}\"")))?;
        serde_json::from_str(&text).map_err(|_| self.failed(OTHER))
    }

    /// Asks for a change. Refused if the resource has changed since this version.
    ///
    /// # Errors
    /// The process does not respond, or responds with a problem.
    pub fn ask_if<T: DeserializeOwned>(
        &self,
        method: &Method,
        path: &str,
        body: Option<String>,
        version: &str,
    ) -> Result<T, Failure> {
        let text = self.answer(&Sent::new(method, path).body("application/json", body).unless_changed(version))?;
        serde_json::from_str(&text).map_err(|_| self.failed(OTHER))
    }

    fn answer(&self, sent: &Sent<'_>) -> Result<String, Failure> {
        let (mut status, mut text) = self.runtime.block_on(self.exchange_text(sent))?;
        if self.needs_token(status) && self.prompt()? {
            (status, text) = self.runtime.block_on(self.exchange_text(sent))?;
        }
        if status.is_success() { Ok(text) } else { Err(self.problem(status, &text, sent.names.as_ref())) }
    }

    async fn exchange_text(&self, sent: &Sent<'_>) -> Result<(StatusCode, String), Failure> {
        let request = self.request(sent, "application/json")?;
        let answered = self.fetch()?.whole(request, usize::MAX).await;
        let (head, body) = answered.map_err(|fault| self.unanswered(&fault))?.into_parts();
        Ok((head.status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// True if the other side wants a token, and has got none.
    fn needs_token(&self, status: StatusCode) -> bool {
        let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
        refused && matches!(self.at, At::Address(_)) && self.token.borrow().is_none()
    }

    /// Asks the user at the terminal for the token; true if the user typed a token.
    fn prompt(&self) -> Result<bool, Failure> {
        let (At::Address(address), true) = (&self.at, self.may_prompt) else { return Ok(false) };
        let typed = rpassword::prompt_password(format!("Token for {address}: "));
        let typed =
            typed.map_err(|error| Failure::running(format!("cannot prompt for a token: {}", reason(&error))))?;
        let token = typed.trim();
        *self.token.borrow_mut() = (!token.is_empty()).then(|| token.to_owned());
        Ok(!token.is_empty())
    }

    /// Follows the events at this path and gives the data of each event to `take`. Ends when the other side does, when
    /// `take` returns false, or when standard output has lost its reader.
    ///
    /// # Errors
    /// The process does not respond, or responds with a problem.
    pub fn follow(&self, path: &str, mut take: impl FnMut(&str) -> bool) -> Result<(), Failure> {
        let sent = Sent::new(&Method::GET, path);
        let (status, held) = self.runtime.block_on(self.stream(&sent, &mut take))?;
        let (status, held) = match self.needs_token(status) && self.prompt()? {
            true => self.runtime.block_on(self.stream(&sent, &mut take))?,
            false => (status, held),
        };
        if status.is_success() { Ok(()) } else { Err(self.problem(status, &held, None)) }
    }

    /// Returns the status, and the text of a response that is a problem.
    async fn stream(
        &self,
        sent: &Sent<'_>,
        take: &mut impl FnMut(&str) -> bool,
    ) -> Result<(StatusCode, String), Failure> {
        let request = self.request(sent, "text/event-stream")?;
        let answered = self.fetch()?.streamed(request).await;
        let (head, body) = answered.map_err(|fault| self.unanswered(&fault))?.into_parts();
        let (mut lines, mut problem) = (Lines::of(body, usize::MAX), String::new());
        loop {
            let line = match tokio::time::timeout(READER_EVERY, lines.next()).await {
                // Events may never arrive.
                Err(_) if output::has_reader() => continue,
                Err(_) | Ok(Ok(None)) => return Ok((head.status, problem)),
                Ok(Ok(Some(line))) => line,
                Ok(Err(fault)) => return Err(self.unanswered(&fault)),
            };
            let line = String::from_utf8_lossy(&line);
            if !head.status.is_success() {
                problem += &line;
            } else if let Some(data) = line.strip_prefix("data:")
                && !take(data.trim())
            {
                return Ok((head.status, problem));
            }
        }
    }

    fn fetch(&self) -> Result<evenkeel_fetch::Client, Failure> {
        let server = match &self.at {
            At::Socket(path) => Server::unix(path.clone()),
            At::Address(address) => {
                Server::at(&format!("http://{address}")).map_err(|fault| self.failed(&fault.to_string()))?
            }
        };
        Ok(evenkeel_fetch::Client::new(server))
    }

    fn request(&self, sent: &Sent<'_>, accept: &str) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::builder().method(sent.method).uri(sent.path).header(ACCEPT, accept);
        if let Some(fields) = request.headers_mut() {
            fields.extend(sent.fields.clone());
        }
        if let Some(token) = &*self.token.borrow() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(sent.body.clone())));
        request.map_err(|error| self.failed(&error.to_string()))
    }

    fn failed(&self, why: &str) -> Failure {
        let at = match &self.at {
            At::Socket(path) => path.display().to_string(),
            At::Address(address) => address.clone(),
        };
        Failure::running(format!("cannot query evenkeel at {at}: {why}"))
    }

    fn unanswered(&self, fault: &Fault) -> Failure {
        let Some(error) = fault.downcast_ref().and_then(Unreachable::io) else {
            return self.failed(&evenkeel_fetch::reason(&**fault));
        };
        let failure = self.failed(&reason(error));
        match (&self.at, error.kind()) {
            (At::Socket(_), ErrorKind::PermissionDenied) => failure.help(place::OTHER_USER),
            (At::Socket(_), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                failure.help("no evenkeel listens there; without --admin, the command queries the evenkeel on this machine")
            }
            (At::Address(_), ErrorKind::ConnectionRefused) => failure.help(
                "nothing listens there; start evenkeel with --admin :9900 or with [admin] http = { bind = \"127.0.0.1:9900\" }",
            ),
            _ => failure,
        }
    }

    fn problem(&self, status: StatusCode, text: &str, names: Option<&Renamed>) -> Failure {
        match serde_json::from_str::<Problem>(text) {
            Ok(problem) if problem.code == WRONG_CONFIG => {
                eprint!("{}", names.map_or(problem.detail.clone(), |names| names.text(&problem.detail)));
                Failure::config()
            }
            Ok(problem) => {
                // The report of a failed change starts with its first error.
                let detail = problem.detail.trim_end();
                let failure = Failure::running(detail.strip_prefix("error: ").unwrap_or(detail));
                match (status, self.token.borrow().is_some()) {
                    (StatusCode::UNAUTHORIZED, true) => failure.help(
                        "use the token in the file that admin.http.write_token names, or read_token for read access",
                    ),
                    (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, false) if matches!(self.at, At::Address(_)) => {
                        failure.help(format!("give a token: --token-file FILE, or {TOKEN} in the environment"))
                    }
                    _ => failure,
                }
            }
            Err(_) => self.failed(text.trim()),
        }
    }
}
