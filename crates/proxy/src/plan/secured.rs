//! TLS settings by listener (towards clients) and by pool (towards endpoints). Settings that do not change with the
//! next plan are kept, and with them clients' tickets and open connections.

use crate::listener::tls::ListenerTls;
use evenkeel_config::Plan;
use evenkeel_net::tls::towards::Towards;
use evenkeel_tls::{Problem, Store};
use rustls::pki_types::ServerName;
use std::collections::HashMap;
use std::sync::Arc;

/// Listeners and pools that use TLS, by name; all others are plain.
#[derive(Clone, Debug, Default)]
pub struct Secured {
    /// Listeners with TLS towards clients.
    pub listeners: HashMap<Arc<str>, ListenerTls>,
    /// Pools with TLS towards endpoints.
    pub pools: HashMap<Arc<str>, Towards>,
    /// Certificates that plans name. Entries of the maps without a counterpart here were given at the start.
    store: Arc<Store>,
}

impl Secured {
    /// TLS settings for `plan`; those that it does not change are shared with `self`.
    ///
    /// # Errors
    /// Files that the plan names and that cannot be read or used.
    pub fn next(&self, plan: &Plan) -> Result<Secured, Vec<Problem>> {
        let store = self.store.next(plan)?;
        let mut next = Secured { store: Arc::new(store), ..Secured::default() };
        let is_given = |name: &Arc<str>| self.store.listeners().all(|(other, ..)| other != name);
        next.listeners.extend(self.listeners.iter().filter(|(n, _)| is_given(n)).map(|(n, l)| (n.clone(), l.clone())));
        let is_given = |name: &Arc<str>| self.store.pools().all(|(other, ..)| other != name);
        next.pools.extend(self.pools.iter().filter(|(n, _)| is_given(n)).map(|(n, p)| (n.clone(), p.clone())));
        let mut sessions = next.store.shown().sessions();
        for (name, settings, current) in next.store.listeners() {
            let current = current.clone();
            let mut tls = ListenerTls::new(Arc::new(move || current.get()), settings.clone());
            tls.sessions = sessions.remove(name);
            next.listeners.insert(name.clone(), tls);
        }
        for (name, settings, current) in next.store.pools() {
            let mut before = self.store.pools().filter(|(other, ..)| *other == name);
            let stays = before.any(|(_, old, handle)| old == settings && Arc::ptr_eq(handle, current));
            // Settings that stay keep their connections: equality is by identity.
            let towards = self.pools.get(name).filter(|_| stays).cloned().unwrap_or_else(|| {
                let current = current.clone();
                // The configuration has checked the form of the name.
                let name = settings.server_name.as_ref().and_then(|name| ServerName::try_from(name.to_string()).ok());
                Towards::new(Arc::new(move || current.get()), name)
            });
            next.pools.insert(name.clone(), towards);
        }
        Ok(next)
    }

    /// Certificates and keys that the plan names.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}
