//! Requests that an endpoint collects if it never answers. For a row that compares requests in flight, about as many
//! per weight as the others hold, even beside a light one (a canary of weight 1 beside two of weight 100).
//!
//! The bound: a row that compares all endpoints gives the hanging one, of weight w, another request only while its
//! count h < (l_i + 1) w / w_i for each other endpoint i. The smallest of the right sides is at most that of the sums:
//! (sum of l_i + number of i) w / sum of w_i; and then it has one more. Two draws sometimes meet a light or busy
//! endpoint, and compare with that: twice as many, and the w / w_i of some such pairs.

use crate::support::rows::{self, Row};
use crate::support::world::{World, weighted};
use evenkeel_balance::Outcome;

const PICKS: usize = 1000;

/// Number of endpoints that a pick compares, as far as parameters decide it.
fn draws(row: &Row) -> u64 {
    if row.algorithm.params.iter().any(|p| p.name == "draws") { row.params.int("draws") } else { u64::MAX }
}

#[test]
fn an_endpoint_that_hangs_collects_about_what_the_others_hold() {
    let looks = |row: &Row| {
        let a = row.algorithm;
        a.promises.shares_when_busy && !a.promises.shares_whatever_the_load && a.needs.in_flight && draws(row) > 1
    };
    for row in rows::all().into_iter().filter(looks) {
        for weights in [vec![1; 4], vec![10, 10, 10, 1], vec![100, 100, 1], vec![5, 3, 2], vec![10, 1, 1, 1]] {
            for held in [0, 40] {
                let mut w = World::new(&row, 1, weighted(&weights), 21, format!("{weights:?}, {held} in flight"));
                let hung = w.specs[0].id;
                for _ in 0..PICKS {
                    w.advance(1_000_000);
                    w.start(0, None, &[]).unwrap_or_else(|e| w.fail(&e.to_string()));
                    if w.running.iter().filter(|r| r.id != hung).count() > held {
                        let oldest = w.running.iter().position(|r| r.id != hung).expect("there is one");
                        w.end(oldest, Outcome::Success);
                    }
                }
                let others = f64::from(weights.iter().skip(1).sum::<u32>());
                let exact = (held + weights.len()) as f64 * f64::from(weights[0]) / others + 1.0;
                let most = if draws(&row) >= weights.len() as u64 { exact } else { 2.0 * exact + 8.0 };
                let got = w.in_flight(hung);
                w.ensure(f64::from(got) <= most, || format!("it collected {got}, at most {most:.0} are fair"));
            }
        }
    }
}
