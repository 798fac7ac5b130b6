//! Questions: other policies, and other conditions.

use crate::policy::Candidate;
use evenkeel_balance::slow_start;
use evenkeel_sim::planes::PlaneCost;
use evenkeel_sim::replay::Bound;

/// Conditions to try policies in; by default as in the log.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Factor of the rate of requests.
    pub load: f64,
    /// Balancers that know nothing of each other.
    pub balancers: u32,
    /// Endpoints that are added, each like the median endpoint of the log.
    pub added: u32,
    /// Members that are removed.
    pub removed: Vec<usize>,
    /// Members that are slower, with the factor of their work.
    pub slowed: Vec<(usize, f64)>,
    /// Most tries after the first; `None` as in the log.
    pub retries: Option<u32>,
    /// Most requests at each endpoint, beyond which requests wait in a queue; `None` as in the log.
    pub queue: Option<u32>,
    /// Percentile of the latencies, 0 to 1, after which a second copy is sent; `None` for none.
    pub hedge: Option<f64>,
    /// Plane that balances; `None` for the same as in the log.
    pub plane: Option<&'static PlaneCost>,
    /// Join of the added endpoints while the others serve; `None` if they are there from the start.
    pub join: Option<Join>,
}

/// Join of added endpoints. Figures are of the time of the ramp, whether or not there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Join {
    pub ramp: slow_start::Settings,
    /// True with slow start, false with the whole weight at once.
    pub is_slow: bool,
}

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions {
            load: 1.0,
            balancers: 1,
            added: 0,
            removed: Vec::new(),
            slowed: Vec::new(),
            retries: None,
            queue: None,
            hedge: None,
            plane: None,
            join: None,
        }
    }
}

impl Conditions {
    /// True if nothing differs from the log.
    pub fn are_those_of_the_log(&self) -> bool {
        let Conditions { load, balancers, added, removed, slowed, retries, queue, hedge, plane, join } = self;
        (*load, *balancers, *added) == (1.0, 1, 0)
            && removed.is_empty()
            && slowed.is_empty()
            && (retries, queue, hedge) == (&None, &None, &None)
            && plane.is_none()
            && join.is_none()
    }
}

impl Conditions {
    /// Names of the endpoints under the conditions: those of the log without the removed, then the added.
    pub fn names(&self, of_log: &[String]) -> Vec<String> {
        let left = of_log.iter().enumerate().filter(|(at, _)| !self.removed.contains(at));
        left.map(|(_, name)| name.clone()).chain((0..self.added).map(|number| format!("added {number}"))).collect()
    }
}

/// A policy under conditions.
#[derive(Clone, Debug)]
pub struct Question {
    pub label: String,
    pub policy: Candidate,
    pub conditions: Conditions,
    /// Bound instead of the policy.
    pub bound: Option<Bound>,
}

impl Question {
    /// Reason why the policy or the plane of the question cannot do it.
    pub fn refusal(&self) -> Option<String> {
        let algorithm = self.policy.algorithm;
        if self.conditions.join.is_some_and(|join| join.is_slow) {
            let why = match () {
                () if algorithm.promises.affinity => Some("each step of slow start would move keys"),
                () if !algorithm.follows_weights() => Some("it does not look at weights, so slow start does nothing"),
                () => None,
            };
            if let Some(why) = why {
                return Some(why.to_string());
            }
        }
        let plane = self.conditions.plane.filter(|_| self.bound.is_none())?;
        let why = match () {
            () if plane.sees_requests() => None,
            () if self.conditions.hedge.is_some() => Some("it sends no second copies"),
            () if self.conditions.retries.is_some_and(|tries| tries > 0) => Some("it tries no request again"),
            () => None,
        };
        let why = why.or_else(|| plane.refuses(self.policy.algorithm, &self.policy.params))?;
        Some(format!("the plane {}: {why}", plane.name))
    }

    /// Most tries after the first, of as many as the log has.
    pub(crate) fn retries(&self, logged: u32) -> u32 {
        match self.conditions.plane {
            Some(plane) if !plane.sees_requests() => 0,
            _ => self.conditions.retries.unwrap_or(logged),
        }
    }
}
