//! Blocking queries of Consul and Nomad. A request names the index of the last response. The server responds when it
//! has a newer index, or when the time of the query is over. See [`follow`].

use crate::backoff::{Backoff, Bucket};
use crate::kept::{Answer, List};
use crate::out::Out;
use crate::registry::refusal;
use bytes::Bytes;
use evenkeel_fetch::server::secret;
use evenkeel_fetch::{Client, Fault, Server};
use http_body_util::Full;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::{Request, StatusCode};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;

/// Largest response, in bytes. 10,000 instances of Consul have some twenty million.
const ANSWER_MAX: usize = 64 << 20;

/// Time for a response, in addition to the time for which the server may wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between requests to a server without indexes. Such a server never waits.
const WITHOUT_INDEX: Duration = Duration::from_secs(5);

/// Query to a server of a registry.
#[derive(Debug)]
pub struct Query {
    pub server: Server,
    /// Path with parameters, except the parameters of blocking.
    pub path: String,
    /// Longest time for which the server may wait.
    pub wait: Duration,
    /// Field of responses with their index.
    pub index: &'static str,
    /// Field of requests with the token, and the file that has it.
    pub token: Option<(&'static str, PathBuf)>,
    /// Staleness that is accepted.
    pub stale: Option<Stale>,
}

/// Responses of servers other than the leader.
#[derive(Clone, Copy, Debug)]
pub struct Stale {
    /// Field of responses with the milliseconds since the last contact to the leader.
    pub contact: &'static str,
    pub max: Duration,
}

/// Follows a query forever. `read` reads the list of a response.
pub async fn follow(query: Query, read: impl Fn(&[u8]) -> Result<List, String>, mut out: Out) -> ! {
    let (mut backoff, mut bucket) = (Backoff::new(out.seed()), Bucket::new());
    let mut client = Client::new(query.server.clone());
    let (mut index, mut last) = (Index::default(), Bytes::new());
    let mut may_be_stale = query.stale.is_some();
    loop {
        bucket.take().await;
        match ask(&mut client, &query, index, may_be_stale).await {
            Ok(answer) => {
                may_be_stale = query.stale.is_some_and(|stale| {
                    let contact = number(&answer.fields, stale.contact).unwrap_or_default();
                    Duration::from_millis(contact) <= stale.max
                });
                if query.stale.is_some() && !may_be_stale {
                    // The response is too old. The next request goes to the leader.
                    continue;
                }
                let new = number(&answer.fields, query.index);
                index.note(new);
                // The body decides: a response may come without a change, and a change may leave the index as it was.
                if answer.body == last && !last.is_empty() {
                    out.put(Answer::Same);
                } else {
                    match read(&answer.body) {
                        Ok(list) => {
                            last = answer.body;
                            out.put(Answer::List(list));
                        }
                        Err(why) => out.put(Answer::Failed(why)),
                    }
                }
                backoff.reset();
                if new.is_none() {
                    tokio::time::sleep(WITHOUT_INDEX).await;
                }
            }
            Err((why, pause)) => {
                // A new server may have lower indexes. With the old index, it would wait until its own index is as
                // high.
                index = Index::default();
                out.put(Answer::Failed(why));
                tokio::time::sleep(backoff.pause(pause)).await;
            }
        }
    }
}

/// Index of the last response; 0 = none, so that the next request gets a response at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Index(u64);

impl Index {
    /// Notes the index of a response.
    fn note(&mut self, new: Option<u64>) {
        self.0 = match new {
            // Without an index the query would never block, and we would ask again at once, forever.
            None => 0,
            Some(0) => 1,
            // The state of the server is older: ask for all of it.
            Some(new) if new < self.0 => 0,
            Some(new) => new,
        };
    }

    fn is_unknown(self) -> bool {
        self.0 == 0
    }
}

struct Answered {
    fields: HeaderMap,
    body: Bytes,
}

/// Reason of a failure, and the pause that the server asks for.
type Failed = (String, Option<Duration>);

async fn ask(client: &mut Client, query: &Query, index: Index, may_be_stale: bool) -> Result<Answered, Failed> {
    let failed = |error: Fault| (error.to_string(), None);
    let mut path = query.path.clone();
    let mut add = |parameter: &str| {
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(parameter);
    };
    if may_be_stale {
        add("stale");
    }
    let mut patience = PATIENCE;
    if !index.is_unknown() {
        add(&format!("index={}&wait={}ms", index.0, query.wait.as_millis()));
        // Servers wait for up to a sixteenth longer, so that not all respond at the same time.
        patience += query.wait + query.wait / 16;
    }
    let mut request = Request::get(path);
    if let Some((field, file)) = &query.token {
        request = request.header(*field, secret(file, "").map_err(failed)?);
    }
    let request = request.body(Full::default()).map_err(|error| failed(error.into()))?;
    let response = match timeout(patience, client.whole(request, ANSWER_MAX)).await {
        Ok(response) => response.map_err(failed)?,
        Err(_) => return Err((format!("no answer within {patience:?}"), None)),
    };
    let (head, body) = response.into_parts();
    match head.status {
        StatusCode::OK => Ok(Answered { fields: head.headers, body }),
        status => {
            let pause = number(&head.headers, RETRY_AFTER.as_str()).map(Duration::from_secs);
            Err((refusal(status, &body), pause))
        }
    }
}

/// Value of a field that is a number.
fn number(fields: &HeaderMap, name: &str) -> Option<u64> {
    fields.get(name)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_goes_back_to_the_start_if_it_falls_or_is_missing_and_is_never_0() {
        let mut index = Index::default();
        let mut note = |new| {
            index.note(new);
            index.0
        };
        assert_eq!(note(Some(7)), 7);
        assert_eq!(note(Some(7)), 7, "its time was over");
        assert_eq!(note(Some(9)), 9);
        assert_eq!(note(Some(3)), 0, "it fell");
        assert_eq!(note(Some(3)), 3);
        assert_eq!(note(Some(0)), 1, "0 would not block");
        assert_eq!(note(Some(0)), 1, "nor would 0 after a fall");
        assert_eq!(note(None), 0);
    }
}
