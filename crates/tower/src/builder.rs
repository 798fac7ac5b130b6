//! [`Builder`] of a balancer: algorithm, parameters, and closures that describe endpoints and requests.

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

/// Builds a [`Balance`] with any algorithm of the registry.
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

/// Closures that describe endpoints and requests.
pub(crate) struct Closures<K, Req> {
    id: Ask<K, EndpointId>,
    weight: Option<Ask<K, u32>>,
    pub(crate) key: Option<Ask<Req, u64>>,
}

/// Closure from a discovery key or a request to a property of it.
type Ask<Of, Answer> = Box<dyn Fn(&Of) -> Answer + Send + Sync>;

impl<K, Req> Closures<K, Req> {
    pub(crate) fn spec(&self, key: &K) -> EndpointSpec {
        let weight = self.weight.as_ref().map_or(1, |weight| weight(key).max(1));
        EndpointSpec { id: (self.id)(key), weight, ..EndpointSpec::new("") }
    }
}

impl<K: Hash + 'static, Req> Builder<K, Req> {
    /// Creates a builder for the algorithm of this name or alias, with default parameters.
    ///
    /// # Errors
    /// [`BuildError::UnknownAlgorithm`], whose text lists all names.
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
    /// Sets a parameter of the algorithm: a `Duration`, a `u64` or an `f64`. See the
    /// [reference](https://github.com/evenkeel/evenkeel/blob/main/docs/reference/algorithms.md).
    ///
    /// # Errors
    /// [`BuildError::Param`] if the algorithm has no such parameter or does not allow the value; the text
    /// lists the allowed values.
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Result<Builder<K, Req, C>, BuildError> {
        let value = value.into();
        if let Value::Text(_) = value {
            let problem = "not set by name here; give Builder::key a closure".to_string();
            return Err(ParamError { name: name.to_string(), problem }.into());
        }
        self.params.set(name, value)?;
        Ok(self)
    }

    /// Sets the hash of a request's key, for algorithms that send equal keys to the same endpoint. [`stable_hash`]
    /// gives the same hash in every process.
    pub fn key(mut self, key: impl Fn(&Req) -> u64 + Send + Sync + 'static) -> Builder<K, Req, C> {
        self.closures.key = Some(Box::new(key));
        self
    }

    /// Sets an endpoint's weight, its share of the load relative to others. The default is 1, and 0 counts as 1: to
    /// keep requests away from an endpoint, remove it from discovery.
    pub fn weight(mut self, weight: impl Fn(&K) -> u32 + Send + Sync + 'static) -> Builder<K, Req, C> {
        self.closures.weight = Some(Box::new(weight));
        self
    }

    /// Sets an endpoint's identity: keys with equal identities are the same endpoint. The default is a hash of the key,
    /// equal in all processes of the same build. If different builds must agree on the endpoint of a request's key, use
    /// `EndpointId::of` with the endpoint's name.
    pub fn id(mut self, id: impl Fn(&K) -> EndpointId + Send + Sync + 'static) -> Builder<K, Req, C> {
        self.closures.id = Box::new(id);
        self
    }

    /// Sets when and how requests end: a [`Completion`], or a closure `Fn(&Result<Response, Error>) -> Outcome`. The
    /// default is [`AtHead`].
    pub fn completion<New>(self, completion: New) -> Builder<K, Req, New> {
        let Builder { algorithm, params, closures, completion: _, clock, seed } = self;
        Builder { algorithm, params, closures, completion, clock, seed }
    }

    /// Sets the clock that times requests, for tests in virtual time. The default is [`SystemClock`].
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Builder<K, Req, C> {
        self.clock = Some(Box::new(clock));
        self
    }

    /// Sets the seed of the random draws, for reproducible picks. By default each balancer gets a different seed, as
    /// balancers with equal draws would send their requests to the same endpoints at once.
    pub fn seed(mut self, seed: u64) -> Builder<K, Req, C> {
        self.seed = Some(seed);
        self
    }

    /// Builds the balancer over the endpoints that `discover` yields.
    ///
    /// # Errors
    /// The algorithm needs a key or load reports that are not set, or rejects a combination of parameters.
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
        // Reading the clock takes longer than most picks, so it is read only for algorithms that use latencies or
        // reports.
        let timed = algorithm.needs.latency || algorithm.needs.probes;
        let timing = match clock {
            _ if !timed => Timing::Untimed,
            None => Timing::System(SystemClock::new()),
            Some(clock) => Timing::Given(clock),
        };
        Ok(Balance::assemble(discover, closures, completion, (pool, balancer), Returns::new(timing)))
    }
}

/// Default identity of an endpoint: the stable hash of its key.
fn hashed(key: &impl Hash) -> EndpointId {
    let mut bytes = Bytes(Vec::new());
    key.hash(&mut bytes);
    EndpointId(bytes.finish())
}

/// Collects the bytes that a key feeds to its hasher, so that [`stable_hash`] can hash them.
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        stable_hash(&self.0)
    }
}
