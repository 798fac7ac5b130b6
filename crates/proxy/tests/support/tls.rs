//! TLS for tests: an authority, and blocking clients and servers of rustls.

use super::message::{Message, read_message};
use super::{Endpoint, Proxy, SOON, tool};
use evenkeel_net::tls::towards::Towards;
use evenkeel_proxy::{ListenerTls, Secured};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion, version,
};
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub const V12: &[&SupportedProtocolVersion] = &[&version::TLS12];
pub const V13: &[&SupportedProtocolVersion] = &[&version::TLS13];
pub const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];

/// An authority that issues certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    cert: CertificateDer<'static>,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let cert = params.self_signed(&key).expect("a certificate").der().clone();
        Authority { issuer: Issuer::new(params, key), cert }
    }

    /// A server with a certificate for this name, which speaks `alpn`. `change` adjusts the parameters of the
    /// certificate.
    pub fn server(&self, name: &str, alpn: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Arc<ServerConfig> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_string()]).expect("a name");
        change(&mut params);
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate").der().clone();
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(BOTH)
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![cert], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
            .expect("a certificate and its key");
        config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
        config.enable_secret_extraction = true;
        Arc::new(config)
    }

    /// Files with the certificate and the key of a server with this name, for programs.
    pub fn files(&self, name: &str) -> [std::path::PathBuf; 2] {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_string()]).expect("a name");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        [("cert", cert.pem()), ("key", key.serialize_pem())].map(|(kind, text)| {
            let path = std::env::temp_dir().join(format!("evenkeel-{kind}-{}-{:p}.pem", std::process::id(), self));
            std::fs::write(&path, text).expect("a file");
            path
        })
    }

    /// A client that trusts the authority.
    pub fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.cert.clone()).expect("a certificate");
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.enable_secret_extraction = true;
        Arc::new(config)
    }

    /// A client that shows a certificate of this authority and trusts the server's certificate in a file. Also returns
    /// the fingerprint of the certificate that it shows.
    pub fn showing(&self, server: &std::path::Path) -> (Arc<ClientConfig>, String) {
        use rustls::pki_types::pem::PemObject;
        use sha2::{Digest, Sha256};
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["client.test".to_string()]).expect("a name");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate").der().clone();
        let fingerprint = Sha256::digest(&cert).iter().map(|byte| format!("{byte:02x}")).collect();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(server).expect("a certificate")).expect("a certificate");
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_protocol_versions(V13).expect("versions").with_root_certificates(roots);
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        (Arc::new(builder.with_client_auth_cert(vec![cert], key).expect("a certificate")), fingerprint)
    }

    /// Writes the authority's certificate to a file, for programs.
    pub fn pem(&self) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("evenkeel-ca-{}-{:p}.pem", std::process::id(), self));
        let body = base64(&self.cert);
        std::fs::write(&path, format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"))
            .expect("a file");
        path
    }
}

pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for (i, part) in bytes.chunks(3).enumerate() {
        let n = part.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - part.len()));
        for at in 0..4 {
            let digit = DIGITS[(n >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= part.len() { digit.into() } else { '=' });
        }
        if i % 16 == 15 {
            out.push('\n');
        }
    }
    out.push('\n');
    out
}

/// A client that trusts only the certificate in a file.
pub struct Trusting(Arc<ClientConfig>);

pub fn trusting(file: &std::path::Path, versions: &[&'static SupportedProtocolVersion]) -> Trusting {
    use rustls::pki_types::pem::PemObject;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file).expect("a certificate")).expect("a certificate");
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(versions).expect("versions");
    Trusting(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

impl Trusting {
    #[track_caller]
    pub fn connect(&mut self, to: SocketAddr, name: &str) -> TlsClient {
        TlsClient::connect(to, self.0.clone(), name).expect("a handshake")
    }
}

/// TLS for the listener `web`.
pub fn at_listener(config: Arc<ServerConfig>, timeout: Duration) -> Secured {
    let mut secured = Secured::default();
    let text = format!(
        "[listener.web]\nbind = ['127.0.0.1:1']\n[pool.web]\nendpoints = ['127.0.0.1:2']\n\
         [listener.web.tls]\nself_signed = true\nhandshake_timeout = '{}ms'\nhandshakes = 100",
        timeout.as_millis()
    );
    let outcome = evenkeel_config::parse_str("tls.toml", &text, &|_| None);
    let plan = outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics));
    let settings = plan.listeners[0].tls.clone().expect("it is set");
    let tls = ListenerTls::new(Arc::new(move || config.clone()), settings);
    secured.listeners.insert("web".into(), tls);
    secured
}

/// TLS to the endpoints of the pool `web`, whose certificates must be for `name`.
pub fn to_pool(config: Arc<ClientConfig>, name: &str) -> Secured {
    let mut secured = Secured::default();
    let name = ServerName::try_from(name.to_string()).expect("a name");
    secured.pools.insert("web".into(), Towards::new(Arc::new(move || config.clone()), Some(name)));
    secured
}

/// An HTTP/1 client over TLS.
pub struct TlsClient {
    pub reader: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

impl TlsClient {
    pub fn connect(to: SocketAddr, config: Arc<ClientConfig>, name: &str) -> io::Result<TlsClient> {
        let stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(SOON))?;
        stream.set_write_timeout(Some(SOON))?;
        TlsClient::over(stream, config, name)
    }

    pub fn over(stream: TcpStream, config: Arc<ClientConfig>, name: &str) -> io::Result<TlsClient> {
        let name = ServerName::try_from(name.to_string()).expect("a name");
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(TlsClient { reader: BufReader::new(stream) })
    }

    pub fn stream(&mut self) -> &mut StreamOwned<ClientConnection, TcpStream> {
        self.reader.get_mut()
    }

    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut TlsClient {
        self.stream().write_all(bytes.as_ref()).expect("the proxy takes bytes");
        self.stream().flush().expect("the proxy takes bytes");
        self
    }

    #[track_caller]
    pub fn response(&mut self) -> Message {
        read_message(&mut self.reader, false).expect("a whole response").expect("a response, not the end")
    }

    #[track_caller]
    pub fn get(&mut self, path: &str) -> Message {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).response()
    }
}

/// An endpoint over TLS. `serve` gets each connection after its handshake; failed handshakes are ignored.
pub fn endpoint(
    config: Arc<ServerConfig>,
    serve: impl Fn(&mut BufReader<StreamOwned<ServerConnection, TcpStream>>) + Send + Sync + 'static,
) -> Endpoint {
    Endpoint::start(move |conn| {
        let stream = conn.stream.try_clone().expect("descriptors can be had");
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).expect("a connection"), stream);
        while stream.conn.is_handshaking() {
            if stream.conn.complete_io(&mut stream.sock).is_err() {
                return;
            }
        }
        serve(&mut BufReader::new(stream));
    })
}

/// An endpoint over TLS that answers each request.
pub fn answering(config: Arc<ServerConfig>, answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Endpoint {
    endpoint(config, move |conn| {
        while let Ok(Some(request)) = read_message(conn, false) {
            if conn.get_mut().write_all(&answer(&request)).is_err() {
                return;
            }
        }
    })
}

/// A proxy whose pool `web` has this endpoint, with TLS as in `secured`.
#[track_caller]
pub fn proxy(endpoint: SocketAddr, secured: Secured, listener: &str, behind: &str) -> Proxy {
    let config = format!(
        "[runtime]\nworkers = 1\n[listener.web]\nbind = [\"$BIND\"]\nerrors = \"detailed\"\n{listener}\n\
         [pool.web]\nbalance = \"round_robin\"\nendpoints = [\"{endpoint}\"]\n{behind}"
    );
    Proxy::start_secured(&config, &secured)
}

/// A curl command that resolves this name to the proxy, and ignores proxies of the environment.
pub fn curl(proxy: &Proxy, name: &str) -> std::process::Command {
    let at = proxy.addr();
    let mut curl = tool("curl");
    curl.args(["-sS", "--noproxy", "*", "--max-time", "20", "--resolve", &format!("{name}:{}:{}", at.port(), at.ip())]);
    curl
}
