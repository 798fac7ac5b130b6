//! The source `etcd`: keys with a prefix, read once and watched from then on.

use crate::backoff::{Backoff, Bucket};
use crate::context::Context;
use crate::etcd::keys::{Keys, Step};
use crate::etcd::members::{Failure, Member, Members, wants_token};
use crate::kept::Answer;
use crate::out::Out;
use evenkeel_config::plan::Etcd;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Time after which a watch without events is confirmed, and its list with it.
const CONFIRM: Duration = Duration::from_secs(20);

/// Time for which changes are gathered after the first, so that a list of many keys is not made for each.
const GATHER: Duration = Duration::from_millis(50);

/// Follows the keys with a prefix, forever.
pub(super) async fn run(etcd: Etcd, context: Context, mut out: Out) -> ! {
    let members = context.shared.get(&etcd.server, || Members::new(etcd.server.clone()));
    let (mut backoff, mut bucket) = (Backoff::new(out.seed()), Bucket::new());
    loop {
        let member = match members.member().await {
            Ok(member) => member,
            Err(why) => {
                out.put(Answer::Failed(why));
                members.wait(backoff.pause(None)).await;
                continue;
            }
        };
        let session = Session { members: &members, member: &member, prefix: etcd.prefix.as_bytes() };
        let failure = session.follow(&mut out, &mut backoff, &mut bucket).await;
        match &failure {
            Failure::Member(_) => members.leave(&member).await,
            Failure::Token(_) if backoff.is_fresh() => {
                // Tokens expire in normal use, so this is not reported: the next try asks for a new token.
                let _ = backoff.pause(None);
                continue;
            }
            Failure::Token(_) | Failure::Refused(_) => {}
        }
        out.put(Answer::Failed(failure.why().to_owned()));
        sleep(backoff.pause(None)).await;
    }
}

/// Keys that are followed at a member.
struct Session<'a> {
    members: &'a Members,
    member: &'a Arc<Member>,
    prefix: &'a [u8],
}

impl Session<'_> {
    /// Follows the keys until that fails.
    async fn follow(&self, out: &mut Out, backoff: &mut Backoff, bucket: &mut Bucket) -> Failure {
        loop {
            bucket.take().await;
            match self.watch(out, backoff).await {
                Ok(()) => tracing::debug!("etcd has compacted changes that were not seen; its keys are read again"),
                Err(failure) => return failure,
            }
        }
    }

    /// Reads the keys and watches them, until events are missing.
    async fn watch(&self, out: &mut Out, backoff: &mut Backoff) -> Result<(), Failure> {
        let (all, revision) = self.members.range(self.member, self.prefix).await?;
        let mut keys = Keys::of(self.prefix, all);
        out.put(Answer::List(keys.list()));
        let mut watch = self.members.watch(self.member, self.prefix, revision + 1).await?;
        // Time at which gathered changes are reported.
        let mut report_at: Option<Instant> = None;
        loop {
            let until = report_at.unwrap_or_else(|| Instant::now() + CONFIRM);
            let Ok(message) = timeout_at(until, watch.message()).await else {
                match report_at.take() {
                    Some(_) => out.put(Answer::List(keys.list())),
                    None => {
                        self.members.confirm(self.member, self.prefix).await?;
                        out.put(Answer::Same);
                    }
                }
                continue;
            };
            let message = message.map_err(|status| Failure::Member(crate::grpc::reason(&status)))?;
            let message = message.ok_or_else(|| Failure::Member("it ended the watch".into()))?;
            let step = keys.apply(message);
            if !matches!(step, Step::Lost | Step::Ended(_)) {
                // The keys can be read, and watched.
                backoff.reset();
            }
            match step {
                Step::Changed => report_at = Some(report_at.unwrap_or_else(|| Instant::now() + GATHER)),
                Step::Same => {}
                // The rest of the revision follows at once: a list of half of it would be wrong.
                Step::Partial => report_at = None,
                Step::Lost => return Ok(()),
                Step::Ended(why) => return Err(self.ended(why).await),
            }
        }
    }

    async fn ended(&self, why: String) -> Failure {
        if wants_token(&why) || why.contains("permission denied") {
            // Members of version 3.4 give the same reason for a token that has expired.
            self.members.forget(self.member).await;
            return Failure::Token(why);
        }
        Failure::Member(why)
    }
}
