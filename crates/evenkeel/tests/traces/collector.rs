//! A collector: takes spans by OTLP over HTTP, and says what it is told to.

use crate::support::{address, eventually};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Requests that came so far.
#[derive(Default)]
struct Came {
    spans: Vec<Span>,
    heads: Vec<String>,
    resources: Vec<(String, Option<Value>)>,
}

pub struct Collector {
    pub addr: String,
    came: Arc<Mutex<Came>>,
    status: Arc<Mutex<u16>>,
}

impl Collector {
    pub fn start() -> Collector {
        Collector::at(&address())
    }

    pub fn at(addr: &str) -> Collector {
        let listener = TcpListener::bind(addr).expect("nobody else uses it");
        let collector = Collector { addr: addr.to_owned(), came: Arc::default(), status: Arc::new(Mutex::new(200)) };
        let (came, status) = (collector.came.clone(), collector.status.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (came, status) = (came.clone(), status.clone());
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    while let Some((head, body)) = posted(&mut stream) {
                        let status = *status.lock().expect("no panic while held");
                        let request = ExportTraceServiceRequest::decode(&*body).expect("OTLP");
                        let mut came = came.lock().expect("no panic while held");
                        came.heads.push(head);
                        for of in request.resource_spans.into_iter().filter(|_| status == 200) {
                            let attributes = of.resource.expect("one").attributes.into_iter();
                            came.resources = attributes.map(|one| (one.key, one.value.and_then(|v| v.value))).collect();
                            came.spans.extend(of.scope_spans.into_iter().flat_map(|scope| scope.spans));
                        }
                        drop(came);
                        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
                        if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        collector
    }

    /// Sets the status of its next answers.
    pub fn answers(&self, status: u16) {
        *self.status.lock().expect("no panic while held") = status;
    }

    /// The spans of a trace once there are so many, in the order in which they are exported.
    #[track_caller]
    pub fn tree(&self, trace: &str, spans: usize) -> Vec<Span> {
        eventually("the spans of a trace", || {
            let came = self.came.lock().expect("no panic while held");
            let of: Vec<Span> = came.spans.iter().filter(|span| hex(&span.trace_id) == trace).cloned().collect();
            (of.len() >= spans).then_some(of)
        })
    }

    pub fn spans(&self) -> usize {
        self.came.lock().expect("no panic while held").spans.len()
    }

    pub fn heads(&self) -> Vec<String> {
        self.came.lock().expect("no panic while held").heads.clone()
    }

    /// An attribute of who sent the last spans.
    pub fn resource(&self, key: &str) -> Option<Value> {
        let came = self.came.lock().expect("no panic while held");
        came.resources.iter().find(|(name, _)| name == key).and_then(|(_, value)| value.clone())
    }
}

fn posted(stream: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An attribute as text; numbers in digits.
pub fn attribute(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|one| one.key == key)?.value.as_ref()?.value.as_ref()?;
    Some(match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}
