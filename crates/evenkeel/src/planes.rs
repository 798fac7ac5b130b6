//! The planes of the process: a row for each.

use evenkeel_dns::Dns;
use evenkeel_kernel::Kernel;
use evenkeel_proxy::finished::FinishedRequest;
use evenkeel_proxy::{Looker, Numbers, Proxy, Secured};
use evenkeel_runtime::{Plane, Runtime, StartError};
use evenkeel_tls::Store;
use evenkeel_tokens::Tokens;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Parts of the proxy that the process connects with others: certificates with the issuer, spans with their exporter,
/// keys of tokens with their fetcher, and stored responses with the process that takes over.
pub struct Connected {
    /// Inspects workers, for operators.
    pub looker: Arc<Looker>,
    pub numbers: watch::Receiver<Arc<Numbers>>,
    pub certificates: Arc<Store>,
    pub tokens: watch::Receiver<Arc<Tokens>>,
    pub recorded: Option<mpsc::Receiver<Arc<FinishedRequest>>>,
}

/// Starts all planes, which serve nothing yet.
///
/// # Errors
/// A plane lacks a thread, a file or random bytes.
pub fn start(runtime: &Runtime) -> Result<(Vec<Box<dyn Plane>>, Connected), StartError> {
    let mut proxy = Proxy::start(runtime, Secured::default())?;
    let connected = Connected {
        looker: Arc::new(proxy.looker()),
        numbers: proxy.numbers(),
        certificates: proxy.certificates().borrow().clone(),
        tokens: proxy.tokens(),
        recorded: proxy.take_recorded(),
    };
    Ok((vec![Box::new(proxy), Box::new(Dns::new(runtime)?), Box::new(Kernel::new(runtime))], connected))
}
