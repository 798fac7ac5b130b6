//! QUIC of a worker: its number in connection ids, its keys, and the datagrams that it exchanges with other workers and
//! processes.

use crate::core::Core;
use evenkeel_net::event_loop::{Task, spawn};
use evenkeel_net::quic::endpoint::{Endpoint, Service};
use evenkeel_net::quic::ids::Owner;
use evenkeel_net::quic::inbox::{Handed, Inbox, Outbox};
use evenkeel_net::quic::keys::Keys;
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::OnceLock;

/// An endpoint, as others see it.
pub(super) trait Receives {
    fn give(&self, handed: Handed<'_>);
}

impl<S: Service> Receives for Endpoint<S> {
    fn give(&self, handed: Handed<'_>) {
        Endpoint::give(self, handed.from, handed.to, handed.segment, handed.bytes);
    }
}

/// QUIC of a worker, for all of its endpoints.
pub struct Quic {
    pub(super) owner: Owner,
    pub(super) keys: Keys,
    outbox: RefCell<Option<Outbox>>,
    endpoints: RefCell<Vec<(SocketAddr, Weak<dyn Receives>)>>,
    receiving: RefCell<Option<Task>>,
}

/// Number of this process in connection ids.
fn generation() -> u16 {
    static GENERATION: OnceLock<u16> = OnceLock::new();
    // `RandomState` has new keys in each process.
    *GENERATION.get_or_init(|| RandomState::new().hash_one(std::process::id()) as u16)
}

impl Quic {
    /// Begins to receive datagrams from other workers and processes. `instance` is shared only by processes that replace
    /// each other. Without a socket for it, clients lose their connection when their address changes or another process
    /// takes over.
    pub fn start(core: &Rc<Core>, instance: u64, keys: Keys) -> Rc<Quic> {
        let owner = Owner { generation: generation(), worker: core.index as u8 };
        let opened = Outbox::new(instance).and_then(|outbox| Ok((outbox, Inbox::new(instance, owner)?)));
        let (outbox, inbox) = match opened {
            Ok((outbox, inbox)) => (Some(outbox), Some(inbox)),
            Err(error) => {
                tracing::warn!(%error, "HTTP/3: workers cannot exchange datagrams; clients that move lose connections");
                (None, None)
            }
        };
        let quic = Rc::new(Quic {
            owner,
            keys,
            outbox: RefCell::new(outbox),
            endpoints: RefCell::default(),
            receiving: RefCell::default(),
        });
        if let Some(mut inbox) = inbox {
            let weak = Rc::downgrade(&quic);
            let receiving = spawn(async move {
                while let Some(quic) = weak.upgrade() {
                    inbox.receive(|handed| quic.give(handed)).await;
                }
            });
            quic.receiving.replace(Some(receiving));
        }
        quic
    }

    /// Adds the endpoint at an address. It ends by itself.
    pub(super) fn add(&self, addr: SocketAddr, endpoint: Rc<dyn Receives>) {
        let mut endpoints = self.endpoints.borrow_mut();
        endpoints.retain(|(_, endpoint)| endpoint.strong_count() > 0);
        endpoints.push((addr, Rc::downgrade(&endpoint)));
    }

    fn give(&self, handed: Handed<'_>) {
        let at: Vec<_> = {
            let endpoints = self.endpoints.borrow();
            endpoints.iter().filter(|(addr, _)| *addr == handed.at).filter_map(|(_, of)| of.upgrade()).collect()
        };
        at.iter().for_each(|endpoint| endpoint.give(handed));
    }

    /// Hands datagrams to their owner. Returns false if that is gone.
    pub(super) fn hand(&self, owner: Owner, handed: Handed<'_>) -> bool {
        self.outbox.borrow_mut().as_mut().is_some_and(|outbox| outbox.hand(owner, handed))
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        if let Some(receiving) = self.receiving.take() {
            receiving.abort();
        }
    }
}
