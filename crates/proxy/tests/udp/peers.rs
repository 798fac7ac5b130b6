//! Interoperation over UDP: dig and kdig with NSD, iperf3, and DNS servers that die during queries.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support;
use crate::support::datagrams::{ask_until_answered, client};
use crate::support::{Proxy, listening, own_addr, wait_until};
use evenkeel_peers::installed;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running NSD with a zone, ended on drop.
struct Nsd {
    addr: SocketAddr,
    process: Child,
    folder: PathBuf,
}

impl Nsd {
    fn start() -> Nsd {
        let free = own_addr();
        let ip = free.ip();
        let folder = std::env::temp_dir().join(format!("evenkeel-nsd-{}-{}", std::process::id(), free.port()));
        std::fs::create_dir(&folder).expect("it can be made");
        let zone =
            "$ORIGIN example.test.\n$TTL 60\n@ SOA ns h 1 60 60 60 60\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";
        // Longer than a packet, and than the size that some clients advertise.
        let long: String = (0..14).map(|i| format!("long TXT \"{}{i:02}\"\n", "x".repeat(200))).collect();
        std::fs::write(folder.join("zone"), format!("{zone}{long}")).expect("it can be written");
        let dir = folder.display();
        let config = format!(
            "server:\n  ip-address: {ip}@{port}\n  username: \"\"\n  zonesdir: {dir}\n  database: \"\"\n  \
             pidfile: {dir}/pid\n  xfrdfile: {dir}/xfrd\n  zonelistfile: {dir}/list\n  xfrdir: {dir}\n  ipv4-edns-size: 4096\n\
             remote-control:\n  control-enable: no\nzone:\n  name: example.test\n  zonefile: zone\n",
            port = free.port()
        );
        std::fs::write(folder.join("conf"), config).expect("it can be written");
        let mut command = Command::new(evenkeel_peers::find("nsd").expect("the test looked"));
        command.arg("-d").arg("-c").arg(folder.join("conf"));
        let nsd = Nsd { addr: free, process: listening(command, free), folder };
        // The process that answers starts later than the socket is bound.
        ask_until_answered(&client(free), b"\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01");
        nsd
    }
}

impl Drop for Nsd {
    fn drop(&mut self) {
        // SIGTERM and not SIGKILL, so that its children end with it.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn config(endpoints: &[SocketAddr], more: &str) -> String {
    let endpoints: Vec<String> = endpoints.iter().map(|addr| format!("\"{addr}\"")).collect();
    format!(
        "[runtime]\nworkers = 2\n[listener.dns]\nbind = [\"$BIND\"]\nmode = \"udp\"\npool = \"web\"\n\
         udp = {{ idle = \"2s\", answers = 1 }}\n[pool.web]\nendpoints = [{}]\n{more}\n",
        endpoints.join(", ")
    )
}

fn asked(program: &str, proxy: &Proxy, arguments: &[&str]) -> String {
    let mut command = support::tool(program);
    let (ip, port) = (proxy.addr().ip(), proxy.addr().port().to_string());
    let output = command.args([&format!("@{ip}"), "-p", &port]).args(arguments).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn dig_and_kdig_are_answered_by_nsd() {
    if !installed(&["nsd", "dig", "kdig"]) {
        return;
    }
    let servers = [Nsd::start(), Nsd::start()];
    let proxy = Proxy::start(&config(&[servers[0].addr, servers[1].addr], "balance = \"round_robin\""));
    for program in ["dig", "kdig"] {
        for _ in 0..4 {
            assert_eq!(asked(program, &proxy, &["+short", "www.example.test"]), "192.0.2.2\n", "{program}");
        }
        let none = asked(program, &proxy, &["none.example.test"]);
        assert!(none.contains("NXDOMAIN"), "{none}");
        let long = asked(program, &proxy, &["+bufsize=4096", "+notcp", "+short", "long.example.test", "TXT"]);
        assert_eq!(long.lines().count(), 14, "{program}: more than one packet\n{long}");
        let cut = asked(program, &proxy, &["+bufsize=512", "+ignore", "long.example.test", "TXT"]);
        assert!(cut.to_lowercase().contains(" aa tc"), "{program}: cut short\n{cut}");
    }
    wait_until("each query was a flow that ended", || proxy.in_flight() == 0);
    assert!(proxy.listener(|l| l.udp.ended[1].get()) >= 14);
}

#[test]
fn a_check_asks_a_question_of_dns_and_a_server_that_dies_is_left() {
    if !installed(&["nsd"]) {
        return;
    }
    let (stays, dies) = (Nsd::start(), Nsd::start());
    // A query for the SOA of example.test with id 0; expected are the question and an answer.
    let health = "balance = \"round_robin\"\nhealth = { udp = { send = \"hex:0000 0000 0001 0000 0000 0000 07 6578616d706c65 \
                  04 74657374 00 0006 0001\", expect = \"hex:07 6578616d706c65 04 74657374 00 0006 0001 c00c\" }, \
                  interval = \"1s\", fall = 1 }";
    let proxy = Proxy::start(&config(&[stays.addr, dies.addr], health));
    let gone = dies.addr;
    [stays.addr, gone].iter().for_each(|addr| proxy.becomes(addr, "up"));
    drop(dies);
    proxy.becomes(gone, "down");
    for _ in 0..4 {
        assert_eq!(asked("dig", &proxy, &["+short", "+tries=1", "+time=2", "www.example.test"]), "192.0.2.2\n");
    }
}

#[test]
fn iperf3_sends_both_ways() {
    if !installed(&["iperf3"]) {
        return;
    }
    let free = own_addr();
    let mut server = support::tool("iperf3");
    let server =
        server.args(["-s", "-1", "-B", &free.ip().to_string(), "-p", &free.port().to_string()]).stdout(Stdio::null());
    let mut server = server.spawn().expect("iperf3 starts");
    wait_until("it listens", || std::fs::read_to_string("/proc/net/tcp").is_ok_and(|all| listens(&all, free)));
    let proxy = Proxy::start(&config(&[free], "").replace(", answers = 1", ""));
    // iperf3's control connection is TCP at the same port, which this thread relays.
    let relay = TcpListener::bind(proxy.addr()).expect("an address of its own");
    let relaying = std::thread::spawn(move || {
        let (client, _) = relay.accept().expect("iperf3 comes");
        let server = TcpStream::connect(free).expect("it listens");
        let copy = |mut from: TcpStream, mut to: TcpStream| {
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            })
        };
        let clone = |stream: &TcpStream| stream.try_clone().expect("descriptors can be had");
        let ways = [copy(clone(&client), clone(&server)), copy(server, client)];
        ways.into_iter().for_each(|way| way.join().expect("copying works"));
    });
    let [ip, port] = [proxy.addr().ip().to_string(), proxy.addr().port().to_string()];
    let load = ["-c", &ip, "-u", "-b", "4M", "-l", "200", "-t", "1", "--bidir", "-J", "-p", &port];
    let output = support::tool("iperf3").args(load).output().expect("iperf3 runs");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    relaying.join().expect("the relay works");
    assert!(server.wait().expect("it ends").success(), "{report}");
    for sum in ["sum", "sum_bidir_reverse"] {
        let sum = &report["end"][sum];
        let [packets, lost] = ["packets", "lost_packets"].map(|key| sum[key].as_f64().expect("a number"));
        // 4 Mbit/s of 200 bytes are 2,500 datagrams a second: the buffer of a socket holds those of a tenth of a
        // second. A busy machine sends fewer and still loses some.
        assert!(packets > 500.0 && lost < packets / 2.0, "{report}");
    }
}

/// True if `table`, in the form of `/proc/net/tcp`, has a listening socket at this address.
fn listens(table: &str, addr: SocketAddr) -> bool {
    let IpAddr::V4(ip) = addr.ip() else { unreachable!("ours are of version 4") };
    let at = format!(" {:08X}:{:04X} ", u32::from_ne_bytes(ip.octets()), addr.port());
    table.lines().any(|line| line.contains(&at) && line.contains(" 0A "))
}
