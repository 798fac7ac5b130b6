//! An issuer that publishes its keys over HTTP, with or without TLS, as a script has it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Answer of an issuer to a request for its keys.
#[derive(Clone)]
pub enum Answer {
    /// Status, field lines and body of a response.
    Plain(u16, &'static str, String),
    /// Bytes without an end, in a body without a length.
    Endless,
    /// Nothing, while the connection stays.
    Hang,
}

/// An issuer on this machine. Its task ends with the runtime of the test.
pub struct Issuer {
    pub port: u16,
    answer: Arc<Mutex<Answer>>,
    requests: Arc<AtomicUsize>,
}

impl Issuer {
    /// Starts an issuer whose answers are these, until they are changed.
    pub async fn start(tls: Option<TlsAcceptor>, answer: Answer) -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (answer, requests) = (Arc::new(Mutex::new(answer)), Arc::<AtomicUsize>::default());
        let issuer = Issuer { port, answer: answer.clone(), requests: requests.clone() };
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (tls, answer, requests) = (tls.clone(), answer.clone(), requests.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(socket).await {
                                serve(stream, &answer, &requests).await;
                            }
                        }
                        None => serve(socket, &answer, &requests).await,
                    }
                });
            }
        });
        issuer
    }

    pub fn answer(&self, answer: Answer) {
        *self.answer.lock().expect("no panic") = answer;
    }

    pub fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }
}

async fn serve(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, answer: &Mutex<Answer>, requests: &AtomicUsize) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    assert!(head.starts_with(b"GET /jwks.json?tenant=a HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&head));
    let answer = answer.lock().expect("no panic").clone();
    requests.fetch_add(1, SeqCst);
    match answer {
        Answer::Plain(status, fields, body) => {
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Answer::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 x\r\nConnection: close\r\n\r\n").await;
            while stream.write_all(&[b' '; 8192]).await.is_ok() {}
        }
        Answer::Hang => {
            let _ = stream.read_u8().await;
        }
    }
}

/// Acceptor with a certificate for `localhost`, and that certificate in PEM.
pub fn tls() -> (TlsAcceptor, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).expect("a certificate");
    let chain = vec![CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).expect("PEM");
    let provider = tokio_rustls::rustls::crypto::aws_lc_rs::default_provider();
    let config = ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("they are there")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a pair");
    (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
}

/// Polls until `holds`.
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "did not happen in time: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
