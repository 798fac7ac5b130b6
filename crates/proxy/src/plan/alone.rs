//! A proxy without other planes, for tests and trials.

use super::look::Looker;
use super::secured::Secured;
use super::server::Proxy;
use crate::observe::numbers::Numbers;
use crate::observe::stats::WorkerStats;
use crate::resource::Resources;
use evenkeel_config::Plan;
use evenkeel_net::inherit::Inherited;
use evenkeel_runtime::{Orders, Runtime, StartError};
use evenkeel_tls::Store;
use evenkeel_tokens::Tokens;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tokio::sync::watch;

/// A runtime with the proxy as its only plane.
pub struct Server {
    runtime: Runtime,
    numbers: watch::Receiver<Arc<Numbers>>,
    certificates: watch::Receiver<Arc<Store>>,
    tokens: watch::Receiver<Arc<Tokens>>,
    looker: Arc<Looker>,
}

impl Server {
    /// Starts the workers. When this returns, every listener accepts.
    ///
    /// # Errors
    /// The plan cannot be applied, for example because an address is taken. Nothing runs then.
    pub fn start(plan: Plan) -> Result<Server, StartError> {
        Server::start_secured(plan, Secured::default())
    }

    /// Like [`start`](Self::start), with TLS for the listeners and pools in `secured`.
    ///
    /// # Errors
    /// The plan cannot be applied. Nothing runs then.
    pub fn start_secured(plan: Plan, secured: Secured) -> Result<Server, StartError> {
        let mut inherited = Inherited::default();
        let mut runtime = Runtime::new(plan, inherited.instance(), Orders::default())?;
        let proxy = Proxy::start(&runtime, secured)?;
        let (numbers, certificates, looker) = (proxy.numbers(), proxy.certificates(), Arc::new(proxy.looker()));
        let tokens = proxy.tokens();
        runtime.start(vec![Box::new(proxy)], &mut inherited)?;
        Ok(Server { runtime, numbers, certificates, tokens, looker })
    }

    /// Statistics of each worker.
    pub fn stats(&self) -> Vec<Arc<WorkerStats>> {
        self.numbers.borrow().workers.clone()
    }

    /// Statistics of the plan in use, over all workers.
    pub fn numbers(&self) -> Arc<Numbers> {
        self.numbers.borrow().clone()
    }

    /// Certificates and keys of the plan in use.
    pub fn certificates(&self) -> Arc<Store> {
        self.certificates.borrow().clone()
    }

    /// Resources of filters of the plan in use.
    pub fn resources(&self) -> Arc<Resources> {
        self.numbers.borrow().resources.clone()
    }

    /// Watches the verifiers of tokens of the plan in use.
    pub fn tokens(&self) -> watch::Receiver<Arc<Tokens>> {
        self.tokens.clone()
    }

    /// Addresses that the listeners are bound to.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.plan().listeners.iter().flat_map(|l| l.bind.clone()).collect()
    }

    /// Asks workers for explanations of their picks.
    pub fn looker(&self) -> Arc<Looker> {
        self.looker.clone()
    }

    /// Waits until every worker has ended and the logs are flushed.
    pub fn join(self) {
        self.runtime.join();
    }
}

impl Deref for Server {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Runtime {
        &mut self.runtime
    }
}
