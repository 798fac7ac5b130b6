//! Election of the process that writes statuses, by a Lease. See [`Leader`].

use crate::cluster::connect;
use evenkeel_config::plan::KubernetesServer;
use evenkeel_fetch::reason;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::thread;
use std::time::Duration;
use tokio::runtime;
use tokio::time::timeout;

/// Time for which a Lease counts after it was renewed.
const COUNTS_S: i32 = 15;

/// Time between two renewals.
pub const RENEW: Duration = Duration::from_secs(5);

/// Most time for which a process that ends waits for the API server to take the Lease back. Without that, it runs out.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// A process that wants to hold the Lease. It gives the Lease back when this is dropped, so that another one writes statuses at
/// once.
#[derive(Debug)]
pub struct Leader {
    name: String,
    me: String,
    server: KubernetesServer,
    /// Time at which the Lease ends that this process holds.
    until: Option<Timestamp>,
}

impl Leader {
    pub fn new(name: String, me: String, server: KubernetesServer) -> Leader {
        Leader { name, me, server, until: None }
    }

    /// True if this process holds the Lease.
    pub fn leads(&self) -> bool {
        self.until.is_some_and(|until| Timestamp::now() < until)
    }

    /// Takes or renews the Lease if no other process holds it.
    ///
    /// # Errors
    /// The API server does not allow it or does not answer.
    pub async fn renew(&mut self, client: &Client) -> Result<(), String> {
        let api: Api<Lease> = Api::default_namespaced(client.clone());
        let now = Timestamp::now();
        let found = api.get_opt(&self.name).await.map_err(|error| reason(&error))?;
        let spec = found.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let is_mine = spec.holder_identity.as_deref() == Some(&self.me);
        let counts = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(COUNTS_S).into());
        let is_given_back = spec.holder_identity.as_deref().is_none_or(str::is_empty);
        let is_free = is_given_back || spec.renew_time.as_ref().is_none_or(|time| time.0 + counts < now);
        if !is_mine && !is_free {
            self.until = None;
            return Ok(());
        }
        let changes = i32::from(!is_mine) + spec.lease_transitions.unwrap_or(0);
        let lease = Lease {
            // With the version that was read: of two that take it, one gets a conflict.
            metadata: found.as_ref().map_or_else(
                || ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                |lease| ObjectMeta { managed_fields: None, ..lease.metadata.clone() },
            ),
            spec: Some(LeaseSpec {
                holder_identity: Some(self.me.clone()),
                lease_duration_seconds: Some(COUNTS_S),
                acquire_time: if is_mine { spec.acquire_time } else { Some(MicroTime(now)) },
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(changes),
                ..LeaseSpec::default()
            }),
        };
        let written = match found {
            Some(_) => api.replace(&self.name, &PostParams::default(), &lease).await,
            None => api.create(&PostParams::default(), &lease).await,
        };
        match written {
            Ok(_) => {
                self.until = Some(now + SignedDuration::from_secs(COUNTS_S.into()));
                Ok(())
            }
            // Another one was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(reason(&error)),
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.leads() {
            return;
        }
        let (name, me, server) = (self.name.clone(), self.me.clone(), self.server.clone());
        let give_back = move || {
            // Connections of the runtime that it is dropped in may have ended already.
            let Ok(runtime) = runtime::Builder::new_current_thread().enable_all().build() else { return };
            let given = runtime.block_on(async { timeout(RELEASE_MAX, release(&name, &me, &server)).await });
            if let Some(why) = given.map_or(Some("no answer".to_owned()), Result::err) {
                tracing::info!(why, "kubernetes: the Lease for statuses is not given back, and runs out");
            }
            // Names may still be looked up.
            runtime.shutdown_background();
        };
        if let Ok(thread) = thread::Builder::new().name("lease".into()).spawn(give_back) {
            let _ = thread.join();
        }
    }
}

/// Leaves the Lease without a holder if `me` holds it.
async fn release(name: &str, me: &str, server: &KubernetesServer) -> Result<(), String> {
    let (client, _) = connect(server).await.map_err(|error| reason(&*error))?;
    let api: Api<Lease> = Api::default_namespaced(client);
    let Some(mut lease) = api.get_opt(name).await.map_err(|error| reason(&error))? else { return Ok(()) };
    let Some(spec) = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_deref() == Some(me)) else {
        return Ok(());
    };
    // An empty holder, as client-go leaves it.
    spec.holder_identity = Some(String::new());
    spec.renew_time = Some(MicroTime(Timestamp::now()));
    lease.metadata.managed_fields = None;
    api.replace(name, &PostParams::default(), &lease).await.map_err(|error| reason(&error))?;
    Ok(())
}
