//! TLS passed through and routed by its ClientHello, with clients and servers of OpenSSL and curl.

use crate::support::certificate::Certificate;
use crate::support::{Endpoint, Proxy, SOON, listening, own_addr, tool, wait_until};
use evenkeel_peers::installed;
use evenkeel_proxy::stats::Rejected;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// A running `openssl s_server` that serves its own page, killed on drop.
struct TlsServer {
    addr: SocketAddr,
    process: Child,
    certificate: Certificate,
}

impl TlsServer {
    /// Starts a server with a certificate for `name`, which speaks `alpn`.
    fn start(name: &str, alpn: &str) -> TlsServer {
        let addr = own_addr();
        let certificate = Certificate::of(name);
        let mut openssl = tool("openssl");
        openssl.args(["s_server", "-accept", &addr.to_string(), "-www", "-alpn", alpn, "-quiet"]).args([
            "-key".as_ref(),
            certificate.key().as_os_str(),
            "-cert".as_ref(),
            certificate.cert().as_os_str(),
        ]);
        TlsServer { addr, process: listening(openssl, addr), certificate }
    }

    fn cert(&self) -> PathBuf {
        self.certificate.cert()
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A proxy with these pools, and routes with these matches. If `own`, the first pool is the listener's default.
fn passing(own: bool, pools: &[(&str, SocketAddr)], routes: &[(&str, &str)]) -> Proxy {
    let mut config = String::from("[runtime]\nworkers = 1\n[listener.tls]\nbind = [\"$BIND\"]\nmode = \"tcp\"\n");
    if own {
        writeln!(config, "pool = \"{}\"", pools[0].0).unwrap();
    }
    for (what, pool) in routes {
        writeln!(config, "[[route]]\nmatch = {{ listener = [\"tls\"], {what} }}\npool = \"{pool}\"").unwrap();
    }
    for (name, addr) in pools {
        writeln!(config, "[pool.{name}]\nendpoints = [\"{addr}\"]").unwrap();
    }
    Proxy::start(&config)
}

fn subject(proxy: &Proxy, arguments: &[&str]) -> String {
    let mut client = tool("openssl");
    client.args(["s_client", "-connect", &proxy.addr().to_string()]).args(arguments);
    let out = client.stdin(Stdio::null()).output().expect("openssl runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("subject=")).unwrap_or("no certificate");
    line.replace(' ', "")
}

#[test]
fn openssl_gets_the_server_that_it_names_and_the_protocol_that_it_speaks() {
    if !installed(&["openssl"]) {
        return;
    }
    let (db, other, h2) = (
        TlsServer::start("db.example.com", "http/1.1"),
        TlsServer::start("other.example.com", "http/1.1"),
        TlsServer::start("h2.example.com", "h2"),
    );
    let proxy = passing(
        true,
        &[("other", other.addr), ("db", db.addr), ("h2", h2.addr)],
        &[
            ("host = [\"db.example.com\"]", "db"),
            ("host = [\"*.x.example.com\"]", "db"),
            ("host = [\"*.example.com\"], alpn = [\"h2\"]", "h2"),
        ],
    );
    for (arguments, wanted) in [
        (&["-servername", "DB.example.com"][..], "subject=CN=db.example.com"),
        (&["-servername", "a.b.x.example.com"], "subject=CN=db.example.com"),
        (&["-servername", "any.example.com", "-alpn", "http/1.1,h2"], "subject=CN=h2.example.com"),
        (&["-servername", "any.example.com", "-alpn", "http/1.1"], "subject=CN=other.example.com"),
        (&["-servername", "elsewhere.org"], "subject=CN=other.example.com"),
        (&["-noservername"], "subject=CN=other.example.com"),
        (&["-tls1_2", "-servername", "db.example.com"], "subject=CN=db.example.com"),
    ] {
        assert_eq!(subject(&proxy, arguments), wanted, "{arguments:?}");
    }
}

#[test]
fn curl_verifies_the_server_at_the_other_end() {
    if !installed(&["openssl", "curl"]) {
        return;
    }
    let server = TlsServer::start("db.example.com", "http/1.1");
    let proxy = passing(false, &[("db", server.addr)], &[("host = [\"db.example.com\"]", "db")]);
    let at = |name: &str| {
        let to = format!("{name}:{}:{}", proxy.addr().port(), proxy.addr().ip());
        let url = format!("https://{name}:{}/", proxy.addr().port());
        let mut curl = tool("curl");
        curl.args(["-sS", "--noproxy", "*", "--max-time", "20", "--resolve", &to, &url, "--cacert"]).arg(server.cert());
        curl.output().expect("curl runs")
    };
    let page = at("db.example.com");
    assert!(page.status.success(), "{}", String::from_utf8_lossy(&page.stderr));
    assert!(String::from_utf8_lossy(&page.stdout).contains("s_server"));
    // Closed, as there is neither a route nor a default pool.
    assert!(!at("elsewhere.example.com").status.success());
    assert_eq!(proxy.listener(|l| l.rejected[3].get()), 1);
}

/// A ClientHello with this many bytes of padding, for `db.example.com`.
fn hello(padding: usize) -> Vec<u8> {
    let len16 = |n: usize| (n as u16).to_be_bytes();
    let name = b"db.example.com";
    let names = [&len16(name.len() + 3)[..], &[0], &len16(name.len()), name].concat();
    let mut extensions = Vec::new();
    for piece in vec![0; padding].chunks(30_000) {
        extensions.extend([&[0xfa, 0xfa][..], &len16(piece.len()), piece].concat());
    }
    extensions.extend([&[0, 0][..], &len16(names.len()), &names].concat());
    let body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &len16(extensions.len()), &extensions].concat();
    let message = [&[1][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat();
    message.chunks(1 << 14).flat_map(|piece| [&[22, 3, 1][..], &len16(piece.len()), piece].concat()).collect()
}

/// Regression: a long hello went to the listener's own pool, whatever server it named.
#[test]
fn a_long_client_hello_gets_to_the_server_that_it_names_and_one_that_is_too_long_is_closed() {
    let named = Endpoint::start(|conn| {
        let came = conn.rest();
        conn.send(came.len().to_string());
    });
    let own = Endpoint::start(|_| {});
    let pools = [("own", own.addr), ("db", named.addr)];
    let proxy = passing(true, &pools, &[("host = [\"db.example.com\"]", "db")]);
    for padding in [0, 20_000, 40_000, 64_900] {
        let bytes = hello(padding);
        let mut client = TcpStream::connect(proxy.addr()).unwrap();
        client.set_read_timeout(Some(SOON)).unwrap();
        client.write_all(&bytes).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        assert_eq!(String::from_utf8_lossy(&back), bytes.len().to_string(), "{padding}");
    }
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_read_timeout(Some(SOON)).unwrap();
    // Claims more than it sends, which is enough to know.
    client.write_all(&[22, 3, 1, 0x40, 0, 1, 1, 0, 1]).unwrap();
    let closed = client.read(&mut [0]);
    assert!(closed.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |n| *n == 0), "{closed:?}");
    wait_until("it is counted", || proxy.listener(|l| l.rejected[Rejected::HelloTooLong as usize].get()) == 1);
    assert_eq!(own.accepted(), 0);
}

#[test]
fn bytes_that_are_no_tls_get_to_the_listeners_own_pool_as_they_came() {
    let endpoint = Endpoint::start(|conn| {
        let came = conn.bytes(11);
        conn.send(came);
    });
    let other = Endpoint::start(|_| {});
    let proxy = passing(true, &[("own", endpoint.addr), ("db", other.addr)], &[("host = [\"db.example.com\"]", "db")]);
    // Bytes that are not TLS, and a ClientHello whose last bytes show that it is malformed.
    for bytes in [&b"not TLS: hm"[..], b"\x16\x03\x01\x00\x06\x01\0\0\x02\x03\x03"] {
        let mut client = TcpStream::connect(proxy.addr()).unwrap();
        client.set_read_timeout(Some(SOON)).unwrap();
        for byte in bytes {
            client.write_all(&[*byte]).unwrap();
        }
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        assert_eq!(back, bytes);
    }
    assert_eq!(other.accepted(), 0);
}
