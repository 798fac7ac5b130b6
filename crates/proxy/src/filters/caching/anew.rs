//! Fetch of a response anew, after a 304 that is for other content than the stored response: the client that waits gets
//! what the endpoint has now, and it is stored.

use super::fetch::{Asked, Fetch, Part};
use super::responses::{Responses, from_stored};
use crate::body::response::Response;
use crate::cache::Entry;
use crate::cache::filling::Ending;
use crate::side::attempt::Answer;
use crate::side::request::SideRequest;
use crate::side::send::{Destination, send};
use evenkeel_cache::decide::on_error;
use evenkeel_cache::key::Key;
use evenkeel_cache::lookup::{Lookup, REPLACED};
use evenkeel_cache::moment::Moment;
use evenkeel_cache::refusal::Refusal;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::{storable, unstored};
use evenkeel_cache::store::Sequence;
use evenkeel_net::pages;
use std::rc::Rc;
use std::sync::Arc;

/// A response that is fetched anew.
pub struct Anew {
    asked: Asked,
    lookup: Lookup,
    key: Key,
    /// Stored response, which the 304 was not for.
    entry: Arc<Entry>,
    began: Sequence,
    sent: Moment,
    ending: Ending,
}

impl Anew {
    /// Returns the response to a request, to be fetched from `to` and stored as `fetch` was to be.
    pub fn response(
        to: Rc<Destination>,
        responses: Rc<Responses>,
        part: &Part,
        fetch: Fetch,
        entry: Arc<Entry>,
        ending: Ending,
    ) -> Response {
        let Fetch { asked, lookup, key, .. } = fetch;
        let mut request = SideRequest::get(&part.target);
        (request.host, request.fields) = (part.host.clone(), asked.without(&REPLACED).fields().clone());
        let (began, sent) = (responses.shared.store.begin(), responses.moment(to.prober.core()));
        let (anew, hash) = (Anew { asked, lookup, key, entry, began, sent, ending }, part.hash);
        Response::later(async move {
            let sent = send(&to, &mut request, hash).await;
            let (response, mut ending, refused) = match sent {
                Ok(answer) if answer.is_whole => anew.end(&responses, &to, answer),
                Ok(_) => anew.fail(&responses, &to, Refusal::BodyTooLarge, "it is larger than `object_max`"),
                Err(why) => anew.fail(&responses, &to, Refusal::CutOff, &why),
            };
            ending.settle(refused);
            response
        })
    }

    fn end(
        mut self,
        responses: &Responses,
        to: &Destination,
        mut answer: Answer,
    ) -> (Response, Ending, Option<Refusal>) {
        let core = to.prober.core();
        let (received, arrived) = (responses.moment(core), responses.date(core));
        let fields = answer.fields.fields();
        let reply = Reply { status: answer.status, fields: &fields, sent: self.sent, received, arrived };
        let request = self.asked.request();
        let (entry, refused): (Arc<Entry>, _) = match storable(&request, &self.lookup, &reply, &responses.policy) {
            Ok(stored) => {
                let entry = Arc::new(Entry::new(stored, pages::shared(answer.body)));
                let refused = responses.shared.put(&self.key, entry.clone(), self.began, received);
                (entry, refused)
            }
            Err(refusal) => {
                let once = unstored(&reply, &responses.policy);
                (Arc::new(Entry::new(once, pages::shared(answer.body))), Some(refusal))
            }
        };
        (from_stored(&entry, &request, received), self.ending, refused)
    }

    fn fail(
        mut self,
        responses: &Responses,
        to: &Destination,
        refusal: Refusal,
        why: &str,
    ) -> (Response, Ending, Option<Refusal>) {
        let now = responses.moment(to.prober.core());
        let response = match on_error(self.entry.head(), now) {
            true => from_stored(&self.entry, &self.asked.request(), now),
            false => {
                Response::new(502, format!("the endpoint has other content than is stored, and did not send it: {why}"))
            }
        };
        (response, self.ending, Some(refusal))
    }
}
