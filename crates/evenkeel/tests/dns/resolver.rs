//! Unbound as the resolver, with a random case in its questions and names minimised on the way down.

use super::DnsSetup;
use crate::support::{Folder, address, eventually, text};
use evenkeel_peers::installed;
use std::process::{Child, Command, Stdio};

struct Unbound {
    child: Child,
    listen: String,
    _folder: Folder,
}

impl Unbound {
    /// Starts one that asks `server` for the zone.
    fn start(server: &str) -> Unbound {
        let (folder, listen) = (Folder::new("unbound"), address());
        let (ip, port) = listen.rsplit_once(':').expect("an address with a port");
        let file = folder.file(
            "unbound.conf",
            &format!(
                "server:\n interface: {ip}\n port: {port}\n access-control: 127.0.0.0/8 allow\n username: \"\"\n chroot: \"\"\n \
                 directory: \"{}\"\n pidfile: \"\"\n use-syslog: no\n do-not-query-localhost: no\n use-caps-for-id: yes\n \
                 qname-minimisation: yes\n module-config: \"iterator\"\n do-ip6: no\n\
                 remote-control:\n control-enable: no\n\
                 stub-zone:\n name: gslb.example.com\n stub-addr: {}\n",
                folder.0.display(),
                server.replace(':', "@")
            ),
        );
        let mut command = Command::new(evenkeel_peers::find("unbound").expect("the test looked"));
        let child = command.args(["-d", "-c", &file]).stderr(Stdio::null()).stdout(Stdio::null()).spawn();
        Unbound { child: child.expect("it starts"), listen, _folder: folder }
    }

    fn ask(&self, question: &str) -> String {
        let (ip, port) = self.listen.rsplit_once(':').expect("an address with a port");
        let mut dig = Command::new("dig");
        dig.args([&format!("@{ip}"), "-p", port, "+tries=1", "+time=2"]).args(question.split(' '));
        let said = text(&dig.output().expect("scripts/setup.sh installs dig").stdout);
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn unbound_resolves_through_it() {
    if !installed(&["unbound", "dig"]) {
        return;
    }
    let setup = DnsSetup::start("unbound");
    let unbound = Unbound::start(&setup.listen);
    eventually("an unbound that answers", || unbound.ask("www.gslb.example.com A").contains("NOERROR").then_some(()));
    for (question, wants) in [
        ("www.gslb.example.com A", &["ANSWER: 2,", "10.9.0."][..]),
        ("www.gslb.example.com AAAA", &["ANSWER: 1,", "2001:db8::9"]),
        ("gslb.example.com A", &["ANSWER: 2,", "10.9.2."]),
        ("_http._tcp.gslb.example.com SRV", &["ANSWER: 4,", "10-9-0-1.gslb.example.com."]),
        ("10-9-0-1.gslb.example.com A", &["ANSWER: 1,", "10.9.0.1"]),
        ("many.gslb.example.com A", &["ANSWER: 60,"]),
        ("_many._tcp.gslb.example.com SRV", &["ANSWER: 60,"]),
        ("nothing.gslb.example.com A", &["NXDOMAIN"]),
        ("_tcp.gslb.example.com A", &["NOERROR", "ANSWER: 0,"]),
        ("www.gslb.example.com MX", &["NOERROR", "ANSWER: 0,"]),
    ] {
        let said = unbound.ask(question);
        assert!(wants.iter().all(|want| said.contains(want)), "{question}: not {wants:?} in {said}");
    }
}
