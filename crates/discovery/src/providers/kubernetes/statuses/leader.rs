//! Election of the process that writes statuses, by a Lease. See [`Leader`].

use evenkeel_fetch::reason;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use std::time::Duration;

/// Time for which a Lease counts after it was renewed.
const COUNTS_S: i32 = 15;

/// Time between two renewals.
pub const RENEW: Duration = Duration::from_secs(5);

/// A process that wants to hold the Lease.
#[derive(Debug)]
pub struct Leader {
    name: String,
    me: String,
    /// Time at which the Lease ends that this process holds.
    until: Option<Timestamp>,
}

impl Leader {
    pub fn new(name: String, me: String) -> Leader {
        Leader { name, me, until: None }
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
        let is_free = spec.renew_time.as_ref().is_none_or(|time| time.0 + counts < now);
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
