//! The access log: a line for each request, written into the worker's own batch as JSON ([`line`]) or by a
//! [`template`]. The name and the doc of a field are in `evenkeel_config`'s `LineValue`, its value is in [`Line`] or in
//! the [`summary`](super::summary), and both `line` and `template` write it. The [`layout`] keeps the fields of heads.

mod figures;
mod front;
mod layout;
mod line;
mod names;
mod quoted;
mod template;

pub use layout::Layout;
pub use line::Line;
pub use names::{NOWHERE, Named, Names};
pub use quoted::quoted;

use evenkeel_net::clock::CachedClock;
use evenkeel_net::log_writer::Batch;
use front::Front;
use std::sync::Arc;

/// The access log of a worker.
pub struct AccessLog {
    batch: Batch,
    front: Front,
    pub layout: Arc<Layout>,
}

impl AccessLog {
    /// Creates a log that writes lines to `batch`.
    pub fn new(batch: Batch, layout: Arc<Layout>) -> AccessLog {
        AccessLog { batch, front: Front::default(), layout }
    }

    pub fn add(&mut self, line: &Line<'_>, clock: &CachedClock) {
        let unix_ms = clock.unix_ms(line.summary.timing.began);
        if let Some(template) = &self.layout.template {
            return self.batch.add_with(|out| template::write(line, &self.layout, template, unix_ms, out));
        }
        self.front.set(unix_ms, line.request_id);
        self.batch.add_with(|out| line.write(&self.front, out));
    }

    /// True if lines were not handed to the writer yet.
    pub fn holds_lines(&self) -> bool {
        self.batch.holds_lines()
    }

    /// Hands the lines so far to the writer.
    pub fn hand_over(&mut self) {
        self.batch.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use super::layout::planned;
    use super::*;
    use crate::observe::request_id::RequestId;
    use crate::observe::summary::Summary;
    use crate::observe::timing::Timing;
    use crate::observe::tries::Try;
    use evenkeel_wire::head::{Request, Table};
    use proptest::prelude::*;

    /// The line of a request. `said` has the values that clients and endpoints control.
    fn made(layout: &Layout, said: &[Vec<u8>; 6], names: &[String; 5], id: &RequestId) -> Vec<u8> {
        let [host, agent, referer, tenant, trace, cache] = said;
        let [method, target, route, endpoint, reason] = names;
        let fields = [("User-Agent", agent), ("Referer", referer), ("X-Tenant", tenant), ("traceparent", trace)];
        let mut fields: Table = fields.into_iter().map(|(name, value)| (name.as_bytes(), &**value)).collect();
        let mut answer: Table = [(&b"x-cache"[..], &**cache)].into_iter().collect();
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        layout.keep(&Request { method, target, host, fields: fields.fields() }, None, &mut asked);
        if layout.wants_response() {
            layout.keep_response(&answer.fields(), &mut answered);
        }
        let (taken, sent) = (Named::default(), Named::default());
        let one = Try { endpoint: endpoint.as_str().into(), end: "reset".into(), took_ns: 1, ..Try::default() };
        let timing = Timing { queue_ns: 3, total_ns: 4, ..Timing::default() };
        let summary = Summary { tries: 2, status: 200, bytes_in: 1, bytes_out: 2, timing, ..Summary::default() };
        let line = Line {
            client_port: 1,
            sent: sent.sent("p", Some(endpoint)),
            asked: &asked,
            answered: &answered,
            attempts: &[one],
            reason: Some(reason),
            ..Line::new("HTTP/1.1", id, b"192.0.2.1", taken.taken("l", || Some(route)), summary)
        };
        let mut out = Vec::new();
        match &layout.template {
            Some(template) => template::write(&line, layout, template, 0, &mut out),
            None => {
                let mut front = Front::default();
                front.set(0, id);
                line.write(&front, &mut out);
            }
        }
        out
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..400),
            "[\"\\\\{}|\r\n\u{2028}a-z]{0,40}".prop_map(String::into_bytes)
        ]
    }

    fn id() -> impl Strategy<Value = RequestId> {
        let made = any::<(u64, u64)>().prop_map(|(origin, number)| RequestId::Made { origin, number });
        let taken = "[!-~]{1,128}".prop_map(|text| RequestId::take(text.as_bytes()).expect("it is visible"));
        prop_oneof![made, taken]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_sent_makes_one_line_that_can_be_read(
            said in proptest::array::uniform6(bytes()),
            names in proptest::array::uniform5(any::<String>()),
            id in id(),
        ) {
            let chosen = "request = [\"X-Tenant\"], response = [\"X-Cache\"]";
            for fields in ["", chosen] {
                let line = made(&planned("json", fields, 1), &said, &names, &id);
                prop_assert_eq!(memchr::memchr(b'\n', &line), Some(line.len() - 1));
                prop_assert!(!line.contains(&b'\r'));
                let value: serde_json::Value = serde_json::from_slice(&line).expect("an object");
                prop_assert_eq!(&value["req_id"], &id.to_string());
                prop_assert_eq!((&value["path"], &value["reason"]), (&names[1].as_str().into(), &names[4].as_str().into()));
                prop_assert_eq!(value["status"].as_u64(), Some(200));
                prop_assert_eq!(value["response_fields"].is_object(), fields == chosen);
            }
            let own = "%{attempts};%{req_id};%{request.x-tenant};%{response.X-CACHE};%{reason}";
            for (format, quotes) in [("combined", 6), ("httplog", 2), (own, 0)] {
                let line = made(&planned(format, chosen, 1), &said, &names, &id);
                let (end, text) = line.split_last().expect("it is not empty");
                prop_assert_eq!(*end, b'\n');
                prop_assert!(text.iter().all(|b| matches!(b, b' '..=b'~')), "{}", line.escape_ascii());
                prop_assert_eq!(text.iter().filter(|b| **b == b'"').count(), quotes, "{}", line.escape_ascii());
            }
        }
    }
}
