//! Complete connections to peers of rustls over sockets: every suite offered, both roles, pieces of any size,
//! key updates on both sides, and every way in which a connection ends.

use super::with_seeds;
use evenkeel_balance::Rng;
use evenkeel_net::buffer::Buf;
use evenkeel_net::event_loop::run;
use evenkeel_net::stream::Stream;
use evenkeel_net::tls::{Note, TlsStream};
use evenkeel_net::transport::Transport;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{DEFAULT_CIPHER_SUITES, default_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection, SupportedCipherSuite,
};
use std::future::poll_fn;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

/// End of a connection, after both sides have read all data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The peer sends `close_notify`.
    PeerCloses,
    /// The peer's socket is closed without `close_notify`.
    PeerIsCut,
    /// The peer's last record is modified in transit.
    Changed,
    /// The peer's last record is sent twice.
    Repeated,
    /// A record among the peer's last ones is missing.
    Dropped,
    /// The peer's last records are reordered.
    Reordered,
    /// Our side sends `close_notify`.
    WeClose,
    /// Our socket is reset, without `close_notify`.
    WeReset,
}

const ENDINGS: [Ending; 8] = [
    Ending::PeerCloses,
    Ending::PeerIsCut,
    Ending::Changed,
    Ending::Repeated,
    Ending::Dropped,
    Ending::Reordered,
    Ending::WeClose,
    Ending::WeReset,
];

/// Data of both sides in one exchange. Both derive it from the same seed.
#[derive(Debug)]
struct Round {
    from_peer: usize,
    from_us: usize,
    new_key: bool,
}

fn rounds(rng: &mut Rng, is_13: bool) -> Vec<Round> {
    let size = |rng: &mut Rng| {
        let most = [1, 100, 17_000, 150_000][rng.below(4) as usize];
        1 + rng.below(most) as usize
    };
    let round = |rng: &mut Rng| Round { from_peer: size(rng), from_us: size(rng), new_key: is_13 && rng.coin() };
    (0..1 + rng.below(5)).map(|_| round(rng)).collect()
}

/// Bytes of one direction, by offset.
fn data(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at ^ (at >> 8) ^ (at >> 13)) as u8).collect()
}

struct Configs {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

fn configs(suite: SupportedCipherSuite, keys: &[(KeyPair, CertificateDer<'static>); 2]) -> Configs {
    let provider = Arc::new(CryptoProvider { cipher_suites: vec![suite], ..default_provider() });
    let (key, cert) = &keys[usize::from(format!("{:?}", suite.suite()).contains("ECDHE_RSA"))];
    let mut roots = RootCertStore::empty();
    roots.add(cert.clone()).unwrap();
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[suite.version()])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[suite.version()])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (server.enable_secret_extraction, client.enable_secret_extraction) = (true, true);
    Configs { server: server.into(), client: client.into() }
}

fn certified(algorithm: &'static rcgen::SignatureAlgorithm) -> (KeyPair, CertificateDer<'static>) {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let cert = CertificateParams::new(vec!["a.test".to_string()]).unwrap().self_signed(&key).unwrap();
    (key, cert.der().clone())
}

/// The blocking peer, a connection of rustls.
struct Peer {
    connection: Connection,
    socket: UnixStream,
    rng: Rng,
    came: usize,
    sent: usize,
}

impl Peer {
    /// Takes the records that the connection has sealed.
    fn sealed(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    /// Sends in pieces. Returns an error if we have closed.
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let most = [3, 100, 5000, 100_000][self.rng.below(4) as usize].max(bytes.len() as u32 / 200);
        let mut left = bytes;
        while !left.is_empty() {
            let n = (1 + self.rng.below(most) as usize).min(left.len());
            self.socket.write_all(&left[..n])?;
            left = &left[n..];
        }
        Ok(())
    }

    /// Reads what has arrived; `Ok(false)` at the end of the socket.
    fn receive(&mut self) -> Result<bool, rustls::Error> {
        let n = self.connection.read_tls(&mut self.socket).unwrap_or(0);
        self.connection.process_new_packets()?;
        Ok(n > 0)
    }

    fn shake(&mut self) {
        while self.connection.is_handshaking() || self.connection.wants_write() {
            let bytes = self.sealed();
            self.send(&bytes).unwrap();
            if self.connection.is_handshaking() {
                assert!(self.receive().unwrap());
            }
        }
    }

    fn read(&mut self, len: usize) {
        let mut came = vec![0; len];
        let mut at = 0;
        while at < len {
            match self.connection.reader().read(&mut came[at..]) {
                Ok(n) => at += n,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    assert!(self.receive().unwrap(), "the end after {at} of {len} bytes");
                }
            }
        }
        assert!(came == data(self.came, len));
        self.came += len;
        // May include an answer to our key update.
        let bytes = self.sealed();
        self.send(&bytes).unwrap();
    }

    fn round(&mut self, round: &Round) {
        let (mut left, mut bytes) = (data(self.sent, round.from_peer), Vec::new());
        self.sent += left.len();
        if round.new_key {
            let behind = left.split_off(self.rng.below(left.len() as u32) as usize);
            self.write(&left, &mut bytes);
            self.connection.refresh_traffic_keys().unwrap();
            left = behind;
        }
        self.write(&left, &mut bytes);
        self.send(&bytes).unwrap();
        self.read(round.from_us);
    }

    fn write(&mut self, mut plain: &[u8], sealed: &mut Vec<u8>) {
        while !plain.is_empty() {
            let n = self.connection.writer().write(plain).unwrap();
            plain = &plain[n..];
            sealed.extend(self.sealed());
        }
    }

    /// Three records with some data each.
    fn records(&mut self) -> Vec<Vec<u8>> {
        let mut seal = |n| {
            let plain = data(self.sent, n);
            self.sent += n;
            let mut bytes = Vec::new();
            self.write(&plain, &mut bytes);
            bytes
        };
        [10, 3000, 20].map(&mut seal).to_vec()
    }

    fn end(mut self, ending: Ending) {
        let mut records = self.records();
        match ending {
            Ending::Changed => {
                // Not in the header, whose length only decides where the record ends.
                let last = &mut records[2];
                let at = 5 + self.rng.below(last.len() as u32 - 5) as usize;
                last[at] ^= 1 << self.rng.below(8);
            }
            Ending::Repeated => records.push(records[2].clone()),
            Ending::Dropped => drop(records.remove(1)),
            Ending::Reordered => records.swap(1, 2),
            Ending::PeerCloses => {
                self.connection.send_close_notify();
                let bytes = self.sealed();
                records.push(bytes);
            }
            Ending::PeerIsCut | Ending::WeClose | Ending::WeReset => {}
        }
        if ending == Ending::PeerIsCut {
            let bytes = records.concat();
            let at = bytes.len() - self.rng.below(10) as usize;
            self.send(&bytes[..at]).unwrap();
            return self.socket.shutdown(Shutdown::Write).unwrap();
        }
        // We may have closed before everything was sent.
        let _ = self.send(&records.concat());
        let failed = loop {
            match self.receive() {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(error),
            }
        };
        let closed = matches!(self.connection.reader().read(&mut [0]), Ok(0));
        match ending {
            Ending::Changed | Ending::Repeated | Ending::Dropped | Ending::Reordered => {
                assert_eq!(failed, Some(rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)));
            }
            Ending::PeerCloses | Ending::WeClose => assert!(closed && failed.is_none(), "{failed:?}"),
            Ending::PeerIsCut | Ending::WeReset => assert!(!closed && failed.is_none(), "{failed:?}"),
        }
    }
}

fn peer(connection: Connection, socket: UnixStream, seed: u64, rounds: Vec<Round>, ending: Ending) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut peer = Peer { connection, socket, rng: Rng::new(seed ^ 0x7ee7), came: 0, sent: 0 };
        peer.shake();
        for round in &rounds {
            peer.round(round);
        }
        peer.end(ending);
    })
}

/// Reads this many bytes with randomly chosen methods, or fewer if the connection ends.
async fn read(from: &Transport, rng: &mut Rng, len: usize) -> (Vec<u8>, std::io::Result<()>) {
    let mut came = Vec::new();
    while came.len() < len {
        let buf = match rng.below(4) {
            0 => from.read_some().await,
            1 => match from.read_ready(Buf::take) {
                Some(read) => read.map(|(_, buf)| buf),
                None => from.read_some().await,
            },
            2 => match poll_fn(|cx| from.poll_peek(cx)).await {
                Ok(0) => Ok(Buf::none()),
                Ok(_) => {
                    assert!(!from.is_quiet());
                    from.read_some().await
                }
                Err(error) => Err(error),
            },
            _ => {
                // A buffer with little room.
                let mut buf = Buf::holding(&vec![0; 32 * 1024 - 1 - rng.below(40) as usize]);
                let taken = buf.len();
                from.read(&mut buf).await.map(|_| {
                    buf.consume(taken);
                    buf
                })
            }
        };
        match buf {
            Ok(buf) if buf.is_empty() => return (came, Ok(())),
            Ok(buf) => came.extend_from_slice(buf.filled()),
            Err(error) => return (came, Err(error)),
        }
    }
    (came, Ok(()))
}

async fn write(to: &Transport, rng: &mut Rng, bytes: &[u8]) {
    let mut left = bytes;
    while !left.is_empty() {
        let n = (1 + rng.below(50_000) as usize).min(left.len());
        let n = if rng.coin() {
            to.write_some(&left[..n]).await.unwrap()
        } else {
            to.write_all(&mut Buf::holding(&left[..n])).await.unwrap();
            n
        };
        left = &left[n..];
    }
    poll_fn(|cx| to.poll_flush(cx)).await.unwrap();
}

async fn exchange(ours: &Transport, rng: &mut Rng, rounds: &[Round], ending: Ending) {
    let (mut came, mut sent) = (0, 0);
    for round in rounds {
        let (bytes, ended) = read(ours, rng, round.from_peer).await;
        ended.unwrap();
        assert!(bytes == data(came, round.from_peer));
        came += bytes.len();
        write(ours, rng, &data(sent, round.from_us)).await;
        sent += round.from_us;
    }
    let most = if matches!(ending, Ending::WeClose | Ending::WeReset) { 3030 } else { usize::MAX };
    let (bytes, ended) = read(ours, rng, most).await;
    // A prefix of what the peer has sent, and nothing else.
    assert!(bytes == data(came, bytes.len()));
    let whole = match ending {
        Ending::Dropped | Ending::Reordered => Some(10),
        Ending::Changed => Some(3010),
        Ending::PeerIsCut => None,
        _ => Some(3030),
    };
    assert!(whole.is_none_or(|whole| bytes.len() == whole), "{} bytes", bytes.len());
    match ending {
        Ending::PeerCloses | Ending::WeClose => {
            ended.unwrap();
            ours.shutdown_write();
        }
        Ending::WeReset => {
            ended.unwrap();
            ours.reset_on_close(true);
        }
        Ending::PeerIsCut => assert_eq!(ended.unwrap_err().kind(), ErrorKind::UnexpectedEof),
        Ending::Changed | Ending::Repeated | Ending::Dropped | Ending::Reordered => {
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::InvalidData);
            // Nothing may follow a fatal alert (RFC 8446 section 6.2).
            assert!(ours.write_some(b"more").await.is_err());
            // The peer reads the alert only if everything it sends is read.
            let socket = ours.as_tls().unwrap().socket();
            while let Ok(1..) = socket.read(&mut Buf::take()).await {}
        }
    }
}

#[test]
fn connections_to_peers_of_rustls_carry_what_was_sent_and_end_as_they_should() {
    let keys = [&PKCS_ECDSA_P256_SHA256, &PKCS_RSA_SHA256].map(certified);
    let cases = DEFAULT_CIPHER_SUITES.len() * 2 * ENDINGS.len();
    with_seeds(0..cases as u64, |rng, seed| {
        let case = seed as usize;
        let suite = DEFAULT_CIPHER_SUITES[case % DEFAULT_CIPHER_SUITES.len()];
        let is_server = (case / DEFAULT_CIPHER_SUITES.len()).is_multiple_of(2);
        let ending = ENDINGS[case / DEFAULT_CIPHER_SUITES.len() / 2];
        eprintln!("{:?}, we are the {}: {ending:?}", suite.suite(), if is_server { "server" } else { "client" });
        let configs = configs(suite, &keys);
        let name = ServerName::try_from("a.test").unwrap();
        let rounds = rounds(rng, suite.tls13().is_some());
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = Box::new(TlsStream::new(Stream::new(ours.into())));
        let connection: Connection = if is_server {
            ClientConnection::new(configs.client.clone(), name.clone()).unwrap().into()
        } else {
            ServerConnection::new(configs.server.clone()).unwrap().into()
        };
        let peer = peer(connection, theirs, seed, self::rounds(&mut Rng::new(seed), suite.tls13().is_some()), ending);
        run(async move {
            if is_server {
                ours.accept(configs.server, None, || Ok(()), |_| Note::default()).await.unwrap();
            } else {
                ours.connect(configs.client, name).await.unwrap();
            }
            exchange(&Transport::Tls(ours), rng, &rounds, ending).await;
        })
        .unwrap();
        peer.join().unwrap();
    });
}
