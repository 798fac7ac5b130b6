//! Clients of HTTP/3 on quinn: the one of the crate `h3`, and one that sends and reads HTTP/3 frame by frame, valid or not.

use super::{Proxy, SOON, own_addr};
use bytes::{Buf as _, Bytes};
use evenkeel_wire::h3::qpack::{Decoder, HeaderLimits};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use quinn::rustls::crypto::aws_lc_rs::default_provider;
use quinn::rustls::crypto::{CryptoProvider, verify_tls13_signature};
use quinn::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use quinn::rustls::{self, DigitallySignedStruct, SignatureScheme, version};
use quinn::{ConnectionError, Endpoint, ReadError, RecvStream, SendStream, TransportConfig, VarInt};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;

pub const DATA: u64 = 0;
pub const HEADERS: u64 = 1;
pub const CANCEL_PUSH: u64 = 3;
pub const SETTINGS: u64 = 4;
pub const PUSH_PROMISE: u64 = 5;
pub const GOAWAY: u64 = 7;
pub const MAX_PUSH_ID: u64 = 0xd;
pub const PRIORITY_UPDATE: u64 = 0xf_0700;

/// Type of a control stream.
pub const CONTROL: u64 = 0;

/// Lines of a listener that speaks HTTP/3.
pub const LISTENS: &str = "tls = { self_signed = true }\nhttp3 = true";

/// A second listener, which speaks HTTP/3, with more lines. Its name begins and ends with that of the first one, as filters
/// of tests look at either.
pub fn secure(first: &str, lines: &str) -> String {
    format!("[listener.{first}_secure_{first}]\nbind = ['{}']\nerrors = 'detailed'\n{LISTENS}\n{lines}\n", own_addr())
}

/// Waits for something that should happen at once.
#[track_caller]
pub fn soon<T>(what: impl Future<Output = T>) -> impl Future<Output = T> {
    let at = std::panic::Location::caller();
    async move { tokio::time::timeout(SOON, what).await.unwrap_or_else(|_| panic!("did not happen in time: {at}")) }
}

/// Appends an integer of QUIC (RFC 9000 section 16).
pub fn varint(n: u64, out: &mut Vec<u8>) {
    match n {
        0..=0x3f => out.push(n as u8),
        0x40..=0x3fff => out.extend((n as u16 | 1 << 14).to_be_bytes()),
        0x4000..=0x3fff_ffff => out.extend((n as u32 | 2 << 30).to_be_bytes()),
        _ => out.extend((n | 3 << 62).to_be_bytes()),
    }
}

pub fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let len = 1 << (bytes.first()? >> 6);
    let mut n = u64::from(bytes[0] & 0x3f);
    for byte in bytes.get(1..len)? {
        n = n << 8 | u64::from(*byte);
    }
    Some((n, len))
}

/// A frame with its payload.
pub fn frame(kind: u64, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let (payload, mut bytes) = (payload.as_ref(), Vec::new());
    varint(kind, &mut bytes);
    varint(payload.len() as u64, &mut bytes);
    bytes.extend(payload);
    bytes
}

/// A frame whose payload is an integer.
pub fn id_frame(kind: u64, id: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    varint(id, &mut payload);
    frame(kind, payload)
}

/// Encodes fields as literals, valid or not.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0, 0];
    for (name, value) in fields {
        prefixed(name.len(), 3, 0x20, &mut block);
        block.extend(name.as_bytes());
        prefixed(value.len(), 7, 0, &mut block);
        block.extend(value.as_bytes());
    }
    block
}

/// Appends an integer with a prefix of `bits` bits below the bits of `first`.
fn prefixed(mut n: usize, bits: u32, first: u8, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if n < most {
        return out.push(first | n as u8);
    }
    out.push(first | most as u8);
    n -= most;
    while n >= 128 {
        out.push((n % 128 + 128) as u8);
        n /= 128;
    }
    out.push(n as u8);
}

/// Pseudo-fields of a request for the host `a`.
pub fn request<'f>(method: &'f str, path: &'f str) -> [(&'f str, &'f str); 4] {
    [(":method", method), (":scheme", "https"), (":path", path), (":authority", "a")]
}

/// Accepts any certificate, whose key the server has to have.
#[derive(Debug)]
struct AnyServer(CryptoProvider);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC has TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A verifier that accepts any certificate.
pub fn any_server() -> Arc<dyn ServerCertVerifier> {
    Arc::new(AnyServer(default_provider()))
}

/// Settings of a client that trusts any server.
pub fn trusting() -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .expect("a version")
        .dangerous()
        .with_custom_certificate_verifier(any_server())
        .with_no_client_auth()
}

/// Settings of a client of QUIC.
pub fn quic(mut tls: rustls::ClientConfig, transport: TransportConfig) -> quinn::ClientConfig {
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")));
    config.transport_config(Arc::new(transport));
    config
}

/// Runtime in which clients send and receive, also while a test waits without yielding.
fn background() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    })
}

/// Runs a client in a test without a runtime.
pub fn block_on<T>(client: impl Future<Output = T>) -> T {
    background().block_on(client)
}

/// Sends a request without a body to the second listener of a proxy, in a test without a runtime.
pub fn ask_now(proxy: &Proxy, method: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    let names: Vec<(String, &str)> = fields.iter().map(|(name, value)| (name.to_lowercase(), *value)).collect();
    let mut head = request(method, path).to_vec();
    head.extend(names.iter().map(|(name, value)| (&**name, *value)));
    block_on(async { H3Client::connect(secure_addr(proxy)).await.ask(&head).await })
}

/// Begins a handshake, whose packets are sent by a runtime in the background.
pub fn connecting(endpoint: &Endpoint, to: SocketAddr, config: quinn::ClientConfig) -> quinn::Connecting {
    let _entered = background().enter();
    endpoint.connect_with(config, to, "a").expect("good parameters")
}

/// A socket of clients at a loopback address, any of 127.0.0.0/8.
pub fn socket(from: [u8; 4]) -> Endpoint {
    let _entered = background().enter();
    Endpoint::client(SocketAddr::from((from, 0))).expect("a free port")
}

/// Result of a request, whether it ended or was reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub heads: Vec<Vec<(String, String)>>,
    pub body: Vec<u8>,
    pub ended: bool,
    pub reset: Option<u64>,
    /// Code with which the connection was closed before the end.
    pub closed: Option<u64>,
}

impl Answer {
    /// Status of the final head; 0 if there was none.
    pub fn status(&self) -> u16 {
        self.field(":status").and_then(|s| s.parse().ok()).unwrap_or(0)
    }

    /// Value of a field of the final head.
    pub fn field(&self, name: &str) -> Option<&str> {
        let finals = self.heads.iter().find(|h| !h.iter().any(|(n, v)| n == ":status" && v.starts_with('1')));
        finals?.iter().find(|(n, _)| n == name).map(|(_, value)| &**value)
    }

    /// First value of a field behind the body.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        let last = self.heads.last()?;
        if last.iter().any(|(n, _)| n == ":status") {
            return None;
        }
        last.iter().find(|(n, _)| n == name).map(|(_, value)| &**value)
    }

    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Statuses of the interim heads.
    pub fn interim(&self) -> Vec<u16> {
        let statuses = self.heads.iter().flatten().filter(|(name, _)| name == ":status");
        statuses.filter_map(|(_, status)| status.parse().ok()).filter(|status| *status < 200).collect()
    }
}

/// A client's HTTP/3 connection.
pub struct H3Client {
    pub endpoint: Endpoint,
    pub quic: quinn::Connection,
    /// This side's control stream. It stays open with the client.
    pub control: Option<SendStream>,
}

impl H3Client {
    /// Connects, and sends empty SETTINGS.
    pub async fn connect(to: SocketAddr) -> H3Client {
        let mut client = H3Client::silent(to).await;
        client.control = Some(client.uni(CONTROL, frame(SETTINGS, "")).await);
        client
    }

    /// Connects, and opens no streams.
    pub async fn silent(to: SocketAddr) -> H3Client {
        H3Client::with(socket([127, 0, 0, 1]), to, quic(trusting(), TransportConfig::default()))
            .await
            .expect("a handshake")
    }

    /// Connects from a socket with other settings, and opens no streams.
    pub async fn with(
        endpoint: Endpoint,
        to: SocketAddr,
        config: quinn::ClientConfig,
    ) -> Result<H3Client, ConnectionError> {
        let quic = soon(connecting(&endpoint, to, config)).await?;
        Ok(H3Client { endpoint, quic, control: None })
    }

    /// Opens a unidirectional stream of a type, and sends bytes on it.
    pub async fn uni(&self, kind: u64, bytes: impl AsRef<[u8]>) -> SendStream {
        let mut stream = soon(self.quic.open_uni()).await.expect("a stream");
        let mut all = Vec::new();
        varint(kind, &mut all);
        all.extend(bytes.as_ref());
        // The proxy may have closed the connection for an earlier stream.
        let _ = stream.write_all(&all).await;
        stream
    }

    /// Opens a stream for a request, and sends bytes on it.
    pub async fn open(&self, bytes: impl AsRef<[u8]>) -> Exchange {
        let (mut send, recv) = soon(self.quic.open_bi()).await.expect("a stream");
        let _ = send.write_all(bytes.as_ref()).await;
        Exchange { send, recv, came: Vec::new(), decoder: Decoder::default() }
    }

    /// Begins a request with these fields.
    pub async fn begin(&self, fields: &[(&str, &str)]) -> Exchange {
        self.open(frame(HEADERS, block(fields))).await
    }

    /// Sends a request without a body, and reads its result.
    pub async fn ask(&self, fields: &[(&str, &str)]) -> Answer {
        let mut exchange = self.begin(fields).await;
        let _ = exchange.send.finish();
        exchange.answer().await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(&request("GET", path)).await
    }

    /// Waits until the proxy closes the connection, and returns its code; `None` if it was no code of HTTP/3.
    pub async fn closed(&self) -> Option<u64> {
        code(&soon(self.quic.closed()).await)
    }

    /// Reads frames of the proxy's control stream.
    pub async fn server_control(&self) -> Frames {
        loop {
            let mut recv = soon(self.quic.accept_uni()).await.expect("the proxy opens a control stream");
            let mut kind = [0xff];
            if recv.read_exact(&mut kind).await.is_ok() && u64::from(kind[0]) == CONTROL {
                return Frames { recv, came: Vec::new() };
            }
        }
    }
}

/// Code of HTTP/3 with which the proxy has closed a connection.
pub fn code(why: &ConnectionError) -> Option<u64> {
    match why {
        ConnectionError::ApplicationClosed(close) => Some(close.error_code.into_inner()),
        _ => None,
    }
}

/// The proxy's control stream.
pub struct Frames {
    recv: RecvStream,
    came: Vec<u8>,
}

impl Frames {
    /// Payload of the next frame of a kind; `None` at the end of the connection.
    pub async fn next(&mut self, kind: u64) -> Option<Vec<u8>> {
        loop {
            if let Some((found, payload)) = take_frame(&mut self.came) {
                if found == kind {
                    return Some(payload);
                }
                continue;
            }
            let chunk = soon(self.recv.read_chunk(1 << 20, true)).await.ok()??;
            self.came.extend(&chunk.bytes);
        }
    }

    /// Identifier of the next GOAWAY.
    pub async fn go_away(&mut self) -> Option<u64> {
        let payload = self.next(GOAWAY).await?;
        Some(read_varint(&payload).expect("an identifier").0)
    }
}

fn take_frame(came: &mut Vec<u8>) -> Option<(u64, Vec<u8>)> {
    let (kind, at) = read_varint(came)?;
    let (len, more) = read_varint(&came[at..])?;
    let (start, end) = (at + more, at + more + len as usize);
    let payload = came.get(start..end)?.to_vec();
    came.drain(..end);
    Some((kind, payload))
}

/// Frame of a response, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Head(Vec<(String, String)>),
    Data(Vec<u8>),
    End,
    Reset(u64),
    /// The connection has ended, with this code if it has one.
    Lost(Option<u64>),
}

/// A request with both halves of its stream.
pub struct Exchange {
    pub send: SendStream,
    pub recv: RecvStream,
    came: Vec<u8>,
    decoder: Decoder,
}

impl Exchange {
    /// Sends a part of the body.
    pub async fn data(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        soon(self.send.write_all(&frame(DATA, bytes))).await.is_ok()
    }

    /// Sends trailers and ends the request.
    pub async fn trailers(&mut self, fields: &[(&str, &str)]) {
        let _ = soon(self.send.write_all(&frame(HEADERS, block(fields)))).await;
        let _ = self.send.finish();
    }

    /// Reads a frame, or waits for the end.
    pub async fn part(&mut self) -> Part {
        loop {
            match take_frame(&mut self.came) {
                Some((HEADERS, payload)) => return Part::Head(self.decode(&payload)),
                Some((DATA, payload)) => return Part::Data(payload),
                Some(_) => continue,
                None => {}
            }
            match soon(self.recv.read_chunk(1 << 20, true)).await {
                Ok(Some(chunk)) => self.came.extend(&chunk.bytes),
                Ok(None) => {
                    assert!(self.came.is_empty(), "the stream ends inside a frame");
                    return Part::End;
                }
                Err(ReadError::Reset(code)) => return Part::Reset(code.into_inner()),
                Err(ReadError::ConnectionLost(why)) => return Part::Lost(code(&why)),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn decode(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let limits = HeaderLimits { bytes: 1 << 20, fields: 10_000 };
        self.decoder
            .decode(block, limits, &mut |name: &[u8], value: &[u8]| fields.push((text(name), text(value))))
            .expect("a good block");
        fields
    }

    /// Reads the rest of the result.
    pub async fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        loop {
            match self.part().await {
                Part::Head(head) => answer.heads.push(head),
                Part::Data(data) => answer.body.extend(data),
                Part::End => answer.ended = true,
                Part::Reset(code) => answer.reset = Some(code),
                Part::Lost(code) => answer.closed = Some(code.unwrap_or(u64::MAX)),
            }
            if answer.ended || answer.reset.is_some() || answer.closed.is_some() {
                return answer;
            }
        }
    }

    /// Cancels the request in both directions, as browsers do.
    pub fn cancel(&mut self, code: u32) {
        let _ = self.send.reset(VarInt::from_u32(code));
        let _ = self.recv.stop(VarInt::from_u32(code));
    }
}

/// Address of the first listener that speaks HTTP/3 beside `web`.
pub fn secure_addr(proxy: &Proxy) -> SocketAddr {
    *proxy.server().addresses().iter().find(|addr| **addr != proxy.addr()).expect("a second listener")
}

/// Sends a request with the client of the crate `h3`. Returns status, fields and body.
pub async fn ask(
    to: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> (u16, Vec<(String, String)>, String) {
    let config = quic(trusting(), TransportConfig::default());
    // In the runtime of the test, so that the end of the request is sent with its head.
    let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let connection = soon(endpoint.connect_with(config, to, "a").expect("good parameters"));
    let connection = h3_quinn::Connection::new(connection.await.expect("a handshake"));
    let (mut driver, mut client) =
        h3::client::builder().send_grease(false).build(connection).await.expect("it speaks HTTP/3");
    let driving = tokio::spawn(async move { driver.wait_idle().await });
    let mut request = http::Request::builder().method(if body.is_empty() { "GET" } else { "POST" });
    request = request.uri(format!("https://a{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let asking = async {
        let mut stream = client.send_request(request.body(()).expect("a good one")).await.expect("it takes one more");
        if !body.is_empty() {
            stream.send_data(Bytes::copy_from_slice(body.as_bytes())).await.expect("it goes on");
        }
        stream.finish().await.expect("it goes on");
        let response = stream.recv_response().await.expect("an answer");
        let mut content = Vec::new();
        while let Some(mut part) = stream.recv_data().await.expect("it goes on") {
            content.extend_from_slice(&part.copy_to_bytes(part.remaining()));
        }
        (response, content)
    };
    let (response, content) = soon(asking).await;
    driving.abort();
    let text = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_string();
    let fields = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    (response.status().as_u16(), fields, String::from_utf8(content).expect("text"))
}
