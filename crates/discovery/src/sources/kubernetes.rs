//! The source `kubernetes`: endpoints of a service, from its EndpointSlices.

use crate::backoff::until;
use crate::cluster::{Cluster, State};
use crate::context::Context;
use crate::entries::{address, endpoint};
use crate::kept::{Answer, List};
use crate::out::Out;
use crate::registry::never;
use crate::slices::{Entry, Phase, Slice, Slices};
use evenkeel_config::plan::{Address, Endpoint, Kubernetes, Scope, ServicePort};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time for which an endpoint that is gone may come back: while it moves to another slice, it may be in none for a
/// moment.
const SETTLE: Duration = Duration::from_millis(100);

/// Follows the endpoints of a service, forever.
pub(super) async fn run(kubernetes: Kubernetes, context: Context, mut out: Out) -> ! {
    let Kubernetes { service, namespace, server, .. } = &kubernetes;
    let watched = (server.scope == Scope::Namespace).then(|| namespace.clone());
    let key = (server.clone(), watched.clone());
    let cluster = context.shared.get(&key, || Cluster::follow(server.clone(), watched));
    let (mut state, mut slices) = (cluster.state(), cluster.service(namespace, service));
    let mut shown: Option<Shown> = None;
    loop {
        // Taken first: slices that change after this wake the task once more.
        let now = state.borrow_and_update().clone();
        let changed = slices.has_changed().unwrap_or(false);
        let due = shown.as_ref().and_then(Shown::due);
        match now {
            _ if due.is_some_and(|due| due <= Instant::now()) || changed => {
                let found = list(&slices.borrow_and_update(), &kubernetes);
                out.put(Answer::List(shown.get_or_insert_default().with(found, Instant::now())));
            }
            State::Failed(why) => out.put(Answer::Failed(why)),
            State::Beginning => {}
            State::Confirmed if shown.is_some() => out.put(Answer::Same),
            State::Confirmed => {
                let found = list(&slices.borrow_and_update(), &kubernetes);
                out.put(Answer::List(shown.get_or_insert_default().with(found, Instant::now())));
            }
        }
        let due = shown.as_ref().and_then(Shown::due);
        let gone = tokio::select! {
            changed = state.changed() => changed.is_err(),
            changed = slices.changed() => {
                slices.mark_changed();
                changed.is_err()
            }
            () = until(due) => false,
        };
        if gone {
            never("evenkeel no longer follows its cluster".into(), out).await;
        }
    }
}

/// Endpoints as last put. New endpoints are put at once; endpoints that are gone stay for [`SETTLE`].
#[derive(Default)]
struct Shown {
    endpoints: Vec<Endpoint>,
    /// Names of endpoints that are gone, with the times at which they leave.
    leaving: HashMap<Arc<str>, Instant>,
}

impl Shown {
    /// Time at which the next endpoint leaves.
    fn due(&self) -> Option<Instant> {
        self.leaving.values().min().copied()
    }

    /// Returns the list to put for a list that was found.
    fn with(&mut self, mut found: List, now: Instant) -> List {
        let names: HashSet<Arc<str>> = found.endpoints.iter().map(|endpoint| endpoint.name.clone()).collect();
        self.leaving.retain(|name, _| !names.contains(name));
        let gone: Vec<Endpoint> = self.endpoints.drain(..).filter(|endpoint| !names.contains(&endpoint.name)).collect();
        let addrs: HashSet<Address> = found.endpoints.iter().map(|endpoint| endpoint.addr.clone()).collect();
        for endpoint in gone {
            let leaves = *self.leaving.entry(endpoint.name.clone()).or_insert(now + SETTLE);
            if leaves <= now || addrs.contains(&endpoint.addr) {
                self.leaving.remove(&endpoint.name);
            } else {
                found.endpoints.push(endpoint);
            }
        }
        found.endpoints.sort_by(|a, b| a.name.cmp(&b.name));
        self.endpoints.clone_from(&found.endpoints);
        found
    }
}

/// Endpoint with the properties that decide between endpoints of the same pod or at the same address.
struct Candidate {
    phase: Phase,
    addr: SocketAddr,
    endpoint: Endpoint,
}

/// Endpoints of a service. A pod that is in several slices counts once: with its IPv4 address if it has both families, and
/// with its best condition if they differ. Hints for zones are ignored, as the pool itself prefers near endpoints.
fn list(slices: &Slices, kubernetes: &Kubernetes) -> List {
    let (mut candidates, mut skipped) = (Vec::new(), Vec::new());
    for (name, slice) in slices.iter().filter(|(_, slice)| !slice.endpoints.is_empty()) {
        match port(slice, kubernetes.port.as_ref()) {
            Ok(port) => {
                for entry in slice.endpoints.iter().filter(|entry| entry.phase != Phase::Away) {
                    match candidate(entry, port) {
                        Ok(candidate) => candidates.push(candidate),
                        Err(why) => skipped.push(format!("{}: {why}", entry.pod.as_deref().unwrap_or(name))),
                    }
                }
            }
            Err(why) => skipped.push(format!("slice {name}: {why}")),
        }
    }
    // The family decides before the condition, so that a pod that ends does not move to its other address first.
    candidates.sort_by(|a, b| {
        let key = |c: &Candidate| (c.addr.is_ipv6(), c.phase);
        key(a).cmp(&key(b)).then_with(|| a.endpoint.name.cmp(&b.endpoint.name)).then_with(|| a.addr.cmp(&b.addr))
    });
    let (mut names, mut addrs) = (HashSet::new(), HashSet::new());
    candidates
        .retain(|c| !names.contains(&c.endpoint.name) && addrs.insert(c.addr) && names.insert(c.endpoint.name.clone()));
    let is_ready = candidates.iter().any(|candidate| candidate.phase == Phase::Ready);
    let one = |c: Candidate| Endpoint { drain: is_ready && c.phase == Phase::Terminating, ..c.endpoint };
    let mut endpoints: Vec<Endpoint> = candidates.into_iter().map(one).collect();
    endpoints.sort_by(|a, b| a.name.cmp(&b.name));
    List { endpoints, ttl: None, skipped }
}

fn candidate(entry: &Entry, port: u16) -> Result<Candidate, String> {
    let addr = address(&entry.addr, port.into())?;
    let found = endpoint(entry.pod.as_deref().unwrap_or_default(), addr);
    Ok(Candidate { phase: entry.phase, addr, endpoint: Endpoint { zone: entry.zone.clone(), ..found } })
}

/// Number of the port at which the endpoints of a slice are used.
fn port(slice: &Slice, wanted: Option<&ServicePort>) -> Result<u16, String> {
    if &*slice.kind == "FQDN" {
        return Err("its addresses are names (addressType FQDN)".into());
    }
    let numbered = |found: Option<u16>| found.ok_or_else(|| "its port has no number: set \"port\" to one".to_owned());
    match (wanted, &slice.ports[..]) {
        // Services without ports, and ports without a number, leave the choice to the client.
        (Some(ServicePort::Number(number)), ports)
            if ports.is_empty() || ports.iter().any(|port| port.port.is_none_or(|port| port == *number)) =>
        {
            Ok(*number)
        }
        (Some(ServicePort::Number(number)), ports) => Err(format!("it has no port {number}, but {}", shown(ports))),
        (Some(ServicePort::Name(name)), ports) => match ports.iter().find(|port| *port.name == **name) {
            Some(port) => numbered(port.port),
            None => Err(format!("it has no port {name:?}, but {}", shown(ports))),
        },
        (None, [only]) => numbered(only.port),
        (None, []) => Err("it has no ports: set \"port\" to a number".into()),
        (None, ports) => Err(format!("it has {}: set \"port\" to one of them", shown(ports))),
    }
}

/// Ports as the log has them.
fn shown(ports: &[crate::slices::Port]) -> String {
    let one = |port: &crate::slices::Port| match (&*port.name, port.port) {
        ("", Some(number)) => number.to_string(),
        (name, Some(number)) => format!("{name:?} ({number})"),
        (name, None) => format!("{name:?}"),
    };
    match ports {
        [] => "no ports".into(),
        ports => format!("the ports {}", ports.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(list: &List) -> Vec<&str> {
        list.endpoints.iter().map(|endpoint| &*endpoint.name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn new_endpoints_are_put_at_once_and_gone_ones_stay_for_a_moment() {
        let at = |ports: &[u16]| -> List {
            let one = |port: &u16| endpoint(&format!("pod-{port}"), ([10, 0, 0, 1], *port).into());
            ports.iter().map(one).collect::<Vec<_>>().into()
        };
        let (mut shown, start) = (Shown::default(), Instant::now());
        assert_eq!(names(&shown.with(at(&[1, 2]), start)), ["pod-1", "pod-2"]);
        assert_eq!(shown.due(), None);
        assert_eq!(names(&shown.with(at(&[2, 3]), start)), ["pod-1", "pod-2", "pod-3"]);
        assert_eq!(shown.due(), Some(start + SETTLE));
        // An endpoint that comes back in another slice never left. A change in between does not make others stay
        // longer.
        let between = start + SETTLE / 2;
        assert_eq!(names(&shown.with(at(&[3]), between)), ["pod-1", "pod-2", "pod-3"]);
        assert_eq!(names(&shown.with(at(&[1, 3]), start + SETTLE)), ["pod-1", "pod-2", "pod-3"]);
        assert_eq!(shown.due(), Some(between + SETTLE));
        assert_eq!(names(&shown.with(at(&[1, 3]), between + SETTLE)), ["pod-1", "pod-3"]);
        assert_eq!(shown.due(), None);
        // An address that another pod has now is that pod's.
        let moved: List =
            vec![endpoint("other", ([10, 0, 0, 1], 1).into()), endpoint("pod-3", ([10, 0, 0, 1], 3).into())].into();
        assert_eq!(names(&shown.with(moved, between + SETTLE)), ["other", "pod-3"]);
    }

    fn kubernetes(port: Option<ServicePort>) -> Kubernetes {
        Kubernetes { service: "web".into(), port, ..Kubernetes::default() }
    }

    fn http() -> Kubernetes {
        kubernetes(Some(ServicePort::Name("http".into())))
    }

    fn number(number: u16) -> Kubernetes {
        kubernetes(Some(ServicePort::Number(number)))
    }

    fn entry(addr: &str, pod: &str, phase: Phase) -> Entry {
        let pod = (!pod.is_empty()).then(|| format!("shop/{pod}").into());
        Entry { addr: addr.into(), pod, zone: None, phase }
    }

    fn slice(kind: &str, ports: &[(&str, Option<u16>)], endpoints: Vec<Entry>) -> Slice {
        let ports = ports.iter().map(|&(name, port)| crate::slices::Port { name: name.into(), port }).collect();
        Slice { kind: kind.into(), ports, endpoints: endpoints.into() }
    }

    /// Slices with the port `http`.
    fn v4(endpoints: Vec<Entry>) -> Slice {
        slice("IPv4", &[("http", Some(80))], endpoints)
    }

    fn slices(all: impl IntoIterator<Item = Slice>) -> Slices {
        all.into_iter().enumerate().map(|(at, slice)| (format!("web-{at}").into(), Arc::new(slice))).collect()
    }

    /// Endpoints, drained ones with an exclamation mark, and the entries that are left out.
    fn found(all: impl IntoIterator<Item = Slice>, kubernetes: &Kubernetes) -> (Vec<String>, Vec<String>) {
        let list = list(&slices(all), kubernetes);
        let shown = |e: &Endpoint| format!("{} {}{}", e.name, e.addr, if e.drain { "!" } else { "" });
        (list.endpoints.iter().map(shown).collect(), list.skipped)
    }

    #[test]
    fn pods_that_end_are_drained_and_serve_if_no_other_does() {
        let (ready, ends, away) = (Phase::Ready, Phase::Terminating, Phase::Away);
        let all = |first| {
            [
                v4(vec![entry("10.0.0.1", "a", first), entry("10.0.0.2", "b", ends)]),
                v4(vec![entry("10.0.0.3", "c", away)]),
            ]
        };
        assert_eq!(found(all(ready), &http()).0, ["shop/a 10.0.0.1:80", "shop/b 10.0.0.2:80!"]);
        assert_eq!(found(all(ends), &http()).0, ["shop/a 10.0.0.1:80", "shop/b 10.0.0.2:80"]);
        assert_eq!(found(all(away), &http()).0, ["shop/b 10.0.0.2:80"]);
        assert!(found([v4(vec![entry("10.0.0.3", "c", away)])], &http()).0.is_empty());
    }

    #[test]
    fn a_pod_in_several_slices_counts_once() {
        let (ready, ends) = (Phase::Ready, Phase::Terminating);
        let v6 = |endpoints| slice("IPv6", &[("http", Some(80))], endpoints);
        let both = [
            v6(vec![entry("fd00::1", "a", ready), entry("fd00::2", "b", ready)]),
            v4(vec![entry("10.0.0.1", "a", ends), entry("10.0.0.3", "c", ready)]),
            v4(vec![entry("10.0.0.3", "c", ends), entry("10.0.0.3", "", ready), entry("10.0.0.4", "", ready)]),
        ];
        let expected =
            ["10.0.0.3:80 10.0.0.3:80", "10.0.0.4:80 10.0.0.4:80", "shop/a 10.0.0.1:80!", "shop/b [fd00::2]:80"];
        assert_eq!(found(both, &http()).0, expected);
        // An address of an ending pod that the next pod already has belongs to the next pod.
        let next = [v4(vec![entry("10.0.0.1", "old", ends), entry("10.0.0.1", "young", ready)])];
        assert_eq!(found(next, &http()).0, ["shop/young 10.0.0.1:80"]);
    }

    #[test]
    fn each_slice_has_its_own_number_of_a_named_port() {
        let one = |ports: &[(&str, Option<u16>)], addr| slice("IPv4", ports, vec![entry(addr, "", Phase::Ready)]);
        let all = || {
            [
                one(&[("http", Some(80)), ("metrics", Some(9100))], "10.0.0.1"),
                one(&[("http", Some(8080))], "10.0.0.2"),
                one(&[("metrics", Some(9100))], "10.0.0.3"),
                slice("FQDN", &[("http", Some(80))], vec![entry("a.inside", "", Phase::Ready)]),
                slice("IPv4", &[], vec![]),
            ]
        };
        let (endpoints, skipped) = found(all(), &http());
        assert_eq!(endpoints, ["10.0.0.1:80 10.0.0.1:80", "10.0.0.2:8080 10.0.0.2:8080"]);
        let why = [
            "slice web-2: it has no port \"http\", but the ports \"metrics\" (9100)",
            "slice web-3: its addresses are names (addressType FQDN)",
        ];
        assert_eq!(skipped, why);
        assert_eq!(found(all(), &number(9100)).0, ["10.0.0.1:9100 10.0.0.1:9100", "10.0.0.3:9100 10.0.0.3:9100"]);
        let (endpoints, skipped) = found(all(), &kubernetes(None));
        assert_eq!(endpoints, ["10.0.0.2:8080 10.0.0.2:8080", "10.0.0.3:9100 10.0.0.3:9100"]);
        assert!(
            skipped[0].ends_with("it has the ports \"http\" (80), \"metrics\" (9100): set \"port\" to one of them")
        );
        // A headless service without ports, and a port that is left open.
        for ports in [&[][..], &[("", None)]] {
            assert_eq!(found([one(ports, "10.0.0.1")], &number(7)).0, ["10.0.0.1:7 10.0.0.1:7"]);
            assert_eq!(found([one(ports, "10.0.0.1")], &kubernetes(None)).1.len(), 1);
        }
    }

    #[test]
    fn entries_that_are_no_address_are_named() {
        let bad = v4(vec![entry("", "a", Phase::Ready), entry("::", "", Phase::Ready), entry("x", "b", Phase::Away)]);
        let (endpoints, skipped) = found([bad], &http());
        assert!(endpoints.is_empty());
        assert_eq!(skipped, ["shop/a: it has no address", "web-0: :: is not the address of one machine"]);
    }

    fn entries() -> impl Strategy<Value = Vec<(Entry, usize)>> {
        let phase = prop_oneof![Just(Phase::Ready), Just(Phase::Terminating), Just(Phase::Away)];
        let one = (0u8..12, 0u8..12, phase, 0usize..4);
        let entry = one.prop_map(|(host, pod, phase, slice)| {
            let pod = if pod < 3 { String::new() } else { format!("p{pod}") };
            (entry(&format!("10.0.0.{host}"), &pod, phase), slice)
        });
        proptest::collection::vec(entry, 0..30)
    }

    /// Slices with the entries as they are distributed, shifted by some slices.
    fn distributed(entries: &[(Entry, usize)], shift: usize) -> Slices {
        let mut all = vec![Vec::new(); 4];
        entries.iter().for_each(|(entry, slice)| all[(slice * shift) % 4].push(entry.clone()));
        slices(all.into_iter().map(v4))
    }

    proptest! {
        #[test]
        fn endpoints_do_not_depend_on_the_slices_that_they_are_in(entries in entries()) {
            let expected = list(&distributed(&entries, 1), &http());
            for shift in [0, 2, 3] {
                prop_assert_eq!(&list(&distributed(&entries, shift), &http()).endpoints, &expected.endpoints);
            }
            let twice: Vec<_> = entries.iter().chain(&entries).cloned().collect();
            prop_assert_eq!(&list(&distributed(&twice, 1), &http()).endpoints, &expected.endpoints);
        }

        #[test]
        fn what_serves_is_found_once_and_ready_ones_are_not_drained(entries in entries()) {
            let found = list(&distributed(&entries, 1), &http()).endpoints;
            let names: HashSet<_> = found.iter().map(|e| &e.name).collect();
            let addrs: HashSet<_> = found.iter().map(|e| &e.addr).collect();
            prop_assert_eq!((names.len(), addrs.len()), (found.len(), found.len()));
            let has = |phase| entries.iter().any(|(entry, _)| entry.phase == phase);
            prop_assert_eq!(found.is_empty(), !has(Phase::Ready) && !has(Phase::Terminating));
            prop_assert_eq!(found.iter().all(|e| e.drain), found.is_empty());
            prop_assert!(!found.iter().any(|e| e.drain) || has(Phase::Ready));
        }
    }
}
