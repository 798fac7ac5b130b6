//! The source `http`: a list from a server, by polls that are conditional and may wait.

use crate::backoff::Backoff;
use crate::entries::{address, each, endpoint, of_pool, weight, zone};
use crate::kept::{Answer, List};
use crate::out::Out;
use crate::registry::{never, refusal, server_of};
use bytes::Bytes;
use evenkeel_balance::rng::Rng;
use evenkeel_config::plan::{Endpoint, HttpList};
use evenkeel_fetch::server::secret;
use evenkeel_fetch::{Client, Fault};
use http_body_util::Full;
use hyper::header::{
    ACCEPT, AUTHORIZATION, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, RETRY_AFTER,
};
use hyper::{Request, StatusCode, Uri};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Largest list, in bytes. A list of 10,000 endpoints has about a million.
const LIST_MAX: usize = 16 << 20;

/// Time for which the server may hold a conditional request, and additional time for the response.
const WAIT: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);

/// Least time between two requests.
const LEAST: Duration = Duration::from_secs(1);

/// Follows the list of a server, forever.
pub(super) async fn run(list: HttpList, mut out: Out) -> ! {
    let (mut client, path) = match client_of(&list) {
        Ok(client) => client,
        Err(error) => never(error, out).await,
    };
    let (mut backoff, mut rng) = (Backoff::new(out.seed()), Rng::new(out.seed() ^ u64::from(std::process::id())));
    let mut known = Known::default();
    loop {
        let pause = match ask(&mut client, &path, &list, &known).await {
            Ok(Got { answer, next }) => {
                let is_list = !matches!(answer, Answer::Failed(_));
                out.put(answer);
                match next.filter(|_| is_list) {
                    Some(next) => {
                        backoff.reset();
                        let held = next.held;
                        known = next;
                        if held { LEAST } else { list.every.mul_f64(1.0 + 0.1 * rng.unit()) }
                    }
                    None => backoff.pause(None),
                }
            }
            Err((why, pause)) => {
                out.put(Answer::Failed(why));
                backoff.pause(pause)
            }
        };
        sleep(pause).await;
    }
}

/// Client of the server, and the path to ask for.
fn client_of(list: &HttpList) -> Result<(Client, Uri), Fault> {
    let uri: Uri = list.url.parse()?;
    let authority = uri.authority().ok_or("the URL names no host")?;
    let server = format!("{}://{authority}", uri.scheme_str().unwrap_or_default());
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    Ok((Client::new(server_of(&server, &list.credentials)?), path))
}

/// Validators of the last list.
#[derive(Clone, Debug, Default)]
struct Known {
    etag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
    /// True if the server holds conditional requests until the list changes (RFC 7240 section 4.3).
    held: bool,
}

struct Got {
    answer: Answer,
    /// Validators for the next request; `None` if this was no list.
    next: Option<Known>,
}

type Failed = (String, Option<Duration>);

async fn ask(client: &mut Client, path: &Uri, list: &HttpList, known: &Known) -> Result<Got, Failed> {
    let failed = |error: Fault| (error.to_string(), None);
    let mut request = Request::get(path.clone()).header(ACCEPT, "application/json");
    if let Some(file) = &list.credentials.token_file {
        request = request.header(AUTHORIZATION, secret(file, "Bearer ").map_err(failed)?);
    }
    let mut patience = PATIENCE;
    if let Some(etag) = &known.etag {
        request = request.header(IF_NONE_MATCH, etag).header("prefer", format!("wait={}", WAIT.as_secs()));
        patience += WAIT;
    } else if let Some(modified) = &known.modified {
        request = request.header(IF_MODIFIED_SINCE, modified);
    }
    let request = request.body(Full::default()).map_err(|error| failed(error.into()))?;
    let response = match timeout(patience, client.whole(request, LIST_MAX)).await {
        Ok(response) => response.map_err(failed)?,
        Err(_) => return Err((format!("no answer within {patience:?}"), None)),
    };
    let (head, body) = response.into_parts();
    match head.status {
        StatusCode::OK => {
            let answer = match read(&body) {
                Ok(list) => Answer::List(list),
                Err(why) => Answer::Failed(why),
            };
            Ok(Got { answer, next: Some(known_of(&head.headers)) })
        }
        StatusCode::NOT_MODIFIED => {
            let held = is_held(&head.headers);
            Ok(Got { answer: Answer::Same, next: Some(Known { held, ..known.clone() }) })
        }
        status => {
            let pause = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
            Err((refusal(status, &body), pause.map(Duration::from_secs)))
        }
    }
}

fn known_of(fields: &HeaderMap) -> Known {
    let field = |name| fields.get(name).cloned();
    Known { etag: field(ETAG), modified: field(LAST_MODIFIED), held: is_held(fields) }
}

fn is_held(fields: &HeaderMap) -> bool {
    let applied = fields.get_all("preference-applied").iter().filter_map(|value| value.to_str().ok());
    applied.flat_map(|value| value.split(',')).any(|preference| {
        preference.split(['=', ';']).next().is_some_and(|name| name.trim().eq_ignore_ascii_case("wait"))
    })
}

/// Group of targets, as Prometheus has them.
#[derive(Deserialize)]
struct Group {
    targets: Vec<String>,
    #[serde(default)]
    labels: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Endpoints<'t> {
    #[serde(borrow)]
    endpoints: Vec<&'t RawValue>,
}

/// Reads a list in either form.
pub(super) fn read(body: &Bytes) -> Result<List, String> {
    let all: Vec<&RawValue> = match serde_json::from_slice::<Vec<&RawValue>>(body) {
        Ok(all) => all,
        Err(_) => {
            let list: Endpoints<'_> =
                serde_json::from_slice(body).map_err(|error| format!("its list is not valid JSON: {error}"))?;
            list.endpoints
        }
    };
    let mut list = List::default();
    for raw in all {
        match serde_json::from_str::<Group>(raw.get()) {
            Ok(group) => {
                for target in &group.targets {
                    match of_group(target, &group.labels) {
                        Ok(endpoint) => list.endpoints.push(endpoint),
                        Err(why) => list.skipped.push(format!("{target}: {why}")),
                    }
                }
            }
            Err(_) => {
                let own = each(&[raw], |entry: serde_json::Value| of_pool(&entry).map(Some));
                list.endpoints.extend(own.endpoints);
                list.skipped.extend(own.skipped);
            }
        }
    }
    Ok(list)
}

/// Endpoint of a target of Prometheus.
fn of_group(target: &str, labels: &HashMap<String, String>) -> Result<Endpoint, String> {
    let (host, port) = target.rsplit_once(':').ok_or("it has no port")?;
    let port = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
    let found = endpoint("", address(host.trim_matches(['[', ']']), port)?);
    let number = |text: &String| text.parse().map_err(|_| format!("{text:?} is not a weight")).and_then(weight);
    Ok(Endpoint {
        weight: labels.get("weight").map(number).transpose()?.unwrap_or(found.weight),
        zone: labels.get("zone").map_or(Ok(None), |text| zone(text))?,
        ..found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let list = read(&Bytes::copy_from_slice(text.as_bytes())).unwrap_or_else(|why| panic!("{text}: {why}"));
        list.endpoints.iter().map(|e| format!("{} {} {}", e.addr, e.weight, e.zone.as_deref().unwrap_or("-"))).collect()
    }

    #[test]
    fn lists_have_the_form_of_a_pool_or_that_of_prometheus() {
        assert_eq!(
            names(r#"["10.0.0.1:80", {"addr": "10.0.0.2:80", "weight": 2}]"#),
            ["10.0.0.1:80 1 -", "10.0.0.2:80 2 -"]
        );
        assert_eq!(names(r#"{"endpoints": ["10.0.0.1:80"]}"#), ["10.0.0.1:80 1 -"]);
        let groups = r#"[{"targets": ["10.0.0.1:80", "[fd00::1]:80"], "labels": {"zone": "a", "weight": "3"}}, {"targets": []}]"#;
        assert_eq!(names(groups), ["10.0.0.1:80 3 a", "[fd00::1]:80 3 a"]);
        assert!(names("[]").is_empty());
        for text in ["", "{}", "7", "[", "null"] {
            assert!(read(&Bytes::from(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn bad_entries_are_left_out_with_their_reason() {
        let text = r#"[{"targets": ["10.0.0.1:0", "a:80", "10.0.0.2:80"]}, {"addr": "10.0.0.3"}, {"addr": "10.0.0.4:80", "weight": -1}, 7,
            {"targets": ["10.0.0.5:80"], "labels": {"weight": "70000"}}]"#;
        let list = read(&Bytes::from(text)).expect("a list");
        assert_eq!(list.endpoints.len(), 1);
        let why = list.skipped.join("\n");
        assert_eq!(list.skipped.len(), 6, "{why}");
        for part in [
            "10.0.0.1:0: 0 is not a port",
            "a:80: \"a\" is not an IP address",
            "it has no port",
            "out of range",
            "10.0.0.5:80: weight 70000 is not from 0 to 65535",
        ] {
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn a_server_that_holds_requests_says_so() {
        let fields = |value: &str| {
            HeaderMap::from_iter([("preference-applied".parse().expect("a name"), value.parse().expect("a value"))])
        };
        assert!(is_held(&fields("wait=60")) && is_held(&fields("respond-async, Wait=10")));
        assert!(!is_held(&fields("respond-async")) && !is_held(&fields("waiting")) && !is_held(&HeaderMap::new()));
    }
}
