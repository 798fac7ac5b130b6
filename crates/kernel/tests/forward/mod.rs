//! Forwarding of real connections, between a client, a balancer and four endpoints in namespaces of their own.

mod world;

use evenkeel_kernel::service::{Source, State, Transport};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use world::{IPV4, IPV6, World, eventually};

/// Endpoint that answers a new connection: it sends its number first.
fn connect(to: SocketAddr) -> std::io::Result<(TcpStream, u8)> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut number = [0];
    stream.read_exact(&mut number)?;
    Ok((stream, number[0]))
}

fn ask(socket: &UdpSocket, data: &[u8]) -> std::io::Result<Vec<u8>> {
    socket.send(data)?;
    let mut answer = vec![0; 65_535];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

fn datagrams(to: SocketAddr) -> UdpSocket {
    let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    socket.connect(to).expect("an address");
    socket
}

#[test]
fn connections_and_datagrams_of_both_families_are_shared_by_weight() {
    let Some(mut world) = World::new("a", Default::default()) else { return };
    world.serve(Source::Own, &[3, 1, 1, 1]);
    for to in [IPV4, IPV6] {
        let shares = world.client.enter(move || {
            let mut shares = BTreeMap::new();
            for _ in 0..600 {
                *shares.entry(connect(to.parse().unwrap()).expect("a connection").1).or_insert(0_u32) += 1;
            }
            shares
        });
        // Binomial: 300 of 600 with a deviation of 12.2, and 100 with 9.1; five of them, once in a million runs.
        assert!((239..=361).contains(&shares[&1]), "{shares:?}");
        for number in 2..=4 {
            assert!((54..=146).contains(&shares[&number]), "{shares:?}");
        }
        let answers = world.client.enter(move || {
            let mut answers = BTreeMap::new();
            for _ in 0..60 {
                let socket = datagrams(to.parse().unwrap());
                let first = ask(&socket, b"which").expect("an answer");
                assert_eq!(first, ask(&socket, b"which").expect("an answer"), "a flow keeps its endpoint");
                *answers.entry(first[0]).or_insert(0) += 1;
            }
            answers
        });
        assert_eq!(answers.len(), 4, "{answers:?}");
    }
    assert!(world.total("unroutable") == 0 && world.total("no-endpoint") == 0);
}

#[test]
fn what_forwarding_lacks_has_a_name() {
    let Some(mut world) = World::new("n", Default::default()) else { return };
    assert_eq!(world.lacks(), Vec::<String>::new());
    world.forbid_forwarding();
    let lacks = world.lacks();
    assert_eq!(lacks.len(), 1, "{lacks:?}");
    assert!(lacks[0].contains("forward packets of IPv4"), "{lacks:?}");
}

#[test]
fn counts_return_to_zero_when_clients_end_or_are_killed() {
    let Some(mut world) = World::new("b", Default::default()) else { return };
    world.serve(Source::Own, &[1, 1, 1, 1]);
    let held = world.client.enter(|| (0..40).map(|_| connect(IPV4.parse().unwrap()).unwrap().0).collect::<Vec<_>>());
    eventually("40 open flows", || world.active() == 40);
    drop(held);
    eventually("no open flow", || world.active() == 0);
    // A client that is killed.
    let mut child = world.child("held_connections");
    eventually("20 open flows", || world.active() == 20);
    child.kill().expect("a child");
    child.wait().expect("a child");
    eventually("no open flow", || world.active() == 0);
}

#[test]
fn spoofed_syns_move_no_count_of_open_flows() {
    let Some(mut world) = World::new("c", Default::default()) else { return };
    world.serve(Source::Own, &[1, 1, 1, 1]);
    let before = world.readings();
    world.client.enter(|| world::spoof(2000));
    assert_eq!(world.total("unroutable"), 0);
    // On a busy machine the queue of the link drops some.
    eventually("most SYNs arrive", || world.entries() >= 3000);
    let after = world.readings();
    assert_eq!(before, after);
    // Real ones are served beside them.
    assert!(world.client.enter(|| connect(IPV4.parse().unwrap()).is_ok()));
}

#[test]
fn an_overflow_of_the_table_leaks_nothing_after_a_recount() {
    let Some(mut world) = World::new("d", world::Settings { flows_max: 64 }) else { return };
    world.serve(Source::Own, &[1, 1, 1, 1]);
    world.client.enter(|| {
        let held: Vec<_> = (0..400).map(|_| connect(IPV4.parse().unwrap())).collect();
        assert!(held.iter().filter(|held| held.is_ok()).count() > 100);
    });
    // Evicted entries took their ends along. What is left idles in the table, at most its size.
    let counted = world.counted();
    assert!(counted > 64, "{counted}: nothing leaks that a recount could find");
    eventually("counts within the table", || world.active() <= 64);
    world.expire();
    eventually("no open flow", || world.active() == 0);
}

#[test]
fn a_megabyte_crosses_a_link_of_a_lower_mtu_both_ways() {
    let Some(mut world) = World::new("e", Default::default()) else { return };
    world.lower_mtu("1400");
    world.serve(Source::Own, &[1, 1, 1, 1]);
    for to in [IPV4, IPV6] {
        world.client.enter(move || {
            let (mut stream, number) = connect(to.parse().unwrap()).expect("a connection");
            let data: Vec<u8> = (0..1_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let (mut writer, sent) = (stream.try_clone().expect("a handle"), data.clone());
            let writing = std::thread::spawn(move || {
                writer.write_all(&sent).expect("sent");
                writer.shutdown(std::net::Shutdown::Write).expect("closed");
            });
            let mut echo = Vec::new();
            stream.read_to_end(&mut echo).expect("received");
            writing.join().expect("a thread");
            assert!(echo == data, "endpoint {number} echoed {} bytes", echo.len());
        });
    }
}

#[test]
fn large_datagrams_arrive_in_fragments_and_so_do_answers() {
    let Some(mut world) = World::new("f", Default::default()) else { return };
    world.serve(Source::Own, &[1, 1, 1, 1]);
    for to in [IPV4, IPV6] {
        world.client.enter(move || {
            for n in 0..20_u8 {
                let socket = datagrams(to.parse().unwrap());
                let answer = ask(&socket, &vec![n; 4000]).expect("an answer");
                assert_eq!(answer[1..], vec![n; 4000]);
            }
        });
    }
    assert_eq!(world.total("fragment-early"), 0);
}

#[test]
fn an_endpoint_is_a_client_too() {
    let Some(mut world) = World::new("g", Default::default()) else { return };
    world.serve(Source::Own, &[1, 1, 1, 1]);
    for to in [IPV4, IPV6] {
        let numbers = world.endpoints[0]
            .enter(move || (0..40).map(|_| connect(to.parse().unwrap()).expect("a connection").1).collect::<Vec<_>>());
        assert!(numbers.contains(&1), "itself is among them: {numbers:?}");
    }
}

#[test]
fn endpoints_see_the_clients_address_if_they_shall() {
    let Some(mut world) = World::new("h", Default::default()) else { return };
    world.serve(Source::Client, &[1, 1, 1, 1]);
    for (to, client) in [(IPV4, "10.1.0.2"), (IPV6, "fd01::2")] {
        let seen = world.client.enter(move || {
            let (mut stream, _) = connect(to.parse().unwrap()).expect("a connection");
            stream.write_all(b"?").expect("sent");
            stream.shutdown(std::net::Shutdown::Write).expect("closed");
            let mut echo = String::new();
            stream.read_to_string(&mut echo).expect("received");
            let socket = datagrams(to.parse().unwrap());
            ask(&socket, b"x").expect("an answer");
            echo
        });
        assert_eq!(seen, "?");
        assert!(world.peers().iter().any(|peer| peer.to_string() == client), "{:?}", world.peers());
    }
}

#[test]
fn an_empty_service_refuses_at_once() {
    let Some(mut world) = World::new("i", Default::default()) else { return };
    world.serve(Source::Own, &[0, 0, 0, 0]);
    for to in [IPV4, IPV6] {
        world.client.enter(move || {
            let error = connect(to.parse().unwrap()).expect_err("nobody serves");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
            let error = ask(&datagrams(to.parse().unwrap()), b"x").expect_err("nobody serves");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        });
    }
    assert!(world.total("no-endpoint") >= 4);
}

#[test]
fn a_port_that_refuses_is_counted_as_failed() {
    let Some(mut world) = World::new("j", Default::default()) else { return };
    world.serve_at(Source::Own, &[1, 0, 0, 0], 9);
    world.client.enter(|| {
        let error = connect(IPV4.parse().unwrap()).expect_err("nobody listens");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        let error = ask(&datagrams(IPV4.parse().unwrap()), b"x").expect_err("nobody listens");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "the error of ICMP arrives");
    });
    let failed: u64 = world.readings().iter().map(|reading| reading.failed).sum();
    assert_eq!(failed, 2);
}

#[test]
fn datagrams_leave_an_endpoint_that_is_down_and_stay_with_one_that_drains() {
    let Some(mut world) = World::new("k", Default::default()) else { return };
    world.serve(Source::Own, &[1, 1, 1, 1]);
    let sockets = world.client.enter(|| {
        let socket = || {
            let socket = datagrams(IPV4.parse().unwrap());
            let number = ask(&socket, b"x").expect("an answer")[0];
            (socket, number)
        };
        (0..40).map(|_| socket()).collect::<Vec<_>>()
    });
    world.change(Transport::Udp, &[(0, State::Down), (0, State::Draining), (1, State::Serving), (1, State::Serving)]);
    for (socket, number) in sockets {
        let now = ask(&socket, b"x").expect("an answer")[0];
        match number {
            1 => assert!([3, 4].contains(&now)),
            _ => assert_eq!(now, number),
        }
    }
}

#[test]
fn a_connection_outlives_the_process_that_loads_and_a_change_of_weights() {
    let Some(mut world) = World::new("l", Default::default()) else { return };
    world.unload();
    let mut loader = world.child("loads_and_waits");
    eventually("the program is attached", || world.attached());
    let mut held = world.client.enter(|| {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match connect(IPV4.parse().unwrap()) {
                Ok((stream, _)) => return stream,
                Err(e) => assert!(Instant::now() < deadline, "{e}"),
            }
        }
    });
    let mut echo = |text: &[u8]| {
        held.write_all(text).expect("sent");
        let mut back = vec![0; text.len()];
        held.read_exact(&mut back).expect("received");
        assert_eq!(back, text);
    };
    echo(b"loaded");
    loader.kill().expect("a child");
    loader.wait().expect("a child");
    echo(b"without a process");
    assert!(world.client.enter(|| connect(IPV4.parse().unwrap()).is_ok()), "new ones are served too");
    world.adopt();
    echo(b"adopted");
    assert_eq!(world.active(), 1);
    world.serve(Source::Own, &[1, 9, 9, 9]);
    echo(b"with other weights");
    drop(held);
    eventually("no open flow", || world.active() == 0);
}

#[test]
fn a_flood_ends_no_silent_connection() {
    let Some(mut world) = World::new("o", Default::default()) else { return };
    world.serve(Source::Own, &[1, 1, 1, 1]);
    let mut held = world
        .client
        .enter(|| (0..50).map(|_| connect(IPV4.parse().unwrap()).expect("a connection").0).collect::<Vec<_>>());
    // Twice what the table of flows holds.
    world.client.enter(|| world::spoof(40_000));
    eventually("a flood", || world.total("unproven-full") > 30_000);
    for stream in &mut held {
        stream.write_all(b"alive").expect("sent");
        let mut echo = [0; 5];
        stream.read_exact(&mut echo).expect("received");
        assert_eq!(&echo, b"alive");
    }
    assert!(world.client.enter(|| connect(IPV4.parse().unwrap()).is_ok()), "a new one");
    drop(held);
    eventually("no open flow", || world.active() == 0);
}

/// Endpoints that close first keep the port in TIME-WAIT. The client's next connection with it is to another virtual
/// address, so its time stamps begin elsewhere: a half of them look old to the endpoint.
#[test]
fn ports_that_endpoints_still_remember_are_taken_without_delay() {
    let Some(mut world) = World::new("q", Default::default()) else { return };
    world.serve_two(Source::Client);
    let ports = 20_000..20_200_u16;
    let closed = |to: &'static str, ports: std::ops::Range<u16>| {
        ports.filter(|&port| world::ends_first(port, to.parse().unwrap()).is_err()).count()
    };
    let range = ports.clone();
    assert_eq!(world.client.enter(move || closed(IPV4, range)), 0);
    world.age_ends();
    let repeated = || {
        let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("counters");
        let mut lines = text.lines().filter(|line| line.starts_with("Tcp:")).map(str::split_whitespace);
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let at = names.zip(values).find(|(name, _)| *name == "RetransSegs").expect("a counter").1;
        at.parse::<u64>().expect("a number")
    };
    let (failed, repeated) = world.client.enter(move || {
        let before = repeated();
        (closed(world::OTHER, ports), repeated() - before)
    });
    // 200 coins: below 60 heads, once in 10^8 runs.
    let replayed = world.total("syn-repeated");
    assert!(replayed >= 60, "{replayed}");
    assert_eq!((failed, repeated), (0, 0), "of {replayed} that met TIME-WAIT");
}

/// Connections whose endpoints close first, many more than there are ports: none waits for a repeated SYN. So many as
/// EVENKEEL_CONNECTIONS has, or a million.
#[test]
#[ignore = "takes minutes"]
fn a_million_connections_that_endpoints_close() {
    // As many flows as by default.
    let Some(mut world) = World::new("r", world::Settings { flows_max: 262_144 }) else { return };
    world.serve_two(Source::Own);
    let all = std::env::var("EVENKEEL_CONNECTIONS").map_or(1_000_000, |text| text.parse().expect("a number"));
    let part = all / 100;
    let mut began = Instant::now();
    for n in 1..=100 {
        let (failed, late): (usize, usize) = world.client.enter(move || {
            let threads = 8;
            let run = move |thread: u32| {
                let (mut failed, mut late) = (0, 0);
                for i in 0..part / threads {
                    let began = Instant::now();
                    // Of many clients: each address has time stamps of its own.
                    let from = format!("10.1.0.{}:0", 10 + (thread * 31 + i) % 200).parse().unwrap();
                    failed += usize::from(world::ends_first_from(from, IPV4.parse().unwrap()).is_err());
                    late += usize::from(began.elapsed() > Duration::from_millis(900));
                }
                (failed, late)
            };
            let threads: Vec<_> = (0..threads).map(|thread| std::thread::spawn(move || run(thread))).collect();
            let counts = threads.into_iter().map(|thread| thread.join().expect("a thread"));
            counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
        });
        let context = || format!("{failed} failed and {late} were late of {part}: {:?}", world.totals());
        assert!(failed == 0 && late as u32 <= part / 100, "{}", context());
        // Once a second, as the process does.
        world.readings();
        if n % 10 == 0 {
            let rate = f64::from(part) * 10.0 / began.elapsed().as_secs_f64();
            began = Instant::now();
            let repeated = world.total("syn-repeated");
            println!("{} connections: {rate:.0} a second, {repeated} SYNs repeated", n * part);
        }
    }
    assert_eq!(world.total("ports-exhausted"), 0);
}

/// Prints the time that the program takes per packet, of real connections: `--ignored --nocapture` shows it.
#[test]
#[ignore = "measures"]
fn time_of_the_program() {
    let Some(mut world) = World::new("m", Default::default()) else { return };
    world.serve(Source::Own, &[1, 1, 1, 1]);
    let _statistics = aya::sys::enable_stats(aya::sys::Stats::RunTime).expect("statistics");
    for to in [IPV4, IPV6, IPV4, IPV6] {
        let before = world.times();
        world.client.enter(move || {
            for _ in 0..3000 {
                let (mut stream, _) = connect(to.parse().unwrap()).expect("a connection");
                stream.write_all(&[1; 4096]).expect("sent");
                stream.read_exact(&mut [0; 4096]).expect("received");
            }
        });
        let after = world.times();
        let (time, count) = (after.0 - before.0, after.1 - before.1);
        println!("{to}: {count} packets, {} ns each", time.as_nanos() / u128::from(count));
    }
}

/// Clients of another process, which is killed.
#[test]
#[ignore = "a part of another test"]
fn held_connections() {
    let held: Vec<_> = (0..20).map(|_| connect(IPV4.parse().unwrap()).expect("a connection")).collect();
    loop {
        std::thread::park();
        assert_eq!(held.len(), 20);
    }
}

/// Process that loads the program, and is killed.
#[test]
#[ignore = "a part of another test"]
fn loads_and_waits() {
    let mut driver = world::driver(&std::env::var("EVENKEEL_TEST_WORLD").expect("a name"), &Default::default());
    world::set(&mut driver, Source::Own, &[(1, State::Serving); 4], 8080, &[Transport::Tcp, Transport::Udp]);
    loop {
        std::thread::park();
    }
}
