//! Clients of HTTP/3 whose requests last, and who look at every byte.

use crate::support::eventually;
use crate::support::streams::{PIECE, piece};
use bytes::{Buf, Bytes};
use evenkeel_peers::Trusting;
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, StreamError};
use h3_quinn::{BidiStream, OpenStreams};
use http::Request;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::crypto::aws_lc_rs::default_provider;
use quinn::rustls::{self, version};
use quinn::{ClientConfig, Endpoint};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Time between two pieces: requests are to last, not to fill the machine.
const PACE: Duration = Duration::from_millis(20);

/// Number of pieces of a download, which takes two seconds.
const PIECES: u64 = 100;

type Sender = SendRequest<OpenStreams, Bytes>;
type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

pub struct Load {
    run: Run,
    streams: usize,
    runtime: Runtime,
    tasks: Vec<JoinHandle<Result<(), String>>>,
}

#[derive(Clone, Default)]
struct Run {
    stop: Arc<AtomicBool>,
    begun: Arc<AtomicUsize>,
    passed: Arc<AtomicU64>,
}

impl Load {
    /// Connects, and begins as many uploads and as many downloads on each connection. The uploads last until the end.
    pub fn start(to: SocketAddr, connections: usize, each: usize) -> Load {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let (runtime, run) = (runtime.expect("a runtime"), Run::default());
        let mut tasks = Vec::new();
        for _ in 0..connections {
            let client = runtime.block_on(Client::connect(to)).expect("a connection");
            for _ in 0..each {
                tasks.push(runtime.spawn(upload(client.clone(), run.clone())));
                tasks.push(runtime.spawn(download(client.clone(), run.clone())));
            }
        }
        let streams = tasks.len();
        eventually("every stream", || (run.begun.load(SeqCst) == streams).then_some(()));
        Load { run, streams, runtime, tasks }
    }

    /// Waits until more pieces have come through than were under way.
    pub fn goes_on(&self) {
        let (passed, more) = (&self.run.passed, 10 * self.streams as u64);
        let before = passed.load(SeqCst);
        eventually("more pieces", || (passed.load(SeqCst) > before + more).then_some(()));
    }

    /// Ends all requests. Returns what went wrong.
    pub fn end(self) -> Vec<String> {
        self.run.stop.store(true, SeqCst);
        let Load { runtime, tasks, .. } = self;
        runtime.block_on(async {
            let mut wrong = Vec::new();
            for task in tasks {
                wrong.extend(task.await.expect("no panic in there").err());
            }
            wrong
        })
    }
}

impl Run {
    /// Counts a piece; true if another one is to follow.
    fn goes_on(&self, number: u64) -> bool {
        if number == 0 {
            self.begun.fetch_add(1, SeqCst);
        }
        self.passed.fetch_add(1, SeqCst);
        !self.stop.load(SeqCst)
    }
}

#[derive(Clone)]
struct Client {
    to: SocketAddr,
    /// The connection closes with the last of these.
    sender: Sender,
}

impl Client {
    async fn connect(to: SocketAddr) -> Result<Client, String> {
        let provider = default_provider();
        let trusting = Arc::new(Trusting::new(provider.signature_verification_algorithms.supported_schemes()));
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&version::TLS13])
            .expect("a version")
            .dangerous()
            .with_custom_certificate_verifier(trusting)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")));
        let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let connecting = endpoint.connect_with(config, to, "test").expect("good parameters");
        let connection = h3_quinn::Connection::new(connecting.await.map_err(|error| format!("handshake: {error}"))?);
        let (mut driver, sender) =
            h3::client::builder().build(connection).await.map_err(|error| format!("SETTINGS: {error}"))?;
        tokio::spawn(async move { driver.wait_idle().await });
        Ok(Client { to, sender })
    }

    /// Begins a request: on another connection if the server takes no more on this one.
    async fn begin(&mut self, method: &str, path: &str) -> Result<Stream, String> {
        let request =
            || Request::builder().method(method).uri(format!("https://test{path}")).body(()).expect("a request");
        match self.sender.send_request(request()).await {
            Ok(stream) => Ok(stream),
            Err(_) => {
                *self = Client::connect(self.to).await?;
                self.sender.send_request(request()).await.map_err(|error| format!("a new connection: {error}"))
            }
        }
    }
}

/// True if the server says that it has not looked at the request.
fn is_untouched(error: &StreamError) -> bool {
    matches!(error, StreamError::RemoteTerminate { code, .. } if *code == Code::H3_REQUEST_REJECTED)
}

async fn upload(mut client: Client, run: Run) -> Result<(), String> {
    let mut stream = client.begin("POST", "/upload").await?;
    let mut sent = 0;
    loop {
        stream.send_data(piece(sent).into()).await.map_err(|error| format!("piece {sent} of an upload: {error}"))?;
        sent += 1;
        if !run.goes_on(sent - 1) {
            break;
        }
        tokio::time::sleep(PACE).await;
    }
    stream.finish().await.map_err(|error| format!("end of an upload: {error}"))?;
    let status = stream.recv_response().await.map_err(|error| format!("response to an upload: {error}"))?.status();
    let body = body(&mut stream, || ()).await?;
    let is_whole = status == 200 && body == sent.to_string().into_bytes();
    if is_whole { Ok(()) } else { Err(format!("upload of {sent}: {status} {}", String::from_utf8_lossy(&body))) }
}

/// Downloads one response after the other.
async fn download(mut client: Client, run: Run) -> Result<(), String> {
    let want: Vec<u8> = (0..PIECES).flat_map(piece).collect();
    let path = format!("/download?pieces={PIECES}&pace_ms={}", PACE.as_millis());
    let mut number = 0;
    loop {
        let mut stream = client.begin("GET", &path).await?;
        stream.finish().await.map_err(|error| format!("end of a request: {error}"))?;
        match stream.recv_response().await {
            Err(error) if is_untouched(&error) => continue,
            Err(error) => return Err(format!("response: {error}")),
            Ok(response) if response.status() != 200 => return Err(format!("response: {}", response.status())),
            Ok(_) => {}
        }
        let mut goes_on = true;
        let body = body(&mut stream, || {
            goes_on = run.goes_on(number);
            number += 1;
        });
        if body.await? != want {
            return Err("a download differs".into());
        }
        if !goes_on {
            return Ok(());
        }
    }
}

/// Reads a body. Calls `each` for each piece.
async fn body(stream: &mut Stream, mut each: impl FnMut()) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let mut pieces = 0;
    while let Some(mut part) = stream.recv_data().await.map_err(|error| format!("body: {error}"))? {
        body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
        while body.len() >= (pieces + 1) * PIECE {
            pieces += 1;
            each();
        }
    }
    Ok(body)
}
