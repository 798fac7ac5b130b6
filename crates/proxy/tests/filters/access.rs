//! Access lists: who is answered and who is refused, over both protocols, behind proxies, and after reloads.

use super::{ask_h1, ask_h2};
use crate::support::endpoint::ok;
use crate::support::log::Log;
use crate::support::{Client, Endpoint, Proxy, wait_until};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A configuration with a list for the path `/office`, where `127.0.0.2` is a trusted proxy.
fn config(endpoint: SocketAddr, access: &str, behind: &str) -> String {
    format!(
        "[runtime]\nworkers = 2\n[listener.web]\nbind = [\"$BIND\"]\nh2c = true\nerrors = \"detailed\"\n\
         trusted_proxies = [\"127.0.0.2\"]\n[pool.web]\nendpoints = [\"{endpoint}\"]\n[[route]]\npool = \"web\"\n\
         [[route]]\nname = \"office\"\nmatch = {{ prefix = \"/office\" }}\npool = \"web\"\naccess = {{ {access} }}\n{behind}"
    )
}

fn status(proxy: &Proxy, from: [u8; 4], fields: &str) -> u16 {
    let request = format!("GET /office/x HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    Client::connect_from(from, proxy.addr()).send(request).response().status()
}

/// A file in the temporary folder, removed on drop.
pub struct List(pub PathBuf);

impl List {
    pub fn new(name: &str, text: &str) -> List {
        let path = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
        std::fs::write(&path, text).expect("the temporary folder can be written");
        List(path)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn clients_of_listed_networks_are_answered_and_others_refused() {
    let (endpoint, log) = (Endpoint::saying("hello"), Log::new());
    let access = "allow = ['127.0.0.0/24', '192.0.2.0/24'], deny = ['127.0.0.3', '192.0.2.7']";
    let proxy = Proxy::start(&config(endpoint.addr, access, &log.config()));
    assert_eq!(ask_h1(&proxy, "/office", &[], "").0, 200);
    assert_eq!(ask_h2(&proxy, "/office", &[], "").await.0, 200);
    assert_eq!(status(&proxy, [127, 0, 0, 3], ""), 403, "denied within the allowed network");
    assert_eq!(status(&proxy, [127, 0, 1, 1], ""), 403, "in no network");
    // A trusted proxy names the client; another address cannot.
    assert_eq!(status(&proxy, [127, 0, 0, 2], "X-Forwarded-For: 192.0.2.1\r\n"), 200);
    assert_eq!(status(&proxy, [127, 0, 0, 2], "X-Forwarded-For: 192.0.2.7\r\n"), 403);
    assert_eq!(status(&proxy, [127, 0, 0, 2], "X-Forwarded-For: ::ffff:192.0.2.7\r\n"), 403);
    assert_eq!(status(&proxy, [127, 0, 1, 1], "X-Forwarded-For: 192.0.2.1\r\n"), 403);
    // Other routes have no list, and a refusal leaves the connection open.
    let mut client = Client::connect_from([127, 0, 1, 1], proxy.addr());
    assert_eq!(client.get("/").status(), 200);
    let refused = client.send("POST /office HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").response();
    assert_eq!((refused.status(), refused.field("connection")), (403, None));
    assert!(refused.body_text().contains("may not use the route"), "{}", refused.body_text());
    assert_eq!(client.get("/").status(), 200);
    wait_until("all are counted", || proxy.ended(403) == 6);
    assert_eq!(proxy.listener(|listener| listener.access_refused.get()), 6);
    let lines = log.lines(proxy);
    let refused: Vec<_> = lines.iter().filter(|line| line["status"] == 403).collect();
    assert_eq!(refused.len(), 6);
    for line in refused {
        assert_eq!((line["route"].as_str(), line["term"].as_str().map(|term| &term[..1])), (Some("office"), Some("P")));
        assert!(line["reason"].as_str().is_some_and(|reason| reason.contains("access lists")), "{line}");
    }
}

#[tokio::test]
async fn explanations_name_the_reason_of_a_refusal() {
    let endpoint = Endpoint::saying("hello");
    let access = "allow = ['127.0.0.0/24'], deny = ['127.0.0.3']";
    let proxy = Proxy::start(&config(endpoint.addr, access, "[telemetry.explain]\nsample = 1\n"));
    for (n, (from, did)) in [
        ([127, 0, 0, 1], "127.0.0.1 is in an allowed network"),
        ([127, 0, 0, 3], "refused: 127.0.0.3 is in a denied network"),
        ([127, 0, 1, 1], "refused: 127.0.1.1 is in no allowed network"),
    ]
    .into_iter()
    .enumerate()
    {
        status(&proxy, from, "");
        wait_until("it is over", || proxy.ended(200) + proxy.ended(403) > n as u64);
        let kept = proxy.server().looker().explanations().await;
        let steps: Vec<_> = kept.iter().flat_map(|one| &one.filters).filter(|step| step.name == "access").collect();
        assert!(steps.iter().any(|step| step.did == did), "{steps:?}");
    }
}

#[test]
fn files_are_read_at_each_reload_and_the_status_is_that_of_the_route() {
    let endpoint = Endpoint::answering(|_| ok("hello"));
    let list = List::new("denied", "# bad\n127.0.0.3\n");
    let access = format!("deny_files = ['{}'], status = 404", list.0.display());
    let mut proxy = Proxy::start(&config(endpoint.addr, &access, ""));
    let statuses = |proxy: &Proxy| [[127, 0, 0, 3], [127, 0, 0, 4]].map(|from| status(proxy, from, ""));
    assert_eq!(statuses(&proxy), [404, 200]);
    std::fs::write(&list.0, "127.0.0.4/32\n").expect("it can be written");
    assert_eq!(statuses(&proxy), [404, 200], "nothing watches it here");
    proxy.reload(&config(endpoint.addr, &access, "")).expect("the list is good");
    assert_eq!(statuses(&proxy), [200, 404]);
    // A wrong file fails the reload, and what ran goes on.
    std::fs::write(&list.0, "127.0.0.4/32\n127.0.0.1/8\n").expect("it can be written");
    let error =
        proxy.reload(&config(endpoint.addr, &access, "")).expect_err("bits are set behind the prefix").to_string();
    assert!(error.contains(&format!("{}:2: \"127.0.0.1/8\"", list.0.display())), "{error}");
    assert_eq!(statuses(&proxy), [200, 404]);
    // As the process looks at files that it watches; a change counts once it has been seen twice.
    std::fs::write(&list.0, "127.0.0.3\n127.0.0.4\n").expect("it can be written");
    (0..2).for_each(|_| proxy.server().resources().look());
    assert_eq!(statuses(&proxy), [404, 404]);
}
