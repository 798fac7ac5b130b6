//! Three balancers that announce one address by BGP.

use super::machine::{LONG, Machine, able, again, ask, deployed, deployed_path, end, endpoint, start};
use super::namespace::Namespace;
use super::support::eventually;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

const VIP: &str = "198.51.100.10";

/// Router with three balancers behind it, endpoints that all of them reach, and a client.
struct Net {
    router: Namespace,
    /// Namespace of the endpoints.
    _back: Namespace,
    client: Namespace,
    machines: Vec<Machine>,
    folder: super::support::Folder,
    bird: Option<std::process::Child>,
    addr: SocketAddr,
}

impl Drop for Net {
    fn drop(&mut self) {
        self.bird.take().into_iter().for_each(end);
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Net {
    fn start() -> Net {
        let (router, client) = (Namespace::new(), Namespace::new());
        router.set("net.ipv4.ip_forward", "1");
        // By ports too, so that connections of one client are spread.
        router.set("net.ipv4.fib_multipath_hash_policy", "1");
        let join = |space: &Namespace, near: &str, net: &str| {
            router.ip(&format!("link add {near} type veth peer name eth0 netns {}", space.name()));
            router.ip(&format!("addr add {net}.254/24 dev {near}"));
            router.ip(&format!("link set {near} up"));
            space.ip(&format!("addr add {net}.1/24 dev eth0"));
            space.ip("link set eth0 up");
            space.ip(&format!("route add default via {net}.254"));
        };
        join(&client, "client", "10.1.0");
        let back = Namespace::new();
        join(&back, "back", "10.2.0");
        for (n, name) in NAMES.into_iter().enumerate() {
            back.ip(&format!("addr add 10.2.0.{}/24 dev eth0", 10 + n));
            endpoint(&back, &format!("10.2.0.{}:9000", 10 + n), name);
        }
        let machines: Vec<Machine> = (1..=3)
            .map(|n| {
                let mut machine = Machine::new(&format!("ecmp{n}"));
                join(&machine.space, &format!("lb{n}"), &format!("10.10.{n}"));
                machine.space.ip(&format!("addr add {VIP}/32 dev lo"));
                let endpoints = (10..14).map(|n| format!("'10.2.0.{n}:9000'")).collect::<Vec<_>>().join(", ");
                machine.run(&format!(
                    "[runtime]\nworkers = 1\nshutdown_delay = '20s'\n[listener.web]\nbind = ['{VIP}:80']\nmode = 'tcp'\npool = 'web'\n\
                     [pool.web]\nbalance = {{ maglev = {{ key = 'client-ip', bound = 10 }} }}\nendpoints = [{endpoints}]\n"
                ));
                machine
            })
            .collect();
        let folder = super::support::Folder::new("ha-router");
        let addr = format!("{VIP}:80").parse().expect("an address");
        Net { router, _back: back, client, machines, folder, bird: None, addr }
    }

    /// Starts BIRD on the router and beside each balancer, with what announces them.
    fn announce(&mut self) {
        let peers: String = (1..=3)
            .map(|n| {
                format!(
                    "protocol bgp lb{n} {{\n local as 65000;\n neighbor 10.10.{n}.1 as 65001;\n hold time 9;\n ipv4 {{ import all; export none; }};\n}}\n"
                )
            })
            .collect();
        let config = self.folder.file(
            "router.conf",
            &format!(
                "router id 10.1.0.254;\nprotocol device {{ }}\nprotocol kernel {{ merge paths yes; ipv4 {{ import none; export all; }}; }}\n{peers}"
            ),
        );
        let bird = |folder: &super::support::Folder, config: &str| {
            let mut bird = Command::new("bird");
            let socket = folder.0.join("bird.ctl").display().to_string();
            bird.args(["-f", "-c", config, "-s", &socket, "-P"]).arg(folder.0.join("bird.pid"));
            bird
        };
        let mut command = bird(&self.folder, &config);
        self.bird = Some(start(&self.router, &mut command));
        for (n, machine) in self.machines.iter_mut().enumerate() {
            let n = n + 1;
            let (id, neighbour) = (format!("10.10.{n}.1"), format!("10.10.{n}.254"));
            let with = [("router id 192.0.2.1", &*format!("router id {id}")), ("192.0.2.254", &neighbour)];
            let config = machine.folder.file("bird.conf", &deployed("bird.conf", &with));
            let daemon = bird(&machine.folder, &config);
            machine.daemon(daemon);
            let mut announcer = Command::new("sh");
            announcer.arg(deployed_path("announce.sh"));
            announcer.env("READY", machine.asking("ready"));
            announcer.env("BIRDC", format!("birdc -s {}", machine.folder.0.join("bird.ctl").display()));
            machine.daemon(announcer);
        }
    }

    /// Number of balancers to which the router has a path.
    fn paths(&self) -> usize {
        let routes = self.router.run(&format!("ip route show {VIP}"));
        (1..=3).filter(|n| routes.contains(&format!("via 10.10.{n}.1 "))).count()
    }

    /// Opens connections from the client, and returns them with their endpoints.
    fn connect(&self, n: usize) -> Vec<(TcpStream, String)> {
        self.client.within(|| (0..n).map(|_| eventually("an answer", || ask(self.addr, LONG))).collect())
    }

    /// Connections that each balancer has had.
    fn sessions(&self) -> Vec<u64> {
        let count = |machine: &Machine| {
            let status = machine.space.run(&machine.asking("status --json"));
            let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
            status["listeners"][0]["connections"].as_u64().expect("a number")
        };
        self.machines.iter().map(count).collect()
    }
}

#[test]
fn balancers_that_announce_one_address_agree_and_withdraw_before_they_stop() {
    if !able(&["bird", "birdc"]) {
        return;
    }
    let mut net = Net::start();
    net.announce();
    eventually("three paths", || (net.paths() == 3).then_some(()));
    let held = net.connect(60);
    let endpoints: BTreeSet<&str> = held.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(endpoints.len(), 1, "one client has one endpoint, whatever balancer it comes to");
    let sessions = net.sessions();
    assert!(sessions.iter().all(|open| *open > 5), "{sessions:?}");
    // An order to stop withdraws the path, while what comes is served.
    net.machines[1].running.as_ref().expect("it runs").signal(Signal::TERM);
    let mut failed = 0;
    eventually("two paths", || {
        failed += usize::from(net.client.within(|| ask(net.addr, LONG)).is_none());
        (net.paths() == 2).then_some(())
    });
    assert_eq!(failed, 0, "connections meanwhile");
    assert!(net.connect(20).iter().all(|(_, name)| endpoints.contains(name.as_str())));
}

#[test]
fn a_balancer_that_leaves_a_resilient_group_moves_its_own_connections_alone() {
    if !able(&[]) {
        return;
    }
    let net = Net::start();
    for n in 1..=3 {
        net.router.ip(&format!("nexthop add id {n} via 10.10.{n}.1 dev lb{n}"));
    }
    net.router.ip("nexthop add id 10 group 1/2/3 type resilient buckets 96");
    net.router.ip(&format!("route add {VIP}/32 nhid 10"));
    let mut held = net.connect(60);
    let before = net.sessions();
    net.router.ip("nexthop replace id 10 group 1/3 type resilient");
    let lost =
        net.client.within(|| held.iter_mut().filter_map(|(stream, _)| again(stream).is_none().then_some(())).count());
    assert_eq!(lost as u64, before[1], "of {before:?}");
}
