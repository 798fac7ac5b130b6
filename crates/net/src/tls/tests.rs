//! TLS over real sockets: our two sides with each other, and ours with a buffered client of rustls where the
//! peer must behave as this side never would.

use super::*;
use crate::buffer::Buf;
use crate::event_loop::{run, spawn};
use crate::stream::Stream;
use crate::transport::Transport;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::Poll;

const V12: &[&SupportedProtocolVersion] = &[&version::TLS12];
const V13: &[&SupportedProtocolVersion] = &[&version::TLS13];

/// Configuration of both sides.
pub(crate) struct Configs {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
}

/// A certificate for `name`, which the clients trust.
pub(crate) fn configs(name: &str, versions: &[&'static SupportedProtocolVersion]) -> Configs {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
    // A distinct issuer for each.
    let issuer = format!("{:?}", key.public_key_raw());
    params.distinguished_name.push(rcgen::DnType::CommonName, &issuer[..60]);
    let cert = params.self_signed(&key).unwrap();
    let cert: CertificateDer<'static> = cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(cert.clone()).unwrap();
    let provider = Arc::new(default_provider());
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    server.enable_secret_extraction = true;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.enable_secret_extraction = true;
    Configs { server: server.into(), client: client.into() }
}

fn name(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_string()).unwrap()
}

fn pair() -> [Stream; 2] {
    let (one, other) = UnixStream::pair().unwrap();
    [one, other].map(|socket| {
        socket.set_nonblocking(true).unwrap();
        Stream::new(socket.into())
    })
}

/// A server of ours, and the blocking socket of its client.
fn server_and_peer() -> (TlsStream, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (TlsStream::new(Stream::new(ours.into())), peer)
}

/// Both sides after their handshake.
pub(crate) async fn shaken(configs: &Configs) -> [Transport; 2] {
    let [server, client] = pair().map(|stream| Box::new(TlsStream::new(stream)));
    let (done, is_done) = tokio::sync::oneshot::channel();
    let config = configs.server.clone();
    spawn(async move {
        server.accept(config, None, || Ok(()), |_| Note::default()).await.unwrap();
        done.send(server).unwrap_or_else(|_| panic!("the test waits"));
    });
    client.connect(configs.client.clone(), name("a.test")).await.unwrap();
    // In TLS 1.3 the client's last message is sent with its first data.
    let client = Transport::Tls(client);
    client.write_some(b"!").await.unwrap();
    let server = Transport::Tls(is_done.await.unwrap());
    let mut first = Buf::take();
    assert_eq!(server.read(&mut first).await.unwrap(), 1);
    [server, client]
}

#[test]
fn bytes_pass_both_ways_whatever_is_agreed() {
    run(async {
        for versions in [V12, V13] {
            let configs = configs("a.test", versions);
            let [server, client] = shaken(&configs).await;
            let info = server.as_tls().unwrap().info().unwrap();
            assert_eq!(info.version, if versions == V12 { "TLSv1.2" } else { "TLSv1.3" });
            assert_eq!(info.server_name.as_deref(), Some("a.test"));
            assert!(info.cipher.starts_with("TLS_") && !info.resumed, "{info:?}");
            // More than sockets and buffers hold, so that both sides have to wait.
            let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
            let expected = sent.clone();
            let (done, is_done) = tokio::sync::oneshot::channel();
            spawn(async move {
                let mut came = Vec::new();
                loop {
                    let buf = server.read_some().await.unwrap();
                    if buf.is_empty() {
                        break;
                    }
                    came.extend_from_slice(buf.filled());
                }
                assert!(came == expected);
                let mut all = Buf::holding(b"all of it");
                server.write(&mut all, true).await.unwrap();
                done.send(()).unwrap();
            });
            let mut left = &sent[..];
            while !left.is_empty() {
                let n = client.write_some(left).await.unwrap();
                left = &left[n..];
            }
            poll_fn(|cx| client.poll_flush(cx)).await.unwrap();
            client.shutdown_write();
            let mut answer = Buf::take();
            while client.read(&mut answer).await.unwrap() > 0 {}
            assert_eq!(answer.filled(), b"all of it");
            is_done.await.unwrap();
        }
    })
    .unwrap();
}

#[test]
fn an_end_without_a_word_is_an_error_and_one_with_it_is_not() {
    run(async {
        for says_so in [true, false] {
            let [server, client] = shaken(&configs("a.test", V13)).await;
            server.reset_on_close(!says_so);
            drop(server);
            let mut buf = Buf::take();
            assert_eq!(client.read(&mut buf).await.is_ok_and(|n| n == 0), says_so);
            assert!(!client.is_quiet());
        }
    })
    .unwrap();
}

#[test]
fn an_idle_connection_that_gets_tickets_is_quiet() {
    run(async {
        let [server, client] = shaken(&configs("a.test", V13)).await;
        let mut sent = Buf::holding(b"with tickets before it");
        server.write_all(&mut sent).await.unwrap();
        let mut came = Buf::take();
        client.read(&mut came).await.unwrap();
        assert_eq!(came.filled(), b"with tickets before it");
        assert!(client.is_quiet() && server.is_quiet());
        client.write_some(b"x").await.unwrap();
        assert_eq!(poll_fn(|cx| server.poll_peek(cx)).await.unwrap(), 1);
        // The data that makes it not quiet can still be read.
        assert!(!server.is_quiet());
        assert_eq!(server.read_some().await.unwrap().filled(), b"x");
        assert!(server.is_quiet());
    })
    .unwrap();
}

#[test]
fn a_session_goes_on_in_the_next_connection() {
    run(async {
        for versions in [V12, V13] {
            let configs = configs("a.test", versions);
            for resumed in [false, true] {
                let [server, client] = shaken(&configs).await;
                assert_eq!(client.as_tls().unwrap().info().unwrap().resumed, resumed);
                assert_eq!(server.as_tls().unwrap().info().unwrap().resumed, resumed);
                let mut sent = Buf::holding(b"the ticket comes with this");
                server.write_all(&mut sent).await.unwrap();
                client.read_some().await.unwrap();
            }
        }
    })
    .unwrap();
}

/// Runs `work` on a blocking client of rustls. `bytes_at_once` limits each write to the socket.
fn peer(
    socket: UnixStream,
    config: Arc<ClientConfig>,
    bytes_at_once: usize,
    work: impl FnOnce(&mut ClientConnection, &mut dyn FnMut(&mut ClientConnection)) + Send + 'static,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut connection = ClientConnection::new(config, name("a.test")).unwrap();
        let mut socket = socket;
        let mut go = |connection: &mut ClientConnection| {
            while connection.wants_write() {
                let mut bytes = Vec::new();
                connection.write_tls(&mut bytes).unwrap();
                bytes.chunks(bytes_at_once).for_each(|chunk| socket.write_all(chunk).unwrap());
            }
            if connection.read_tls(&mut socket).unwrap() > 0 {
                connection.process_new_packets().unwrap();
            }
        };
        while connection.is_handshaking() {
            go(&mut connection);
        }
        work(&mut connection, &mut go);
    })
}

#[test]
fn a_client_that_sends_byte_by_byte_is_understood() {
    for versions in [V12, V13] {
        let configs = configs("a.test", versions);
        let (server, socket) = server_and_peer();
        let client = peer(socket, configs.client.clone(), 1, |connection, go| {
            connection.writer().write_all(b"one by one").unwrap();
            let mut came = [0; 2];
            while connection.reader().read(&mut came).is_err() {
                go(connection);
            }
            assert_eq!(&came, b"ok");
        });
        run(async {
            server.accept(configs.server.clone(), None, || Ok(()), |_| Note::default()).await.unwrap();
            let server = Transport::Tls(Box::new(server));
            let mut came = Buf::take();
            while came.len() < 10 {
                assert_ne!(server.read(&mut came).await.unwrap(), 0);
            }
            assert_eq!(came.filled(), b"one by one");
            let mut ok = Buf::holding(b"ok");
            server.write_all(&mut ok).await.unwrap();
        })
        .unwrap();
        client.join().unwrap();
    }
}

/// The client only asks for new keys, then sends data, and reads ours.
#[test]
fn new_keys_are_taken_and_given() {
    let configs = configs("a.test", V13);
    let (server, socket) = server_and_peer();
    let client = peer(socket, configs.client.clone(), usize::MAX, |connection, go| {
        for round in 0..3 {
            connection.refresh_traffic_keys().unwrap();
            connection.writer().write_all(&[round]).unwrap();
            let mut came = [9];
            while connection.reader().read(&mut came).is_err() {
                go(connection);
            }
            assert_eq!(came, [round]);
        }
    });
    run(async {
        server.accept(configs.server.clone(), None, || Ok(()), |_| Note::default()).await.unwrap();
        let server = Transport::Tls(Box::new(server));
        for round in 0..3 {
            let mut buf = server.read_some().await.unwrap();
            assert_eq!(buf.filled(), [round]);
            server.write_all(&mut buf).await.unwrap();
        }
    })
    .unwrap();
    client.join().unwrap();
}

#[test]
fn what_is_not_tls_has_a_name() {
    let cases: [(&[u8], Cause); 6] = [
        (b"GET / HTTP/1.1\r\n", Cause::PlainHttp),
        (b"\x80\x2e\x01\x03\x01", Cause::NotTls),
        (b"", Cause::Closed),
        (b"\x16\x03\x01\x00\x05\x01\x00", Cause::Closed),
        (b"\x16\x03\x01\xff\xff\x01\x00\x00\x00\x00\x00", Cause::TooLarge),
        (b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", Cause::Malformed),
    ];
    let configs = configs("a.test", V13);
    for (bytes, cause) in cases {
        let (server, mut socket) = server_and_peer();
        socket.write_all(bytes).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let failed = run(async {
            server.accept(configs.server.clone(), None, || Ok(()), |_| Note::default()).await.unwrap_err()
        })
        .unwrap();
        assert_eq!(failed.cause, cause, "{failed}");
    }
}

#[test]
fn a_hello_without_end_is_too_large() {
    let configs = configs("a.test", V13);
    let (server, mut socket) = server_and_peer();
    let client = std::thread::spawn(move || {
        // A ClientHello of 60 KB in records of 1 KB.
        let mut hello = vec![1, 0, 0xea, 0x60];
        hello.resize(60_004, 0);
        for part in hello.chunks(1000) {
            let mut record = vec![22, 3, 1];
            record.extend_from_slice(&(part.len() as u16).to_be_bytes());
            record.extend_from_slice(part);
            if socket.write_all(&record).is_err() {
                return;
            }
        }
    });
    let failed =
        run(async { server.accept(configs.server.clone(), None, || Ok(()), |_| Note::default()).await.unwrap_err() })
            .unwrap();
    assert_eq!(failed.cause, Cause::TooLarge, "{failed}");
    drop(server);
    client.join().unwrap();
}

#[test]
fn a_record_that_was_changed_ends_the_connection_and_the_peer_is_told() {
    run(async {
        let [server, client] = shaken(&configs("a.test", V13)).await;
        let Transport::Tls(tls) = &client else { unreachable!() };
        tls.socket()
            .send_now(&[23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
        let error = server.read_some().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        drop(server);
        let error = client.read_some().await.unwrap_err();
        assert_eq!(error.to_string(), "the peer closed TLS with an alert: BadRecordMac");
    })
    .unwrap();
}

/// Each fault of a certificate, as the client reports it.
#[test]
fn certificates_that_are_wrong_are_told_apart() {
    let (good, other) = (configs("a.test", V13), configs("a.test", V13));
    let expired = {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["a.test".to_string()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        let cert = params.self_signed(&key).unwrap().der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(cert.clone()).unwrap();
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(V13)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .unwrap();
        server.enable_secret_extraction = true;
        let mut client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(V13)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.enable_secret_extraction = true;
        Configs { server: server.into(), client: client.into() }
    };
    let old = configs("a.test", V12);
    let cases = [
        (&good.server, &good.client, "b.test", Cause::WrongName),
        (&good.server, &other.client, "a.test", Cause::UnknownCa),
        (&expired.server, &expired.client, "a.test", Cause::Expired),
        (&old.server, &good.client, "a.test", Cause::Version),
    ];
    for (server_config, client_config, asked, cause) in cases {
        run(async {
            let [server, client] = pair().map(TlsStream::new);
            let config = server_config.clone();
            let (done, is_done) = tokio::sync::oneshot::channel();
            spawn(async move {
                let failed = server.accept(config, None, || Ok(()), |_| Note::default()).await.unwrap_err();
                done.send((failed.cause, failed.server_name)).unwrap();
            });
            let failed = client.connect(client_config.clone(), name(asked)).await.unwrap_err();
            assert_eq!(failed.cause, cause, "{failed}");
            drop(client);
            let (told, server_name) = is_done.await.unwrap();
            assert_eq!(told, if cause == Cause::Version { cause } else { Cause::Distrusted });
            assert_eq!(server_name.as_deref(), Some(asked));
        })
        .unwrap();
    }
}

#[test]
fn a_write_that_the_kernel_does_not_take_goes_before_all_else() {
    run(async {
        let [server, client] = shaken(&configs("a.test", V13)).await;
        let sent: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 3) as u8).collect();
        let mut taken = 0;
        // Until the socket is full.
        let full = poll_fn(|cx| {
            while let Poll::Ready(n) = client.poll_write(cx, &sent[taken..]) {
                taken += n.unwrap();
            }
            Poll::Ready(taken)
        });
        let full = full.await;
        assert!(full < sent.len());
        let mut came = Vec::new();
        while came.len() < full {
            let buf = server.read_some().await.unwrap();
            came.extend_from_slice(buf.filled());
            poll_fn(|cx| {
                let _ = client.poll_flush(cx);
                Poll::Ready(())
            })
            .await;
        }
        assert!(came == sent[..full]);
    })
    .unwrap();
}
