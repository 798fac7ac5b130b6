//! Fetch of a response anew, after a 304 that is for other content than the stored response: the client that waits gets
//! what the endpoint has now, as it arrives, and it is stored.

use super::fetch::{Part, Question};
use super::responses::{Responses, from_stored, growing_response};
use crate::body::response::{Content, Response};
use crate::cache::Entry;
use crate::cache::filling::{Ending, Filling};
use crate::cache::growing::{Cut, Growing, Reader};
use crate::side::attempt::Answer;
use crate::side::fill::Rest;
use crate::side::request::SideRequest;
use crate::side::send::{Destination, begin};
use bytes::Bytes;
use evenkeel_balance::Clock;
use evenkeel_cache::decide::on_error;
use evenkeel_cache::lookup::REPLACED;
use evenkeel_cache::reply::Reply;
use evenkeel_cache::storable::unstored;
use evenkeel_config::plan::RouteTimeouts;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

/// A response that is fetched anew.
pub struct Anew {
    pub to: Rc<Destination>,
    pub responses: Rc<Responses>,
    /// Stored response, which the 304 was not for.
    pub entry: Arc<Entry>,
    pub ending: Ending,
    pub timeouts: RouteTimeouts,
    /// True if the client needs the length of a body.
    pub is_http10: bool,
}

impl Anew {
    /// Returns the response to a request, to be stored as the response to `before` was to be.
    pub fn response(self, part: &Part, before: Question) -> Response {
        let mut request = SideRequest::get(&part.target);
        (request.host, request.fields) = (part.host.clone(), before.asked.without(&REPLACED).fields().clone());
        let (began, sent) = (self.responses.shared.store.begin(), self.responses.moment(self.to.prober.core()));
        let (mut question, hash) = (Question { began, sent, ..before }, part.hash);
        Response::later(async move {
            match begin(&self.to, &mut request, hash).await {
                Ok((answer, rest)) => self.read(question, answer, rest).await,
                Err(why) => self.without(&mut question, &why),
            }
        })
    }

    /// Response whose head has arrived. If it is not stored, its body is for this client alone.
    async fn read(mut self, mut question: Question, mut answer: Answer, rest: Rest) -> Response {
        let (responses, length) = (&self.responses, answer.length());
        let (received, arrived) = (responses.moment(&rest.core), responses.date(&rest.core));
        self.ending.now = rest.core.clock.now();
        let fields = answer.fields.fields();
        let reply = Reply { status: answer.status, fields: &fields, sent: question.sent, received, arrived };
        let (growing, room, refused) = match responses.arriving(&mut question, &reply, length, self.ending.now) {
            Ok((growing, room)) => (growing, room, None),
            Err(refusal) => {
                // First: waiting requests must not read a response that is not stored.
                self.ending.settle(Some(refusal));
                let head = unstored(&reply, &responses.policy);
                let growing = Growing::new(head, length, question.began, self.ending.now);
                (growing, responses.shared.room(), Some(refusal))
            }
        };
        let response = growing_response(&growing, &question.asked.request(), received, None);
        let mut filling = Filling::new(&responses.shared, question.key, growing, received, room, self.ending);
        if let Some(refusal) = refused {
            filling.pass(refusal);
        }
        rest.fill_within(filling.into(), &self.timeouts).await;
        match response {
            Some(response) if self.is_http10 && length.is_none() => whole(response).await,
            Some(response) => response,
            None => failed("it was cut off"),
        }
    }

    /// Response if the endpoint sends none.
    fn without(self, question: &mut Question, why: &str) -> Response {
        let now = self.responses.moment(self.to.prober.core());
        match on_error(self.entry.head(), now) {
            true => from_stored(&self.entry, &question.asked.request(), now),
            false => failed(why),
        }
    }
}

fn failed(why: &str) -> Response {
    Response::new(502, format!("the endpoint has other content than is stored, and did not send it: {why}"))
}

/// Waits for the whole body of a response.
async fn whole(mut response: Response) -> Response {
    let Content::Growing(reader) = &mut response.content else { return response };
    match read(reader).await {
        Ok(body) => Response { content: Response::page("", body).content, ..response },
        Err(Cut) => failed("it was cut off"),
    }
}

async fn read(reader: &mut Reader) -> Result<Bytes, Cut> {
    let mut body = Vec::new();
    while let Some(bytes) = poll_fn(|cx| reader.poll_next(cx)).await? {
        body.extend_from_slice(&bytes);
    }
    Ok(body.into())
}
