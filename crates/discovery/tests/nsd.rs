//! Pools that follow a zone of NSD, an independent name server, while its zone changes and it stops and
//! restarts.

use crate::support::wait_until;
use evenkeel_config::Plan;
use evenkeel_discovery::{Discovery, Numbers};
use evenkeel_peers::installed;
use evenkeel_peers::own_addr;
use prometheus_client::registry::Registry;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A private name server with a folder of its own. Both are removed on drop.
struct Nsd {
    folder: PathBuf,
    addr: SocketAddr,
    child: Option<Child>,
}

impl Nsd {
    fn new() -> Nsd {
        let folder = std::env::temp_dir().join(format!("evenkeel-nsd-{}-{}", std::process::id(), own_addr().port()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        // Reserved, because the server stops and restarts, and nobody may take its address meanwhile.
        let addr = own_addr();
        let (at, ip, port) = (folder.display(), addr.ip(), addr.port());
        let conf = format!(
            "server:\n round-robin: yes\n ip-address: {ip}@{port}\n username: \"\"\n chroot: \"\"\n zonesdir: \"{at}\"\n database: \"\"\n \
             pidfile: \"{at}/pid\"\n xfrdfile: \"{at}/xfrd\"\n zonelistfile: \"{at}/zones\"\n do-ip6: no\n\
             remote-control:\n control-enable: no\nzone:\n name: test\n zonefile: test.zone\n"
        );
        fs::write(folder.join("nsd.conf"), conf).expect("it can be written");
        Nsd { folder, addr, child: None }
    }

    /// Serves this zone from now on, in a new process.
    fn serve(&mut self, records: &str) {
        self.serve_for(0, records);
    }

    /// Serves this zone with this TTL, which also applies to negative answers.
    fn serve_for(&mut self, ttl: u32, records: &str) {
        self.stop();
        let soa = format!("@ SOA ns admin 1 60 60 60 {ttl}");
        let zone = format!("$ORIGIN test.\n$TTL {ttl}\n{soa}\n@ NS ns\nns A 127.0.0.1\n{records}");
        fs::write(self.folder.join("test.zone"), zone).expect("it can be written");
        // Debian installs servers outside a user's path.
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let mut nsd = Command::new("nsd");
        nsd.env("PATH", path).arg("-d").arg("-c").arg(self.folder.join("nsd.conf"));
        let child = nsd.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("scripts/setup.sh installs nsd"));
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // TERM makes it end its children; KILL would leave them running.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

impl Drop for Nsd {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn found(discovery: &Discovery) -> Vec<String> {
    discovery.lists()[0].1.iter().map(|e| format!("{} {} {}", e.name, e.weight, e.priority)).collect()
}

async fn becomes(discovery: &mut Discovery, wanted: &[&str]) {
    let until = Instant::now() + Duration::from_secs(30);
    while found(discovery) != wanted {
        assert!(Instant::now() < until, "{:?}, not {wanted:?}", found(discovery));
        let _ = tokio::time::timeout(Duration::from_secs(5), discovery.changed()).await;
    }
}

/// A pool of services from this server, which is queried ten times a second unless its TTLs are longer.
fn plan(nsd: &Nsd) -> Plan {
    let text = format!(
        "[resolver]\nnameservers = ['{}']\nmin_ttl = '100ms'\n[listener.web]\nbind = ['127.0.0.1:1']\n\
         [pool.web]\ndiscover = {{ dns = {{ name = '_http._tcp.web.test', type = 'SRV' }} }}",
        nsd.addr
    );
    evenkeel_config::parse_str("test.toml", &text, &|_| None).plan.expect("a good plan")
}

/// Number of answers with this result.
fn updates(discovery: &Discovery, result: &str) -> f64 {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Numbers::new(discovery)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes everything");
    let line = text.lines().find(|l| l.contains("updates_total") && l.contains(&format!("result=\"{result}\"")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

async fn reaches(discovery: &Discovery, result: &str, count: f64) {
    wait_until(&format!("{count} times {result}"), || updates(discovery, result) >= count).await;
}

/// Addresses of both families, more than fit into the additional section, so a different part is sent each
/// time.
#[tokio::test]
async fn a_list_does_not_depend_on_what_fits_an_answer() {
    if !installed(&["nsd"]) {
        return;
    }
    for targets in [8, 16, 30] {
        let (mut nsd, discovery) = (Nsd::new(), Discovery::default());
        let records = |n| format!("_http._tcp.web SRV 5 1 80 t{n}\nt{n} A 10.0.1.{n}\nt{n} AAAA fd00::{n}\n");
        nsd.serve(&(10..10 + targets).map(records).collect::<String>());
        let following = discovery.follow(&plan(&nsd)).await;
        discovery.keep(following);
        reaches(&discovery, "unchanged", 20.0).await;
        let wanted: Vec<String> = (10..10 + targets).map(|n| format!("10.0.1.{n}:80 1 0")).collect();
        assert_eq!(found(&discovery), wanted);
        assert_eq!(updates(&discovery, "changed"), 1.0, "one list all the time, of {targets} targets");
    }
}

/// A zone with a negative TTL of an hour.
#[tokio::test]
async fn a_name_that_begins_to_exist_is_found_within_seconds() {
    if !installed(&["nsd"]) {
        return;
    }
    let (mut nsd, mut discovery) = (Nsd::new(), Discovery::default());
    nsd.serve_for(3600, "");
    let following = discovery.follow(&plan(&nsd)).await;
    discovery.keep(following);
    reaches(&discovery, "empty", 1.0).await;
    nsd.serve_for(3600, "_http._tcp.web SRV 5 1 80 t9\n");
    // The service exists before its target, whose absence has a TTL of an hour too.
    reaches(&discovery, "empty", 3.0).await;
    nsd.serve_for(3600, "_http._tcp.web SRV 5 1 80 t9\nt9 A 10.0.1.9\n");
    becomes(&mut discovery, &["10.0.1.9:80 1 0"]).await;
}

#[tokio::test]
async fn a_zone_of_nsd_is_followed() {
    if !installed(&["nsd"]) {
        return;
    }
    let (mut nsd, mut discovery) = (Nsd::new(), Discovery::default());
    // The server is not running yet.
    let following = discovery.follow(&plan(&nsd)).await;
    discovery.keep(following);
    assert!(found(&discovery).is_empty());
    // The answer has the addresses in its additional section, and the name is an alias.
    nsd.serve(
        "_http._tcp.web CNAME all\nall SRV 5 7 80 a\nall SRV 9 1 81 b\na A 10.0.0.1\na AAAA fd00::1\nb A 10.0.0.2\n",
    );
    becomes(&mut discovery, &["10.0.0.1:80 7 0", "10.0.0.2:81 1 1"]).await;
    nsd.stop();
    // Too large for a datagram, so it is fetched over TCP, and without the addresses.
    let many: String = (0..60).map(|n| format!("_http._tcp.web SRV 5 1 80 t{n}\nt{n} A 10.0.1.{n}\n")).collect();
    nsd.serve(&many);
    let wanted: Vec<String> = (0..60).map(|n| format!("10.0.1.{n}:80 1 0")).collect();
    becomes(&mut discovery, &wanted.iter().map(String::as_str).collect::<Vec<_>>()).await;
    // The name no longer exists, which must not empty the pool.
    nsd.serve("");
    nsd.serve("_http._tcp.web SRV 5 1 80 t9\nt9 A 10.0.1.9\n");
    becomes(&mut discovery, &["10.0.1.9:80 1 0"]).await;
}
