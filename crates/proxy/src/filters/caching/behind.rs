//! Validation of stored responses behind requests that were answered with them (`stale-while-revalidate`, RFC 5861).

use super::responses::Responses;
use crate::cache::asked::Asked;
use crate::cache::flights::{End, Lead};
use crate::cache::{Entry, SharedCache};
use crate::core::Core;
use crate::filters::exchange::Exchange;
use crate::filters::filter::RequestHead;
use crate::filters::row::Route;
use crate::filters::services::copied::copied;
use crate::peer::hash_key;
use crate::side::attempt::Answer;
use crate::side::send::{Destination, send};
use crate::upstream::pool::WorkerPool;
use crate::upstream::retries::Retries;
use evenkeel_balance::Clock;
use evenkeel_cache::decide::{is_error, validators};
use evenkeel_cache::key::Key;
use evenkeel_cache::lookup::{Lookup, REPLACED};
use evenkeel_cache::moment::Moment;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::storable;
use evenkeel_cache::store::Sequence;
use evenkeel_net::event_loop::spawn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest time of a validation, if the route has no limit of its own.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Pools of a route, for requests that validate stored responses.
pub struct Behind(Box<[Rc<Destination>]>);

/// Stored response that is to be validated.
pub struct Due {
    pub asked: Asked,
    pub key: Key,
    pub lookup: Lookup,
    pub entry: Arc<Entry>,
    /// Point in the order of purges at which the request is sent.
    pub began: Sequence,
    /// Duty to tell the requests that wait for the response.
    pub lead: Lead,
}

impl Behind {
    pub fn new(route: &Route<'_>, answer_max: u64) -> Behind {
        let core = route.prober.core();
        let to = |pool: &Rc<WorkerPool>| {
            Rc::new(Destination {
                pool: pool.clone(),
                prober: route.prober.clone(),
                retries: Retries::new(route.plan, core.index, route.workers, core.clock.now()),
                timeout: route.plan.timeouts.request.unwrap_or(TIMEOUT),
                answer_max,
            })
        };
        Behind(route.target.pools().map(to).collect())
    }

    /// Sends the request of a client with the validators of a stored response, in a task of its own, and stores what comes.
    pub fn validate(&self, responses: &Rc<Responses>, cx: &Exchange<'_>, head: &mut RequestHead<'_, '_, '_>, due: Due) {
        let is_of = |to: &&Rc<Destination>| cx.pool.is_some_and(|pool| std::ptr::eq(&*to.pool, pool));
        let Some(to) = self.0.iter().find(is_of).cloned() else { return };
        for field in REPLACED {
            head.request.fields.leave_out(field);
        }
        let mut request = copied(cx, head);
        (request.method, request.has_body) = ("GET".into(), false);
        let target = responses.target(&request.target).into_owned();
        request.target = target.into();
        for (name, value) in validators(due.entry.head()) {
            request.fields.push(name.as_bytes(), &value);
        }
        let key = to.pool.plan().key().and_then(|key| hash_key::hash(key, head.request, cx.client()));
        let responses = responses.clone();
        let sent = responses.moment(cx.core);
        let running = Running::new(&responses.shared);
        spawn(async move {
            if let Ok(answer) = send(&to, &mut request, key).await {
                end(&responses, to.prober.core(), due, answer, sent);
            }
            // Otherwise the stored response stays as it is.
            drop(running);
        });
    }
}

/// A validation that is counted as running, until this is dropped.
struct Running(Arc<SharedCache>);

impl Running {
    fn new(shared: &Arc<SharedCache>) -> Running {
        shared.behind.fetch_add(1, Ordering::Relaxed);
        Running(shared.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.behind.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Stores the answer to a validation.
fn end(responses: &Responses, core: &Core, mut due: Due, mut answer: Answer, sent: Moment) {
    let received = responses.moment(core);
    let request = due.asked.request();
    let fields = answer.fields.fields();
    let reply = Reply { status: answer.status, fields: &fields, sent, received };
    if answer.status == 304 {
        responses.renewed(&due.entry, &due.key, &request, &reply, due.began);
    } else if is_error(answer.status) || !answer.is_whole {
        return;
    } else {
        match storable(&request, &due.lookup, &reply, &responses.policy) {
            Ok(stored) => {
                let entry = Entry::new(stored, answer.body.into_boxed_slice().into());
                responses.shared.put(&due.key, entry.into(), due.began, received);
            }
            // One client must not end what others get.
            Err(refusal) if refusal.is_of_request() => return,
            Err(_) => responses.drop_variant(&due.key, &due.entry),
        }
    }
    due.lead.end(End::Stored, core.clock.now());
}
