//! Providers other than the file: which a plan has, and their tasks.

#[cfg(feature = "kubernetes")]
use super::kubernetes;
use super::parts::{Contribution, Parts};
#[cfg(feature = "xds")]
use super::xds;
use crate::context::Context;
use evenkeel_config::Plan;
use evenkeel_config::plan::{Cidr, KubernetesProvider, KubernetesServer, XdsProvider, XdsServer};
use std::collections::HashMap;
use tokio::task::AbortHandle;

/// Settings of a provider. If they change, the provider starts anew.
#[derive(Clone, Debug, PartialEq)]
enum Settings {
    Kubernetes(KubernetesProvider, KubernetesServer, Vec<Cidr>),
    Xds(XdsProvider, XdsServer),
}

/// Tasks of the providers, by name.
#[derive(Debug, Default)]
pub struct Remote(HashMap<&'static str, (Settings, AbortHandle)>);

/// Names of the providers that a plan has.
pub fn of(plan: &Plan) -> Vec<&'static str> {
    settings(plan).iter().map(Settings::name).collect()
}

fn settings(plan: &Plan) -> Vec<Settings> {
    let (providers, servers) = (plan.providers.clone(), plan.discovery.clone());
    let (servers, networks) = (servers.servers, servers.local_networks);
    let kubernetes = providers.kubernetes.map(|provider| Settings::Kubernetes(provider, servers.kubernetes, networks));
    let xds = providers.xds.map(|provider| Settings::Xds(provider, servers.xds));
    kubernetes.into_iter().chain(xds).collect()
}

impl Settings {
    fn name(&self) -> &'static str {
        match self {
            Settings::Kubernetes(..) => "kubernetes",
            Settings::Xds(..) => "xds",
        }
    }

    /// Serves until it is aborted.
    #[cfg_attr(not(feature = "xds"), allow(unused_variables, reason = "only xDS shares connections with sources"))]
    async fn run(self, context: Context, contribution: Contribution) {
        match self {
            #[cfg(feature = "kubernetes")]
            Settings::Kubernetes(provider, server, networks) => {
                kubernetes::run(provider, server, networks, contribution).await
            }
            #[cfg(feature = "xds")]
            Settings::Xds(provider, server) => xds::run(provider, server, context.shared, contribution).await,
            #[allow(unreachable_patterns, reason = "all are there with the default features")]
            other => {
                tracing::error!(provider = other.name(), "the provider is not part of this build");
                contribution.put(super::parts::Part::default());
            }
        }
    }
}

impl Remote {
    /// Starts the providers of a plan, and ends those that it does not have.
    pub fn follow(&mut self, plan: &Plan, parts: &Parts, context: &Context) {
        let wanted = settings(plan);
        self.0.retain(|name, (settings, task)| {
            let stays = wanted.contains(settings);
            if !stays {
                task.abort();
                parts.forget(name);
            }
            stays
        });
        for settings in wanted {
            let name = settings.name();
            if !self.0.contains_key(name) {
                let task = tokio::spawn(settings.clone().run(context.clone(), parts.of(name))).abort_handle();
                self.0.insert(name, (settings, task));
            }
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.0.values().for_each(|(_, task)| task.abort());
    }
}
