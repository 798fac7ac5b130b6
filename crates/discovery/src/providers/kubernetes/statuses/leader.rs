//! Election of the process that writes statuses, by a Lease. See [`Leader`].

use crate::cluster::connect;
use evenkeel_config::plan::KubernetesServer;
use evenkeel_fetch::reason;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime;
use tokio::time::timeout;

/// Time for which a Lease counts after it was renewed.
const COUNTS_S: i32 = 15;

/// Longest time for which a Lease counts, whatever it says.
const COUNTS_MAX_S: u64 = 60;

/// Time between two renewals.
pub const RENEW: Duration = Duration::from_secs(5);

/// Most time for which a process that ends waits for the API server to take the Lease back. Without that, it runs out.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// A process that wants to hold the Lease. When dropped, it gives the Lease back, so that another process writes
/// statuses at once.
#[derive(Debug)]
pub struct Leader {
    name: String,
    me: String,
    server: KubernetesServer,
    /// Time at which the Lease ends that this process holds.
    until: Option<Instant>,
    seen: Seen,
}

/// The Lease as last read. Its times come from another machine's clock, which may be wrong by hours: a Lease counts
/// from the time at which this process saw it change (as in client-go).
#[derive(Debug, Default)]
struct Seen {
    spec: LeaseSpec,
    /// Time at which `spec` was first read.
    since: Option<Instant>,
}

impl Seen {
    /// Notes the spec that was read. True if its holder has not renewed the Lease within its duration.
    fn has_run_out(&mut self, spec: &LeaseSpec, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if self.spec != *spec {
            (self.spec, self.since) = (spec.clone(), Some(now));
            return false;
        }
        let counts = u64::try_from(spec.lease_duration_seconds.unwrap_or(COUNTS_S)).unwrap_or_default();
        now.duration_since(since) > Duration::from_secs(counts.min(COUNTS_MAX_S))
    }
}

impl Leader {
    pub fn new(name: String, me: String, server: KubernetesServer) -> Leader {
        Leader { name, me, server, until: None, seen: Seen::default() }
    }

    /// True if this process holds the Lease.
    pub fn leads(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }

    /// Takes or renews the Lease if no other process holds it.
    ///
    /// # Errors
    /// The API server does not allow it or does not respond.
    pub async fn renew(&mut self, client: &Client) -> Result<(), String> {
        let api: Api<Lease> = Api::default_namespaced(client.clone());
        let (asked, now) = (Instant::now(), Timestamp::now());
        let found = api.get_opt(&self.name).await.map_err(|error| reason(&error))?;
        let spec = found.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let is_mine = spec.holder_identity.as_deref() == Some(&self.me);
        let is_given_back = spec.holder_identity.as_deref().is_none_or(str::is_empty);
        let has_run_out = self.seen.has_run_out(&spec, asked);
        if !is_mine && !is_given_back && !has_run_out {
            self.until = None;
            return Ok(());
        }
        let changes = i32::from(!is_mine) + spec.lease_transitions.unwrap_or(0);
        let lease = Lease {
            // With the version that was read: if two processes take the Lease, the second gets a conflict.
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
                self.until = Some(asked + Duration::from_secs(COUNTS_S as u64));
                Ok(())
            }
            // Another process was faster.
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
                tracing::info!(why, "kubernetes: cannot release the Lease for statuses; it expires");
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A Lease of another process that renewed it `ago` seconds ago by its own clock.
    fn held(ago: i64) -> LeaseSpec {
        let renewed = Timestamp::from_second(1_800_000_000 - ago).expect("a time");
        LeaseSpec {
            holder_identity: Some("other".into()),
            lease_duration_seconds: Some(COUNTS_S),
            renew_time: Some(MicroTime(renewed)),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_counts_from_when_this_process_saw_it_change_whatever_the_clock_of_its_holder() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        // The holder's clock is an hour behind, or ahead.
        for wrong in [3600, -3600] {
            let mut seen = Seen::default();
            let mut at = |seconds: u32, ago: i64| seen.has_run_out(&held(ago), start + seconds * second);
            assert!(!at(0, wrong), "it is new to this process");
            assert!(!at(10, wrong));
            assert!(!at(16, wrong - 10), "it was renewed");
            assert!(!at(31, wrong - 10));
            assert!(at(32, wrong - 10), "it was not renewed for 15 s");
            assert!(!at(33, wrong - 30), "its holder is back");
        }
    }

    #[test]
    fn a_lease_that_never_ends_runs_out_all_the_same() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let forever = LeaseSpec { lease_duration_seconds: Some(i32::MAX), ..held(0) };
        assert!(!seen.has_run_out(&forever, start));
        assert!(seen.has_run_out(&forever, start + Duration::from_secs(COUNTS_MAX_S + 1)));
    }
}
