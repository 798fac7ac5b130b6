//! Where is TLS spoken? By listener towards clients, by pool towards endpoints. What is the same in the next plan stays, with the
//! tickets that clients have and the connections that are open.

use crate::listener::tls::ListenerTls;
use evenkeel_config::Plan;
use evenkeel_net::tls::towards::Towards;
use evenkeel_tls::{Problem, Store};
use rustls::pki_types::ServerName;
use std::collections::HashMap;
use std::sync::Arc;

/// What speaks TLS, by name; all else is plain.
#[derive(Clone, Debug, Default)]
pub struct Secured {
    /// Towards clients.
    pub listeners: HashMap<Arc<str>, ListenerTls>,
    /// Towards endpoints.
    pub pools: HashMap<Arc<str>, Towards>,
    /// What plans name; the rest was given at the start.
    store: Arc<Store>,
}

impl Secured {
    /// What `plan` needs.
    ///
    /// # Errors
    /// A file that it names cannot be used.
    pub fn next(&self, plan: &Plan) -> Result<Secured, Problem> {
        let store = self.store.next(plan)?;
        let mut next = Secured { store: Arc::new(store), ..Secured::default() };
        let is_given = |name: &Arc<str>| self.store.listeners().all(|(other, ..)| other != name);
        next.listeners.extend(self.listeners.iter().filter(|(n, _)| is_given(n)).map(|(n, l)| (n.clone(), l.clone())));
        let is_given = |name: &Arc<str>| self.store.pools().all(|(other, ..)| other != name);
        next.pools.extend(self.pools.iter().filter(|(n, _)| is_given(n)).map(|(n, p)| (n.clone(), p.clone())));
        for (name, settings, current) in next.store.listeners() {
            let current = current.clone();
            let tls = ListenerTls::new(Arc::new(move || current.get()), settings.clone());
            next.listeners.insert(name.clone(), tls);
        }
        for (name, settings, current) in next.store.pools() {
            let mut before = self.store.pools().filter(|(other, ..)| *other == name);
            let stays = before.any(|(_, old, handle)| old == settings && Arc::ptr_eq(handle, current));
            // One that stays keeps its connections.
            let towards = self.pools.get(name).filter(|_| stays).cloned().unwrap_or_else(|| {
                let current = current.clone();
                // The form of the key is that of a name.
                let name = settings.server_name.as_ref().and_then(|name| ServerName::try_from(name.to_string()).ok());
                Towards::new(Arc::new(move || current.get()), name)
            });
            next.pools.insert(name.clone(), towards);
        }
        Ok(next)
    }

    /// What plans name.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}
