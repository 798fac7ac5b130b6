//! Where is TLS spoken? What its files say, as the proxy takes it; and when they are looked at again.

use crate::failure::Failure;
use evenkeel_config::Plan;
use evenkeel_proxy::{ListenerTls, PoolTls, Secured};
use evenkeel_tls::{Problem, Store};
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;

/// How often files are looked at: a certificate that was renewed is used before anyone looks whether it is.
pub const LOOK_EVERY: Duration = Duration::from_secs(3);

/// The files of a plan, and what the proxy was given of them.
#[derive(Default)]
pub struct Tls {
    /// What they say.
    pub store: Store,
    given: Secured,
}

impl Tls {
    /// Reads what a plan names; what is as it was goes on.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn next(&self, plan: &Plan) -> Result<Tls, Problem> {
        let store = self.store.next(plan)?;
        let mut given = Secured::default();
        for (name, settings, current) in store.listeners() {
            let current = current.clone();
            let tls =
                ListenerTls::new(Arc::new(move || current.get()), settings.handshake_timeout, settings.handshakes);
            given.listeners.insert(name.clone(), tls);
        }
        for (name, settings, current) in store.pools() {
            let before = self.store.pools().find(|(other, ..)| *other == name);
            let stays = before.is_some_and(|(_, old, handle)| old == settings && Arc::ptr_eq(handle, current));
            // One that stays keeps the connections that are idle.
            let tls = match self.given.pools.get(name).filter(|_| stays) {
                Some(before) => before.clone(),
                None => {
                    let current = current.clone();
                    let server_name = settings.server_name.as_ref().map(|name| ServerName::try_from(name.to_string()));
                    // The form of the key is that of a name.
                    PoolTls::new(Arc::new(move || current.get()), server_name.and_then(Result::ok))
                }
            };
            given.pools.insert(name.clone(), tls);
        }
        Ok(Tls { store, given })
    }

    /// For the proxy.
    pub fn given(&self) -> Secured {
        self.given.clone()
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure::running(problem.to_string())
    }
}
