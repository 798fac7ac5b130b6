//! Resolver settings of the machine: `/etc/hosts` and `/etc/resolv.conf`, reread for each query. Both change
//! while a process runs, and missing that is a well-known problem.

use rustix::net::netdevice::name_to_index;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;

/// Most bytes read of each file. A larger file is not a resolver configuration.
const FILE_MAX: usize = 1 << 20;

/// Servers to query, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Conf {
    /// At most three, as in every resolver that reads this file.
    pub nameservers: Vec<SocketAddr>,
    /// Search domains for short names.
    pub search: Vec<String>,
    /// Number of dots from which on a name is tried unchanged first.
    pub ndots: usize,
    /// Time limit for a server to answer.
    pub timeout: Duration,
    /// Number of rounds over all servers.
    pub attempts: usize,
}

impl Conf {
    /// Reads `/etc/resolv.conf`. Without the file, the default of resolvers applies: a server on this machine.
    pub fn read() -> Conf {
        Conf::of(&text("/etc/resolv.conf"))
    }

    fn of(text: &str) -> Conf {
        // A quarter of the C library's timeout, because callers poll and need not wait long.
        let mut conf = Conf {
            nameservers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: Duration::from_millis(1250),
            attempts: 2,
        };
        for line in text.lines() {
            let mut words = line.split(['#', ';']).next().unwrap_or_default().split_ascii_whitespace();
            match words.next() {
                Some("nameserver") if conf.nameservers.len() < 3 => {
                    conf.nameservers.extend(words.next().and_then(nameserver));
                }
                // The last line of either kind wins.
                Some("search" | "domain") => {
                    conf.search = words.map(|w| w.trim_end_matches('.').to_ascii_lowercase()).collect();
                }
                Some("options") => words.for_each(|word| conf.option(word)),
                _ => {}
            }
        }
        if conf.nameservers.is_empty() {
            conf.nameservers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53));
        }
        conf
    }

    fn option(&mut self, word: &str) {
        let Some((name, value)) = word.split_once(':') else { return };
        let Ok(value) = value.parse::<usize>() else { return };
        match name {
            "ndots" => self.ndots = value.min(15),
            "timeout" => self.timeout = Duration::from_secs(value.clamp(1, 30) as u64),
            "attempts" => self.attempts = value.clamp(1, 5),
            _ => {}
        }
    }

    /// Names to try for `name`, in order.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        let mut names: Vec<String> = self.search.iter().map(|domain| format!("{name}.{domain}")).collect();
        let as_it_is = if name.matches('.').count() >= self.ndots { 0 } else { names.len() };
        names.insert(as_it_is, name.to_string());
        names
    }
}

/// Parses the address of a name server. A link-local address has the interface behind it, as in `fe80::1%eth0`.
fn nameserver(word: &str) -> Option<SocketAddr> {
    let Some((ip, link)) = word.split_once('%') else { return Some(SocketAddr::new(word.parse().ok()?, 53)) };
    let index = || name_to_index(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?, link).ok();
    let scope = link.parse().ok().or_else(index)?;
    Some(SocketAddrV6::new(ip.parse().ok()?, 53, 0, scope).into())
}

/// Addresses of a name in `/etc/hosts`. `localhost` always has an address (RFC 6761, section 6.3).
pub fn hosts(name: &str) -> Vec<IpAddr> {
    in_hosts(&text("/etc/hosts"), name)
}

fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let mut addrs = Vec::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let Some(addr) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
        if words.any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name)) && !addrs.contains(&addr) {
            addrs.push(addr);
        }
    }
    if addrs.is_empty() && (name == "localhost" || name.ends_with(".localhost")) {
        addrs.push(Ipv4Addr::LOCALHOST.into());
    }
    addrs
}

fn text(path: &str) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes[..bytes.len().min(FILE_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_is_read_as_other_resolvers_do() {
        let conf = Conf::of(
            "# made by hand\nnameserver 10.0.0.2\nnameserver fd00::2\ndomain old.example\n\
             search prod.svc.Cluster.local. cluster.local ; and so on\noptions ndots:5 timeout:2 rotate attempts:99\n\
             nameserver fe80::1%gone\nnameserver\nnameserver fe80::3%lo\nnameserver 10.0.0.4\n",
        );
        let servers: Vec<String> = conf.nameservers.iter().map(SocketAddr::to_string).collect();
        assert_eq!(servers, ["10.0.0.2:53", "[fd00::2]:53", "[fe80::3%1]:53"]);
        assert_eq!(conf.search, ["prod.svc.cluster.local", "cluster.local"]);
        assert_eq!((conf.ndots, conf.timeout, conf.attempts), (5, Duration::from_secs(2), 5));
        assert_eq!(Conf::of("").nameservers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn a_name_with_enough_dots_is_tried_as_it_is_first() {
        let conf = Conf::of("search a.example b.example\noptions ndots:2");
        assert_eq!(conf.candidates("x.y.z"), ["x.y.z", "x.y.z.a.example", "x.y.z.b.example"]);
        assert_eq!(conf.candidates("x"), ["x.a.example", "x.b.example", "x"]);
    }

    #[test]
    fn hosts_come_with_all_their_addresses() {
        let text =
            "127.0.0.1 localhost\n::1\tLocalhost ip6-localhost\n10.0.0.5 db web.internal # the old one: api\nx y\n";
        let of = |name| in_hosts(text, name).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(of("localhost"), ["127.0.0.1", "::1"]);
        assert_eq!(of("web.internal"), ["10.0.0.5"]);
        assert!(of("api").is_empty() && of("y").is_empty());
        assert_eq!(in_hosts("", "a.localhost"), [IpAddr::from([127, 0, 0, 1])]);
    }
}
