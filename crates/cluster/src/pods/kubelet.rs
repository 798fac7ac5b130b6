//! The part of a kubelet that the API server asks for logs of pods, over HTTPS.

use super::log::Wanted;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Port of kubelets. All nodes share an address, and so this port.
pub const PORT: u16 = 10_250;

pub struct Kubelet {
    client: Client,
    /// Folder with a folder of each pod.
    folder: PathBuf,
    acceptor: TlsAcceptor,
    listener: TcpListener,
}

impl Kubelet {
    /// Listens at `addr`, with the certificate of the API server: without an authority for kubelets, it does not check it.
    ///
    /// # Errors
    /// If certificate or address cannot be used.
    pub async fn new(client: Client, folder: &Path, certificate: &Path, addr: &str) -> Result<Kubelet, String> {
        let failed = |error: &dyn std::fmt::Display| format!("kubelet: {}: {error}", certificate.display());
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain = chain.map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::from_pem_file(certificate.with_extension("key")).map_err(|error| failed(&error))?;
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
        let acceptor = TlsAcceptor::from(Arc::new(config.map_err(|error| failed(&error))?));
        let listener = TcpListener::bind((addr, PORT)).await.map_err(|error| format!("kubelet: {addr}: {error}"))?;
        Ok(Kubelet { client, folder: folder.to_owned(), acceptor, listener })
    }

    /// Answers requests, until it is dropped.
    pub async fn run(self) {
        let kubelet = Arc::new(self);
        loop {
            match kubelet.listener.accept().await {
                Ok((stream, _)) => _ = tokio::spawn(kubelet.clone().serve(stream)),
                Err(error) => {
                    eprintln!("kubelet: {error}");
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Kubelet>, stream: TcpStream) {
        let answer = service_fn(|request| {
            let kubelet = self.clone();
            async move { Ok::<_, Infallible>(kubelet.answer(&request).await) }
        });
        match self.acceptor.accept(stream).await {
            // The API server hangs up once it has the response.
            Ok(stream) => {
                _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await
            }
            Err(error) => eprintln!("kubelet: {error}"),
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<String> {
        let (status, text) = match self.log(request).await {
            Ok(log) => (StatusCode::OK, log),
            Err((status, error)) => (status, format!("{error}\n")),
        };
        let mut response = Response::new(text);
        *response.status_mut() = status;
        response
    }

    /// Returns the log that `/containerLogs/NAMESPACE/POD/CONTAINER` means.
    async fn log(&self, request: &Request<Incoming>) -> Result<String, (StatusCode, String)> {
        let path: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
        let ["containerLogs", namespace, name, _] = path[..] else {
            return Err((StatusCode::NOT_FOUND, "only /containerLogs/NAMESPACE/POD/CONTAINER is served".to_owned()));
        };
        let wanted = Wanted::new(request.uri().query().unwrap_or_default());
        let wanted = wanted.map_err(|error| (StatusCode::BAD_REQUEST, error))?;
        let pod = Api::<Pod>::namespaced(self.client.clone(), namespace).get(name).await;
        let pod = pod.map_err(|error| (StatusCode::NOT_FOUND, error.to_string()))?;
        let log = self.folder.join(pod.metadata.uid.unwrap_or_default()).join("log");
        wanted
            .read(&log)
            .await
            .map_err(|error| (StatusCode::NOT_FOUND, format!("{namespace}/{name} has no log: {error}")))
    }
}
