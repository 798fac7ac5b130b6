//! Result of a merge, and the pieces that are blamed for an error of this machine about it.

use super::origins::{Kind, Origins};
use crate::providers::parts::Refusal;
use evenkeel_config::Plan;
use evenkeel_config::plan::Listener;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Plan of the file with pieces of other providers.
#[derive(Clone, Debug)]
pub struct Merged {
    pub plan: Plan,
    pub origins: Origins,
    /// Objects that were left out, by provider.
    pub refused: BTreeMap<&'static str, Vec<Refusal>>,
}

/// Pieces that this machine cannot do, by kind and name.
pub type Unwanted = HashMap<(Kind, Arc<str>), Impossible>;

/// A piece that cannot be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Impossible {
    pub why: String,
    /// Listener of the same name that runs, and is kept.
    pub instead: Option<Arc<Listener>>,
}

impl Merged {
    /// Adds the pieces that an error about the plan as a whole is likely to be about: those that it names; else those that
    /// the running plan does not have. Returns false if there are none that were not added before.
    pub fn blame(&self, text: &str, running: &Plan, unwanted: &mut Unwanted) -> bool {
        let of_providers = |kind, name: &Arc<str>| self.origins.of(kind, name).is_some();
        let listeners = self.plan.listeners.iter().filter(|one| of_providers(Kind::Listener, &one.name));
        let pools = self.plan.pools.iter().filter(|one| of_providers(Kind::Pool, &one.name));
        let routes = self.plan.routes.iter().filter(|one| of_providers(Kind::Route, &one.name));
        let all = listeners.clone().map(|one| (Kind::Listener, &one.name));
        let all = all.chain(pools.clone().map(|one| (Kind::Pool, &one.name)));
        let named = all.filter_map(|(kind, name)| {
            let line = text.lines().find(|line| line.contains(&format!("{} \"{name}\"", kind.word())))?;
            Some(((kind, name.clone()), line.strip_prefix("error: ").unwrap_or(line).to_owned()))
        });
        let mut blamed: Vec<_> = named.collect();
        if blamed.is_empty() {
            let listeners = listeners.filter(|one| running.listener(&one.name) != Some(one));
            let listeners = listeners.map(|one| (Kind::Listener, one.name.clone()));
            let pools = pools.filter(|one| running.pool(&one.name) != Some(one));
            let pools = pools.map(|one| (Kind::Pool, one.name.clone()));
            let routes = routes.filter(|one| !running.routes.contains(one));
            let routes = routes.map(|one| (Kind::Route, one.name.clone()));
            let why = text.lines().collect::<Vec<_>>().join(" ");
            blamed = listeners.chain(pools).chain(routes).map(|piece| (piece, why.clone())).collect();
        }
        for ((kind, name), why) in &blamed {
            let is_again = unwanted.contains_key(&(*kind, name.clone()));
            let instead = running.listener(name).filter(|_| *kind == Kind::Listener && !is_again).cloned();
            unwanted.insert((*kind, name.clone()), Impossible { why: why.clone(), instead });
        }
        !blamed.is_empty()
    }
}
