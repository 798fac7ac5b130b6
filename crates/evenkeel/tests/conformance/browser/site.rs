//! A running evenkeel that has something to show: pools with endpoints that answer, fail, drain and do not exist, certificates, a zone,
//! and clients.

use crate::support::{Endpoint, Folder, Running, address, get};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

pub const TOKEN: &str = "a-token-that-may-write";

/// Clients that send one request after the other until they are stopped.
pub struct Traffic {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    pub fn start(site: &Site) -> Traffic {
        let stop = Arc::<AtomicBool>::default();
        let each = |pause: u64, request: Box<dyn Fn() + Send>| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(SeqCst) {
                    request();
                    std::thread::park_timeout(Duration::from_millis(pause));
                }
            })
        };
        let client = |path: &'static str, pause| {
            let listen = site.listen.clone();
            each(pause, Box::new(move || _ = get(&listen, path)))
        };
        let mut clients = vec![client("/cart", 5), client("/cart", 5), client("/cart", 5)];
        clients.extend([client("/api/items?page=2", 8), client("/api/orders", 8), client("/about", 60)]);
        let names = site.names.clone();
        clients.push(each(50, Box::new(move || query(&names))));
        Traffic { stop, clients }
    }

    pub fn end(self) {
        self.stop.store(true, SeqCst);
        for client in self.clients {
            client.join().expect("it does not panic");
        }
    }
}

/// Asks the DNS server at `addr` for the addresses of `shop.example.test`, and waits for the response.
fn query(addr: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    // Id, recursion desired, one question; the name; type A, class IN.
    let mut message = b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00".to_vec();
    message.extend_from_slice(b"\x04shop\x07example\x04test\x00\x00\x01\x00\x01");
    let _ = socket.send_to(&message, addr);
    let _ = socket.recv(&mut [0; 512]);
}

/// Starts an endpoint that answers every tenth request with 500, and the others after 12 ms; returns its address.
fn erratic() -> String {
    let addr = address();
    let listener = TcpListener::bind(&addr).expect("nobody else uses it");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                for request in 1.. {
                    if lines.by_ref().take_while(|line| !line.is_empty()).count() == 0 {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(12));
                    let status = if request % 10 == 0 { "500 Internal Server Error" } else { "200 OK" };
                    let response = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok");
                    if (&stream).write_all(response.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// Makes a certificate for `www.shop.test` and `shop.test` that is valid for so many days, and its key; returns their files.
fn certificate(folder: &Folder, days: &str) -> (String, String) {
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| folder.0.join(name).display().to_string());
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", days])
        .args(["-subj", "/O=Example Trust/CN=Test R1", "-addext", "subjectAltName=DNS:www.shop.test,DNS:shop.test"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &cert])
        .output();
    assert!(made.is_ok_and(|made| made.status.success()), "openssl makes a certificate");
    (cert, key)
}

pub struct Site {
    _folder: Folder,
    pub one: Endpoint,
    pub two: Endpoint,
    _api: [Endpoint; 2],
    pub running: Running,
    pub listen: String,
    pub admin: String,
    /// Address of the DNS listener.
    names: String,
}

impl Site {
    pub fn new() -> Site {
        let (folder, listen, admin, names) = (Folder::new("browser"), address(), address(), address());
        let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
        let api = [("a", 3), ("b", 25)].map(|(name, ms)| Endpoint::slow(name, Duration::from_millis(ms)));
        let (token, silent, first) = (folder.file("token", TOKEN), address(), &one.addr);
        let (cert, key) = certificate(&folder, "47");
        let text = format!(
            "[admin]\nhttp = {{ bind = '{admin}', write_token = '{token}' }}\n[telemetry.explain]\nsample = 0.1\n\
             [listener.web]\nbind = ['{listen}']\n[listener.secure]\nbind = ['{}']\n\
             tls = {{ certificates = [{{ cert = '{cert}', key = '{key}' }}] }}\n\
             [listener.names]\nmode = 'dns'\nbind = ['{names}']\n\
             zone = {{ name = 'example.test.', records = {{ shop = {{ pool = 'rest' }} }} }}\n\
             [[route]]\nname = 'cart'\nmatch = {{ path = '/cart' }}\npool = 'shop'\n\
             [[route]]\nname = 'api'\nmatch = {{ path = '/api/{{*rest}}' }}\npool = 'api'\n\
             [[route]]\nname = 'rest'\nmatch = {{ path = '/{{*rest}}' }}\npool = 'rest'\n\
             [pool.shop]\nbalance = 'leastconn'\nshadow = ['random', 'peak_ewma']\nhealth = {{ tcp = {{}}, interval = '1s' }}\n\
             endpoints = [{{ name = 'one', addr = '{first}' }}, {{ name = 'two', addr = '{}', weight = 2 }}, \
             {{ name = 'silent', addr = '{silent}' }}]\n\
             [pool.api]\nretry = {{ attempts = 0 }}\nendpoints = [{{ name = 'eu-1', addr = '{}' }}, {{ name = 'eu-2', addr = '{}' }}, \
             {{ name = 'us-1', addr = '{}' }}, {{ name = 'us-2', addr = '{}', drain = true }}]\n\
             [pool.rest]\nendpoints = ['{first}']\n",
            address(),
            two.addr,
            api[0].addr,
            api[1].addr,
            erratic(),
            two.addr,
        );
        let running = Running::start(&["run", "-c", &folder.file("evenkeel.toml", &text)]);
        Site { _folder: folder, one, two, _api: api, running, listen, admin, names }
    }
}
