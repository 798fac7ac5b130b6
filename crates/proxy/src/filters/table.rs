//! Table of all filters, with their order and their configuration keys.

use super::list::{Filters, Placed};
use super::row::{Build, Key, LooksAt, Row, Stage};
use super::states::Place;
use super::template::maps::Maps;
use super::{
    access, acme_challenge, announcing, answering, auth, caching, client, forwarded, headers, https_redirect, limits,
    load, loop_mark, max_forwards, policies, request_id, rewriting, services, sticky, trace,
};
use crate::cache::SharedCache;
use crate::encoder_memory::EncoderMemory;
use crate::resource::{Maker, Resources};
use access::lists::AccessLists;
use answering::error_pages::ErrorPages;
use auth::passwords::users::UserLists;
use evenkeel_config::Plan;
use evenkeel_config::plan::{self, FILTER_KEYS};
use evenkeel_runtime::Diagnostic;
use evenkeel_tokens::Tokens;
use limits::route_limits::AllLimits;
use std::sync::OnceLock;

const REQUESTS: LooksAt = LooksAt { responses: false, bodies: false, open_bodies: false, copied_bodies: false };
const RESPONSES: LooksAt = LooksAt { responses: true, ..REQUESTS };
const BODIES: LooksAt = LooksAt { bodies: true, ..REQUESTS };
const OPEN_BODIES: LooksAt = LooksAt { open_bodies: true, ..REQUESTS };
const COPIED_BODIES: LooksAt = LooksAt { copied_bodies: true, ..REQUESTS };

/// All filters, in the order in which requests pass them. Responses pass them in reverse.
pub static FILTERS: &[Row] = &[
    Row {
        name: "request_id",
        stage: Stage::Listener,
        key: Key::Other("request_id of [listener.NAME]"),
        summary: "Keeps the request id of a trusted proxy or generates an id. Sends it to the endpoint and, if \
            configured, the client.",
        looks_at: RESPONSES,
        resources: &[],
        build: request_id::build,
    },
    Row {
        name: "trace",
        stage: Stage::Listener,
        key: Key::Other("[telemetry.traces]"),
        summary: "Continues the client's trace or starts a new trace. Each attempt is a separate span.",
        looks_at: REQUESTS,
        resources: &[],
        build: trace::build,
    },
    Row {
        name: "client",
        stage: Stage::Listener,
        key: Key::Other("trusted_proxies of [listener.NAME]"),
        summary: "Finds the client behind trusted proxies.",
        looks_at: REQUESTS,
        resources: &[],
        build: client::build,
    },
    Row {
        name: "rate_limit",
        stage: Stage::Listener,
        key: Key::Other("limits.requests_per_address of [listener.NAME]"),
        summary: "Returns 429 to an address that sends too many requests.",
        looks_at: REQUESTS,
        resources: &[],
        build: limits::of_listener,
    },
    Row {
        name: "max_forwards",
        stage: Stage::Listener,
        key: Key::Always,
        summary: "Decrements Max-Forwards of OPTIONS and TRACE, and responds at zero.",
        looks_at: REQUESTS,
        resources: &[],
        build: max_forwards::build,
    },
    Row {
        name: "load_report",
        stage: Stage::Listener,
        key: Key::Other("report_load of [listener.NAME]"),
        summary: "Responds to load probes from other balancers.",
        looks_at: REQUESTS,
        resources: &[],
        build: load::report::build,
    },
    Row {
        name: "acme_challenge",
        stage: Stage::Listener,
        key: Key::Other("[acme]"),
        summary: "Responds to HTTP-01 challenges of the ACME CA.",
        looks_at: REQUESTS,
        resources: &[],
        build: acme_challenge::build,
    },
    Row {
        name: "host_groups",
        stage: Stage::Listener,
        key: Key::Other("tls.host_groups of [listener.NAME]"),
        summary: "Returns 421 to requests for a host that must not share a connection with the server name of TLS.",
        looks_at: REQUESTS,
        resources: &[],
        build: policies::host_groups::build,
    },
    Row {
        name: "https_redirect",
        stage: Stage::Listener,
        key: Key::Other("redirect_https of [listener.NAME]"),
        summary: "Redirects plain HTTP requests to HTTPS.",
        looks_at: REQUESTS,
        resources: &[],
        build: https_redirect::build,
    },
    Row {
        name: "hsts",
        stage: Stage::Listener,
        key: Key::Other("tls.hsts of [listener.NAME]"),
        summary: "Adds Strict-Transport-Security, so that browsers use only HTTPS.",
        looks_at: RESPONSES,
        resources: &[],
        build: announcing::hsts::build,
    },
    Row {
        name: "alt_svc",
        stage: Stage::Listener,
        key: Key::Other("http3 of [listener.NAME]"),
        summary: "Announces HTTP/3 to clients (Alt-Svc).",
        looks_at: RESPONSES,
        resources: &[],
        build: announcing::alt_svc::build,
    },
    Row {
        name: "error_pages_of_listener",
        stage: Stage::Listener,
        key: Key::Other("error_pages and intercept of [listener.NAME]"),
        summary: "Sends error pages for requests without a page of their route.",
        looks_at: RESPONSES,
        resources: &[Maker::of::<ErrorPages>()],
        build: answering::error_pages::of_listener,
    },
    Row {
        name: "compress",
        stage: Stage::Route,
        key: Key::Route(&["compress"]),
        summary: "Compresses responses for clients that accept it.",
        looks_at: LooksAt { responses: true, ..BODIES },
        resources: &[Maker::of::<SharedCache>(), Maker::of::<EncoderMemory>()],
        build: policies::compress::build,
    },
    Row {
        name: "response_headers",
        stage: Stage::Route,
        key: Key::Route(&["response_headers"]),
        summary: "Changes the header fields of responses, from endpoints and from evenkeel itself.",
        looks_at: RESPONSES,
        resources: &[],
        build: headers::response::build,
    },
    Row {
        name: "error_pages",
        stage: Stage::Route,
        key: Key::Route(&["error_pages", "intercept"]),
        summary: "Sends error pages: instead of evenkeel's own lines of text, and instead of responses of endpoints that \
            are to be intercepted.",
        looks_at: RESPONSES,
        resources: &[Maker::of::<ErrorPages>()],
        build: answering::error_pages::of_route,
    },
    Row {
        name: "internal_redirects",
        stage: Stage::Route,
        key: Key::Route(&["internal_redirects"]),
        summary: "Has the internal route answer whose path a response of an endpoint names.",
        looks_at: RESPONSES,
        resources: &[],
        build: answering::internal_redirects::build,
    },
    Row {
        name: "cookies",
        stage: Stage::Route,
        key: Key::Route(&["cookies"]),
        summary: "Adds attributes, and the prefix of the client's path, to cookies of endpoints.",
        looks_at: RESPONSES,
        resources: &[],
        build: headers::cookies::build,
    },
    Row {
        name: "cors",
        stage: Stage::Route,
        key: Key::Route(&["cors"]),
        summary: "Lets pages of other origins read responses.",
        looks_at: RESPONSES,
        resources: &[],
        build: policies::cors::build,
    },
    Row {
        name: "access",
        stage: Stage::Route,
        key: Key::Route(&["access"]),
        summary: "Serves only clients of certain networks.",
        looks_at: REQUESTS,
        resources: &[Maker::of::<AccessLists>()],
        build: access::build,
    },
    Row {
        name: "preflight",
        stage: Stage::Route,
        key: Key::Route(&["cors"]),
        summary: "Responds to preflights of browsers.",
        looks_at: REQUESTS,
        resources: &[],
        build: policies::preflight::build,
    },
    Row {
        name: "limits",
        stage: Stage::Route,
        key: Key::Route(&["limits"]),
        summary: "Returns 429 to requests over a rate or over a number in flight, by client or another key.",
        looks_at: REQUESTS,
        resources: &[Maker::of::<AllLimits>()],
        build: limits::of_route,
    },
    Row {
        name: "basic_auth",
        stage: Stage::Route,
        key: Key::Route(&["basic_auth"]),
        summary: "Returns 401 to requests without the name and password of a user.",
        looks_at: REQUESTS,
        resources: &[Maker::of::<UserLists>()],
        build: auth::basic_auth::build,
    },
    Row {
        name: "jwt",
        stage: Stage::Route,
        key: Key::Route(&["jwt"]),
        summary: "Returns 401 to requests without a valid token, and 403 if a claim is missing. Sends claims as \
            fields.",
        looks_at: REQUESTS,
        resources: &[Maker::of::<Tokens>()],
        build: auth::jwt::build,
    },
    Row {
        name: "limits_by_claim",
        stage: Stage::Route,
        key: Key::Route(&["limits"]),
        summary: "Returns 429 to requests over a limit by a claim of their token.",
        looks_at: REQUESTS,
        resources: &[Maker::of::<AllLimits>()],
        build: limits::of_claims,
    },
    Row {
        name: "forward_auth",
        stage: Stage::Route,
        key: Key::Route(&["forward_auth"]),
        summary: "Asks another service about each request, and returns its response if it refuses the request.",
        looks_at: REQUESTS,
        resources: &[],
        build: services::forward_auth::build,
    },
    Row {
        name: "forward_auth_client",
        stage: Stage::Route,
        key: Key::Route(&["forward_auth"]),
        summary: "Adds fields of a 2xx response of the service, listed in `client_headers`, to the client's response.",
        looks_at: RESPONSES,
        resources: &[],
        build: services::forward_auth::build_for_client,
    },
    Row {
        name: "maintenance",
        stage: Stage::Route,
        key: Key::Route(&["maintenance"]),
        summary: "Returns 503 to all clients except clients of certain networks.",
        looks_at: REQUESTS,
        resources: &[],
        build: answering::maintenance::build,
    },
    Row {
        name: "redirect",
        stage: Stage::Route,
        key: Key::Action("redirect"),
        summary: "Redirects clients to another URL.",
        looks_at: REQUESTS,
        resources: &[],
        build: answering::redirect::build,
    },
    Row {
        name: "respond",
        stage: Stage::Route,
        key: Key::Action("respond"),
        summary: "Returns a fixed response.",
        looks_at: REQUESTS,
        resources: &[Maker::of::<ErrorPages>()],
        build: answering::respond::build,
    },
    Row {
        name: "body_max",
        stage: Stage::Route,
        key: Key::Route(&["body_max"]),
        summary: "Returns 413 to requests with a body that is too long, and ends requests that turn out too long \
            later.",
        looks_at: OPEN_BODIES,
        resources: &[],
        build: policies::body_max::build,
    },
    Row {
        name: "bandwidth",
        stage: Stage::Route,
        key: Key::Route(&["bandwidth"]),
        summary: "Limits the rate of bodies, of the route and of each connection.",
        looks_at: BODIES,
        resources: &[Maker::of::<policies::bandwidth::Bandwidths>()],
        build: policies::bandwidth::build,
    },
    Row {
        name: "loop_mark",
        stage: Stage::Route,
        key: Key::Other("detect_loops of [listener.NAME]"),
        summary: "Marks requests, and returns 508 if a request comes back.",
        looks_at: REQUESTS,
        resources: &[],
        build: loop_mark::build,
    },
    Row {
        name: "load_field",
        stage: Stage::Route,
        key: Key::Other("report_load.header of [listener.NAME]"),
        summary: "Counts the request as in flight, and adds the listener's load to its response.",
        looks_at: RESPONSES,
        resources: &[],
        build: load::field::build,
    },
    Row {
        name: "sticky",
        stage: Stage::Route,
        key: Key::Other("[pool.NAME.sticky]"),
        summary: "Finds the endpoint of the client's session, and sets its cookie.",
        looks_at: RESPONSES,
        resources: &[],
        build: sticky::build,
    },
    Row {
        name: "forwarded",
        stage: Stage::Route,
        key: Key::Always,
        summary: "Sends the client's address, protocol and certificate to the endpoint.",
        looks_at: REQUESTS,
        resources: &[],
        build: forwarded::build,
    },
    Row {
        name: "rewrite",
        stage: Stage::Route,
        key: Key::Route(&["strip_prefix", "rewrite"]),
        summary: "Replaces the path that the endpoint gets. Returns 400 if the new path would be invalid.",
        looks_at: REQUESTS,
        resources: &[],
        build: rewriting::rewrite::build,
    },
    Row {
        name: "restore_prefix",
        stage: Stage::Route,
        key: Key::Route(&["restore_prefix"]),
        summary: "Restores the removed prefix in links of responses.",
        looks_at: RESPONSES,
        resources: &[],
        build: rewriting::restore::build,
    },
    Row {
        name: "send_host",
        stage: Stage::Route,
        key: Key::Route(&["send_host"]),
        summary: "Sends a fixed host, or the host of the endpoint, instead of the client's host.",
        looks_at: REQUESTS,
        resources: &[],
        build: rewriting::send_host::build,
    },
    Row {
        name: "request_headers",
        stage: Stage::Route,
        key: Key::Route(&["request_headers"]),
        summary: "Changes the header fields of requests. Returns 431 if a field would be too long.",
        looks_at: REQUESTS,
        resources: &[Maker::of::<Maps>()],
        build: headers::request::build,
    },
    Row {
        name: "pool_request_headers",
        stage: Stage::Route,
        key: Key::Other("request_headers of [pool.NAME]"),
        summary: "Changes the header fields of requests to one pool. Returns 431 if a field would be too long.",
        looks_at: REQUESTS,
        resources: &[],
        build: headers::request::build_of_pools,
    },
    Row {
        name: "pool_response_headers",
        stage: Stage::Route,
        key: Key::Other("response_headers of [pool.NAME]"),
        summary: "Changes the header fields of responses from one pool's endpoints.",
        looks_at: RESPONSES,
        resources: &[],
        build: headers::response::build_of_pools,
    },
    Row {
        name: "cache",
        stage: Stage::Route,
        key: Key::Route(&["cache"]),
        summary: "Serves stored responses, and stores responses of endpoints.",
        looks_at: LooksAt { responses: true, ..BODIES },
        resources: &[Maker::of::<SharedCache>()],
        build: caching::cache::build,
    },
    Row {
        name: "mirror",
        stage: Stage::Route,
        key: Key::Route(&["mirror"]),
        summary: "Copies requests for other pools, as the endpoint gets them.",
        looks_at: COPIED_BODIES,
        resources: &[],
        build: services::mirror::build,
    },
];

/// Filters of a program that embeds the proxy.
static ADDED: OnceLock<&[Row]> = OnceLock::new();

/// Adds filters of a program that embeds the proxy, behind the filters of the table. Returns false, and does nothing,
/// if filters were added before. Filters that were built already are not affected.
pub fn add(rows: &'static [Row]) -> bool {
    ADDED.set(rows).is_ok()
}

/// Keys of the filters that a route has, in the order in which requests pass them.
pub fn keys(set: &plan::Filters) -> Vec<&'static str> {
    let is_set = |key: &&str| FILTER_KEYS.iter().any(|row| row.key.name == *key && row.is_set(set));
    let mut keys = Vec::new();
    for row in FILTERS {
        let Key::Route(of_row) = row.key else { continue };
        keys.extend(of_row.iter().filter(|key| !keys.contains(*key)).copied().filter(is_set).collect::<Vec<_>>());
    }
    keys
}

/// All filters, those that were added last.
fn all() -> impl Iterator<Item = &'static Row> {
    FILTERS.iter().chain(ADDED.get().copied().unwrap_or_default())
}

/// True if the filter at this place is a filter of listeners.
pub fn is_of_listener(place: Place) -> bool {
    all().nth(place.into()).is_some_and(|row| row.stage == Stage::Listener)
}

/// Makers of the resources of all filters, each type once.
pub(crate) fn makers() -> Vec<Maker> {
    let mut makers: Vec<Maker> = Vec::new();
    for maker in all().flat_map(|row| row.resources) {
        if !makers.iter().any(|other| other.is_same(maker)) {
            makers.push(*maker);
        }
    }
    makers
}

/// Makes the resources of a plan that follows no other.
///
/// # Errors
/// Files that cannot be read.
pub fn resources(plan: &Plan) -> Result<Resources, Vec<Diagnostic>> {
    let (makers, none) = (makers(), Resources::default());
    Ok(Resources::prepare(&makers, plan, &none)?.install(&makers, plan, &none))
}

/// Builds the filters of a stage.
pub fn build(stage: Stage, from: &Build<'_>) -> Filters {
    let rows = all().zip(0..).filter(|(row, _)| row.stage == stage);
    Filters::new(rows.filter_map(|(row, at)| Some(Placed { row, at, filter: (row.build)(from)? })).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_listeners_come_before_those_of_routes_and_each_has_a_name_of_its_own() {
        let first_of_route = FILTERS.iter().position(|row| row.stage == Stage::Route);
        assert!(FILTERS[first_of_route.unwrap_or(FILTERS.len())..].iter().all(|row| row.stage == Stage::Route));
        for (at, row) in FILTERS.iter().enumerate() {
            assert!(FILTERS[..at].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(row.summary.ends_with('.'), "{}", row.name);
        }
    }

    /// Keys that change the effect of other filters.
    const PARTS: [&str; 2] = ["request_trailers", "strip_slashes"];

    #[test]
    fn each_key_of_filters_builds_a_filter_and_each_filter_has_its_key() {
        let keys: Vec<&str> = FILTER_KEYS.iter().map(|row| row.key.name).collect();
        let built = |row: &Row| if let Key::Route(keys) = row.key { keys } else { &[] };
        let built: Vec<&str> = FILTERS.iter().flat_map(built).copied().collect();
        for key in &built {
            assert!(
                keys.contains(key) && !PARTS.contains(key),
                "FILTER_KEYS of the configuration has no row for {key}"
            );
        }
        for key in keys {
            assert!(built.contains(&key) || PARTS.contains(&key), "FILTERS has no row for {key}");
        }
    }

    #[test]
    fn keys_of_a_route_are_listed_once_in_the_order_in_which_requests_pass_their_filters() {
        let text = "[listener.web]\nbind = ['127.0.0.1:8080']\n[pool.a]\nendpoints = ['127.0.0.1:1']\n[pool.b]\nendpoints = ['127.0.0.1:2']\n[[route]]\n\
            pool = 'a'\nmatch = { prefix = '/x' }\nstrip_prefix = true\nstrip_slashes = true\nlimits = [{ requests = '9/s' }]\ncors = { origins = ['https://a.example'] }\n\
            mirror = { pool = 'b' }\nrequest_headers = { remove = ['x'] }\nrequest_trailers = ['y']\nresponse_headers = { remove = ['x'] }\n";
        let outcome = evenkeel_config::parse_str("test.toml", text, &|_| None);
        let plan =
            outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)));
        let listed = keys(&plan.routes[0].filters);
        assert_eq!(listed, ["response_headers", "cors", "limits", "strip_prefix", "request_headers", "mirror"]);
    }
}
