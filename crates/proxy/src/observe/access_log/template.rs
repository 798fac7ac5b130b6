//! Lines by a template: its literal texts with the values of a request between them.

use super::layout::{Kept, Layout};
use super::line::Line;
use super::quoted::visible;
use crate::observe::end::Phase;
use crate::observe::summary::Summary;
use crate::observe::tries::Try;
use evenkeel_balance::time::MILLISECOND_NS;
use evenkeel_config::plan::{LineValue, Part};
use evenkeel_net::clock::civil;
use evenkeel_wire::grpc::Status;
use std::fmt::Write;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Written for a missing value.
const NONE: &str = "-";
/// Written for a missing endpoint, as in HAProxy's log.
const NO_SERVER: &str = "<NOSRV>";

struct Out<'o> {
    line: &'o Line<'o>,
    layout: &'o Layout,
    unix_ms: u64,
    text: &'o mut Vec<u8>,
}

/// Writes text without escaping.
impl Write for Out<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

pub(super) fn write(line: &Line<'_>, layout: &Layout, template: &[Part], unix_ms: u64, text: &mut Vec<u8>) {
    let mut out = Out { line, layout, unix_ms, text };
    for part in template {
        // Writing to a vector cannot fail.
        let _ = match part {
            Part::Text(text) => out.write_str(text),
            Part::Value(value) => out.value(*value),
            Part::Request(name) => out.kept(layout.request_field(line.asked, name)),
            Part::Response(name) => out.kept(layout.response_field(line.answered, name)),
        };
    }
    out.text.push(b'\n');
}

impl Out<'_> {
    /// Appends text with escapes; [`NONE`] if it is missing.
    fn foreign(&mut self, text: Option<&[u8]>) -> std::fmt::Result {
        match text.unwrap_or_default() {
            b"" => self.write_str(NONE),
            text => {
                visible(self.text, text);
                Ok(())
            }
        }
    }

    /// Appends text that was escaped when it was kept; [`NONE`] if it is missing.
    fn kept(&mut self, text: &[u8]) -> std::fmt::Result {
        match text {
            b"" => self.write_str(NONE),
            text => {
                self.text.extend_from_slice(text);
                Ok(())
            }
        }
    }

    fn asked(&mut self, at: Kept) -> std::fmt::Result {
        self.kept(self.layout.value(self.line.asked, at as usize))
    }

    fn millis(&mut self, ns: Option<u64>) -> std::fmt::Result {
        let Some(us) = ns.map(|ns| ns / 1000) else { return self.write_str(NONE) };
        write!(self, "{}.{:03}", us / 1000, us % 1000)
    }

    fn count(&mut self, n: Option<u64>) -> std::fmt::Result {
        match n {
            Some(n) => write!(self, "{n}"),
            None => self.write_str(NONE),
        }
    }

    fn value(&mut self, value: LineValue) -> std::fmt::Result {
        let line = self.line;
        let Summary { tries, status, call_status, bytes_in, bytes_out, timing, .. } = line.summary;
        let name = |name: &Option<Box<str>>| name.as_ref().map(|name| name.to_string().into_bytes());
        match value {
            LineValue::Ts => {
                let ((year, month, day), [hour, minute, second]) = self.date();
                let milli = self.unix_ms % 1000;
                write!(self, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
            }
            LineValue::Date => {
                self.write_date()?;
                self.write_str(" +0000")
            }
            LineValue::DateMs => {
                self.write_date()?;
                let milli = self.unix_ms % 1000;
                write!(self, ".{milli:03}")
            }
            LineValue::UnixMs => {
                let unix_ms = self.unix_ms;
                write!(self, "{unix_ms}")
            }
            LineValue::ReqId => self.foreign(Some(line.request_id.to_string().as_bytes())),
            LineValue::Client => self.foreign(Some(line.client)),
            LineValue::ClientPort => write!(self, "{}", line.client_port),
            LineValue::Peer => self.foreign(line.peer),
            LineValue::User => self.foreign(line.user),
            LineValue::Cache => self.foreign(line.cache.map(str::as_bytes)),
            LineValue::Listener => self.foreign(name(&line.taken.first).as_deref()),
            LineValue::Route => self.foreign(name(&line.taken.second).as_deref()),
            LineValue::FirstRoute => self.foreign(line.first_route.map(str::as_bytes)),
            LineValue::Pool => self.foreign(name(&line.sent.first).as_deref()),
            LineValue::Endpoint => self.foreign(name(&line.sent.second).as_deref()),
            LineValue::Server => self.write_server(),
            LineValue::Tries => write!(self, "{tries}"),
            LineValue::Retries => write!(self, "{}", tries.saturating_sub(1)),
            LineValue::Attempts => self.write_attempts(),
            LineValue::Proto => self.write_str(line.proto),
            LineValue::TlsVersion => self.foreign(line.tls.map(|tls| tls.version.as_bytes())),
            LineValue::TlsCipher => self.foreign(line.tls.map(|tls| tls.cipher.as_bytes())),
            LineValue::Sni => {
                self.foreign(line.tls.and_then(|tls| tls.server_name.as_ref()).map(|name| name.as_bytes()))
            }
            LineValue::Handshake => self.millis(line.quic.map(|quic| quic.handshake_ns)),
            LineValue::Migrations => self.count(line.quic.map(|quic| quic.migrations.into())),
            LineValue::PacketsLost => self.count(line.quic.map(|quic| quic.packets_lost)),
            LineValue::Method => self.asked(Kept::Method),
            LineValue::Host => self.asked(Kept::Host),
            LineValue::Path => self.asked(Kept::Path),
            LineValue::Request => {
                self.asked(Kept::Method)?;
                self.write_str(" ")?;
                self.asked(Kept::Path)?;
                write!(self, " {}", line.proto)
            }
            LineValue::UserAgent => self.asked(Kept::Agent),
            LineValue::Referer => self.asked(Kept::Referer),
            LineValue::TraceId => self.asked(Kept::Trace),
            LineValue::Status => write!(self, "{status}"),
            LineValue::BytesIn => write!(self, "{bytes_in}"),
            LineValue::BytesOut => write!(self, "{bytes_out}"),
            LineValue::Queue => self.millis(Some(timing.queue_ns)),
            LineValue::Connect => self.millis(timing.connect_ns),
            LineValue::Ttfb => self.millis(timing.ttfb_ns),
            LineValue::Total => self.millis(Some(timing.total_ns)),
            LineValue::Timers => self.write_timers(),
            LineValue::Term => self.foreign(Some(&line.summary.term())),
            LineValue::Probability => match line.probability() {
                Some(probability) => write!(self, "{probability}"),
                None => self.write_str(NONE),
            },
            LineValue::GrpcStatus => self.foreign(call_status.map(Status::name).map(str::as_bytes)),
            LineValue::Reason => self.foreign(line.reason.map(str::as_bytes)),
            LineValue::Captured => self.write_captured(),
        }
    }

    fn date(&self) -> ((u64, u64, u64), [u64; 3]) {
        let second = self.unix_ms / 1000;
        (civil(second / 86_400), [second / 3600 % 24, second / 60 % 60, second % 60])
    }

    /// Writes the time as in Apache, NGINX and HAProxy logs, without the zone.
    fn write_date(&mut self) -> std::fmt::Result {
        let ((year, month, day), [hour, minute, second]) = self.date();
        let month = MONTHS[(month as usize - 1) % MONTHS.len()];
        write!(self, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02}")
    }

    /// Writes `backend/server`. For a request that reached no backend, HAProxy writes the frontend's name instead.
    fn write_server(&mut self) -> std::fmt::Result {
        let line = self.line;
        let pool = line.sent.first.as_ref().or(line.taken.first.as_ref());
        self.foreign(pool.map(|name| name.as_bytes()))?;
        self.write_str("/")?;
        match &line.sent.second {
            Some(endpoint) => self.foreign(Some(endpoint.as_bytes())),
            None => self.write_str(NO_SERVER),
        }
    }

    /// Writes HAProxy's five timers in milliseconds: reading the request, queue, connect, from there to the response
    /// head, total. -1 for a phase that was not reached. The first is always 0: a request begins when its head is
    /// complete.
    fn write_timers(&mut self) -> std::fmt::Result {
        let Summary { tries, timing, phase: at, .. } = self.line.summary;
        let ms = |ns: u64| ns / MILLISECOND_NS;
        let reached = |phase: Phase| {
            let order = [Phase::Request, Phase::Queue, Phase::Connect, Phase::Head, Phase::Data, Phase::Done];
            let place = |phase: Phase| order.iter().position(|one| *one == phase);
            tries > 0 && place(at) > place(phase)
        };
        let connect_ns = timing.connect_ns.unwrap_or_default();
        write!(self, "0/{}/", ms(timing.queue_ns))?;
        match reached(Phase::Connect) {
            true => write!(self, "{}/", ms(connect_ns))?,
            false => self.write_str("-1/")?,
        }
        match timing.ttfb_ns {
            Some(ns) => write!(self, "{}/", ms(ns.saturating_sub(timing.queue_ns.saturating_add(connect_ns))))?,
            None => self.write_str("-1/")?,
        }
        write!(self, "{}", ms(timing.total_ns))
    }

    /// Writes `{a|b} ` for the configured request fields, and again for the response fields; nothing if none are
    /// configured.
    fn write_captured(&mut self) -> std::fmt::Result {
        let (line, layout) = (self.line, self.layout);
        let (request, response) = layout.chosen();
        let request: Vec<&[u8]> = request.iter().map(|name| layout.request_field(line.asked, name)).collect();
        let response: Vec<&[u8]> = response.iter().map(|name| layout.response_field(line.answered, name)).collect();
        for values in [request, response].into_iter().filter(|values| !values.is_empty()) {
            for (n, value) in values.into_iter().enumerate() {
                self.write_str(if n == 0 { "{" } else { "|" })?;
                for &b in value {
                    // These would be taken for the end of a value.
                    match b {
                        b'{' | b'|' | b'}' => write!(self, "\\x{b:02X}")?,
                        b => self.text.push(b),
                    }
                }
            }
            self.write_str("} ")?;
        }
        Ok(())
    }

    /// Writes the tries as `10.0.0.1:80=connect@1.234,10.0.0.2:80=answered@20.000`, with durations in milliseconds.
    fn write_attempts(&mut self) -> std::fmt::Result {
        let line = self.line;
        if line.attempts.is_empty() {
            return self.write_str(NONE);
        }
        for (n, Try { endpoint, end, took_ns, .. }) in line.attempts.iter().enumerate() {
            if n > 0 {
                self.write_str(",")?;
            }
            self.foreign(Some(endpoint.as_bytes()))?;
            self.write_str("=")?;
            self.foreign(Some(end.replace(' ', "_").as_bytes()))?;
            self.write_str("@")?;
            self.millis(Some(*took_ns))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
