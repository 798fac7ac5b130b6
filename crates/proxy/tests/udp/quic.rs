//! Does QUIC get through? Clients and servers of quinn, which send with segmentation offload as they please, and what
//! becomes of connections whose client moves.

use crate::support::certificate::Certificate;
use crate::support::{Proxy, noise};
use evenkeel_peers::installed;
use evenkeel_proxy::stats::UdpStats;
use quinn::crypto::HmacKey;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::pem::PemObject;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{
    ClientConfig, Connection, ConnectionError, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, Incoming,
    ServerConfig, TokioRuntime,
};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The name in the certificate of all servers.
const NAME: &str = "quic.test";
/// What one stream carries each way: some hundred datagrams, of which quinn sends several in one call.
const STREAM: usize = 300_000;

/// Servers of one service, with their certificate and what its clients know.
struct Service {
    servers: Vec<Endpoint>,
    client: ClientConfig,
}

impl Service {
    /// Each server tells its name to whoever connects, and sends what comes on a stream back on it. They share the keys of
    /// connection ids and of stateless resets, as one service behind a balancer can.
    fn start(names: &[&'static str]) -> Service {
        let sockets: Vec<UdpSocket> = names.iter().map(|_| free()).collect();
        let certificate = Certificate::of(NAME);
        let cert = CertificateDer::from_pem_file(certificate.cert()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(certificate.key()).expect("a key");
        let mut roots = RootCertStore::empty();
        roots.add(cert.clone()).expect("a good certificate");
        let client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a verifier");
        let config = ServerConfig::with_single_cert(vec![cert], key).expect("they belong together");
        let started = names.iter().zip(sockets).map(|(name, socket)| {
            let mut shared = EndpointConfig::new(Arc::new(ResetKey));
            // Those that a server makes by default, another one takes for damaged, and says nothing.
            shared.cid_generator(|| Box::new(Ids));
            let server = Endpoint::new(shared, Some(config.clone()), socket, Arc::new(TokioRuntime));
            let server = server.expect("a server");
            tokio::spawn(serve(server.clone(), name));
            server
        });
        Service { servers: started.collect(), client }
    }

    /// A proxy before all of them, with more lines for the pool.
    fn behind(&self, pool: &str) -> Proxy {
        Proxy::start(&self.config(pool))
    }

    fn config(&self, pool: &str) -> String {
        let endpoints: Vec<String> = self.servers.iter().map(|s| format!("\"{}\"", s.local_addr().unwrap())).collect();
        format!(
            "[runtime]\nworkers = 2\n[listener.quic]\nbind = [\"$BIND\"]\nmode = \"udp\"\npool = \"web\"\n\
             udp = {{ idle = \"1m\" }}\n[pool.web]\nendpoints = [{}]\n{pool}\n",
            endpoints.join(", ")
        )
    }

    /// A client with a port of its own.
    fn client(&self) -> Endpoint {
        let mut client = Endpoint::client(any()).expect("a client");
        client.set_default_client_config(self.client.clone());
        client
    }
}

/// Not a secret here: what counts is that all servers have the same one.
struct ResetKey;

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        out.iter_mut().enumerate().for_each(|(i, byte)| *byte = data.iter().fold(i as u8, |a, b| a.rotate_left(3) ^ b));
    }

    fn signature_len(&self) -> usize {
        16
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), quinn::crypto::CryptoError> {
        let mut expected = vec![0; signature.len()];
        self.sign(data, &mut expected);
        if expected == signature { Ok(()) } else { Err(quinn::crypto::CryptoError) }
    }
}

/// Connection ids that no other server gives.
struct Ids;

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ConnectionId::new(&NEXT.fetch_add(1, Relaxed).to_be_bytes())
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

async fn serve(server: Endpoint, name: &'static str) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(answer(incoming, name));
    }
}

async fn answer(incoming: Incoming, name: &'static str) -> Result<(), ConnectionError> {
    let connection = incoming.await?;
    connection.open_uni().await?.write_all(name.as_bytes()).await.expect("a name is short");
    loop {
        let (mut send, mut receive) = connection.accept_bi().await?;
        tokio::spawn(async move {
            while let Ok(Some(chunk)) = receive.read_chunk(usize::MAX, true).await {
                if send.write_chunk(chunk.bytes).await.is_err() {
                    return;
                }
            }
            let _ = send.finish();
        });
    }
}

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn free() -> UdpSocket {
    UdpSocket::bind(any()).expect("a free port")
}

fn udp(proxy: &Proxy, what: impl Fn(&UdpStats) -> u64) -> u64 {
    proxy.listener(|l| what(&l.udp))
}

/// Connects, and hears who answered.
async fn connect(client: &Endpoint, to: SocketAddr) -> (Connection, String) {
    let connection = client.connect(to, NAME).expect("good parameters").await.expect("a handshake");
    let mut told = connection.accept_uni().await.expect("a stream of the server");
    let name = told.read_to_end(16).await.expect("its name");
    (connection, String::from_utf8(name).expect("text"))
}

/// Sends a stream and gets it back, both at the same time.
async fn exchange(connection: &Connection, bytes: &[u8]) -> Result<(), ConnectionError> {
    let (mut send, mut receive) = connection.open_bi().await?;
    let sending = async {
        // What came of it, the other way tells.
        let _ = send.write_all(bytes).await;
        let _ = send.finish();
    };
    let (_, received) = tokio::join!(sending, receive.read_to_end(bytes.len() + 1));
    match received {
        Ok(received) => assert!(received == bytes, "{} bytes of {} came back", received.len(), bytes.len()),
        Err(error) => return Err(connection.close_reason().unwrap_or_else(|| panic!("{error}"))),
    }
    Ok(())
}

#[tokio::test]
async fn streams_go_both_ways_on_many_connections_and_survive_a_reload() {
    if !installed(&["openssl"]) {
        return;
    }
    let service = Service::start(&["a", "b"]);
    let mut proxy = service.behind("balance = \"round_robin\"");
    let mut servers = Vec::new();
    let mut connections = Vec::new();
    // Every second client has two connections, which are one flow, as they have one port.
    for count in [1, 2, 1, 2, 1, 2] {
        let client = service.client();
        let mut seen = Vec::new();
        for _ in 0..count {
            let (connection, server) = connect(&client, proxy.addr()).await;
            connections.push(connection);
            seen.push(server);
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "one flow has one endpoint: {seen:?}");
        servers.extend(seen.pop());
    }
    // Two workers go around on their own, and one of them has three flows or more.
    assert!(["a", "b"].iter().all(|name| servers.iter().any(|server| server == name)), "{servers:?}");
    let bytes: Arc<[u8]> = noise(STREAM).into();
    let talk = |connection: Connection| {
        let bytes = bytes.clone();
        tokio::spawn(async move {
            let streams = || [&bytes[..], &bytes[1..], &bytes[2..]].map(|part| exchange(&connection, part));
            let [one, two, three] = streams();
            tokio::try_join!(one, two, three).expect("streams at the same time");
        })
    };
    let talking: Vec<_> = connections.iter().cloned().map(talk).collect();
    proxy.reload(&service.config("balance = \"leastconn\"")).expect("a good configuration");
    for one in talking {
        one.await.expect("what was sent came back");
    }
    assert_eq!([udp(&proxy, |u| u.flows.get()), udp(&proxy, |u| u.moved.get())], [6, 0]);
    let each_way = (connections.len() * 3 * (STREAM - 2)) as u64;
    assert!(udp(&proxy, |u| u.bytes_in.get()) > each_way && udp(&proxy, |u| u.bytes_out.get()) > each_way);
    proxy.stop();
}

#[tokio::test]
async fn a_client_that_moves_goes_on_where_its_address_leads_to_the_same_server() {
    if !installed(&["openssl"]) {
        return;
    }
    let service = Service::start(&["a", "b"]);
    // One of two may have twice its share, which is all.
    let mut proxy = service.behind("balance = { maglev = { key = \"client-ip\", bound = 2.0 } }");
    let bytes = noise(STREAM);
    for _ in 0..3 {
        let client = service.client();
        let (connection, _) = connect(&client, proxy.addr()).await;
        exchange(&connection, &bytes).await.expect("before");
        let before = udp(&proxy, |u| u.flows.get());
        client.rebind(free()).expect("another port");
        exchange(&connection, &bytes).await.expect("after");
        assert_eq!(udp(&proxy, |u| u.flows.get()), before + 1, "another port is another flow");
        connection.close(0u8.into(), b"");
        client.wait_idle().await;
    }
    proxy.stop();
}

#[tokio::test]
async fn a_client_that_moves_to_another_server_hears_so_if_servers_share_their_key() {
    if !installed(&["openssl"]) {
        return;
    }
    let service = Service::start(&["a", "b"]);
    let mut proxy = service.behind("balance = \"first\"\nlimits = { requests_per_endpoint = 1 }");
    let client = service.client();
    let (connection, server) = connect(&client, proxy.addr()).await;
    assert_eq!(server, "a");
    client.rebind(free()).expect("another port");
    let lost = exchange(&connection, &noise(STREAM)).await.expect_err("nobody there knows the connection");
    assert_eq!(lost, ConnectionError::Reset);
    let (connection, server) = connect(&client, proxy.addr()).await;
    assert_eq!(server, "b");
    exchange(&connection, &noise(STREAM)).await.expect("a new connection");
    proxy.stop();
}
