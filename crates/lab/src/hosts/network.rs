//! Network of hosts on a machine: a hub and hosts around it, each a network namespace with a
//! link to the hub, whose rate can be limited. Removed on drop; a network left behind by a killed lab is removed by the
//! next.

use super::left::{PREFIX, left_behind};
use crate::child;
use crate::error::{Error, Result, While};
use crate::machine;
use rustix::thread::LinkNameSpaceType;
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// Folder of named namespaces.
const NAMESPACES: &str = "/run/netns";

/// Maximum time for a change of the network.
const PATIENCE: Duration = Duration::from_secs(10);

/// Burst of a limited link in bytes: several packets.
const BURST: u32 = 16 * 1024;

/// Queue of a limited link in bytes: more than all connections of an experiment have in flight, so that nothing is
/// lost.
const WAITING: u32 = 16 * 1024 * 1024;

/// Hub with hosts around it, removed when dropped.
pub struct Network {
    ip: String,
    tc: String,
    /// Namespaces by host; the hub's is first.
    names: Vec<String>,
}

impl Network {
    /// Creates a hub with this number of hosts.
    ///
    /// # Errors
    /// Namespaces are not allowed here, or a program is missing.
    pub fn star(hosts: usize) -> Result<Network> {
        machine::needs_root("network namespaces")?;
        let (ip, tc) = (child::find("ip")?, child::find("tc")?);
        let mut network = Network { ip, tc, names: Vec::new() };
        let process = std::process::id();
        for host in 0..=hosts {
            let name = format!("{PREFIX}-{process}-{host}");
            network.run(&["netns", "add", &name])?;
            network.names.push(name.clone());
            network.run(&["-n", &name, "link", "set", "lo", "up"])?;
        }
        let hub = network.names[0].clone();
        // Hosts reach each other through it.
        let forward = "echo 1 >/proc/sys/net/ipv4/ip_forward";
        network.run(&["netns", "exec", &hub, "sh", "-c", forward])?;
        for host in 1..=hosts {
            let (name, link) = (network.names[host].clone(), format!("h{host}"));
            network.run(&["-n", &hub, "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
            for (of, device, address) in [(&hub, &*link, gateway(host)), (&name, "eth0", address(host).to_string())] {
                network.run(&["-n", of, "addr", "add", &format!("{address}/24"), "dev", device])?;
                network.run(&["-n", of, "link", "set", device, "up"])?;
            }
            network.run(&["-n", &name, "route", "add", "default", "via", &gateway(host)])?;
        }
        Ok(network)
    }

    /// Command prefix that runs a program on a host; 0 is the hub.
    pub fn at(&self, host: usize) -> Vec<String> {
        vec![self.ip.clone(), "netns".into(), "exec".into(), self.names[host].clone()]
    }

    /// Command prefix that runs a program in the network of a host, with the file systems of this machine: `ip netns
    /// exec` hides the BPF file system.
    ///
    /// # Errors
    /// `Missing`.
    pub fn enter(&self, host: usize) -> Result<Vec<String>> {
        Ok(vec![child::find("nsenter")?, format!("--net={NAMESPACES}/{}", self.names[host])])
    }

    /// Runs `work` on a separate thread in the network of a host.
    ///
    /// # Errors
    /// The namespace cannot be entered, or `work` fails.
    pub fn within<T: Send>(&self, host: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let path = format!("{NAMESPACES}/{}", self.names[host]);
        std::thread::scope(|scope| {
            let run = move || {
                let namespace = fs::File::open(&path).or_say(|| format!("cannot open {path}"))?;
                rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .or_say(|| format!("cannot enter {path}"))?;
                work()
            };
            scope.spawn(run).join().unwrap_or_else(|_| Err(Error::Wrong("the work on a host panicked".into())))
        })
    }

    /// Limits the rate at which a host sends, in bytes per second; `None` removes the limit.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn limit_from(&self, host: usize, rate: Option<f64>) -> Result<()> {
        self.limit(host, "eth0", rate)
    }

    /// Limits the rate towards a host, in bytes per second; `None` removes the limit.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn limit_to(&self, host: usize, rate: Option<f64>) -> Result<()> {
        self.limit(0, &format!("h{host}"), rate)
    }

    fn limit(&self, at: usize, device: &str, rate: Option<f64>) -> Result<()> {
        let of = &self.names[at];
        let mut command = vec![self.tc.clone(), "-n".into(), of.clone(), "qdisc".into()];
        let line = match rate {
            Some(rate) => {
                let bits = (rate * 8.0).round();
                format!("replace dev {device} root tbf rate {bits}bit burst {BURST} limit {WAITING}")
            }
            None => format!("replace dev {device} root pfifo limit 10000"),
        };
        command.extend(line.split(' ').map(str::to_owned));
        self.succeed(&command)
    }

    /// Bytes that a host has sent so far.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn sent_by(&self, host: usize) -> Result<u64> {
        self.sent(host, "eth0")
    }

    /// Bytes sent to a host so far.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn sent_to(&self, host: usize) -> Result<u64> {
        self.sent(0, &format!("h{host}"))
    }

    fn sent(&self, at: usize, device: &str) -> Result<u64> {
        let mut command = self.at(at);
        command.extend(["cat".into(), format!("/sys/class/net/{device}/statistics/tx_bytes")]);
        let said = child::output(&command, PATIENCE)?.text;
        said.trim().parse().map_err(|_| Error::Wrong(format!("`{}` says {said:?}", command.join(" "))))
    }

    fn run(&self, words: &[&str]) -> Result<()> {
        let mut command = vec![self.ip.clone()];
        command.extend(words.iter().map(|word| (*word).to_owned()));
        self.succeed(&command)
    }

    fn succeed(&self, command: &[String]) -> Result<()> {
        let output = child::output(command, PATIENCE)?;
        if output.success {
            return Ok(());
        }
        Err(Error::Wrong(format!("`{}` failed: {}", command.join(" "), output.text.trim())))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            // Removes its links and limits, too. Not by `child::output`, which fails after an interrupt.
            let removed = std::process::Command::new(&self.ip).args(["netns", "del", name]).status();
            if !removed.is_ok_and(|status| status.success()) {
                eprintln!("warning: the network namespace {name} is not removed");
            }
        }
    }
}

/// IPv4 address of a host.
pub fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, u8::try_from(host).unwrap_or(u8::MAX), 2)
}

/// Address of the hub on the link to a host.
pub fn gateway(host: usize) -> String {
    format!("198.18.{host}.1")
}

/// Removes the namespaces of labs that no longer run.
///
/// # Errors
/// A namespace cannot be removed.
pub fn sweep() -> Result<()> {
    for name in left_behind(Path::new(NAMESPACES)) {
        let removed = std::process::Command::new(child::find("ip")?).args(["netns", "del", &name]).status();
        removed.or_say(|| format!("cannot remove the network namespace {name}"))?;
    }
    Ok(())
}

/// Checks that a process listens on a port, in whichever namespace. `protocol`: `tcp` or `udp`.
///
/// # Errors
/// If it does not.
pub fn listens(pid: u32, protocol: &str, port: u16) -> Result<()> {
    let there = ["", "6"].iter().any(|version| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{protocol}{version}"));
        has_listener(&table.unwrap_or_default(), port)
    });
    there.then_some(()).ok_or_else(|| Error::Wrong(format!("nothing listens at port {port}")))
}

/// proc(5): `sl local_address rem_address st`, where 0A is LISTEN, and 07 is a socket of UDP that has no peer.
fn has_listener(table: &str, port: u16) -> bool {
    let is_it = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let local = words.next().and_then(|local| local.rsplit_once(':')).map(|(_, port)| port.to_owned());
        local == Some(format!("{port:04X}")) && matches!(words.nth(1), Some("0A" | "07"))
    };
    table.lines().any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_of_this_process_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        assert!(listens(std::process::id(), "tcp", listener.local_addr().expect("it is bound").port()).is_ok());
    }

    #[test]
    fn a_connection_is_no_listener() {
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0\n   1: 0100007F:1F91 0100007F:1F90 01 0\n";
        assert!(has_listener(table, 8080) && !has_listener(table, 8081) && !has_listener(table, 31));
    }

    #[test]
    fn hosts_are_made_limited_and_removed() {
        if !rustix::process::geteuid().is_root() || !evenkeel_peers::installed(&["ip", "tc"]) {
            return;
        }
        let network = Network::star(2).expect("root may");
        network.limit_from(1, Some(125_000.0)).expect("a limit");
        network.limit_to(1, None).expect("none");
        let mut show = vec![network.tc.clone(), "-n".into(), network.names[1].clone(), "qdisc".into(), "show".into()];
        let shown = child::output(&show, PATIENCE).expect("it can be asked").text;
        assert!(shown.contains("tbf") && shown.contains("rate 1Mbit"), "{shown}");
        show[2] = network.names[0].clone();
        assert!(child::output(&show, PATIENCE).expect("it can be asked").text.contains("pfifo"));
        network.sent_by(2).expect("a number");
        let here = |ip| std::net::TcpListener::bind((ip, 0)).or_say(|| "cannot listen".into()).map(drop);
        assert!(network.within(2, || here(address(2))).is_ok() && network.within(1, || here(address(2))).is_err());
        let names = network.names.clone();
        drop(network);
        assert!(names.iter().all(|name| !Path::new("/run/netns").join(name).exists()));
        // As a lab leaves a network behind that was killed; no process has this number.
        let left = format!("{PREFIX}-4194305-0");
        let ip = child::find("ip").expect("it was there");
        assert!(
            child::output(&[ip.clone(), "netns".into(), "add".into(), left.clone()], PATIENCE)
                .expect("root may")
                .success
        );
        sweep().expect("it can be removed");
        assert!(!Path::new("/run/netns").join(left).exists());
    }
}
