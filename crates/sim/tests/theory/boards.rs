//! Stale information: balancers see a board that is updated periodically. n = 100, load 0.9, mean time in system.
//! Sources: Mitzenmacher, How Useful Is Old Information (2000); Dahlin, Interpreting Stale Load Information (2000).

use super::farm::{assert_near, mean_time, queues, with_board};
use evenkeel_sim::scenario::{Policy, Reference};

fn at(units: f64, reference: Reference, requests: u64, seeds: u64) -> f64 {
    mean_time(&with_board(queues(100, 0.9, requests), units), &Policy::reference(reference), seeds)
}

#[test]
fn the_shortest_queue_of_yesterday_is_worse_than_chance() {
    let time = |units, reference| at(units, reference, 400_000, 2);
    // With fresh information the shortest queue wins; from an interval of half a service time two draws do, and from
    // four on even one.
    assert!(time(0.1, Reference::ShortestQueue) < time(0.1, Reference::Draws(2)));
    assert!(time(1.0, Reference::ShortestQueue) > time(1.0, Reference::Draws(2)));
    assert!(time(2.0, Reference::ShortestQueue) < 10.0);
    assert!(time(5.0, Reference::ShortestQueue) > 10.0);
    // More than two draws are worse than two once the board is several service times old.
    assert!(time(1.0, Reference::Draws(3)) < time(1.0, Reference::Draws(2)));
    assert!(time(10.0, Reference::Draws(3)) > time(10.0, Reference::Draws(2)));
}

#[test]
#[ignore = "long: make theory"]
fn the_whole_table() {
    type Row = (f64, [f64; 3]);
    let table: [Row; 8] = [
        (0.1, [2.68, 2.13, 1.55]),
        (0.5, [2.80, 2.33, 2.85]),
        (1.0, [2.98, 2.61, 4.00]),
        (2.0, [3.28, 3.07, 6.10]),
        (5.0, [4.03, 4.34, 12.2]),
        (10.0, [5.15, 6.31, 23.0]),
        (20.0, [7.09, 9.97, 56.8]),
        (50.0, [12.6, 21.1, 514.0]),
    ];
    for (units, row) in table {
        let references = [Reference::Draws(2), Reference::Draws(3), Reference::ShortestQueue];
        for (reference, want) in references.into_iter().zip(row) {
            // The last one is far from a steady state: its value depends on the length of the run.
            if want < 50.0 {
                let got = at(units, reference, 3_000_000, 3);
                assert_near(&format!("{reference:?} at {units}"), got, want, 4.0);
            }
        }
    }
}
