//! How is the authority spoken to? By HTTP/1.1 over TLS, a connection for each request: there are a dozen for a certificate.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// How long a request may take, with its answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of an answer; a chain of certificates has some thousands.
const ANSWER_MAX: usize = 1 << 20;

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Sends requests to authorities.
#[derive(Clone)]
pub struct Sender {
    tls: TlsConnector,
}

impl Sender {
    /// With what `config` believes.
    pub fn new(config: Arc<ClientConfig>) -> Sender {
        Sender { tls: config.into() }
    }
}

impl HttpClient for Sender {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let tls = self.tls.clone();
        Box::pin(async move {
            let answered = match tokio::time::timeout(PATIENCE, send(tls, request)).await {
                Ok(answered) => answered,
                Err(_) => Err(format!("no answer within {PATIENCE:?}").into()),
            };
            answered.map_err(Error::Other)
        })
    }
}

async fn send(tls: TlsConnector, mut request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Fault> {
    let uri = request.uri().clone();
    let (Some(authority), Some(host), Some("https")) = (uri.authority(), uri.host(), uri.scheme_str()) else {
        return Err("it is no URL over HTTPS".into());
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let socket = TcpStream::connect((bare, uri.port_u16().unwrap_or(443))).await?;
    let stream = tls.connect(ServerName::try_from(bare.to_string())?, socket).await?;
    request.headers_mut().insert(HOST, HeaderValue::from_str(authority.as_str())?);
    // What a server reads behind the method.
    *request.uri_mut() = uri.path_and_query().map_or(Uri::from_static("/"), |path| path.clone().into());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let answered = async {
        let (parts, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
        Ok::<_, Fault>(BytesResponse { parts, body: Box::new(body) })
    };
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answered = &mut answered => answered,
        // It ends when all of the answer has come, too.
        ended = connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(error.into()),
        },
    }
}
