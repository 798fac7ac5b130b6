//! Content of a scenario file: points, policies, and the claims to judge.

use crate::metric::Metric;
use crate::planes::Refused;
use crate::scenario::{Policy, Scenario};
use std::ops::Range;

/// Scenario with its variations, and the figures and claims to judge its results by.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub name: String,
    pub summary: String,
    /// Source: a paper, talk or page.
    pub source: Option<String>,
    /// Runs of each policy at each point.
    pub seeds: u32,
    /// Metric by which the verdict ranks algorithms.
    pub rank: &'static Metric,
    pub points: Vec<Point>,
    /// Published figures to compare with.
    pub published: Vec<Published>,
    pub claims: Vec<Claim>,
}

/// Combination of the values that vary: a scenario.
#[derive(Clone, Debug)]
pub struct Point {
    /// Values that vary, as a label; empty if nothing varies.
    pub label: String,
    /// Value of the key that varies, if there is only 1 and it is a number or a duration (in seconds).
    pub x: Option<f64>,
    pub scenario: Scenario,
    /// Groups of equal servers of the first service, by name.
    pub groups: Vec<(String, Range<usize>)>,
    pub policies: Vec<Policy>,
}

/// Row of published figures.
#[derive(Clone, Debug)]
pub struct Published {
    /// Label of the point, as in [`Point`].
    pub at: String,
    /// Label of the policy, as in [`Policy`].
    pub policy: String,
    /// Name of the policy in the source.
    pub title: Option<String>,
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug)]
pub struct Cell {
    /// Metric that was published.
    pub metric: &'static Metric,
    /// Value in the unit of the metric.
    pub value: f64,
    /// Range within which the figure counts as reproduced.
    pub allowed: (f64, f64),
    /// Reason why the figure is not judged.
    pub note: Option<String>,
}

/// Sentence that is judged by the results.
#[derive(Clone, Debug)]
pub struct Claim {
    pub says: String,
    pub figure: Figure,
    /// Left side of the comparison.
    pub of: Side,
    /// Right side of the comparison.
    pub to: Side,
    /// True to subtract `to` from `of`; otherwise `of` is divided by `to`.
    pub difference: bool,
    /// Bound on the ratio or difference.
    pub bound: Bound,
}

#[derive(Clone, Debug)]
pub enum Figure {
    /// Metric of [`crate::metric`].
    Metric(&'static Metric),
    /// Share of requests of a group of servers of the first service.
    Share(String),
}

/// Side of a comparison: a measured value or a constant.
#[derive(Clone, Debug)]
pub enum Side {
    /// Measured value, by labels of point and policy.
    Measured {
        at: String,
        policy: String,
    },
    Constant(f64),
}

/// Bound on a ratio or difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The whole interval is at or below.
    AtMost(f64),
    /// The whole interval is at or above.
    AtLeast(f64),
    /// The interval is not entirely above.
    NotAbove(f64),
    /// The interval is not entirely below.
    NotBelow(f64),
    /// The 90 % interval lies within 1 plus or minus this: two one-sided tests at 5 %.
    Within(f64),
}

impl Experiment {
    /// Replaces the policies of every point.
    ///
    /// # Errors
    /// The first policy that a plane of a point cannot keep; nothing is replaced then.
    pub fn set_policies(&mut self, policies: &[Policy]) -> Result<(), Refused> {
        for Point { scenario, .. } in &self.points {
            let tried = || scenario.services.iter().filter(|service| service.balancing.policy.is_none());
            if let Some(refused) = policies.iter().find_map(|policy| tried().find_map(|s| policy.refused_by(s))) {
                return Err(refused);
            }
        }
        self.points.iter_mut().for_each(|p| p.policies = policies.to_vec());
        Ok(())
    }

    /// Sets the number of requests of each run; the share that warms up stays the same.
    pub fn set_requests(&mut self, requests: u64) {
        for Point { scenario, .. } in &mut self.points {
            // Runs that `until` ends have no number of requests, and stay as they are.
            if scenario.requests < u64::MAX {
                let share = scenario.warm_up as f64 / scenario.requests as f64;
                scenario.warm_up = (requests as f64 * share) as u64;
                scenario.requests = requests;
            }
        }
    }
}
