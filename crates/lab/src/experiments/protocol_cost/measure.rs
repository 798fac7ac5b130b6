//! Measurement of a case: reads the proxy's processes before and after a load, and checks by the endpoints' counters
//! that connections were reused as the case expects.

use super::cases::{Case, Count, RULED, Work};
use super::grpc;
use super::idle::Idle;
use super::proxy::{self, url};
use crate::balancers::{Back, Balancer, Front, Reuse, Route, Running};
use crate::certificates::Certificates;
use crate::error::{Error, Result};
use crate::load::{Answered, Load};
use crate::machine;
use crate::origin::{Origin, Seen};
use crate::procfs::{self, Cpu};
use crate::strace;
use crate::study::Meter;
use crate::study::grid::{Bench, Run};
use serde_json::{Map, Value, json};

/// Endpoints behind the proxies.
pub struct Endpoints {
    /// Endpoints that serve files.
    pub files: Origin,
    /// Endpoint for gRPC calls, if a case needs it.
    pub grpc: Option<grpc::Endpoint>,
}

impl Endpoints {
    fn ports(&self, back: Back) -> Result<[u16; 2]> {
        match (back, &self.grpc) {
            (Back::Http1, _) => Ok(self.files.ports),
            (Back::H2c, _) => Ok(self.files.h2_ports),
            (Back::Grpc, Some(grpc)) => Ok(grpc.ports),
            (Back::Grpc, None) => Err(Error::Wrong("no endpoint answers calls".into())),
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.files.pids().into_iter().chain(self.grpc.as_ref().map(grpc::Endpoint::pid)).collect()
    }
}

pub struct Costs<'c> {
    pub cases: &'c [&'static Case],
    pub proxies: &'c [Balancer],
    /// Endpoints behind the proxies.
    pub endpoints: &'c Endpoints,
    /// Certificates, if a case needs them.
    pub certificates: Option<&'c Certificates>,
    /// Seconds of load in each run.
    pub seconds: u64,
    pub core: usize,
}

/// Proxy that is kept from round to round, with the number of requests that it has answered.
pub struct Kept {
    process: Running,
    answered: u64,
}

impl Costs<'_> {
    fn start(&self, case: &Case, proxy: usize) -> Result<Running> {
        let mut setup = proxy::setup(case.front, case.back, self.endpoints.ports(case.back)?)?;
        setup.certificate = self.certificates.map(|files| files.of(case.certificate).clone());
        setup.logs = case.logs;
        if case.ruled {
            setup.routes = vec![Route { ruled: true, ..Route::new(RULED, "app") }];
        }
        for route in &mut setup.routes {
            (route.cached, route.maps) = (case.cached, case.maps);
        }
        if case.closes {
            setup.reuse = Reuse::Never;
        }
        proxy::start(&self.proxies[proxy], setup, self.core)
    }

    fn cpu(&self, case: &Case, proxy: &Running) -> Result<(Run, u64)> {
        let seen = self.endpoints.files.seen()?;
        let meter = Meter::start(vec![("endpoints", self.endpoints.pids()), ("lab", vec![std::process::id()])])?;
        let (before, ended) = (Cpu::of(&proxy.pids())?, procfs::ended_children()?);
        let answered = load(case, proxy, self.seconds)?;
        let own = Cpu::of(&proxy.pids())?.since(&before);
        let mut used = meter.used()?;
        used.groups.push(("proxy", own.time));
        used.groups.push(("load", procfs::ended_children()?.saturating_sub(ended)));
        let connections = check_reuse(case, seen, self.endpoints.files.seen()?, answered.requests)?;
        let run = Run {
            figure: own.time.as_secs_f64() * 1e6 / answered.requests as f64,
            beside: vec![
                ("requests/s", answered.requests as f64 / answered.seconds),
                ("new upstream connections/request", connections),
            ],
            used: Some(used),
            note: (!own.exact).then(|| "CPU time in clock ticks: the scheduler's count differs from them".into()),
            more: Value::Null,
        };
        Ok((run, answered.requests))
    }

    fn syscalls(&self, case: &Case, proxy: &Running) -> Result<(Run, u64)> {
        let (calls, answered) = strace::count(&proxy.pids(), proxy.folder(), || load(case, proxy, self.seconds))?;
        let total: u64 = calls.iter().map(|(_, count)| count).sum();
        let often: Vec<_> = calls.into_iter().filter(|(_, count)| *count * 200 >= answered.requests).collect();
        let each = often.iter().map(|(name, count)| (name, *count as f64 / answered.requests as f64));
        let each: Vec<String> = each.map(|(name, each)| format!("{name} {each:.1}")).collect();
        let calls: Map<String, Value> = often.into_iter().map(|(name, count)| (name, json!(count))).collect();
        let run = Run {
            figure: total as f64 / answered.requests as f64,
            note: Some(each.join(", ")),
            more: calls.into(),
            ..Run::default()
        };
        Ok((run, answered.requests))
    }

    /// Measures the resident memory per idle connection, in KiB. Each run has a fresh process, as an older process has
    /// freed memory to reuse.
    fn idle_memory(&self, case: &Case, proxy: usize, wanted: u32) -> Result<Run> {
        // Lab and proxy each have a file per connection (the proxy two for TCP), plus some more.
        let per_client = if case.front == Front::Tcp { 2 } else { 1 };
        let allowed = machine::allow_files(0).saturating_sub(400) / per_client;
        let count = wanted.min(u32::try_from(allowed).unwrap_or(u32::MAX));
        let few = || format!("{count} connections instead of {wanted}: the limit of open files allows no more");
        let process = self.start(case, proxy)?;
        let resident = || process.pids().into_iter().map(procfs::resident_bytes).sum::<Result<u64>>();
        let mut idle = Idle::none(case.front)?;
        idle.open(1, process.port(), case.path)?;
        let before = resident()?;
        idle.open(count, process.port(), case.path)?;
        let grown = resident()?.saturating_sub(before);
        // Closed connections would make memory look small.
        idle.ask_again(case.path)?;
        let figure = grown as f64 / 1024.0 / f64::from(count);
        Ok(Run { figure, note: (count < wanted).then(few), ..Run::default() })
    }
}

impl Bench for Costs<'_> {
    /// `None` if each run starts its own process.
    type Kept = Option<Kept>;

    fn open(&self, case: usize, proxy: usize) -> Result<Option<Kept>> {
        let case = self.cases[case];
        if let Work::Idle(_) = case.work {
            return Ok(None);
        }
        let process = self.start(case, proxy)?;
        let answered = load(case, &process, 1)?.requests;
        Ok(Some(Kept { process, answered }))
    }

    fn measure(&self, case: usize, proxy: usize, kept: &mut Option<Kept>) -> Result<Run> {
        let case = self.cases[case];
        let Some(kept) = kept else {
            let Work::Idle(count) = case.work else { return Err(Error::Wrong("nothing was started".into())) };
            return self.idle_memory(case, proxy, count);
        };
        let (run, answered) = match case.count {
            Count::Cpu => self.cpu(case, &kept.process)?,
            Count::Syscalls => self.syscalls(case, &kept.process)?,
        };
        kept.answered += answered;
        Ok(run)
    }

    fn close(&self, case: usize, _: usize, kept: Option<Kept>) -> Result<Option<String>> {
        let Some(Kept { process, answered }) = kept else { return Ok(None) };
        let logged = process.stop_and_count_log();
        if self.cases[case].logs { check_log(logged, answered) } else { Ok(None) }
    }
}

fn load(case: &Case, proxy: &Running, seconds: u64) -> Result<Answered> {
    let url = url(case.front, proxy.port(), &[case.prefix(), case.path].concat());
    match case.work {
        Work::Streams(streams) => {
            let message = if case.back == Back::Grpc { Some(proxy::message(proxy.folder())?) } else { None };
            streams.run(&url, message.as_deref(), seconds)
        }
        Work::Http3(http3) => http3.run(proxy.port(), case.path, seconds),
        Work::Kept(clients) => Load::KeepAlive(clients).run_at(&url, seconds),
        Work::Distinct(clients) => Load::Distinct(clients).run_at(&url, seconds),
        Work::Keyed(clients) => Load::Keyed(clients).run_at(&url, seconds),
        Work::Closed(clients) => Load::Close(clients).run_at(&url, seconds),
        Work::Handshakes(handshakes) => handshakes.run(proxy.port(), case.path, seconds),
        Work::Idle(_) => Err(Error::Wrong("idle connections are no load".into())),
    }
}

/// Number of new connections to endpoints per request. Fails if it differs from the expectation of the case.
fn check_reuse(case: &Case, before: Seen, after: Seen, answered: u64) -> Result<f64> {
    // Reading the counters is itself a connection and a request.
    let asked = after.requests.saturating_sub(before.requests + 1);
    if case.is_hit() && asked > u64::from(case.work.at_once()) {
        return Err(Error::Refused(format!("it asked the endpoints {asked} times instead of its cache")));
    }
    if case.cached && !case.is_hit() && asked < answered {
        return Err(Error::Refused(format!(
            "it asked the endpoints {asked} times only, for {answered} distinct requests"
        )));
    }
    let opened = after.connections.saturating_sub(before.connections + 1);
    let each = opened as f64 / asked.max(1) as f64;
    let (meant, wanted) = match case.front {
        _ if case.closes => (each > 0.99, "one"),
        // A connection per session; the number of sessions is up to the client.
        Front::Tcp => (each < 1.1, "at most one"),
        // Some are opened at peaks of concurrency at an endpoint, or replace idle connections that were closed.
        _ => (opened <= 2 * u64::from(case.work.at_once()) + answered / 50, "almost none"),
    };
    let text = || {
        format!(
            "it opened {opened} connections to endpoints for {answered} requests; for each, this case means {wanted}"
        )
    };
    if meant { Ok(each) } else { Err(Error::Refused(text())) }
}

/// Checks that every answer was logged. Fails without any lines; a small loss is returned as a note.
fn check_log(lines: u64, answered: u64) -> Result<Option<String>> {
    let share = lines as f64 / answered as f64;
    if lines == 0 {
        return Err(Error::Refused("it wrote no access log".into()));
    }
    Ok((share < 0.999).then(|| format!("only {:.1} % of the requests left a line in the access log", share * 100.0)))
}

#[cfg(test)]
mod tests {
    use super::super::cases::{H2, HTTP, TCP};
    use super::*;

    fn case(table: &'static [Case], name: &str) -> &'static Case {
        table.iter().find(|case| case.name == name).expect("there is one")
    }

    #[test]
    fn a_proxy_that_reuses_where_it_must_not_or_the_reverse_gives_no_figure() {
        let check = |case: &Case, opened: u64, requests: u64| {
            let after = Seen { connections: opened + 1, requests: requests + 1 };
            check_reuse(case, Seen { connections: 0, requests: 0 }, after, requests)
        };
        let both = case(HTTP, "both-close");
        assert!(check(both, 1000, 1000).is_ok() && check(both, 500, 1000).is_err());
        let kept = case(HTTP, "keep-alive");
        assert_eq!(check(kept, 100, 100_000).expect("a few"), 0.001);
        assert!(check(kept, 50_000, 100_000).is_err() && check(case(HTTP, "keep-alive-logged"), 1000, 1000).is_err());
        assert!(check(case(TCP, "connect-exchange-close"), 1000, 1000).is_ok());
        let streams = case(H2, "h2c-16x32");
        assert!(check(streams, 100, 100).is_ok(), "few requests, each at once with the others");
        assert!(check(streams, 600, 100_000).is_ok() && check(streams, 50_000, 100_000).is_err());
    }

    #[test]
    fn a_proxy_that_logs_nothing_gives_no_figure() {
        assert!(check_log(0, 100).is_err());
        assert_eq!(check_log(1000, 1000).expect("all are there"), None);
        let note = check_log(500, 1000).expect("half are there").expect("which is said");
        assert!(note.contains("50.0 %"), "{note}");
    }
}
