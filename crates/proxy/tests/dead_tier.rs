//! Death of a whole tier while the next one is healthy, seen by clients over real sockets, for every mix of deaths: no
//! more requests fail than were in flight at that moment.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

use crate::support::endpoint::{ok, status};
use crate::support::{Endpoint, Proxy, own_addr, wait_until};
use socket2::{Domain, SockFilter, Socket, Type};
use std::fmt::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// The way in which an endpoint of the first tier dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    Refuses,
    Resets,
    Answers503,
    SwallowsSyn,
}

use Death::{Answers503, Refuses, Resets, SwallowsSyn};

/// An endpoint of the first tier, which can be killed.
struct Mortal {
    addr: SocketAddr,
    endpoint: Option<Endpoint>,
    is_dead: Arc<AtomicBool>,
    death: Death,
    /// After the death: a listener whose full backlog makes the kernel drop SYNs.
    deaf: Option<Socket>,
}

impl Mortal {
    fn new(death: Death) -> Mortal {
        let is_dead = Arc::new(AtomicBool::new(false));
        let dead = is_dead.clone();
        let listener = TcpListener::bind(own_addr()).expect("an address of its own");
        let endpoint = Endpoint::on(listener, move |conn| {
            while conn.request().is_some() {
                match death {
                    _ if !dead.load(SeqCst) => conn.send(ok("first")),
                    Answers503 => conn.send(status("503 Dying", "first")),
                    _ => return conn.reset_at_end(),
                }
            }
        });
        Mortal { addr: endpoint.addr, endpoint: Some(endpoint), is_dead, death, deaf: None }
    }

    fn die(&mut self) {
        self.is_dead.store(true, SeqCst);
        if matches!(self.death, Resets | Answers503) {
            return;
        }
        // Idle connections end once the proxy uses them; the listener ends with the drop.
        let endpoint = self.endpoint.take();
        std::thread::spawn(move || drop(endpoint));
        if matches!(self.death, SwallowsSyn) {
            let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            listener.set_reuse_address(true).expect("an option");
            wait_until("the address is free again", || listener.bind(&self.addr.into()).is_ok());
            let drop_all = SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0);
            listener.attach_filter(&[drop_all]).expect("an option");
            listener.listen(0).expect("it is bound");
            self.deaf = Some(listener);
        } else {
            wait_until("it refuses", || TcpStream::connect(self.addr).is_err());
        }
    }
}

const CLIENTS: usize = 6;

/// Kills the first tier under load, and returns the number of requests that failed.
fn failures(deaths: &[Death], standbys: usize) -> usize {
    let mut first: Vec<Mortal> = deaths.iter().copied().map(Mortal::new).collect();
    let standbys: Vec<Endpoint> = (0..standbys).map(|_| Endpoint::saying("standby")).collect();
    let mut list = String::new();
    for mortal in &first {
        write!(list, "'{}', ", mortal.addr).expect("a String takes everything");
    }
    for standby in &standbys {
        write!(list, "{{ addr = '{}', priority = 1 }}, ", standby.addr).expect("a String takes everything");
    }
    let proxy = Proxy::start(&format!(
        "[runtime]\nworkers = 2\n[listener.web]\nbind = ['$BIND']\n[pool.web]\nendpoints = [{list}]\n\
         timeouts = {{ connect = '150ms' }}\nretry = {{ on = ['connect', 'reset', 503] }}"
    ));
    let (stop, failed, by_standby) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = proxy.client();
                while !stop.load(SeqCst) {
                    let response = client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").response();
                    let count = match (response.status(), response.body_text().as_str()) {
                        (200, "standby") => &by_standby,
                        (200, _) => &answered,
                        _ => &failed,
                    };
                    count.fetch_add(1, SeqCst);
                }
            });
        }
        wait_until("the first tier answers", || answered.load(SeqCst) >= 20 * CLIENTS);
        first.iter_mut().for_each(Mortal::die);
        wait_until("the second tier answers", || by_standby.load(SeqCst) >= 100 * CLIENTS);
        stop.store(true, SeqCst);
    });
    failed.load(SeqCst)
}

#[test]
fn at_most_what_was_in_flight_fails_when_a_tier_dies() {
    let mixes: [(&[Death], usize); 8] = [
        (&[Refuses, Refuses], 1),
        (&[Resets, SwallowsSyn], 1),
        (&[Refuses, Refuses, Refuses], 3),
        (&[Resets, Resets, Resets], 3),
        (&[Answers503, Answers503, Answers503], 3),
        (&[SwallowsSyn, SwallowsSyn, SwallowsSyn], 3),
        (&[Refuses, Resets, Answers503, SwallowsSyn], 4),
        (&[Answers503, SwallowsSyn, Answers503, SwallowsSyn], 4),
    ];
    for (deaths, standbys) in mixes {
        let failed = failures(deaths, standbys);
        assert!(failed <= CLIENTS, "{deaths:?} before {standbys}: {failed} requests failed");
    }
}
