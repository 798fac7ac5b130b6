//! Endpoints before clients of another implementation's sockets.

use super::connection::{Connection, Read, Write};
use super::endpoint::{Arriving, Decision, Endpoint, Service, Session};
use super::ids::Owner;
use super::speaking::{self, Speaking};
use super::v2::V2;
use super::versions::V1;
use super::*;
use crate::listen::{Claim, udp};
use bytes::Bytes;
use rustls::HandshakeKind;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Sends the bytes of a stream back.
struct Echo {
    connection: Rc<Connection>,
    unsent: RefCell<HashMap<StreamId, Vec<Bytes>>>,
}

impl Echo {
    fn go_on(&self, stream: StreamId) {
        let mut unsent = self.unsent.borrow_mut();
        let queue = unsent.entry(stream).or_default();
        loop {
            if !queue.is_empty() && self.connection.write(stream, queue) != Write::All {
                return;
            }
            match self.connection.read(stream, 1 << 16) {
                Read::Data(bytes) => queue.push(bytes),
                Read::Pending => return,
                Read::End => {
                    self.connection.finish(stream);
                    return;
                }
                Read::Reset(_) => return,
            }
        }
    }
}

impl Session for Echo {
    fn connected(self: &Rc<Self>) {
        let info = self.connection.tls().expect("the handshake is complete").info;
        assert_eq!(
            (info.version, info.alpn.as_deref(), info.server_name.as_deref()),
            ("TLSv1.3", Some(tls::H3), Some("localhost"))
        );
        assert!(info.cipher.starts_with("TLS_"), "{info:?}");
    }

    fn opened(self: &Rc<Self>, stream: StreamId) {
        self.go_on(stream);
    }

    fn readable(self: &Rc<Self>, stream: StreamId) {
        self.go_on(stream);
    }

    fn writable(self: &Rc<Self>, stream: StreamId) {
        self.go_on(stream);
    }

    fn stopped(self: &Rc<Self>, _: StreamId, _: u64) {}

    fn lost(self: &Rc<Self>, _: &ConnectionError) {}
}

struct Echoes {
    config: Arc<ServerConfig>,
    retries: bool,
}

impl Service for Echoes {
    type Session = Echo;

    fn decide(&self, arriving: Arriving) -> Decision {
        if self.retries && !arriving.is_proven { Decision::Retry } else { Decision::Accept(self.config.clone()) }
    }

    fn open(&self, connection: &Rc<Connection>) -> Rc<Echo> {
        Rc::new(Echo { connection: connection.clone(), unsent: RefCell::default() })
    }
}

/// Starts a server in a thread of its own, which ends with the process, and returns its address and certificate.
pub(super) fn server(retries: bool) -> (SocketAddr, rustls::pki_types::CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).expect("a certificate");
    let der = made.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut settings = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![der.clone()], key)
        .expect("a pair");
    settings.alpn_protocols = vec![b"h2".to_vec()];
    settings.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().expect("randomness");
    let tls = tls::Tls::of(&settings, None, |_| Default::default()).expect("TLS 1.3");
    let keys = keys::Keys::of(b"secret");
    let config = Arc::new(ServerConfig::new(tls, keys.token()));
    let (say, hear) = channel();
    std::thread::spawn(move || {
        let local = ([127, 0, 0, 1], 0).into();
        let mut sockets = udp(local, 1, Vec::new(), Claim::Exclusive, true).expect("a port");
        let socket = sockets.remove(0).remove(0);
        let addr = rustix::net::getsockname(&socket).expect("its name");
        say.send(SocketAddr::try_from(addr).expect("an address")).expect("the test waits");
        let owner = Owner { generation: 1, worker: 0 };
        crate::event_loop::run(async move {
            let service = Echoes { config: config.clone(), retries };
            Endpoint::new(service, socket, owner, &keys, config).run().await
        })
    });
    (hear.recv().expect("the address"), der)
}

fn settings(der: rustls::pki_types::CertificateDer<'static>) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(der).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut settings = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    settings.alpn_protocols = vec![tls::H3.to_vec()];
    settings
}

fn client(der: rustls::pki_types::CertificateDer<'static>, version: u32) -> quinn::Endpoint {
    let settings = settings(der);
    if version == V2 {
        let mut endpoint = speaking::endpoint();
        endpoint.set_default_client_config(in_version(V2, Speaking::new(settings, V2)));
        return endpoint;
    }
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(settings).expect("TLS 1.3");
    let mut endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).expect("a port");
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    endpoint
}

fn in_version(version: u32, speaking: Speaking) -> quinn::ClientConfig {
    let mut config = quinn::ClientConfig::new(Arc::new(speaking));
    config.version(version);
    config
}

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn streams_are_echoed_with_and_without_a_proof_of_the_address() {
    for (version, retries) in [(V1, false), (V1, true), (V2, false), (V2, true)] {
        let (addr, der) = server(retries);
        tokio().block_on(async {
            let client = client(der, version);
            let connection = client.connect(addr, "localhost").expect("settings").await.expect("a connection");
            let sizes = [0usize, 1, 1000, 100_000, 3_000_000];
            let streams = sizes.iter().cycle().take(40).map(|size| {
                let connection = connection.clone();
                async move {
                    let sent: Vec<u8> = (0..*size).map(|at| (at * 31 % 251) as u8).collect();
                    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
                    let sending = async {
                        send.write_all(&sent).await.expect("room");
                        send.finish().expect("an open stream");
                    };
                    let receiving = receive.read_to_end(10_000_000);
                    let (_, got) = tokio::join!(sending, receiving);
                    assert!(got.expect("an echo") == sent, "{size}");
                }
            });
            let all: Vec<_> = streams.map(Box::pin).collect();
            for stream in all {
                stream.await;
            }
            // The client's address changes.
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
            client.rebind(socket).expect("a socket");
            let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
            send.write_all(b"from elsewhere").await.expect("room");
            send.finish().expect("an open stream");
            assert_eq!(receive.read_to_end(100).await.expect("an echo"), b"from elsewhere");
            connection.close(0u32.into(), b"done");
            client.wait_idle().await;
        });
    }
}

#[test]
fn a_client_whose_information_is_of_another_version_is_turned_away() {
    let (addr, der) = server(false);
    // The version in use, those that the client lists, and the code of the error.
    let cases: [(u32, &[u32], u64); 7] = [
        (V2, &[V1, V1, V2], 0x11),
        (V1, &[V2, V2, V1], 0x11),
        (V2, &[V2, V1], 0x08),
        (V2, &[V2, V2, 0], 0x08),
        (V1, &[0, 0, V1], 0x08),
        (V1, &[], 0x08),
        (V1, &[V1], 0x08),
    ];
    tokio().block_on(async {
        for (used, versions, code) in cases {
            let bytes: Vec<u8> = versions.iter().flat_map(|version| version.to_be_bytes()).collect();
            let mut speaking = Speaking::new(settings(der.clone()), used);
            speaking.more = [&[0x11, bytes.len() as u8][..], &bytes].concat();
            let client = speaking::endpoint();
            let connecting = client.connect_with(in_version(used, speaking), addr, "localhost").expect("settings");
            match connecting.await.expect_err("it is turned away") {
                quinn::ConnectionError::ConnectionClosed(close) => {
                    assert_eq!(u64::from(close.error_code), code, "{used:#x} {versions:#x?}")
                }
                other => panic!("{other} for {used:#x} {versions:#x?}"),
            }
        }
    });
}

#[test]
fn a_session_resumes_only_in_the_version_in_which_it_began() {
    let (addr, der) = server(false);
    let mut settings = settings(der);
    settings.resumption = rustls::client::Resumption::in_memory_sessions(8);
    let ask = async |client: &quinn::Endpoint, version| {
        let config = in_version(version, Speaking::new(settings.clone(), version));
        let connection = client.connect_with(config, addr, "localhost").expect("settings").await.expect("a connection");
        let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
        send.write_all(b"hello").await.expect("room");
        send.finish().expect("an open stream");
        assert_eq!(receive.read_to_end(100).await.expect("an echo"), b"hello");
        let kind = connection.handshake_data().expect("the handshake is complete");
        let is_resumed = *kind.downcast::<HandshakeKind>().expect("its kind") == HandshakeKind::Resumed;
        connection.close(0u32.into(), b"done");
        is_resumed
    };
    tokio().block_on(async {
        let client = speaking::endpoint();
        // Each connection offers the newest ticket.
        let versions = [V1, V1, V2, V2, V1, V1];
        let mut resumed = Vec::new();
        for version in versions {
            resumed.push(ask(&client, version).await);
        }
        assert_eq!(resumed, [false, true, false, true, false, true]);
    });
}
