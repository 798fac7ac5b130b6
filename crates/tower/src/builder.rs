//! [`Builder`] of a balancer: the algorithm's name, its parameters, and closures that describe endpoints and requests.

use crate::balance::Balance;
use crate::clock::{SystemClock, Timing};
use crate::completion::{AtHead, Completion};
use crate::error::BuildError;
use crate::returns::Returns;
use evenkeel_balance::endpoint::stable_hash;
use evenkeel_balance::params::{ParamError, Value};
use evenkeel_balance::{Algorithm, Clock, EndpointId, EndpointSpec, Params, Pool, Seat, algorithms};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use tower::Service;
use tower::discover::Discover;

/// Makes a [`Balance`] with any algorithm of the registry.
///
/// ```
/// use evenkeel_tower::Builder;
/// use std::time::Duration;
/// # use tower::discover::ServiceList;
/// # fn main() -> Result<(), evenkeel_tower::BuildError> {
/// # let discover = ServiceList::new(vec![tower::service_fn(async |_: String| Ok::<_, std::io::Error>(()))]);
/// let balance = Builder::new("peak_ewma")?.set("decay", Duration::from_secs(20))?.build(discover)?;
/// # let _: evenkeel_tower::Balance<_, String> = balance;
/// # Ok(())
/// # }
/// ```
pub struct Builder<K, Req, C = AtHead> {
    algorithm: &'static Algorithm,
    params: Params,
    closures: Closures<K, Req>,
    completion: C,
    clock: Option<Box<dyn Clock + Send + Sync>>,
    seed: Option<u64>,
}

/// The closures that describe endpoints and requests.
pub(crate) struct Closures<K, Req> {
    id: Ask<K, EndpointId>,
    weight: Option<Ask<K, u32>>,
    pub(crate) key: Option<Ask<Req, u64>>,
}

/// A closure that answers a question about a key or a request.
type Ask<Of, Answer> = Box<dyn Fn(&Of) -> Answer + Send + Sync>;

impl<K, Req> Closures<K, Req> {
    pub(crate) fn spec(&self, key: &K) -> EndpointSpec {
        let weight = self.weight.as_ref().map_or(1, |weight| weight(key).max(1));
        EndpointSpec { id: (self.id)(key), weight, ..EndpointSpec::new("") }
    }
}

impl<K: Hash + 'static, Req> Builder<K, Req> {
    /// A builder with the algorithm of this name or alias, and its parameters at their defaults.
    ///
    /// # Errors
    /// There is no such algorithm; the text lists all names.
    pub fn new(algorithm: &str) -> Result<Builder<K, Req>, BuildError> {
        let found = algorithms::find(algorithm).ok_or_else(|| BuildError::UnknownAlgorithm(algorithm.to_string()));
        Ok(Builder::of(found?))
    }

    pub(crate) fn of(algorithm: &'static Algorithm) -> Builder<K, Req> {
        let closures = Closures { id: Box::new(|key| hashed(key)), weight: None, key: None };
        let params = Params::defaults(algorithm.params);
        Builder { algorithm, params, closures, completion: AtHead, clock: None, seed: None }
    }
}

impl<K, Req, C> Builder<K, Req, C> {
    /// Sets a parameter of the algorithm: a `Duration`, a `u64` or an `f64`, as the
    /// [reference](https://github.com/evenkeel/evenkeel/blob/main/docs/reference/algorithms.md) says.
    ///
    /// # Errors
    /// The algorithm has no such parameter, or not with this value; the text says what is allowed.
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Result<Builder<K, Req, C>, BuildError> {
        let value = value.into();
        if let Value::Text(_) = value {
            let problem = "not set by name here; give Builder::key a closure".to_string();
            return Err(ParamError { name: name.to_string(), problem }.into());
        }
        self.params.set(name, value)?;
        Ok(self)
    }

    /// Sets the hash of a request's key, for algorithms that send equal keys to the same endpoint.
    /// [`stable_hash`] is the same in every process.
    pub fn key(mut self, key: impl Fn(&Req) -> u64 + Send + Sync + 'static) -> Builder<K, Req, C> {
        self.closures.key = Some(Box::new(key));
        self
    }

    /// Sets an endpoint's share of the load relative to others, from 1; by default all have 1. 0 counts as 1: to keep
    /// requests away from an endpoint, remove it from discovery.
    pub fn weight(mut self, weight: impl Fn(&K) -> u32 + Send + Sync + 'static) -> Builder<K, Req, C> {
        self.closures.weight = Some(Box::new(weight));
        self
    }

    /// Sets an endpoint's identity: keys with the same identity are the same endpoint. By default it is the hash of the
    /// key, equal in all processes of one program. Where programs of different builds must send a key to the same
    /// endpoint, give `EndpointId::of` of its name.
    pub fn id(mut self, id: impl Fn(&K) -> EndpointId + Send + Sync + 'static) -> Builder<K, Req, C> {
        self.closures.id = Box::new(id);
        self
    }

    /// Sets how and when requests end: a [`Completion`], or a closure `Fn(&Result<Response, Error>) -> Outcome`. By
    /// default [`AtHead`].
    pub fn completion<New>(self, completion: New) -> Builder<K, Req, New> {
        let Builder { algorithm, params, closures, completion: _, clock, seed } = self;
        Builder { algorithm, params, closures, completion, clock, seed }
    }

    /// Sets the clock that times requests, instead of the system's monotonic clock: for tests in virtual time.
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Builder<K, Req, C> {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Sets the seed of the random draws, for picks that can be repeated. By default it differs each time, as balancers
    /// with the same draws would send their requests to the same endpoints at once.
    pub fn seed(mut self, seed: u64) -> Builder<K, Req, C> {
        self.seed = Some(seed);
        self
    }

    /// Returns the balancer over the endpoints that `discover` gives.
    ///
    /// # Errors
    /// The algorithm lacks what it needs, or refuses a parameter.
    pub fn build<D>(self, discover: D) -> Result<Balance<D, Req, C>, BuildError>
    where
        D: Discover<Key = K>,
        D::Service: Service<Req>,
        C: Completion<<D::Service as Service<Req>>::Response, <D::Service as Service<Req>>::Error>,
    {
        let Builder { algorithm, params, closures, completion, clock, seed } = self;
        if algorithm.needs.key && closures.key.is_none() {
            return Err(BuildError::NeedsKey(algorithm.name));
        }
        if algorithm.needs.probes && !C::REPORTS {
            return Err(BuildError::NeedsReports(algorithm.name));
        }
        let pool = Pool::new(1);
        let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        let balancer = pool.balancer(algorithm, &params, Seat::default(), seed)?;
        // Reading the clock takes longer than most picks, so only algorithms that use it pay for it.
        let timed = algorithm.needs.latency || algorithm.needs.probes;
        let timing = match clock {
            _ if !timed => Timing::Untimed,
            None => Timing::System(SystemClock::new()),
            Some(clock) => Timing::Given(clock),
        };
        Ok(Balance::assemble(discover, closures, completion, (pool, balancer), Returns::new(timing)))
    }
}

/// The identity of a key by default.
fn hashed(key: &impl Hash) -> EndpointId {
    let mut bytes = Bytes(Vec::new());
    key.hash(&mut bytes);
    EndpointId(bytes.finish())
}

/// Collects the bytes that a key hashes, for the one hash that all processes agree on.
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        stable_hash(&self.0)
    }
}
