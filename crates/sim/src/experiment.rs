//! What is tried, and what should come out? Points, policies and what is judged: what a scenario file says.

use crate::metric::Metric;
use crate::scenario::{Policy, Scenario};
use std::ops::Range;

/// A scenario with its variations, and what is to be said of the results.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// For reports.
    pub name: String,
    /// One line.
    pub summary: String,
    /// Where it is from.
    pub source: Option<String>,
    /// Runs of each policy at each point.
    pub seeds: u32,
    /// The figure by which the verdict ranks.
    pub rank: &'static Metric,
    /// At least one.
    pub points: Vec<Point>,
    /// Figures from elsewhere.
    pub published: Vec<Published>,
    /// Sentences to judge.
    pub claims: Vec<Claim>,
}

/// One combination of what varies.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its values; empty if nothing varies.
    pub label: String,
    /// The value of the only key that varies, if that is a number or a time (then in seconds).
    pub x: Option<f64>,
    /// What is simulated.
    pub scenario: Scenario,
    /// Servers of the first service that are alike, by name.
    pub groups: Vec<(String, Range<usize>)>,
    /// What is tried.
    pub policies: Vec<Policy>,
}

/// A published row.
#[derive(Clone, Debug)]
pub struct Published {
    /// Label of the point.
    pub at: String,
    /// Label of the policy.
    pub policy: String,
    /// What its source calls it.
    pub title: Option<String>,
    /// Its figures.
    pub cells: Vec<Cell>,
}

/// A published figure.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Of what.
    pub metric: &'static Metric,
    /// What was published.
    pub value: f64,
    /// From where to where it counts as reproduced.
    pub allowed: (f64, f64),
    /// Why it is not judged.
    pub note: Option<String>,
}

/// A sentence that the results bear out, or not.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The sentence.
    pub says: String,
    /// What is compared.
    pub figure: Figure,
    /// What it is about.
    pub of: Side,
    /// What that is compared to.
    pub to: Side,
    /// Whether `to` is taken from `of`, instead of divided by.
    pub difference: bool,
    /// What is claimed of the ratio or difference.
    pub bound: Bound,
}

/// What is compared.
#[derive(Clone, Debug)]
pub enum Figure {
    /// A row of the metrics.
    Metric(&'static Metric),
    /// The share of requests that a group of servers of the first service got.
    Share(String),
}

/// One side of a comparison.
#[derive(Clone, Debug)]
pub enum Side {
    /// By label of point and policy.
    Measured {
        /// The point.
        at: String,
        /// The policy.
        policy: String,
    },
    /// A number.
    Constant(f64),
}

/// What is claimed of a ratio or difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The interval lies at or below.
    AtMost(f64),
    /// The interval lies at or above.
    AtLeast(f64),
    /// The interval does not lie above.
    NotAbove(f64),
    /// The interval does not lie below.
    NotBelow(f64),
    /// The 90 % interval lies within 1 plus or minus this: two one-sided tests at 5 %.
    Within(f64),
}

impl Experiment {
    /// Tries these policies at every point.
    pub fn set_policies(&mut self, policies: &[Policy]) {
        self.points.iter_mut().for_each(|p| p.policies = policies.to_vec());
    }

    /// Makes every run longer or shorter; the same share of it warms up.
    pub fn set_requests(&mut self, requests: u64) {
        for Point { scenario, .. } in &mut self.points {
            // Without a number of requests there is no share: what `until` ends stays as it is.
            if scenario.requests < u64::MAX {
                let share = scenario.warm_up as f64 / scenario.requests as f64;
                scenario.warm_up = (requests as f64 * share) as u64;
                scenario.requests = requests;
            }
        }
    }
}
