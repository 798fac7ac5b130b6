//! Values that a log lacks, their consequence, and the configuration that adds them.

use crate::coverage::{Coverage, Need};
use crate::find::Found;
use crate::formats::{Program, Row};
use crate::time::MILLISECOND_NS;

/// Value that a log lacks, and the remedy.
#[derive(Clone, Debug, PartialEq)]
pub struct Lack {
    pub need: Need,
    /// Share of the requests without it, above 0 and up to 1.
    pub share: f64,
    /// Unit of the value, if it is there but too coarse.
    pub unit_ns: Option<u32>,
    /// Consequence for an analysis, as a sentence.
    pub effect: &'static str,
    /// Configuration that adds it, for the program that wrote the log. `None` if that program cannot log it.
    pub add: Option<&'static str>,
}

/// Share of requests without a value below which it does not count as missing: aborted requests have fewer values.
const SHARE_MIN: f64 = 0.05;

/// `log_format` with all values that NGINX has.
const NGINX: &str = r#"log_format whatif '$remote_addr - $remote_user [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent" ms=$msec rt=$request_time rl=$request_length ua="$upstream_addr" us="$upstream_status" uct="$upstream_connect_time" uht="$upstream_header_time" urt="$upstream_response_time"';
access_log /var/log/nginx/access.log whatif;"#;

const INGRESS: &str = r#"log-format-upstream: '$remote_addr - $remote_user [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent" ms=$msec rt=$request_time rl=$request_length proxy_upstream_name=$proxy_upstream_name ua="$upstream_addr" us="$upstream_status" uct="$upstream_connect_time" uht="$upstream_header_time" urt="$upstream_response_time"'"#;

const HAPROXY: &str = "option httplog    # in \"frontend\" or \"defaults\"; \"option tcplog\" with mode tcp; without \"option logasap\"; of evenkeel: format = \"json\"";

const EVENKEEL: &str = "[telemetry]\naccess_log = { path = \"/var/log/evenkeel/access.jsonl\", format = \"json\" }";

const ENVOY: &str = "log_format: { json_format: { start_time: \"%START_TIME%\", duration: \"%DURATION%\", response_duration: \"%RESPONSE_DURATION%\", \
    response_code: \"%RESPONSE_CODE%\", response_flags: \"%RESPONSE_FLAGS%\", bytes_received: \"%BYTES_RECEIVED%\", bytes_sent: \"%BYTES_SENT%\", \
    method: \"%REQ(:METHOD)%\", path: \"%REQ(:PATH)%\", upstream_cluster: \"%UPSTREAM_CLUSTER%\", upstream_host: \"%UPSTREAM_HOST%\", \
    upstream_start_us: \"%COMMON_DURATION(DS_RX_BEG:US_TX_BEG:us)%\", upstream_ttfb_us: \"%COMMON_DURATION(US_TX_BEG:US_RX_BEG:us)%\", \
    upstream_duration_us: \"%COMMON_DURATION(US_TX_BEG:US_RX_END:us)%\", upstream_request_attempt_count: \"%UPSTREAM_REQUEST_ATTEMPT_COUNT%\", \
    route_name: \"%ROUTE_NAME%\", downstream_remote_address: \"%DOWNSTREAM_REMOTE_ADDRESS%\" } }";

const TRAEFIK: &str = "accessLog:\n  format: json";

const CADDY: &str = "log_append upstream {http.reverse_proxy.upstream.hostport}\nlog_append upstream_latency_ms {http.reverse_proxy.upstream.latency_ms}\n\
    log_append upstream_duration_ms {http.reverse_proxy.upstream.duration_ms}    # in the site; since Caddy 2.8";

const EXPLORE: &str = "[pool.NAME]\nexplore = 0.02";

/// Consequence of each missing value.
fn effect(need: Need) -> &'static str {
    match need {
        Need::Arrival => "Arrivals are not known, so bursts and requests in flight are not.",
        Need::Total => "Response times are not known.",
        Need::Endpoint => "Load and speed of single endpoints are not known, so algorithms cannot be compared.",
        Need::EndpointTime => "Times at endpoints are mixed with those of slow clients and of the queue.",
        Need::Tries => "Retries are not known: a slow try at one endpoint counts for another.",
        Need::Queue => "Waiting in the balancer counts as work of the endpoint.",
        Need::Pool => "Requests of several pools cannot be told apart.",
        Need::Chance => "Other algorithms can be compared by a model only, not by the picks themselves.",
        Need::Demand => "Work of a request is estimated from its time only.",
    }
}

/// Values that are needed for a comparison of algorithms, without those that merely improve it.
pub const REQUIRED: [Need; 4] = [Need::Arrival, Need::Total, Need::Endpoint, Need::EndpointTime];

/// Missing values of a log, in the order of [`Need::ALL`].
pub fn lacks(row: &Row, coverage: &Coverage) -> Vec<Lack> {
    let program = row.program;
    let missing = |need: Need| {
        let share = match need {
            // Requests that reached no pool have no endpoint; they do not count if most have.
            Need::Endpoint if coverage.share(Need::Endpoint) > 0.5 => 0.0,
            // Programs without a queue.
            Need::Queue if !matches!(program, Program::Haproxy | Program::Evenkeel) => 0.0,
            need => 1.0 - coverage.share(need),
        };
        let unit_ns = match need {
            Need::Arrival => Some(coverage.arrival_unit_ns()),
            Need::Total => Some(coverage.total_unit_ns()),
            _ => None,
        };
        let unit_ns = unit_ns.filter(|unit| *unit > MILLISECOND_NS && coverage.share(need) > 0.0);
        let share = if unit_ns.is_some() { 1.0 } else { share };
        let is_missing = coverage.requests > 0 && share > SHARE_MIN;
        is_missing.then(|| Lack { need, share, unit_ns, effect: effect(need), add: remedy(program, need) })
    };
    Need::ALL.into_iter().filter_map(missing).collect()
}

/// Configuration that adds a value.
fn remedy(program: Program, need: Need) -> Option<&'static str> {
    match (program, need) {
        (Program::Evenkeel, Need::Chance) => Some(EXPLORE),
        (_, Need::Chance | Need::Demand) => None,
        (Program::Evenkeel, _) => Some(EVENKEEL),
        (Program::Haproxy | Program::Envoy, Need::Tries) => None,
        (Program::Haproxy, _) => Some(HAPROXY),
        (Program::Nginx, Need::Queue | Need::Pool) => None,
        (Program::Nginx, _) => Some(NGINX),
        (Program::IngressNginx, Need::Queue) => None,
        (Program::IngressNginx, _) => Some(INGRESS),
        (Program::Envoy, _) => Some(ENVOY),
        (Program::Traefik, _) => Some(TRAEFIK),
        (Program::Caddy, Need::Pool | Need::Queue) => None,
        (Program::Caddy, _) => Some(CADDY),
        (Program::Alb, _) => None,
    }
}

/// Sentence about other formats that read the log equally well; `None` if there are none.
pub fn ambiguity(found: &Found) -> Option<String> {
    if found.rivals.is_empty() {
        return None;
    }
    let row = found.format.row;
    let others: Vec<String> = found.rivals.iter().map(|row| format!("\"{}\" ({})", row.name, row.summary)).collect();
    Some(format!("read as \"{}\" ({}), but it may be {}", row.name, row.summary, others.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::find;
    use crate::formats::{Format, ROWS};
    use crate::request::Request;

    fn of(line: &str) -> (Found, Vec<Lack>) {
        let found = find(&[line.as_bytes()]).unwrap();
        let (mut request, mut coverage) = (Request::default(), Coverage::default());
        found.format.read(line.as_bytes(), &mut request).unwrap();
        coverage.add(&request);
        let lacks = lacks(found.format.row, &coverage);
        (found, lacks)
    }

    #[test]
    fn combined_lacks_all_but_arrivals_and_a_log_format_adds_them() {
        let line = r#"10.0.0.9 - - [20/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 612 "-" "curl/8""#;
        let (found, lacks) = of(line);
        let needs: Vec<Need> = lacks.iter().map(|lack| lack.need).collect();
        assert!(REQUIRED.iter().all(|need| needs.contains(need)), "{lacks:?}");
        assert!(lacks.iter().find(|lack| lack.need == Need::Endpoint).unwrap().add.unwrap().contains("$upstream_addr"));
        assert!(ambiguity(&found).unwrap().contains("evenkeel-combined"));
    }

    /// A line that NGINX writes by the recommended format.
    #[test]
    fn recommended_formats_lack_nothing_that_is_required() {
        let line = r#"10.0.0.9 - - [20/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 612 "-" "curl/8" ms=1795132800.123 rt=0.012 rl=75 ua="10.0.0.1:80" us="200" uct="0.001" uht="0.011" urt="0.012""#;
        let (found, lacks) = of(line);
        assert_eq!(ambiguity(&found), None);
        assert!(!lacks.iter().any(|lack| REQUIRED.contains(&lack.need)), "{lacks:?}");
        let format = Format::named(NGINX.lines().next().unwrap()).unwrap();
        assert!(format.read(line.as_bytes(), &mut Request::default()).is_ok());
        let ingress = INGRESS.strip_prefix("log-format-upstream: ").unwrap().trim_matches('\'');
        assert!(Format::named(ingress).is_ok());
    }

    #[test]
    fn every_program_has_remedies_for_required_values() {
        for row in ROWS.iter().filter(|row| row.program != Program::Alb) {
            assert!(REQUIRED.iter().all(|need| remedy(row.program, *need).is_some()), "{}", row.name);
        }
    }
}
