//! Live cases, a row each: real endpoints that sleep for their work, and the question that is asked about their log.

use super::super::case::Law::{self, Conversation, Exponential, Lognormal};
use crate::timed::{Failure, Server};
use Question::{Add, Balancers, Load, Policies, Remove, Retries};

/// Endpoints that run, the load on them, and the question about their log.
pub struct Row {
    pub name: &'static str,
    /// Endpoints. The log lacks the last of them if the question adds it.
    pub endpoints: &'static [Server],
    pub law: Law,
    /// Mean work of a request at an endpoint of speed 1, in milliseconds.
    pub work_ms: f64,
    /// Work offered as a share of the capacity that the log has.
    pub load: f64,
    /// Label of the policy under which the log is made.
    pub policy: &'static str,
    /// Retries of requests that were answered with 503, while the log is made.
    pub retries: u32,
    pub question: Question,
    /// True for the case that `--quick` runs.
    pub quick: bool,
}

/// Conditions that are asked about, with each of the policies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Question {
    Policies,
    /// Multiple of the rate that the log has.
    Load(f64),
    Balancers(usize),
    /// The log lacks the last endpoint of the row, which is then added.
    Add,
    /// Without the endpoint of this index.
    Remove(usize),
    Retries(u32),
}

impl Row {
    /// Endpoints while the log is made, or as the question has them: indices of [`Row::endpoints`].
    pub fn members(&self, is_asked: bool) -> Vec<usize> {
        let all = 0..self.endpoints.len();
        match (self.question, is_asked) {
            (Add, false) => (0..self.endpoints.len() - 1).collect(),
            (Remove(left), true) => all.filter(|at| *at != left).collect(),
            _ => all.collect(),
        }
    }

    /// Requests per second while the log is made.
    pub fn rate(&self) -> f64 {
        let capacity: f64 =
            self.members(false).iter().map(|at| self.endpoints[*at].places as f64 * self.endpoints[*at].speed).sum();
        self.load * capacity * 1e3 / self.work_ms
    }
}

/// Endpoint that serves a request at a time.
const ONE: Server = Server::new(1, 1.0);
const TWO: Server = Server::new(2, 1.0);

#[allow(clippy::too_many_arguments)] // rows of a table
const fn row(
    name: &'static str,
    endpoints: &'static [Server],
    law: Law,
    work_ms: f64,
    load: f64,
    policy: &'static str,
    question: Question,
) -> Row {
    Row { name, endpoints, law, work_ms, load, policy, retries: 0, question, quick: false }
}

#[rustfmt::skip] // rows of a table
pub static ALL: &[Row] = &[
    row("live-030", &[ONE, ONE, ONE, ONE], Exponential, 10.0, 0.3, "random", Policies),
    Row { quick: true, ..row("live-060", &[TWO, TWO, TWO, TWO], Exponential, 16.0, 0.6, "round_robin", Policies) },
    row("live-090", &[TWO, TWO, TWO], Exponential, 20.0, 0.9, "leastconn", Policies),
    row("live-two-endpoints", &[ONE, ONE], Lognormal(1.0), 6.0, 0.6, "random", Policies),
    row("live-twelve-endpoints", &[ONE; 12], Exponential, 40.0, 0.75, "random", Policies),
    row("live-mixed-places", &[Server::new(4, 1.0), TWO, ONE, ONE], Exponential, 25.0, 0.7, "leastconn", Policies),
    row("live-mixed-speeds", &[Server::new(1, 1.5), ONE, ONE, Server::new(1, 0.5)], Exponential, 12.0, 0.5, "random", Policies),
    row("live-one-slow", &[TWO, TWO, TWO, TWO, TWO, Server::new(2, 0.3)], Exponential, 30.0, 0.6, "leastconn", Policies),
    row("live-conversation", &[TWO, TWO, TWO, TWO], Conversation, 25.0, 0.7, "round_robin", Policies),
    row("live-conversation-slow", &[ONE, ONE, ONE, Server::new(1, 0.5)], Conversation, 15.0, 0.6, "peak_ewma", Policies),
    row("live-more-load", &[TWO, TWO, TWO, TWO], Exponential, 25.0, 0.5, "random", Load(1.5)),
    row("live-two-balancers", &[ONE, ONE, ONE, ONE, ONE, ONE], Exponential, 25.0, 0.7, "leastconn", Balancers(2)),
    row("live-one-more", &[TWO, TWO, TWO, TWO], Exponential, 25.0, 0.8, "leastconn", Add),
    row("live-one-less", &[TWO, TWO, TWO, Server::new(2, 0.5)], Exponential, 25.0, 0.6, "random", Remove(3)),
    Row { retries: 1, ..row("live-retries", &[TWO, TWO, TWO, TWO.failing(Failure::SomeErrors, 0.0, 2.0)], Exponential, 25.0, 0.6, "random", Retries(0)) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_live_cases_of_each_kind() {
        assert!(ALL.len() >= 8 && ALL.iter().filter(|row| row.quick).count() == 1);
        for row in ALL {
            assert_eq!(ALL.iter().filter(|other| other.name == row.name).count(), 1, "{}", row.name);
            assert!((2..=12).contains(&row.endpoints.len()) && (0.3..=0.9).contains(&row.load), "{}", row.name);
            assert!((100.0..=400.0).contains(&row.rate()), "{}: {}", row.name, row.rate());
            assert!((5.0..=50.0).contains(&row.work_ms), "{}", row.name);
        }
    }

    #[test]
    fn a_question_changes_the_members() {
        let of = |name: &str| ALL.iter().find(|row| row.name == name).expect(name);
        assert_eq!((of("live-one-more").members(false).len(), of("live-one-more").members(true).len()), (3, 4));
        assert_eq!(of("live-one-less").members(true), [0, 1, 2]);
    }
}
