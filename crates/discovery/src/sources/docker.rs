//! The source `docker`: running containers of Docker or Podman.

use crate::context::Context;
use crate::engine::{Container, Engine};
use crate::entries::{address, endpoint, weight, zone};
use crate::kept::{Answer, List};
use crate::out::Out;
use crate::registry::never;
use evenkeel_config::nearest;
use evenkeel_config::plan::{Docker, Endpoint};
use std::sync::Arc;

/// Labels of containers, after `evenkeel.`, that set a property of their endpoint. Includes `pool`, the label by which
/// the guide chooses containers.
const LABELS: [&str; 7] = ["drain", "network", "pool", "port", "priority", "weight", "zone"];

/// Follows the containers that a pool means, forever.
pub(super) async fn run(docker: Docker, context: Context, mut out: Out) -> ! {
    let docker = Arc::new(docker);
    let engine = context.shared.get(&docker.server, || Engine::follow(docker.server.clone()));
    let mut seen = engine.seen(&docker);
    loop {
        let answer = match &*seen.borrow_and_update() {
            Some(Ok(containers)) => {
                out.ignore(unknown(containers, &docker, |label| engine.is_chosen_by(label)));
                Some(Answer::List(list(containers, &docker)))
            }
            Some(Err(why)) => Some(Answer::Failed(why.clone())),
            None => None,
        };
        if let Some(answer) = answer {
            out.put(answer);
        }
        if seen.changed().await.is_err() {
            never("evenkeel no longer follows its engine".into(), out).await;
        }
    }
}

/// Containers of a pool that may get requests.
fn meant<'c>(containers: &'c [Container], docker: &'c Docker) -> impl Iterator<Item = &'c Container> {
    let has_all = |container: &&Container| docker.labels.iter().all(|label| container.has(label));
    containers.iter().filter(has_all).filter(|container| container.serves())
}

/// Labels of a pool's containers that begin with `evenkeel.` and that nothing reads.
fn unknown(containers: &[Container], docker: &Docker, is_chosen_by: impl Fn(&str) -> bool) -> Vec<String> {
    let mut all = Vec::new();
    for container in meant(containers, docker) {
        for label in container.label_names().filter(|label| !is_chosen_by(label)) {
            let Some(name) = label.strip_prefix("evenkeel.").filter(|name| !LABELS.contains(name)) else { continue };
            let near = nearest(name, LABELS).map(|near| format!(" (did you mean evenkeel.{near}?)"));
            all.push(format!("{}: unknown label {label}{}", container.name(), near.unwrap_or_default()));
        }
    }
    all.sort();
    all
}

/// Endpoints of a pool among the containers of an engine.
pub(super) fn list(containers: &[Container], docker: &Docker) -> List {
    let mut list = List::default();
    for container in meant(containers, docker) {
        match one_of(container, docker) {
            Ok(endpoint) => list.endpoints.push(endpoint),
            Err(why) => list.skipped.push(format!("{}: {why}", container.name())),
        }
    }
    // The engine lists the latest first.
    list.endpoints.sort_by(|a, b| a.name.cmp(&b.name));
    list
}

fn one_of(container: &Container, docker: &Docker) -> Result<Endpoint, String> {
    let port = match container.number("evenkeel.port", 1, 65_535)?.or(docker.port.map(u64::from)) {
        Some(port) => port,
        None => only_port(container)?,
    };
    let found = endpoint(container.name(), address(&host(container, docker)?, port)?);
    let drain = match container.label("evenkeel.drain").map(str::trim) {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(format!("label evenkeel.drain: {other:?} is not \"true\" or \"false\"")),
    };
    let small = |found: Option<u64>| found.and_then(|number| u8::try_from(number).ok());
    Ok(Endpoint {
        weight: container.number("evenkeel.weight", 0, 65_535)?.map_or(Ok(found.weight), weight)?,
        priority: small(container.number("evenkeel.priority", 0, 15)?).unwrap_or_default(),
        drain,
        zone: container.label("evenkeel.zone").map_or(Ok(None), zone)?,
        ..found
    })
}

/// Port at which a container listens, if it exposes a single TCP port.
fn only_port(container: &Container) -> Result<u64, String> {
    let exposed = container.ports.iter().flatten().filter(|port| port.kind == "tcp").map(|port| port.private_port);
    // A port that is published for both families is listed twice.
    let mut ports: Vec<u64> = exposed.collect();
    ports.sort_unstable();
    ports.dedup();
    match ports[..] {
        [port] => Ok(port),
        [] => Err("it exposes no TCP port: set \"port\", or its label evenkeel.port".into()),
        _ => Err(format!("it exposes the ports {ports:?}: set \"port\", or its label evenkeel.port")),
    }
}

/// Address of a container in the network that the pool or its label means.
fn host(container: &Container, docker: &Docker) -> Result<String, String> {
    if container.host_config.as_ref().is_some_and(|host| host.network_mode == "host") {
        return Ok("127.0.0.1".into());
    }
    let networks = container.network_settings.as_ref().and_then(|settings| settings.networks.as_ref());
    let mut names: Vec<&str> = networks.iter().flat_map(|networks| networks.keys().map(String::as_str)).collect();
    names.sort_unstable();
    let name = match (container.label("evenkeel.network").or(docker.network.as_deref()), &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, []) => return Err("it is not in a network".into()),
        (None, _) => {
            let names = names.join(", ");
            return Err(format!("it is in the networks {names}: set \"network\", or its label evenkeel.network"));
        }
    };
    let network = networks.and_then(|networks| networks.get(name));
    let network = network.ok_or_else(|| format!("it is not in the network {name:?}"))?;
    let addr = if network.v4.is_empty() { &network.v6 } else { &network.v4 };
    if addr.is_empty() { Err(format!("it has no address in the network {name:?}")) } else { Ok(addr.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(containers: &str, docker: &Docker) -> (Vec<String>, Vec<String>) {
        let containers: Vec<Container> = serde_json::from_str(containers).expect("containers");
        let list = list(&containers, docker);
        let shown = |e: &Endpoint| format!("{} {} {} {} {}", e.name, e.addr, e.weight, e.priority, e.drain);
        (list.endpoints.iter().map(shown).collect(), list.skipped)
    }

    fn docker() -> Docker {
        Docker { labels: vec!["pool=web".into()], ..Docker::default() }
    }

    #[test]
    fn containers_with_the_labels_that_run_and_are_healthy_are_endpoints() {
        let one = |name: &str, labels: &str, status: &str| {
            format!(
                r#"{{"Id":"x","Names":["/{name}"],"Labels":{labels},"State":"running","Status":"{status}",
                "Ports":[{{"PrivatePort":80,"Type":"tcp"}},{{"PrivatePort":80,"Type":"tcp","PublicPort":8080}}],
                "NetworkSettings":{{"Networks":{{"front":{{"IPAddress":"172.18.0.2"}}}}}}}}"#
            )
        };
        let web = r#"{"pool":"web"}"#;
        let all = [
            one("b", web, "Up 5 minutes"),
            one(
                "a",
                r#"{"pool":"web","evenkeel.weight":"3","evenkeel.priority":"1","evenkeel.drain":"true"}"#,
                "Up 1 second (healthy)",
            ),
            one("sick", web, "Up 5 minutes (unhealthy)"),
            one("young", web, "Up 1 second (health: starting)"),
            one("other", r#"{"pool":"api"}"#, "Up 5 minutes"),
            one("gone", web, "Exited (0) 5 minutes ago"),
        ];
        let (endpoints, skipped) = found(&format!("[{}]", all.join(",")), &docker());
        assert_eq!(endpoints, ["a 172.18.0.2:80 3 1 true", "b 172.18.0.2:80 1 0 false"]);
        assert!(skipped.is_empty(), "{skipped:?}");
    }

    #[test]
    fn values_of_labels_that_mean_nothing_are_named_and_so_are_labels_that_nothing_reads() {
        let container = |name: &str, label: &str, value: &str| {
            format!(
                r#"{{"Id":"x","Names":["/{name}"],"Labels":{{"pool":"web","{label}":"{value}"}},"Status":"Up 1 second",
                "Ports":[{{"PrivatePort":80,"Type":"tcp"}}],"NetworkSettings":{{"Networks":{{"a":{{"IPAddress":"10.0.0.1"}}}}}}}}"#
            )
        };
        let wrong = [
            ("evenkeel.weight", "much", "label evenkeel.weight: \"much\" is not a number"),
            ("evenkeel.weight", "70000", "label evenkeel.weight: 70000 is not from 0 to 65535"),
            ("evenkeel.priority", "16", "label evenkeel.priority: 16 is not from 0 to 15"),
            ("evenkeel.port", "0", "label evenkeel.port: 0 is not from 1 to 65535"),
            ("evenkeel.drain", "yes", "label evenkeel.drain: \"yes\" is not \"true\" or \"false\""),
            ("evenkeel.drain", "1", "label evenkeel.drain: \"1\" is not \"true\" or \"false\""),
        ];
        for (label, value, why) in wrong {
            let (endpoints, skipped) = found(&format!("[{}]", container("c", label, value)), &docker());
            assert_eq!((endpoints.len(), skipped), (0, vec![format!("c: {why}")]));
        }
        let (endpoints, _) = found(&format!("[{}]", container("c", "evenkeel.weight", "65535")), &docker());
        assert_eq!(endpoints, ["c 10.0.0.1:80 65535 0 false"]);

        let all = [("a", "evenkeel.wieght"), ("b", "evenkeel.colour"), ("c", "evenkeel.team"), ("d", "other.weight")];
        let all: Vec<String> = all.iter().map(|(name, label)| container(name, label, "1")).collect();
        let text = format!("[{}]", all.join(","));
        assert_eq!(found(&text, &docker()).0.len(), 4, "they are endpoints all the same");
        let containers: Vec<Container> = serde_json::from_str(&text).expect("containers");
        let unknown = unknown(&containers, &docker(), |label| label == "evenkeel.team");
        assert_eq!(
            unknown,
            ["a: unknown label evenkeel.wieght (did you mean evenkeel.weight?)", "b: unknown label evenkeel.colour"]
        );
    }

    #[test]
    fn ports_and_networks_that_are_not_clear_are_asked_for() {
        let container = |ports: &str, networks: &str, mode: &str| {
            format!(
                r#"[{{"Id":"c","Labels":{{"pool":"web"}},"Status":"Up 1 second","Ports":{ports},
                "NetworkSettings":{{"Networks":{networks}}},"HostConfig":{{"NetworkMode":"{mode}"}}}}]"#
            )
        };
        let two =
            r#"[{"PrivatePort":80,"Type":"tcp"},{"PrivatePort":81,"Type":"tcp"},{"PrivatePort":53,"Type":"udp"}]"#;
        let nets = r#"{"front":{"IPAddress":"172.18.0.2"},"back":{"IPAddress":"","GlobalIPv6Address":"fd00::2"}}"#;
        let why = |containers: String, docker: &Docker| found(&containers, docker).1.join("");
        assert!(why(container("null", nets, ""), &docker()).contains("exposes no TCP port"));
        assert!(why(container(two, nets, ""), &docker()).contains("the ports [80, 81]"));
        let with_port = Docker { port: Some(81), ..docker() };
        assert!(why(container(two, nets, ""), &with_port).contains("the networks back, front"));
        assert!(why(container(two, "{}", ""), &with_port).contains("not in a network"));
        let back = Docker { network: Some("back".into()), ..with_port.clone() };
        assert_eq!(found(&container(two, nets, ""), &back).0, ["c [fd00::2]:81 1 0 false"]);
        assert_eq!(found(&container(two, "null", "host"), &with_port).0, ["c 127.0.0.1:81 1 0 false"]);
    }
}
