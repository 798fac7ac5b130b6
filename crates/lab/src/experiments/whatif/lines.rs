//! Entries as lines of access logs: evenkeel's JSON, `option httplog` of HAProxy, and NGINX with the times of its tries.

use super::entry::{Entry, MILLISECOND_NS, Tried};
use evenkeel_sim::run::Failure;
use std::fmt::Write;

/// Format of the lines of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// evenkeel with `format = "json"`: durations in microseconds.
    Evenkeel,
    /// HAProxy with `option httplog`: durations and times in milliseconds, and counts.
    Haproxy,
    /// NGINX with a format that lists tries: durations in milliseconds, stamped at the end.
    Nginx,
}

/// Start of all logs in seconds since 1970: 2026-11-30, 10:00:00 UTC.
const START_S: u64 = 1_796_032_800;

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Evenkeel => "evenkeel",
            Format::Haproxy => "HAProxy",
            Format::Nginx => "NGINX",
        }
    }

    /// Name of an endpoint in the lines, by its index.
    pub fn endpoint(self, at: usize) -> String {
        match self {
            Format::Haproxy => format!("s{}", at + 1),
            Format::Evenkeel | Format::Nginx => format!("10.0.0.{}:80", at + 1),
        }
    }

    /// Writes a log, in the order of the entries.
    pub fn write(self, entries: &[Entry]) -> String {
        let mut text = String::new();
        for entry in entries {
            match self {
                Format::Evenkeel => self.evenkeel(entry, &mut text),
                Format::Haproxy => self.haproxy(entry, &mut text),
                Format::Nginx => self.nginx(entry, &mut text),
            }
        }
        text
    }

    fn named(self, tried: Option<&Tried>) -> Option<String> {
        tried.and_then(|tried| tried.endpoint).map(|at| self.endpoint(at))
    }

    fn evenkeel(self, entry: &Entry, out: &mut String) {
        let stamp = Stamp::of(entry, entry.arrived_ns);
        let (status, term) = status_and_term(entry.failure, entry.tries.is_empty());
        let endpoint = self.named(entry.tries.last()).map_or("null".to_string(), |name| format!("\"{name}\""));
        let [queue, total] = [entry.queue_ns, entry.total_ns].map(ms);
        let first = if status == 0 || term == "sH" { "null" } else { &total };
        let _ = write!(
            out,
            "{{\"ts\":\"2026-11-30T{}.{:03}Z\",\"req_id\":\"{:032x}\",\"client\":\"{}\",\"peer\":null,\"listener\":\"web\",\
             \"route\":\"default\",\"pool\":\"web\",\"endpoint\":{endpoint},\"tries\":{},\"proto\":\"HTTP/1.1\",\"method\":\"GET\",\
             \"host\":\"shop.example\",\"path\":\"/\",\"trace_id\":null,\"status\":{status},\"bytes_in\":108,\"bytes_out\":{},\
             \"t_queue\":{queue},\"t_connect\":null,\"t_ttfb\":{first},\"t_total\":{total},\"term\":\"{term}\"",
            stamp.time(),
            stamp.ms,
            stamp.ns,
            address(entry),
            entry.tries.len(),
            entry.bytes_out,
        );
        if entry.drawn_from > 0 {
            let _ = write!(out, ",\"probability\":{}", 1.0 / f64::from(entry.drawn_from));
        }
        if entry.tries.len() > 1 {
            let tried = |of: &Tried| {
                let cause = match of.failure {
                    None => "answered",
                    Some(Failure::TimedOut) => "timeout",
                    Some(Failure::Failed) => "status 503",
                    Some(Failure::Refused | Failure::NoPick) => "connect",
                };
                let name = self.named(Some(of)).unwrap_or_default();
                format!("{{\"endpoint\":\"{name}\",\"cause\":\"{cause}\",\"ms\":{}}}", ms(of.took_ns))
            };
            let tries: Vec<String> = entry.tries.iter().map(tried).collect();
            let _ = write!(out, ",\"attempts\":[{}]", tries.join(","));
        }
        out.push_str("}\n");
    }

    fn haproxy(self, entry: &Entry, out: &mut String) {
        let stamp = Stamp::of(entry, entry.arrived_ns);
        let (status, term) = status_and_term(entry.failure, entry.tries.is_empty());
        let whole = |ns: u64| (ns / MILLISECOND_NS).to_string();
        let last = entry.tries.last();
        let endpoint = match last {
            Some(last) => self.named(Some(last)).unwrap_or("<NOSRV>".to_string()),
            None => "<NOSRV>".to_string(),
        };
        // Pauses between tries count as queue, and earlier tries as time to connect.
        let earlier: u64 = entry.tries.iter().rev().skip(1).map(|of| of.took_ns).sum();
        let queue = last.map_or(entry.total_ns, |last| last.began_ns - earlier.min(last.began_ns));
        let response = match (last, entry.failure) {
            (Some(last), None | Some(Failure::Failed)) => whole(last.took_ns),
            _ => "-1".to_string(),
        };
        let connect =
            if last.is_some() && entry.failure != Some(Failure::Refused) { whole(earlier) } else { "-1".to_string() };
        let retries = entry.tries.len().saturating_sub(1);
        let again = if retries > 0 { format!("+{retries}") } else { "0".to_string() };
        let counts = entry.counts;
        let _ = writeln!(
            out,
            "<134>Nov 30 {} lb haproxy[512]: {}:{} [30/Nov/2026:{}.{:03}] web web/{endpoint} 0/{}/{connect}/{response}/{} \
             {status} {} - - {term}-- {}/{}/{}/{}/{again} 0/{} \"GET / HTTP/1.1\"",
            stamp.time(),
            address(entry),
            1024 + stamp.ns / 1000 % 60_000,
            stamp.time(),
            stamp.ms,
            whole(queue),
            whole(entry.total_ns),
            entry.bytes_out,
            counts.listener,
            counts.listener,
            counts.pool,
            counts.endpoint,
            counts.queued,
        );
    }

    fn nginx(self, entry: &Entry, out: &mut String) {
        let stamp = Stamp::of(entry, entry.ended_ns());
        let seconds = |ns: u64| format!("{}.{:03}", ns / 1_000_000_000, ns / MILLISECOND_NS % 1000);
        let (status, _) = status_and_term(entry.failure, entry.tries.is_empty());
        let list = |of: &dyn Fn(&Tried) -> String| match entry.tries.is_empty() {
            true => "-".to_string(),
            false => entry.tries.iter().map(of).collect::<Vec<_>>().join(", "),
        };
        let went = |of: &Tried| !matches!(of.failure, Some(Failure::Refused | Failure::TimedOut));
        let dash = "-".to_string();
        let _ = writeln!(
            out,
            "{} - - [30/Nov/2026:{} +0000] \"GET / HTTP/1.1\" {status} {} \"-\" \"lab\" ms={}.{:03} rt={} rl=108 ua=\"{}\" \
             us=\"{}\" uct=\"{}\" uht=\"{}\" urt=\"{}\"",
            address(entry),
            stamp.time(),
            entry.bytes_out,
            START_S + stamp.s,
            stamp.ms,
            seconds(entry.total_ns),
            list(&|of| self.named(Some(of)).unwrap_or(dash.clone())),
            list(&|of| if of.failure == Some(Failure::Refused) { 502 } else { status_and_term(of.failure, false).0 }
                .to_string()),
            list(&|of| if of.failure == Some(Failure::Refused) { dash.clone() } else { "0.000".to_string() }),
            list(&|of| if went(of) { seconds(of.took_ns) } else { dash.clone() }),
            list(&|of| seconds(of.took_ns)),
        );
    }
}

/// Moment of a line by its clock.
struct Stamp {
    /// Nanoseconds since the start.
    ns: u64,
    /// Whole seconds since the start, and the milliseconds of the rest.
    s: u64,
    ms: u64,
}

impl Stamp {
    fn of(entry: &Entry, at_ns: u64) -> Stamp {
        let ns = at_ns.saturating_add_signed(entry.shift_ns) / entry.step_ns * entry.step_ns;
        Stamp { ns, s: ns / 1_000_000_000, ms: ns / MILLISECOND_NS % 1000 }
    }

    /// Time of day, such as `10:00:00`. Logs are shorter than the rest of the day.
    fn time(&self) -> String {
        let s = (START_S + self.s) % 86_400;
        format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    }
}

/// Address of TEST-NET-1, or of a network after it if there are more than 250 clients.
fn address(entry: &Entry) -> String {
    format!("192.0.{}.{}", 2 + entry.client / 250, 1 + entry.client % 250)
}

fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / MILLISECOND_NS, ns / 1000 % 1000)
}

/// Status of the response and the letters of its end. `untried`: no endpoint was picked.
fn status_and_term(failure: Option<Failure>, untried: bool) -> (u16, &'static str) {
    match failure {
        _ if untried => (503, "sQ"),
        None => (200, "--"),
        Some(Failure::Refused) => (503, "SC"),
        Some(Failure::Failed) => (503, "--"),
        Some(Failure::TimedOut) => (504, "sH"),
        Some(Failure::NoPick) => (503, "sQ"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Counts;
    use super::*;

    fn entry() -> Entry {
        let tried =
            |endpoint, began_ns, took_ns, failure| Tried { endpoint: Some(endpoint), began_ns, took_ns, failure };
        Entry {
            arrived_ns: 61_002_300_000,
            queue_ns: 2_000_000,
            total_ns: 45_678_000,
            tries: vec![tried(1, 2_000_000, 5_000_000, Some(Failure::Refused)), tried(0, 17_000_000, 28_678_000, None)],
            balancer: 0,
            client: 0,
            drawn_from: 4,
            bytes_out: 512,
            counts: Counts { listener: 3, pool: 2, endpoint: 1, queued: 4 },
            failure: None,
            shift_ns: 0,
            step_ns: MILLISECOND_NS,
        }
    }

    #[test]
    fn a_request_is_a_line_of_each_program() {
        let line = |format: Format| format.write(&[entry()]);
        let json: serde_json::Value = serde_json::from_str(&line(Format::Evenkeel)).unwrap();
        assert_eq!((&json["ts"], &json["t_total"]), (&"2026-11-30T10:01:01.002Z".into(), &45.678.into()));
        assert_eq!((&json["endpoint"], &json["attempts"][0]["cause"]), (&"10.0.0.1:80".into(), &"connect".into()));
        assert_eq!((&json["term"], &json["probability"]), (&"--".into(), &0.25.into()));
        let haproxy = "[30/Nov/2026:10:01:01.002] web web/s1 0/12/5/28/45 200 512 - - ---- 3/3/2/1/+1 0/4 ";
        assert!(line(Format::Haproxy).contains(haproxy), "{}", line(Format::Haproxy));
        let nginx = "ms=1796032861.047 rt=0.045 rl=108 ua=\"10.0.0.2:80, 10.0.0.1:80\" us=\"502, 200\" uct=\"-, 0.000\" \
                     uht=\"-, 0.028\" urt=\"0.005, 0.028\"";
        assert!(line(Format::Nginx).contains(nginx), "{}", line(Format::Nginx));
    }

    #[test]
    fn a_clock_may_be_wrong_or_coarse() {
        let wrong = Entry { shift_ns: -2_000_000_000, step_ns: 1_000_000_000, ..entry() };
        let line = Format::Evenkeel.write(&[wrong]);
        assert!(line.contains("T10:00:59.000Z"), "{line}");
        let unnamed = Entry { tries: vec![Tried { endpoint: None, ..entry().tries[0].clone() }], ..entry() };
        assert!(Format::Haproxy.write(std::slice::from_ref(&unnamed)).contains(" web/<NOSRV> "));
        assert!(Format::Evenkeel.write(&[unnamed]).contains("\"endpoint\":null"));
    }
}
