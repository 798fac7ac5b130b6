//! Sessions of clients that may send requests with their first packets (0-RTT). A session resumes once: that is the
//! protection against replays of RFC 8446 section 8.1. All workers share them, and a process that takes over begins without.

use rustls::ServerConfig;
use rustls::server::{ProducesTickets, StoresServerSessions};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limits that the server has announced to the client, in any order. A client obeys them in its first packets, so they
/// must not have changed (RFC 9000 section 7.4.1).
pub type Limits = [u64; 6];

/// Sessions of a listener. The oldest is dropped for a new one when all places are taken.
#[derive(Debug, Default)]
pub struct Sessions {
    kept: Mutex<Kept>,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    sessions: HashMap<Vec<u8>, Session>,
    /// Ids of the sessions, oldest first.
    by_age: BTreeMap<u64, Vec<u8>>,
    /// Number of sessions so far.
    begun: u64,
}

#[derive(Debug)]
struct Session {
    number: u64,
    /// The session, sealed like a ticket.
    sealed: Vec<u8>,
    client: IpAddr,
    limits: Limits,
}

impl Sessions {
    /// Number of sessions that can be resumed.
    pub fn len(&self) -> usize {
        self.kept().sessions.len()
    }

    /// True if no session can be resumed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of sessions that clients named and that were not there.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Configuration like `config` for the handshake of a client: it accepts early data, and its sessions are kept here
    /// instead of in tickets.
    pub fn for_client(self: &Arc<Self>, config: &ServerConfig, offer: Offer) -> (ServerConfig, Arc<AtomicBool>) {
        let Offer { most, client, limits, is_proven } = offer;
        let is_proven = Arc::new(AtomicBool::new(is_proven));
        let mut config = config.clone();
        config.session_storage = Arc::new(OfClient {
            sessions: self.clone(),
            seal: std::mem::replace(&mut config.ticketer, Arc::new(NoTickets)),
            most,
            client,
            limits,
            is_proven: is_proven.clone(),
        });
        // The only value that QUIC has besides 0 (RFC 9001 section 4.6.1).
        config.max_early_data_size = u32::MAX;
        (config, is_proven)
    }
}

/// A client that begins a handshake.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Maximum number of sessions that are kept.
    pub most: usize,
    pub client: IpAddr,
    pub limits: Limits,
    /// True if the client has proven its address in this handshake.
    pub is_proven: bool,
}

/// Sessions as the handshake of a client uses them.
#[derive(Debug)]
struct OfClient {
    sessions: Arc<Sessions>,
    /// Tickets of the listener: a session is bound to the same proof of the client and the same lifetime.
    seal: Arc<dyn ProducesTickets>,
    most: usize,
    client: IpAddr,
    limits: Limits,
    /// True once the client has proven its address: a session that it resumes began there.
    is_proven: Arc<AtomicBool>,
}

impl StoresServerSessions for OfClient {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        let Some(sealed) = self.seal.encrypt(&session) else { return false };
        let kept = &mut *self.sessions.kept();
        while kept.sessions.len() >= self.most.max(1) {
            let Some((_, oldest)) = kept.by_age.pop_first() else { break };
            kept.sessions.remove(&oldest);
        }
        let number = kept.begun;
        kept.begun += 1;
        kept.by_age.insert(number, id.clone());
        kept.sessions.insert(id, Session { number, sealed, client: self.client, limits: self.limits });
        true
    }

    /// Always `None`, as a session must not resume twice.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let taken = {
            let kept = &mut *self.sessions.kept();
            let taken = kept.sessions.remove(id);
            if let Some(session) = &taken {
                kept.by_age.remove(&session.number);
            }
            taken
        };
        let session = taken.filter(|session| session.limits == self.limits).and_then(|session| {
            let opened = self.seal.decrypt(&session.sealed)?;
            if session.client == self.client {
                self.is_proven.store(true, Relaxed);
            }
            Some(opened)
        });
        if session.is_none() {
            self.sessions.refused.fetch_add(1, Relaxed);
        }
        session
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Has rustls use the store.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tickets::{Bound, tickets};

    struct Listener(Arc<Sessions>, Arc<dyn ProducesTickets>);

    impl Listener {
        fn new() -> Listener {
            Listener(Arc::default(), tickets(&[]).expect("randomness"))
        }

        fn client(&self, ip: u8, limits: Limits, proof: u8) -> OfClient {
            OfClient {
                sessions: self.0.clone(),
                seal: Arc::new(Bound::new(self.1.clone(), [proof; 32], false)),
                most: 3,
                client: [192, 0, 2, ip].into(),
                limits,
                is_proven: Arc::default(),
            }
        }
    }

    #[test]
    fn a_session_resumes_once() {
        let listener = Listener::new();
        assert!(listener.client(1, [1; 6], 0).put(b"id".to_vec(), b"session".to_vec()));
        let again = listener.client(1, [1; 6], 0);
        assert_eq!(again.take(b"id").as_deref(), Some(&b"session"[..]));
        assert!(again.is_proven.load(Relaxed));
        assert_eq!(again.take(b"id"), None);
        assert_eq!((listener.0.refused(), listener.0.len()), (1, 0));
        assert!(listener.0.kept().by_age.is_empty());
    }

    #[test]
    fn a_client_elsewhere_resumes_and_has_not_proven_its_address() {
        let listener = Listener::new();
        listener.client(1, [1; 6], 0).put(b"id".to_vec(), b"session".to_vec());
        let moved = listener.client(2, [1; 6], 0);
        assert!(moved.take(b"id").is_some());
        assert!(!moved.is_proven.load(Relaxed));
    }

    #[test]
    fn other_limits_and_another_proof_end_a_session() {
        let listener = Listener::new();
        for (limits, proof) in [([2; 6], 0), ([1; 6], 1)] {
            listener.client(1, [1; 6], 0).put(b"id".to_vec(), b"session".to_vec());
            assert_eq!(listener.client(1, limits, proof).take(b"id"), None);
            assert_eq!(listener.client(1, [1; 6], 0).take(b"id"), None, "it was used");
        }
    }

    #[test]
    fn the_oldest_session_goes_first() {
        let listener = Listener::new();
        let client = listener.client(1, [1; 6], 0);
        for id in 0..5 {
            client.put(vec![id], vec![id]);
        }
        assert_eq!(listener.0.len(), 3);
        let found: Vec<u8> = (0..5).filter(|id| client.take(&[*id]).is_some()).collect();
        assert_eq!(found, [2, 3, 4]);
        assert!(listener.0.kept().by_age.is_empty() && listener.0.is_empty());
    }
}
