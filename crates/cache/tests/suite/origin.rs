//! The endpoint of a case: gives each exchange its scripted answer, and remembers what it was asked.

use super::case::{Case, Exchange, Source};
use super::dates::expand;
use super::{ANSWERED, Ask, EXCHANGE, FieldList, joined};
use std::sync::Mutex;

/// Endpoint of a single case. Requests may come from several threads.
#[derive(Debug)]
pub struct Origin {
    case: Case,
    seen: Mutex<Vec<Seen>>,
}

/// A request that the endpoint got, and the fields of its answer that the client must get.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Number of the exchange in the case, from 1.
    pub exchange: usize,
    pub ask: Ask,
    pub sent: FieldList,
}

/// Reaction of the endpoint to a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Closes the connection without an answer.
    Closes,
    /// Answers after `after` seconds.
    Answer { after: u64, interim: Vec<(u16, FieldList)>, status: u16, fields: FieldList, body: String },
}

impl Origin {
    pub fn new(case: &Case) -> Origin {
        Origin { case: case.clone(), seen: Mutex::default() }
    }

    /// Answers a request at this time, in milliseconds since 1970. Fields `Date`, `Exchange` and `Answered` are among
    /// those of the answer; its length is the caller's, unless the case gives one.
    pub fn answer(&self, ask: &Ask, now: u64) -> Reply {
        let number = joined(&ask.fields, EXCHANGE).and_then(|number| number.parse::<usize>().ok());
        let Some((number, exchange)) = number.and_then(|n| Some((n, self.case.exchanges.get(n.checked_sub(1)?)?)))
        else {
            return Reply::Answer {
                after: 0,
                interim: Vec::new(),
                status: 400,
                fields: Vec::new(),
                body: "no exchange".into(),
            };
        };
        let path = ask.target.split('?').next().unwrap_or_default();
        let now = now + exchange.answer.after * 1000;
        let expanded = |name: &String, value: &String| (name.clone(), expand(value, now, path));
        let mut fields: FieldList = exchange.answer.fields.iter().map(|(n, v, _)| expanded(n, v)).collect();
        let checked = exchange.answer.fields.iter().filter(|(_, _, is_checked)| *is_checked);
        let sent = checked.map(|(n, v, _)| expanded(n, v)).collect();
        for (name, value) in [("Date", "{0}"), ("Content-Type", "text/plain")] {
            if joined(&fields, name).is_none() {
                fields.push((name.into(), expand(value, now, path)));
            }
        }
        fields.push((EXCHANGE.into(), number.to_string()));
        fields.push((ANSWERED.into(), now.to_string()));
        let status = self.status(number, exchange, ask);
        self.seen.lock().expect("no test panics here").push(Seen { exchange: number, ask: ask.clone(), sent });
        if exchange.answer.closes {
            return Reply::Closes;
        }
        let has_body = !matches!(status, 204 | 304) && ask.method != "HEAD";
        let body = exchange.answer.body.clone().unwrap_or_else(|| self.case.id.clone());
        Reply::Answer {
            after: exchange.answer.after,
            interim: exchange.answer.interim.clone(),
            status,
            fields,
            body: if has_body { body } else { String::new() },
        }
    }

    /// Requests so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panics here").clone()
    }

    /// Status of an answer: 304 if the case wants the request to validate the answer before, and it does; 999 if not.
    fn status(&self, number: usize, exchange: &Exchange, ask: &Ask) -> u16 {
        if !matches!(exchange.from, Some(Source::ByEtag | Source::ByDate)) {
            return exchange.answer.status.unwrap_or(200);
        }
        let known = |name: &str| {
            let scripted = &self.case.exchanges.get(number.checked_sub(2)?)?.answer.fields;
            let scripted = scripted.iter().find(|(known, _, _)| known.eq_ignore_ascii_case(name))?.1.clone();
            let seen = self.seen();
            let sent = seen.iter().find(|seen| seen.exchange == number - 1).and_then(|seen| joined(&seen.sent, name));
            Some(sent.unwrap_or(scripted))
        };
        let validates =
            |field: &str, name: &str| known(name).is_some_and(|known| joined(&ask.fields, field) == Some(known));
        let is_known = validates("If-None-Match", "ETag") || validates("If-Modified-Since", "Last-Modified");
        if is_known { 304 } else { 999 }
    }
}
