//! Predictions for other algorithms: their picks for the requests of a pool. The simulator replays the requests that
//! workers remember.

use evenkeel_admin::api::problem::Problem;
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::{Balance, Probe};
use evenkeel_proxy::Looker;
use evenkeel_proxy::look::Remembered;
use evenkeel_sim::shadow::{self, Known, Prediction, predict};
use evenkeel_view::shadows::{PoolShadows, Shadow, ShadowEndpoint};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Age up to which a prediction is reused, as a multiple of the time that it took to make. Pages that follow the
/// process ask every second, and may take a twentieth of a core at most.
const AGE_OF_COST: u32 = 20;

/// Predictions that are recent enough to be reused.
#[derive(Clone, Default)]
pub struct Predictions(Arc<Mutex<HashMap<String, Made>>>);

struct Made {
    good_until: Instant,
    shown: PoolShadows,
}

impl Predictions {
    /// Returns the predictions of all pools that have shadows, or of a single pool.
    ///
    /// # Errors
    /// There is no such pool.
    pub async fn of(&self, looker: &Looker, pool: Option<&str>) -> Result<Vec<PoolShadows>, Problem> {
        // Held while a prediction is made: concurrent requests get the same result.
        let mut made = self.0.lock().await;
        let mut all = Vec::new();
        for remembered in looker.remembered(pool).await.map_err(Problem::not_found)? {
            let (name, now) = (remembered.pool.name.to_string(), Instant::now());
            let asked: Vec<String> = remembered.pool.shadow.iter().map(ToString::to_string).collect();
            if let Some(good) = made.get(&name).filter(|made| now < made.good_until && made.is_of(&remembered, &asked))
            {
                all.push(good.shown.clone());
                continue;
            }
            let shown = tokio::task::spawn_blocking(move || shown(&remembered)).await;
            let shown = shown.map_err(|_| Problem::refused("the prediction failed; the log has the reason"))?;
            let good_for: Duration = now.elapsed() * AGE_OF_COST;
            // That there is too little to predict from costs nothing to find, and is over with the next requests.
            if shown.nothing.is_none() {
                made.insert(name, Made { good_until: Instant::now() + good_for, shown: shown.clone() });
            }
            all.push(shown);
        }
        Ok(all)
    }
}

impl Made {
    /// True if it is of these algorithms.
    fn is_of(&self, remembered: &Remembered, asked: &[String]) -> bool {
        self.shown.balance == remembered.pool.balance.to_string()
            && self.shown.shadows.iter().map(|shadow| &shadow.algorithm).eq(asked)
    }
}

fn shown(of: &Remembered) -> PoolShadows {
    let pool = &of.pool;
    let shadows: Vec<_> = pool.shadow.iter().map(choice).collect();
    let known = Known {
        recent: of.recent.clone(),
        balance: choice(&pool.balance),
        answers_probes: pool.load_reports.as_ref().is_some_and(|reports| reports.probe != Probe::Off),
    };
    let name = |id| of.names.get(&id).map_or_else(String::new, ToString::to_string);
    let predicted = predict(&known, &shadows, name);
    PoolShadows {
        pool: pool.name.to_string(),
        balance: pool.balance.to_string(),
        requests: predicted.requests,
        span_ns: predicted.span_ns,
        nothing: predicted.nothing.clone(),
        met: predicted.real.met,
        p99_ns: predicted.real.p99_ns,
        shadows: (0..pool.shadow.len()).map(|at| one(pool.shadow[at].to_string(), &predicted, at, name)).collect(),
    }
}

fn one(algorithm: String, predicted: &Prediction, at: usize, name: impl Fn(EndpointId) -> String) -> Shadow {
    let Some(shadow) = predicted.shadows.get(at) else { return Shadow { algorithm, ..Shadow::default() } };
    let weights: f64 = predicted.endpoints.iter().map(|(_, weight)| f64::from(*weight)).sum();
    let real = predicted.real.shares.clone().unwrap_or_default();
    let endpoint = |(at, &(id, weight)): (usize, &(EndpointId, u32))| ShadowEndpoint {
        endpoint: name(id),
        real: real.get(at).copied().unwrap_or(0.0),
        shadow: shadow.figures.shares.as_ref().and_then(|shares| shares.get(at).copied()),
        fair: f64::from(weight) / weights,
    };
    let endpoints: Vec<ShadowEndpoint> = predicted.endpoints.iter().enumerate().map(endpoint).collect();
    let peak = endpoints.iter().filter_map(|of| Some(of.shadow? / of.fair)).reduce(f64::max);
    Shadow {
        algorithm,
        exact: shadow.exact,
        met: shadow.figures.met,
        p99_ns: shadow.figures.p99_ns,
        peak,
        endpoints,
        withheld: shadow.withheld.clone(),
    }
}

fn choice(balance: &Balance) -> shadow::Choice<'_> {
    (balance.algorithm, &balance.params)
}
