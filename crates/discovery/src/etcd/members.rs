//! Members of etcd. Requests go to a single member at a time. See [`Members`].

use super::keys::end_of;
use super::messages::{
    AUTHENTICATE, AuthenticateRequest, AuthenticateResponse, KeyValue, RANGE, RangeRequest, RangeResponse, WATCH,
    WatchCreateRequest, WatchRequest, WatchResponse, WatchUnion,
};
use crate::grpc::{Calls, reason};
use evenkeel_config::plan::EtcdServer;
use evenkeel_fetch::server::secret;
use evenkeel_fetch::{Fault, Server};
use prost::Message;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout};
use tokio_stream::StreamExt;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Status, Streaming};

/// Silence after which a member is asked for a sign of life. etcd refuses clients that ask more often than every 5 s.
const PING_AFTER: Duration = Duration::from_secs(10);

/// Time for a member to respond.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time for which a failure of all members counts for all pools, so that each does not try them again.
const APART: Duration = Duration::from_millis(500);

/// etcd, asked once for all pools that have its keys.
#[derive(Debug)]
pub struct Members {
    server: EtcdServer,
    state: Mutex<State>,
    /// Wakes pools that wait for a member.
    found: Notify,
}

#[derive(Debug, Default)]
struct State {
    member: Option<Arc<Member>>,
    /// Member that is tried first, as an index of `urls`.
    first: usize,
    /// Last failure of all members.
    failure: Option<(Instant, String)>,
}

/// Connection to a member, with the token of the user.
#[derive(Debug)]
pub struct Member {
    calls: Calls,
    url: String,
    token: Mutex<Option<Token>>,
}

/// Token in the form of a field; `None` if etcd has no users.
type Token = Option<MetadataValue<Ascii>>;

/// Failure of a request, by the party at fault.
#[derive(Debug)]
pub enum Failure {
    /// The member is at fault. Another member may work.
    Member(String),
    /// etcd wants the user to authenticate again.
    Token(String),
    /// Every member would refuse.
    Refused(String),
}

impl Failure {
    pub fn why(&self) -> &str {
        match self {
            Failure::Member(why) | Failure::Token(why) | Failure::Refused(why) => why,
        }
    }
}

impl Members {
    pub fn new(server: EtcdServer) -> Members {
        Members { server, state: Mutex::default(), found: Notify::new() }
    }

    /// Returns the connection to a member, which is made if there is none.
    ///
    /// # Errors
    /// No member can be reached, with the reason of each.
    pub async fn member(&self) -> Result<Arc<Member>, String> {
        let mut state = self.state.lock().await;
        if let Some(member) = state.member.as_ref().filter(|member| !member.calls.is_closed()) {
            return Ok(member.clone());
        }
        if let Some((_, why)) = state.failure.as_ref().filter(|(at, _)| at.elapsed() < APART) {
            return Err(why.clone());
        }
        let (urls, mut reasons) = (&self.server.urls, Vec::new());
        for n in 0..urls.len() {
            let at = (state.first + n) % urls.len();
            match self.connect(&urls[at]).await {
                Ok(calls) => {
                    let member = Arc::new(Member { calls, url: urls[at].clone(), token: Mutex::default() });
                    (state.member, state.first, state.failure) = (Some(member.clone()), at, None);
                    self.found.notify_waiters();
                    return Ok(member);
                }
                Err(error) => reasons.push(error.to_string()),
            }
        }
        let why = reasons.join("; ");
        state.failure = Some((Instant::now(), why.clone()));
        Err(why)
    }

    /// Waits until a member is found, but no longer than this. Cancel safe.
    pub async fn wait(&self, most: Duration) {
        let _ = timeout(most, self.found.notified()).await;
    }

    /// Moves from a failing member to the next.
    pub async fn leave(&self, member: &Arc<Member>) {
        let mut state = self.state.lock().await;
        if state.member.as_ref().is_some_and(|current| Arc::ptr_eq(current, member)) {
            (state.member, state.first) = (None, (state.first + 1) % self.server.urls.len().max(1));
        }
    }

    async fn connect(&self, url: &str) -> Result<Calls, Fault> {
        let identity = self.server.cert.clone().zip(self.server.key.clone());
        let server = Server::at(url)?.trusting(self.server.ca.clone()).presenting(identity);
        Calls::connect(&server, PING_AFTER).await
    }

    /// Reads all keys with a prefix, and their revision.
    pub async fn range(&self, member: &Member, prefix: &[u8]) -> Result<(Vec<KeyValue>, i64), Failure> {
        let found = self.ask(member, prefix, false).await?;
        Ok((found.kvs, found.header.unwrap_or_default().revision))
    }

    /// Checks that a member still responds for a majority of the cluster.
    pub async fn confirm(&self, member: &Member, prefix: &[u8]) -> Result<(), Failure> {
        self.ask(member, prefix, true).await.map(drop)
    }

    async fn ask(&self, member: &Member, prefix: &[u8], count_only: bool) -> Result<RangeResponse, Failure> {
        let range = RangeRequest { key: key_of(prefix), range_end: end_of(prefix), count_only };
        let token = self.token(member).await?;
        let answered = member.unary(RANGE, range, &token).await;
        self.seen(member, token, answered).await
    }

    /// Watches the keys with a prefix, from a revision on.
    pub async fn watch(
        &self,
        member: &Member,
        prefix: &[u8],
        start_revision: i64,
    ) -> Result<Streaming<WatchResponse>, Failure> {
        let create =
            WatchCreateRequest { key: key_of(prefix), range_end: end_of(prefix), start_revision, fragment: true };
        let request = WatchRequest { union: Some(WatchUnion::Create(create)) };
        // The stream ends when its requests do.
        let mut requests = Request::new(tokio_stream::once(request).chain(tokio_stream::pending()));
        let token = self.token(member).await?;
        let fields = requests.metadata_mut();
        // Without this, a member that has lost the others would be silent for ever.
        fields.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &token {
            fields.insert("token", token.clone());
        }
        let answered = match timeout(PATIENCE, member.calls.streaming(WATCH, requests)).await {
            Ok(answered) => answered,
            Err(_) => Err(late(&member.url)),
        };
        self.seen(member, token, answered).await
    }

    /// Result of a call; a token that it refutes is forgotten.
    async fn seen<R>(&self, member: &Member, token: Token, answered: Result<R, Status>) -> Result<R, Failure> {
        match answered {
            Ok(answer) => Ok(answer),
            Err(status) => {
                let failure = failure_of(&status);
                if matches!(failure, Failure::Token(_)) {
                    let mut held = member.token.lock().await;
                    if held.as_ref() == Some(&token) {
                        *held = None;
                    }
                }
                Err(failure)
            }
        }
    }

    /// Forgets the token, as a watch was refused.
    pub async fn forget(&self, member: &Member) {
        *member.token.lock().await = None;
    }

    /// Token of the user, for which etcd is asked once.
    async fn token(&self, member: &Member) -> Result<Token, Failure> {
        let (Some(user), Some(file)) = (&self.server.user, &self.server.password_file) else { return Ok(None) };
        let mut held = member.token.lock().await;
        if let Some(token) = &*held {
            return Ok(token.clone());
        }
        let password = password(file).map_err(|error| Failure::Refused(error.to_string()))?;
        let request = AuthenticateRequest { name: user.clone(), password };
        let answered: Result<AuthenticateResponse, Status> = member.unary(AUTHENTICATE, request, &None).await;
        let token = match answered {
            Ok(answer) => {
                let token = MetadataValue::try_from(answer.token);
                Some(token.map_err(|_| Failure::Refused("its token has characters that a header cannot hold".into()))?)
            }
            // Clients of etcd take this for success.
            Err(status) if status.message().contains("authentication is not enabled") => None,
            Err(status) => return Err(failure_of(&status)),
        };
        *held = Some(token.clone());
        Ok(token)
    }
}

impl Member {
    async fn unary<M, R>(&self, path: &'static str, message: M, token: &Token) -> Result<R, Status>
    where
        M: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        let mut request = Request::new(message);
        if let Some(token) = token {
            request.metadata_mut().insert("token", token.clone());
        }
        match timeout(PATIENCE, self.calls.unary(path, request)).await {
            Ok(answered) => answered,
            Err(_) => Err(late(&self.url)),
        }
    }
}

fn late(url: &str) -> Status {
    Status::unavailable(format!("{url} does not answer within {PATIENCE:?}"))
}

/// Key from which a range begins; etcd has none that is empty.
fn key_of(prefix: &[u8]) -> Vec<u8> {
    if prefix.is_empty() { vec![0] } else { prefix.to_vec() }
}

fn password(file: &Path) -> Result<String, Fault> {
    Ok(String::from_utf8(secret(file, "")?.as_bytes().to_vec())?)
}

/// Party at fault, from the status of a call.
fn failure_of(status: &Status) -> Failure {
    let why = reason(status);
    match status.code() {
        Code::Unauthenticated => Failure::Token(why),
        _ if wants_token(status.message()) => Failure::Token(why),
        Code::PermissionDenied | Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => {
            Failure::Refused(why)
        }
        _ => Failure::Member(why),
    }
}

/// True for errors after which etcd wants the user to authenticate again.
pub fn wants_token(message: &str) -> bool {
    ["invalid auth token", "revision of auth store is old", "user name is empty"]
        .iter()
        .any(|why| message.contains(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_blame_the_member_the_token_or_the_request() {
        let kind = |status: Status| match failure_of(&status) {
            Failure::Member(_) => "member",
            Failure::Token(_) => "token",
            Failure::Refused(_) => "refused",
        };
        assert_eq!(kind(Status::unauthenticated("etcdserver: invalid auth token")), "token");
        assert_eq!(kind(Status::invalid_argument("etcdserver: revision of auth store is old")), "token");
        assert_eq!(kind(Status::permission_denied("etcdserver: permission denied")), "refused");
        assert_eq!(kind(Status::unavailable("etcdserver: no leader")), "member");
        assert_eq!(kind(Status::unknown("connection closed")), "member");
    }
}
