//! Where is TLS spoken? By listener towards clients, by pool towards endpoints. What a plan says is made of its files; what is
//! the same in the next plan stays, with the tickets that clients have and the connections that are open.

use crate::listener::tls::ListenerTls;
use evenkeel_config::Plan;
use evenkeel_config::plan;
use evenkeel_net::tls::towards::Towards;
use evenkeel_tls::{Unusable, client, endpoint};
use std::collections::HashMap;
use std::sync::Arc;

/// What speaks TLS, by name; all else is plain.
#[derive(Clone, Debug, Default)]
pub struct Secured {
    /// Towards clients.
    pub listeners: HashMap<Arc<str>, ListenerTls>,
    /// Towards endpoints.
    pub pools: HashMap<Arc<str>, Towards>,
    made_of: HashMap<(Side, Arc<str>), MadeOf>,
}

/// Which side of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Side {
    Client,
    Endpoint,
}

/// What a configuration was made of: what the plan says, and the contents of its files.
#[derive(Clone, Debug, PartialEq)]
struct MadeOf {
    listener: Option<(plan::ListenerTls, plan::Mode)>,
    pool: Option<plan::PoolTls>,
    files: Vec<u8>,
}

impl Secured {
    /// What `plan` needs.
    ///
    /// # Errors
    /// A file that it names cannot be used: of which listener or pool.
    pub fn next(&self, plan: &Plan) -> Result<Secured, (String, Unusable)> {
        let mut next = Secured::default();
        // What was given at the start, and is in no plan.
        let given = |side, name: &Arc<str>| !self.made_of.contains_key(&(side, name.clone()));
        next.listeners
            .extend(self.listeners.iter().filter(|(n, _)| given(Side::Client, n)).map(|(n, l)| (n.clone(), l.clone())));
        next.pools
            .extend(self.pools.iter().filter(|(n, _)| given(Side::Endpoint, n)).map(|(n, p)| (n.clone(), p.clone())));
        for listener in &plan.listeners {
            let Some(tls) = &listener.tls else { continue };
            let name = listener.name.clone();
            let of = |error| (format!("listener \"{name}\""), error);
            let files = client::fingerprint(tls).map_err(of)?;
            let made_of = MadeOf { listener: Some((tls.clone(), listener.mode)), pool: None, files };
            let at = (Side::Client, name.clone());
            let stays = self.listeners.get(&name).filter(|_| self.made_of.get(&at) == Some(&made_of));
            let made = match stays {
                Some(stays) => stays.clone(),
                None => {
                    let config = client::config(listener, tls).map_err(of)?;
                    ListenerTls::new(Arc::new(move || config.clone()), tls.handshake_timeout, tls.handshakes)
                }
            };
            next.listeners.insert(name.clone(), made);
            next.made_of.insert(at, made_of);
        }
        for pool in &plan.pools {
            let Some(tls) = &pool.tls else { continue };
            let name = pool.name.clone();
            let of = |error| (format!("pool \"{name}\""), error);
            let files = endpoint::fingerprint(tls).map_err(of)?;
            let made_of = MadeOf { listener: None, pool: Some(tls.clone()), files };
            let at = (Side::Endpoint, name.clone());
            let stays = self.pools.get(&name).filter(|_| self.made_of.get(&at) == Some(&made_of));
            let made = match stays {
                Some(stays) => stays.clone(),
                None => {
                    let (config, server_name) = endpoint::config(tls).map_err(of)?;
                    Towards::new(Arc::new(move || config.clone()), server_name)
                }
            };
            next.pools.insert(name.clone(), made);
            next.made_of.insert(at, made_of);
        }
        Ok(next)
    }
}
