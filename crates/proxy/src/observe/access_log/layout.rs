//! Layout of lines, and the values that it keeps of request and response heads, as their bytes are gone when the line
//! is written. Kept as JSON that is copied into the line, or for a template as escaped values, each on a line.

use super::quoted::{self, quoted};
use evenkeel_config::plan::{AccessLog, LineFormat, Part};
use evenkeel_wire::head::{Fields, Request};
use evenkeel_wire::trace_context;

/// Bytes kept of each header field.
const VALUE_MAX: usize = 256;

/// Layout of lines, for all workers.
#[derive(Debug)]
pub struct Layout {
    /// Distinguishes values kept under this plan from those kept under another.
    number: u64,
    /// `None` for JSON.
    pub(super) template: Option<Box<[Part]>>,
    /// Names of request fields that are kept.
    request: Box<[String]>,
    /// Names of response fields that are kept.
    response: Box<[String]>,
}

/// Position of each value among those kept of a request head.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    Method,
    Host,
    Path,
    Trace,
    Agent,
    Referer,
    /// First of the configured request fields.
    Fields,
}

/// First byte of values kept for a template. Values kept as JSON start with a comma.
const VALUES: u8 = b'\n';
const VALUES_FRONT: usize = 9;

impl Layout {
    /// Builds the layout of a plan with this number.
    pub fn new(plan: &AccessLog, number: u64) -> Layout {
        let (mut request, mut response) = (plan.fields.request.clone(), plan.fields.response.clone());
        let template = match &plan.format {
            LineFormat::Json => None,
            LineFormat::Template(template) => Some(template.parts.iter().cloned().collect::<Box<[Part]>>()),
        };
        for part in template.iter().flatten() {
            let (all, name) = match part {
                Part::Request(name) => (&mut request, name),
                Part::Response(name) => (&mut response, name),
                Part::Text(_) | Part::Value(_) => continue,
            };
            if !all.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                all.push(name.clone());
            }
        }
        Layout { number, template, request: request.into(), response: response.into() }
    }

    /// True if lines have response fields.
    pub fn wants_response(&self) -> bool {
        !self.response.is_empty()
    }

    /// Appends the values kept of a request head. `trace_id`: the trace of the request; without it, the trace in the
    /// client's `traceparent` is kept.
    #[inline(never)]
    pub fn keep(&self, request: &Request<'_, '_>, trace_id: Option<String>, out: &mut Vec<u8>) {
        let (mut trace, mut agent, mut referer) = (None, None, None);
        let bytes = request.fields.bytes;
        for field in request.fields.rows.iter() {
            let name = field.name(bytes);
            let (known, to) = match name.len() {
                7 => (&b"referer"[..], &mut referer),
                10 => (&b"user-agent"[..], &mut agent),
                11 => (&b"traceparent"[..], &mut trace),
                _ => continue,
            };
            if to.is_none() && name.eq_ignore_ascii_case(known) {
                *to = Some(field.value(bytes));
            }
        }
        let trace = trace_id.as_deref().map(str::as_bytes).or_else(|| trace.and_then(trace_context::trace_id));
        let (agent, referer) = (agent.map(cut), referer.map(cut));
        if self.template.is_some() {
            let first = [Some(request.method.as_bytes()), Some(request.host), Some(request.target.as_bytes()), trace];
            let chosen = self.request.iter().map(|name| request.field(name).map(cut));
            return self.keep_values(first.into_iter().chain([agent, referer]).chain(chosen), out);
        }
        out.extend_from_slice(b",\"method\":");
        quoted(out, request.method.as_bytes());
        out.extend_from_slice(b",\"host\":");
        quoted(out, request.host);
        out.extend_from_slice(b",\"path\":");
        quoted(out, request.target.as_bytes());
        out.extend_from_slice(b",\"trace_id\":");
        match trace {
            Some(id) => quoted(out, id),
            None => out.extend_from_slice(b"null"),
        }
        if let Some(agent) = agent {
            out.extend_from_slice(b",\"user_agent\":");
            quoted(out, agent);
        }
        if let Some(referer) = referer {
            out.extend_from_slice(b",\"referer\":");
            quoted(out, referer);
        }
        if !self.request.is_empty() {
            keep_fields("request_fields", &self.request, &request.fields, out);
        }
    }

    /// Keeps the values of a session or handshake, of which only the requested server name may be known.
    pub fn keep_name(&self, host: Option<&str>, out: &mut Vec<u8>) {
        let Some(host) = host else { return };
        if self.template.is_some() {
            return self.keep_values([None, Some(host.as_bytes())].into_iter(), out);
        }
        out.extend_from_slice(b",\"method\":null,\"host\":");
        quoted(out, host.as_bytes());
        out.extend_from_slice(b",\"path\":null,\"trace_id\":null");
    }

    /// Appends the values kept of a response head.
    pub fn keep_response(&self, fields: &Fields<'_, '_>, out: &mut Vec<u8>) {
        match self.template {
            Some(_) => self.keep_values(self.response.iter().map(|name| fields.first(name).map(cut)), out),
            None => keep_fields("response_fields", &self.response, fields, out),
        }
    }

    fn keep_values<'v>(&self, values: impl Iterator<Item = Option<&'v [u8]>>, out: &mut Vec<u8>) {
        out.push(VALUES);
        out.extend_from_slice(&self.number.to_le_bytes());
        for value in values {
            quoted::visible(out, value.unwrap_or_default());
            out.push(b'\n');
        }
    }

    /// True if `kept` can be copied into a JSON line unchanged.
    pub(super) fn is_json(kept: &[u8]) -> bool {
        kept.first() == Some(&b',')
    }

    /// Value number `at` of those kept for this template; empty if another plan kept them.
    pub(super) fn value<'k>(&self, kept: &'k [u8], at: usize) -> &'k [u8] {
        let (front, values) = kept.split_at_checked(VALUES_FRONT).unwrap_or_default();
        if front.first() != Some(&VALUES) || front[1..] != self.number.to_le_bytes() {
            return b"";
        }
        values.split(|b| *b == b'\n').nth(at).unwrap_or_default()
    }

    /// The value of a configured request field; empty if there was none.
    pub(super) fn request_field<'k>(&self, kept: &'k [u8], name: &str) -> &'k [u8] {
        let at = self.request.iter().position(|other| other.eq_ignore_ascii_case(name));
        at.map_or(b"", |at| self.value(kept, Kept::Fields as usize + at))
    }

    /// The value of a configured response field; empty if there was none.
    pub(super) fn response_field<'k>(&self, kept: &'k [u8], name: &str) -> &'k [u8] {
        let at = self.response.iter().position(|other| other.eq_ignore_ascii_case(name));
        at.map_or(b"", |at| self.value(kept, at))
    }

    /// The names of all kept request fields, and of all kept response fields.
    pub(super) fn chosen(&self) -> (&[String], &[String]) {
        (&self.request, &self.response)
    }
}

/// Appends the configured fields that the head has, as a JSON object.
#[cold]
fn keep_fields(key: &str, names: &[String], fields: &Fields<'_, '_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":{");
    let mut is_first = true;
    for (name, value) in names.iter().filter_map(|name| Some((name, fields.first(name)?))) {
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        quoted(out, name.as_bytes());
        out.push(b':');
        quoted(out, cut(value));
    }
    out.push(b'}');
}

fn cut(value: &[u8]) -> &[u8] {
    &value[..value.len().min(VALUE_MAX)]
}

/// The layout of a plan with this access log.
#[cfg(test)]
pub(super) fn planned(format: &str, fields: &str, number: u64) -> Layout {
    let text = format!(
        "[listener.web]\nbind = [\"127.0.0.1:1\"]\npool = \"web\"\n[pool.web]\nendpoints = [\"127.0.0.1:2\"]\n\
         [telemetry]\naccess_log = {{ path = \"-\", format = '{format}', fields = {{ {fields} }} }}"
    );
    let plan = evenkeel_config::parse_str("t.toml", &text, &|_| None).plan.expect("nothing is wrong with it");
    Layout::new(&plan.telemetry.access_log.expect("there is one"), number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_wire::head::Table;

    fn kept(layout: &Layout, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut table: Table = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let mut out = Vec::new();
        layout.keep(&Request { method: "GET", target: "/", host: b"h", fields: table.fields() }, None, &mut out);
        out
    }

    const TRACE: (&str, &str) = ("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");

    #[test]
    fn json_has_what_there_is() {
        let layout = planned("json", "request = [\"X-Tenant\", \"X-None\"]", 1);
        let text = |fields: &[(&str, &str)]| String::from_utf8(kept(&layout, fields)).expect("UTF-8");
        let front = ",\"method\":\"GET\",\"host\":\"h\",\"path\":\"/\",\"trace_id\":";
        assert_eq!(text(&[]), format!("{front}null,\"request_fields\":{{}}"));
        assert_eq!(text(&[("traceparent", "junk")]), format!("{front}null,\"request_fields\":{{}}"));
        let all = [("USER-AGENT", "a\"b"), TRACE, ("referer", "r"), ("referer", "s"), ("x-tenant", "t")];
        let id = "\"0af7651916cd43dd8448eb211c80319c\"";
        assert_eq!(
            text(&all),
            format!(
                "{front}{id},\"user_agent\":\"a\\\"b\",\"referer\":\"r\",\"request_fields\":{{\"X-Tenant\":\"t\"}}"
            )
        );
        let long = "x".repeat(10_000);
        assert!(text(&[("user-agent", &long), ("x-tenant", &long)]).len() < 800);
    }

    #[test]
    fn values_are_of_the_plan_that_they_were_kept_by() {
        let (mine, next) = (planned("%{request.b}%{request.a}", "", 1), planned("%{request.a}%{request.b}", "", 2));
        let kept = kept(&mine, &[("a", "1\n2"), ("b", "x y"), ("user-agent", "")]);
        assert_eq!(mine.value(&kept, Kept::Method as usize), b"GET");
        assert_eq!((mine.request_field(&kept, "A"), mine.request_field(&kept, "b")), (&b"1\\x0A2"[..], &b"x y"[..]));
        assert_eq!((mine.value(&kept, Kept::Agent as usize), mine.value(&kept, 100)), (&b""[..], &b""[..]));
        assert_eq!(next.request_field(&kept, "a"), b"");
        assert!(!Layout::is_json(&kept) && mine.value(b",\"method\"", 0).is_empty());
    }
}
