//! Does a pool follow a zone of a name server that others wrote? NSD, whose zone changes, and which dies and comes back.

mod support;

use evenkeel_config::Plan;
use evenkeel_discovery::Discovery;
use evenkeel_peers::installed;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::own_addr;

/// A name server of the test's own, in a folder of its own. Both are gone when it is dropped.
struct Nsd {
    folder: PathBuf,
    addr: SocketAddr,
    child: Option<Child>,
}

impl Nsd {
    fn new() -> Nsd {
        let folder = std::env::temp_dir().join(format!("evenkeel-nsd-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        // It comes and goes, and nobody may take its place meanwhile.
        let addr = own_addr();
        let (at, ip, port) = (folder.display(), addr.ip(), addr.port());
        let conf = format!(
            "server:\n ip-address: {ip}@{port}\n username: \"\"\n chroot: \"\"\n zonesdir: \"{at}\"\n database: \"\"\n \
             pidfile: \"{at}/pid\"\n xfrdfile: \"{at}/xfrd\"\n zonelistfile: \"{at}/zones\"\n do-ip6: no\n\
             remote-control:\n control-enable: no\nzone:\n name: test\n zonefile: test.zone\n"
        );
        fs::write(folder.join("nsd.conf"), conf).expect("it can be written");
        Nsd { folder, addr, child: None }
    }

    /// Serves this zone from now on, in another process than before.
    fn serve(&mut self, records: &str) {
        self.stop();
        let zone = format!("$ORIGIN test.\n$TTL 0\n@ SOA ns admin 1 60 60 60 1\n@ NS ns\nns A 127.0.0.1\n{records}");
        fs::write(self.folder.join("test.zone"), zone).expect("it can be written");
        // Debian keeps servers where a user's path does not look.
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let mut nsd = Command::new("nsd");
        nsd.env("PATH", path).arg("-d").arg("-c").arg(self.folder.join("nsd.conf"));
        let child = nsd.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("scripts/setup.sh installs nsd"));
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // On a TERM it ends its own children; on a KILL they would go on.
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

#[tokio::test]
async fn a_zone_of_nsd_is_followed() {
    if !installed(&["nsd"]) {
        return;
    }
    let (mut nsd, mut discovery) = (Nsd::new(), Discovery::default());
    let text = format!(
        "[resolver]\nnameservers = ['{}']\nmin_ttl = '100ms'\n[listener.web]\nbind = ['127.0.0.1:1']\n\
         [pool.web]\ndiscover = {{ dns = {{ name = '_http._tcp.web.test', type = 'SRV' }} }}",
        nsd.addr
    );
    let mut plan: Plan = evenkeel_config::parse_str("test.toml", &text, &|_| None).plan.expect("a good plan");
    // Nobody is there yet.
    let following = discovery.follow(&mut plan).await;
    discovery.keep(following);
    assert!(found(&discovery).is_empty());
    // Its additional section has the addresses, and the name is an alias.
    nsd.serve(
        "_http._tcp.web CNAME all\nall SRV 5 7 80 a\nall SRV 9 1 81 b\na A 10.0.0.1\na AAAA fd00::1\nb A 10.0.0.2\n",
    );
    becomes(&mut discovery, &["10.0.0.1:80 7 0", "10.0.0.2:81 1 1"]).await;
    nsd.stop();
    // More than fits a datagram, so it comes by TCP, and without the addresses.
    let many: String = (0..60).map(|n| format!("_http._tcp.web SRV 5 1 80 t{n}\nt{n} A 10.0.1.{n}\n")).collect();
    nsd.serve(&many);
    let wanted: Vec<String> = (0..60).map(|n| format!("10.0.1.{n}:80 1 0")).collect();
    becomes(&mut discovery, &wanted.iter().map(String::as_str).collect::<Vec<_>>()).await;
    // The name is gone, which empties nothing.
    nsd.serve("");
    nsd.serve("_http._tcp.web SRV 5 1 80 t9\nt9 A 10.0.1.9\n");
    becomes(&mut discovery, &["10.0.1.9:80 1 0"]).await;
}
