//! HTTP/3 of other projects' clients in both versions of QUIC: version 2 as far as it differs from version 1, and early data.

use crate::clients::{ALL, Client};
use crate::doors::{Door, Subject};
use crate::endpoints::{Endpoint, Speaks};
use crate::files::{Certificate, Content, said};
use crate::http3_paths::while_rebinding;
use crate::lossy::Lossy;
use crate::matrix::prints;
use crate::support::{Endpoint as PlainEndpoint, Folder, Running, get};
use evenkeel_peers::own_addr;
use std::process::Command;
use std::time::Duration;

/// For all requests of a client.
const PATIENCE: Duration = Duration::from_secs(120);

fn clients() -> impl Iterator<Item = &'static Client> {
    ALL.iter().filter(|client| client.doors.contains(&Door::H3))
}

/// An evenkeel with HTTP/3 and these settings, in front of an endpoint that says hello.
struct Site {
    folder: Folder,
    url: String,
    admin: String,
    certificate: Certificate,
    running: Running,
    _endpoint: PlainEndpoint,
}

impl Site {
    fn start(name: &str, http3: &str) -> Site {
        let (folder, endpoint) = (Folder::new(name), PlainEndpoint::start("hello"));
        let (addr, admin) = (own_addr(), own_addr());
        let certificate = Certificate::make(&folder, "front", &[&addr.to_string()]);
        let config = format!(
            "[admin]\nhttp = {{ bind = '{admin}' }}\n[listener.web]\nbind = ['{addr}']\nhttp3 = {http3}\ntls = {{ certificates = [{{ \
             cert = '{}', key = '{}' }}] }}\n[pool.web]\nendpoints = ['{}']\n",
            certificate.cert, certificate.key, endpoint.addr
        );
        let running = Running::start(&["run", "--config", &folder.file("evenkeel.toml", &config)]);
        Site {
            folder,
            url: format!("https://{addr}"),
            admin: admin.to_string(),
            certificate,
            running,
            _endpoint: endpoint,
        }
    }

    fn command(&self, client: &Client, door: &str, case: &str) -> Command {
        let mut command = (client.command)();
        let content = self.folder.file("content", "content");
        command.args([door, &self.url, &self.certificate.ca, &content, case]);
        command
    }

    /// Value of a counter of the listener.
    fn count(&self, family: &str) -> u64 {
        let (_, metrics) = get(&self.admin, "/metrics").expect("it serves its metrics");
        let series = format!("{family}{{listener=\"web\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
        value.unwrap_or_else(|| panic!("{series}")).parse().expect("a number")
    }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn a_client_of_version_2_gets_its_bytes_through_also_when_its_address_and_keys_change() {
    crate::judges!("go", "openssl", "conformance-python");
    let folder = Folder::new("http3-v2");
    let endpoint = Endpoint::go(&folder, Speaks::H1);
    let subject = Subject::start(&folder, &[&endpoint]);
    let (content, text) = (Content::make(&folder, 5), folder.file("trailers", "with trailers"));
    let (server, trailers) = (subject.doors[0].addr(true).parse().expect("an address"), crate::files::sum(&text));
    // quic-go 0.54 updates keys after 100 packets, in version 2 with the label of version 1, and then has no connection any
    // more: it is only in the tests below.
    let client = clients().find(|client| client.name == "aioquic").expect("it is among them");
    let relay = Lossy::start(server, 2, 10, 10);
    let want = [
        format!("get 200 3 hello {}", endpoint.seen()),
        format!("post 200 {}", content.sum),
        "keys 200 hello".to_owned(),
        format!("echo 200 {}", content.sum),
        "kept 20".to_owned(),
        "stream 200 50 0".to_owned(),
        format!("trailers 200 {trailers} {trailers}"),
    ];
    let mut command = (client.command)();
    command.args([Door::H3V2.word(), &format!("https://{}", relay.addr), &subject.certificate.ca, &content.path]);
    command.arg("get,post,keys,echo,kept,stream,trailers");
    let printed = while_rebinding(&relay, true, || prints(&folder, client.name, command, &want, PATIENCE));
    assert_eq!(printed, Ok(()), "{}", subject.said());
}

#[test]
#[ignore = "`make conformance` runs it"]
fn a_client_that_begins_with_an_unknown_version_continues_with_the_one_that_it_prefers() {
    crate::judges!("openssl", "conformance-python");
    let site = Site::start("http3-negotiated", "true");
    // aioquic compares the versions of the handshake with those that it was told before (RFC 9368).
    let client = clients().find(|client| client.name == "aioquic").expect("it is among them");
    assert_eq!(said(&mut site.command(client, "negotiated", "kept")), "kept 20\n", "{}", site.running.said());
    assert_eq!(site.count("evenkeel_http3_version2_connections_total"), 1);
}

#[test]
#[ignore = "`make conformance` runs it"]
fn clients_of_both_versions_prove_their_address() {
    crate::judges!("openssl", "conformance-python", "conformance-quic-go");
    let site = Site::start("http3-retry", "{ retry_above = 0 }");
    for (n, (client, door)) in clients().flat_map(|client| [(client, Door::H3), (client, Door::H3V2)]).enumerate() {
        let words = said(&mut site.command(client, door.word(), "kept"));
        assert_eq!(words, "kept 20\n", "{} at {}: {}", client.name, door.word(), site.running.said());
        assert_eq!(site.count("evenkeel_http3_retries_total"), n as u64 + 1, "{}", client.name);
        let in_v2 = site.count("evenkeel_http3_version2_connections_total");
        assert_eq!(in_v2, (n as u64).div_ceil(2), "{} at {}", client.name, door.word());
    }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn clients_get_responses_to_safe_requests_in_early_data_and_to_others_after_the_handshake() {
    crate::judges!("openssl", "conformance-python", "conformance-quic-go");
    for client in clients() {
        for door in [Door::H3, Door::H3V2] {
            let name = format!("http3-early-{}-{}", client.name, door.word());
            let site = Site::start(&name, "{ early_data = true }");
            let words = said(&mut site.command(client, door.word(), "early"));
            let want = "early 200 hello true\nearly post 200 hello\n";
            assert_eq!(words, want, "{name}: {}", site.running.said());
            // How many of the two requests came before the end of the handshake depends on the scheduler.
            assert_eq!(site.count("evenkeel_http3_early_data_total"), 1, "{name}");
            assert_eq!(site.count("evenkeel_http3_early_data_refused_total"), 0, "{name}");
            let in_v2 = site.count("evenkeel_http3_version2_connections_total");
            assert_eq!(in_v2 >= 2, door == Door::H3V2, "{name}: {in_v2}");
        }
    }
}
