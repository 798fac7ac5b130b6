//! Two balancers with one address by VRRP.

use super::machine::{Machine, SHORT, able, ask, deployed, deployed_path, endpoint, outage};
use super::namespace::Namespace;
use super::support::eventually;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Instant;

const VIP: &str = "192.0.2.10";

const CONFIG: &str = "[runtime]\nworkers = 1\nshutdown_delay = '20s'\n[listener.web]\nbind = ['[::]:80']\nmode = 'tcp'\npool = 'web'\n\
    [pool.web]\nendpoints = ['127.0.0.1:9000']\n";

struct Pair {
    /// Bridge that joins all others.
    lan: Namespace,
    client: Namespace,
    machines: [Machine; 2],
    addr: SocketAddr,
}

impl Pair {
    fn start() -> Pair {
        let (lan, client) = (Namespace::new(), Namespace::new());
        lan.ip("link add bridge type bridge");
        lan.ip("link set bridge up");
        let plug = |space: &Namespace, n: u8| {
            space.ip(&format!("link add eth0 type veth peer name port{n} netns {}", lan.name()));
            lan.ip(&format!("link set port{n} master bridge up"));
            space.ip(&format!("addr add 192.0.2.{n}/24 dev eth0"));
            space.ip("link set eth0 up");
        };
        plug(&client, 100);
        let machines = [1, 2].map(|n| {
            let mut machine = Machine::new(&format!("vrrp{n}"));
            plug(&machine.space, n);
            machine.space.set("net.ipv4.ip_nonlocal_bind", "1");
            endpoint(&machine.space, "127.0.0.1:9000", if n == 1 { "1" } else { "2" });
            machine.run(CONFIG);
            let file = machine.folder.0.join("ready").display().to_string();
            let mut tracker = Command::new("sh");
            tracker.arg(deployed_path("track.sh")).arg(&file).env("READY", machine.asking("ready"));
            machine.daemon(tracker);
            eventually("the file", || std::fs::read_to_string(&file).ok().filter(|text| text == "0\n"));
            let priority = format!("priority {}", 200 - n);
            let with = [("/run/evenkeel-ready", &*file), ("priority 100", &priority)];
            let config = machine.folder.file("keepalived.conf", &deployed("keepalived.conf", &with));
            let mut keepalived = Command::new("keepalived");
            let pid = |name: &str| machine.folder.0.join(name).display().to_string();
            keepalived.args(["--vrrp", "--dont-fork", "--log-console", "--use-file", &config]);
            keepalived.args(["--pid", &pid("keepalived.pid"), "--vrrp_pid", &pid("vrrp.pid")]);
            machine.daemon(keepalived);
            machine
        });
        let pair = Pair { lan, client, machines, addr: format!("{VIP}:80").parse().expect("an address") };
        // The election takes the longest at a start.
        pair.is_served_by("1");
        pair
    }

    /// Starts the evenkeel of a machine again, and waits until it is known to be ready.
    fn run_again(&mut self, at: usize) {
        self.machines[at].run(CONFIG);
        let file = self.machines[at].folder.0.join("ready");
        eventually("a ready machine", || std::fs::read_to_string(&file).ok().filter(|text| text == "0\n"));
    }

    #[track_caller]
    fn is_served_by(&self, name: &str) {
        self.client.within(|| {
            eventually(&format!("machine {name}"), || ask(self.addr, SHORT).filter(|(_, seen)| seen == name).map(drop));
        });
    }
}

#[test]
fn the_address_moves_if_a_machine_dies_its_evenkeel_dies_or_it_shall_stop() {
    if !able(&["keepalived"]) {
        return;
    }
    let mut pair = Pair::start();
    // Not ready from the order on, but serving until the delay is over.
    let stopped = Instant::now();
    pair.machines[0].running.as_ref().expect("it runs").signal(Signal::TERM);
    let mut failed = 0;
    pair.client.within(|| {
        eventually("the other machine", || match ask(pair.addr, SHORT) {
            Some((_, name)) => (name == "2").then_some(()),
            None => {
                failed += 1;
                None
            }
        });
    });
    println!("an ordered stop: {failed} connections failed, moved after {:?}", stopped.elapsed());
    // Machine 1 is there again, and takes nothing back without need.
    pair.machines[0].running.as_mut().expect("it runs").signal(Signal::KILL);
    pair.machines[0].running = None;
    pair.run_again(0);
    pair.is_served_by("2");
    // The process dies.
    let began = Instant::now();
    pair.machines[1].running.as_ref().expect("it runs").signal(Signal::KILL);
    println!("a killed evenkeel: {:?} without an answer", outage(&pair.client, pair.addr, began));
    pair.is_served_by("1");
    // The machine dies, with everything on it.
    pair.machines[1].running = None;
    pair.run_again(1);
    let began = Instant::now();
    pair.lan.ip("link set port1 down");
    println!("a machine without power: {:?} without an answer", outage(&pair.client, pair.addr, began));
    pair.machines[0].die();
    pair.is_served_by("2");
}
