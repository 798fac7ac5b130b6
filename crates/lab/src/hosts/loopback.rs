//! Hosts that vanish or lose packets: a network namespace with loopback only, in which nftables rules drop packets to
//! and from a single address. Does not need netem.

use super::left::PREFIX;
use crate::child;
use crate::error::{Error, Result, While};
use crate::machine;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// Maximum time for a change of the network.
const PATIENCE: Duration = Duration::from_secs(10);

/// Chain of the rules, an input chain: packets over loopback pass it in both directions.
const CHAIN: &str = "inet lab lost";

/// Network namespace of the thread that entered it, and of threads and processes started by that thread. Left and
/// removed when dropped.
pub struct Loopback {
    ip: String,
    nft: String,
    name: String,
    before: File,
}

impl Loopback {
    /// Creates the namespace and moves this thread into it. Call it from the main thread, which starts all others.
    ///
    /// # Errors
    /// If root, `ip` or `nft` is missing.
    pub fn enter() -> Result<Loopback> {
        machine::needs_root("rules that drop packets")?;
        let (ip, nft) = (child::find("ip")?, child::find("nft")?);
        let before = open(Path::new("/proc/thread-self/ns/net"))?;
        let name = format!("{PREFIX}-{}-lo", std::process::id());
        succeed(&[&ip, "netns", "add", &name])?;
        // From here on, drop removes the namespace if a step fails.
        let network = Loopback { ip, nft, name, before };
        succeed(&[&network.ip, "-n", &network.name, "link", "set", "lo", "up"])?;
        move_to(&open(&Path::new("/run/netns").join(&network.name))?)?;
        network.tell("add table inet lab")?;
        network.tell(&format!("add chain {CHAIN} {{ type filter hook input priority 0; }}"))?;
        Ok(network)
    }

    /// Silently drops this percentage of the packets to and from an address.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn lose(&self, percent: u8, address: SocketAddr) -> Result<()> {
        let Some(most) = percent.min(100).checked_sub(1) else { return Ok(()) };
        let (ip, port) = (address.ip(), address.port());
        for end in [format!("ip daddr {ip} tcp dport {port}"), format!("ip saddr {ip} tcp sport {port}")] {
            self.tell(&format!("add rule {CHAIN} {end} numgen random mod 100 <= {most} drop"))?;
        }
        Ok(())
    }

    /// Removes all rules, so that no packets are dropped.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn heal(&self) -> Result<()> {
        self.tell(&format!("flush chain {CHAIN}"))
    }

    fn tell(&self, rule: &str) -> Result<()> {
        succeed(&[&self.nft, rule])
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        let back = move_to(&self.before);
        // Removes its rules, too. Not by `child::output`, which fails after an interrupt.
        let removed = std::process::Command::new(&self.ip).args(["netns", "del", &self.name]).status();
        if back.is_err() || !removed.is_ok_and(|status| status.success()) {
            eprintln!("warning: the network namespace {} is not removed", self.name);
        }
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).or_say(|| format!("cannot open {}", path.display()))
}

fn move_to(namespace: &File) -> Result<()> {
    let moved = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
    moved.or_say(|| "cannot enter a network namespace".into())
}

fn succeed(words: &[&str]) -> Result<()> {
    let command: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let output = child::output(&command, PATIENCE)?;
    if output.success {
        return Ok(());
    }
    Err(Error::Wrong(format!("`{}` failed: {}", command.join(" "), output.text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_vanished_address_says_nothing_and_is_back_when_healed() {
        // In a separate thread, as a network namespace belongs to a thread.
        let tried = std::thread::spawn(|| {
            let network = match Loopback::enter() {
                Ok(network) => network,
                Err(error) => return evenkeel_peers::skip(&error.to_string()),
            };
            let listener = TcpListener::bind("127.1.2.3:0").expect("all of 127/8 is loopback");
            let address = listener.local_addr().expect("it is bound");
            let mut client = TcpStream::connect(address).expect("it listens");
            let (mut server, _) = listener.accept().expect("it came");
            server.set_read_timeout(Some(Duration::from_millis(100))).expect("it can wait");
            network.lose(100, address).expect("a rule");
            client.write_all(b"x").expect("the connection stays");
            let mut byte = [0];
            let nothing = server.read(&mut byte).expect_err("nothing comes").kind();
            assert!(matches!(nothing, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{nothing:?}");
            network.heal().expect("no rule");
            server.set_read_timeout(Some(Duration::from_secs(10))).expect("it can wait");
            server.read_exact(&mut byte).expect("it is sent again");
            let place = Path::new("/run/netns").join(&network.name);
            assert!(place.exists());
            drop(network);
            assert!(!place.exists());
        });
        tried.join().expect("what it asserts holds");
    }
}
