//! Random sequences of everything that can happen to a pool, compared with the plain model in `World`: after each step
//! every count agrees, and at the end every count is 0. The same sequences show that the same seed gives the same
//! picks, and that explanations change nothing.

use crate::support::rows::{self, Row};
use crate::support::world::{World, weighted};
use evenkeel_balance::{EndpointId, EndpointSpec, FailureKind, NoPick, Outcome, Rng, Slot};

const STEPS: u32 = 500;

/// Picks of a history, one per start.
pub type Picks = Vec<Result<EndpointId, NoPick>>;

/// Runs one random history. `seed` decides the balancers' draws, `script` the events.
fn history(row: &Row, workers: u32, seed: u64, script: u64, explain: bool) -> Picks {
    let mut w = World::new(row, workers, weighted(&[1, 2, 1]), seed, format!("history {script}, {workers} workers"));
    w.explain = explain;
    run(&mut w, script)
}

/// Runs the events that `script` decides.
pub fn run(w: &mut World<'_>, script: u64) -> Picks {
    w.rng = Rng::new(script);
    w.answers = script % 4 != 3;
    let mut picks = Vec::new();
    for _ in 0..STEPS {
        let worker = w.rng.below(w.balancers.len() as u32) as usize;
        match w.rng.below(20) {
            0..9 => {
                let key = (w.rng.below(4) > 0).then(|| u64::from(w.rng.below(50)));
                let tried = some_slots(w);
                picks.push(w.start(worker, key, &tried));
            }
            9..16 if !w.running.is_empty() => {
                let (index, outcome) = (w.rng.below(w.running.len() as u32) as usize, outcome(&mut w.rng));
                w.end(index, outcome);
            }
            16 if !w.specs.is_empty() => {
                let id = w.specs[w.rng.below(w.specs.len() as u32) as usize].id;
                let _refused_or_not_is_checked_there = w.start_at(worker, id);
            }
            17 => change(w),
            _ => {
                let ns = 1u64 << w.rng.below(34);
                w.advance(ns);
            }
        }
        w.check_counts();
    }
    w.end_all();
    w.check_counts();
    picks
}

/// Returns slots that a request has tried: usually none, sometimes several, even ones that have left.
fn some_slots(w: &mut World<'_>) -> Vec<Slot> {
    let mut slots: Vec<Slot> = Vec::new();
    if w.rng.below(3) == 0 {
        let chance = w.rng.below(5);
        slots.extend(w.running.iter().map(|r| r.ticket.slot()).take(2));
        slots.extend(w.specs.iter().map(|s| w.slot(s.id)));
        slots.retain(|_| w.rng.below(5) < chance);
    }
    slots
}

fn outcome(rng: &mut Rng) -> Outcome {
    match rng.below(6) {
        0 => Outcome::Cancelled,
        1 => Outcome::failed(FailureKind::Gateway),
        2 => {
            let retry_after_ns = Some(u64::from(rng.below(3)) * 1_000_000_000);
            Outcome::Failure { kind: FailureKind::Busy, retry_after_ns }
        }
        _ => Outcome::Success,
    }
}

/// Reloads: joins, leaves, a new order, weights, drain, tiers, limits; or all endpoints replaced at once.
fn change(w: &mut World<'_>) {
    let mut specs = w.specs.clone();
    let n = specs.len() as u32;
    let any = w.rng.below(n.max(1)) as usize;
    match w.rng.below(9) {
        0 | 1 => {
            let name = format!("e{}", w.rng.below(12));
            if specs.iter().all(|s| s.id != EndpointId::of(&name)) {
                specs.insert(any.min(specs.len()), EndpointSpec::new(&name).weight(1 + w.rng.below(10)));
            }
        }
        2 if n > 0 => drop(specs.remove(any)),
        3 if n > 1 => specs.rotate_left(any),
        4 if n > 0 => specs[any].weight = [0, 1, 3, 10, 1000][w.rng.below(5) as usize],
        5 if n > 0 => specs[any].drain = !specs[any].drain,
        6 if n > 0 => specs[any].priority = w.rng.below(2) as u8,
        7 if n > 0 => specs[any].in_flight_max = w.rng.below(4),
        8 if w.rng.below(4) == 0 => specs = weighted(&[1, 2, 3, 4]),
        _ => {}
    }
    w.reload(specs);
}

/// Limits the seeds of rows that make a table for every change, some of which take a millisecond.
pub fn seeds(row: &Row, most: u64) -> u64 {
    if row.algorithm.table.is_some() { 2 } else { most }
}

#[test]
fn every_count_follows_the_model_and_returns_to_zero() {
    for row in rows::all() {
        let mut picks = Picks::new();
        for seed in 0..seeds(&row, 30) {
            for workers in [1, 3, 10] {
                picks.extend(history(&row, workers, seed, seed * 31 + u64::from(workers), seed % 3 == 0));
            }
        }
        // The histories are only worth something if they reach every case.
        for refusal in [NoPick::Empty, NoPick::AllTried, NoPick::AllFull] {
            let met = picks.iter().filter(|p| **p == Err(refusal)).count();
            assert!(met > 0, "row {row}: \"{refusal}\" came up {met} times in {} starts", picks.len());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_picks_and_asking_why_changes_none() {
    for row in rows::all() {
        for seed in 0..seeds(&row, 6) {
            let first = history(&row, 2, seed, 1000 + seed, false);
            let again = history(&row, 2, seed, 1000 + seed, false);
            assert!(first == again, "row {row}, seed {seed}: the second run picked differently");
            let asked = history(&row, 2, seed, 1000 + seed, true);
            let at = first.iter().zip(&asked).position(|(a, b)| a != b);
            assert!(at.is_none(), "row {row}, seed {seed}: asking why changed pick {at:?}");
        }
    }
}

#[test]
fn tickets_of_endpoints_that_left_end_well_and_count_when_they_come_back() {
    for row in rows::all() {
        let all = weighted(&[1, 1, 1]);
        let mut w = World::new(&row, 2, all.clone(), 9, "leave and come back with tickets out");
        for i in 0..30 {
            w.advance(50_000);
            w.start(i % 2, Some(i as u64), &[]).unwrap_or_else(|e| panic!("row {row}: {e}"));
        }
        for left in 0..3usize {
            let mut fewer = all.clone();
            fewer.remove(left);
            w.reload(fewer);
            for i in 0..10 {
                w.advance(50_000);
                w.start(i % 2, Some(i as u64), &[]).unwrap_or_else(|e| panic!("row {row}: {e}"));
                w.end(3 * i % 20, Outcome::Cancelled);
            }
            w.reload(all.clone());
        }
        w.end_all();
    }
}

#[test]
fn a_pool_may_have_hundreds_of_endpoints_come_and_go() {
    for row in rows::defaults() {
        let mut w = World::new(&row, 2, Vec::new(), 4, "hundreds come and go");
        for round in 0..6u32 {
            let names = (round * 70)..(round * 70 + 150);
            w.reload(names.map(|i| EndpointSpec::new(&i.to_string()).weight(1 + i % 5)).collect());
            for i in 0..200u64 {
                w.advance(20_000);
                w.start((i % 2) as usize, Some(i * 77), &[]).unwrap_or_else(|e| panic!("row {row}: {e}"));
            }
            (0..180).for_each(|_| w.end(0, Outcome::Success));
        }
        w.end_all();
        // All slots but those of the last rounds could be reused: 150 live, and at most two generations in transit.
        let slots = w.balancers[0].set().slots();
        assert!(slots <= 3 * 150, "row {row}: {slots} slots for 150 endpoints");
    }
}
