//! Completeness of journals. Random histories are recorded and replayed, on every row: each pick is the same again, a
//! changed line is found, and no line, however wrong, causes a panic.

use super::histories;
use crate::support::rows::{self, Row};
use crate::support::world::{World, weighted};
use evenkeel_balance::journal::Sink;
use evenkeel_balance::replay::{Replay, Stopped, Summary, Why};
use evenkeel_balance::{EndpointSpec, Instant, NoPick, Outcome, Pool, Request, Rng, Seat};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Waker;

struct Lines(Sender<String>);

impl Sink for Lines {
    fn add(&mut self, lines: &str) {
        self.0.send(lines.to_string()).expect("the test reads them");
    }
}

fn text(lines: &Receiver<String>) -> String {
    lines.try_iter().collect()
}

fn replayed(journal: &str) -> Result<Summary, Stopped> {
    let mut replay = Replay::default();
    journal.lines().try_for_each(|line| replay.line(line))?;
    Ok(replay.summary())
}

/// Returns the journal of one random history, and the number of its picks.
fn recorded(row: &Row, script: u64) -> (String, u64) {
    let (to, lines) = channel();
    let mut w = World::new(row, 1, weighted(&[1, 2, 1]), script, format!("recorded history {script}"));
    let seat = Seat::default();
    let balancer = w.pool.recorded_balancer(row.algorithm, &row.params, seat, script, Box::new(Lines(to)));
    w.balancers = vec![balancer.unwrap_or_else(|e| panic!("row {row}: {e}"))];
    w.explain = script.is_multiple_of(2);
    let picks = histories::run(&mut w, script);
    (text(&lines), picks.len() as u64)
}

#[test]
fn a_recorded_history_replays_to_the_same_picks() {
    for row in rows::all() {
        for script in 0..histories::seeds(&row, 20) {
            let (journal, picks) = recorded(&row, script);
            let summary = replayed(&journal).unwrap_or_else(|e| panic!("row {row}, script {script}: {e}"));
            assert_eq!((summary.journals, summary.picks), (1, picks), "row {row}, script {script}");
        }
    }
}

#[test]
fn a_pick_that_was_changed_is_found_and_both_are_explained() {
    for row in rows::defaults() {
        let (journal, _) = recorded(&row, 5);
        let lines: Vec<&str> = journal.lines().collect();
        let is_pick = |line: &&str| line.starts_with("pick") && line.ends_with(|c: char| c.is_ascii_digit());
        let at = lines.len() / 2 + lines[lines.len() / 2..].iter().position(is_pick).expect("picks go on");
        let (before, _) = lines[at].rsplit_once(' ').expect("a pick has words");
        let changed = format!("{before} 77");
        let with: Vec<&str> =
            lines.iter().enumerate().map(|(i, line)| if i == at { &*changed } else { line }).collect();
        let stopped = replayed(&with.join("\n")).expect_err("a pick was changed");
        assert_eq!(stopped.line, at as u64 + 1, "row {row}: {stopped}");
        let Why::Differs { recorded, replayed, .. } = stopped.why else { panic!("row {row}: {stopped}") };
        assert_eq!(recorded, "slot 77: not in the set", "row {row}");
        assert!(
            replayed.contains("in flight, weight ") && replayed.contains("; compared slots "),
            "row {row}: {replayed}"
        );
    }
}

#[test]
fn a_missing_line_is_found() {
    let row = Row::named("leastconn");
    let (journal, _) = recorded(&row, 5);
    let ends = journal.lines().enumerate().filter(|(_, line)| line.starts_with("end"));
    for (without, _) in ends.take(10) {
        let rest: Vec<&str> =
            journal.lines().enumerate().filter(|(i, _)| *i != without).map(|(_, line)| line).collect();
        assert!(replayed(&rest.join("\n")).is_err(), "line {without} was left out and nothing was noticed");
    }
}

#[test]
fn waiting_and_standing_behind_waiters_is_replayed() {
    for row in rows::defaults() {
        let (to, lines) = channel();
        let mut pool = Pool::new(1);
        pool.queue().set_max(10);
        pool.update(&["a", "b"].map(|name| EndpointSpec::new(name).in_flight_max(1)), Instant(0));
        let made = pool.recorded_balancer(row.algorithm, &row.params, Seat::default(), 3, Box::new(Lines(to)));
        let mut balancer = made.unwrap_or_else(|e| panic!("row {row}: {e}"));
        let request = Request { key: Some(7), tried: &[], beyond: false };
        let tickets: Vec<_> = (0..2).map(|_| balancer.start(&request, Instant(1)).expect("there is room")).collect();
        assert_eq!(balancer.start(&request, Instant(2)).err(), Some(NoPick::AllFull));
        let mut waiting = balancer.queue().enter(Waker::noop().clone()).expect("it may wait");
        assert!(balancer.start_waited(&request, &mut waiting, Instant(3)).is_err());
        for ticket in tickets {
            balancer.end(ticket, Outcome::Success, Instant(4));
        }
        assert_eq!(balancer.start(&request, Instant(5)).err(), Some(NoPick::AllFull), "row {row}: others wait");
        let ticket = balancer.start_waited(&request, &mut waiting, Instant(6)).expect("its turn, and there is room");
        drop(waiting);
        balancer.end(ticket, Outcome::Success, Instant(7));
        let journal = text(&lines);
        assert!(journal.contains(" behind ") && journal.contains(" waited "), "row {row}: {journal}");
        let summary = replayed(&journal).unwrap_or_else(|e| panic!("row {row}: {e}\n{journal}"));
        assert_eq!(summary.picks, 6, "row {row}");
        let free = journal.replacen(" behind ", " free ", 1);
        assert!(replayed(&free).is_err(), "row {row}: the replay did not notice that others waited");
    }
}

#[test]
fn explored_requests_are_replayed() {
    for row in rows::defaults() {
        let (to, lines) = channel();
        let mut pool = Pool::new(1);
        pool.update(&["a", "b", "c"].map(EndpointSpec::new), Instant(0));
        let made = pool.recorded_balancer(row.algorithm, &row.params, Seat::default(), 3, Box::new(Lines(to)));
        let mut balancer = made.unwrap_or_else(|e| panic!("row {row}: {e}")).exploring(0.2, 3);
        let mut drawn = 0;
        for now in 0..300 {
            let request = Request { key: Some(now), tried: &[], beyond: false };
            let ticket = balancer.start(&request, Instant(now)).expect("there is room");
            drawn += u64::from(balancer.drawn_from() == 3);
            balancer.end(ticket, Outcome::Success, Instant(now));
        }
        assert!(drawn > 20, "row {row}: {drawn} of 300 explored");
        let journal = text(&lines);
        assert_eq!(journal.lines().filter(|line| line.starts_with("at ")).count() as u64, drawn, "row {row}");
        let summary = replayed(&journal).unwrap_or_else(|e| panic!("row {row}: {e}\n{journal}"));
        assert_eq!(summary.picks, 300 - drawn, "row {row}");
    }
}

#[test]
fn several_workers_and_lost_lines_are_refused() {
    let refused = |journal: &str| match replayed(journal).expect_err("it cannot be compared").why {
        Why::NotComparable(why) => why,
        other => panic!("{other:?}"),
    };
    let several = refused("evenkeel-journal 1 random 0 4 1");
    assert_eq!(several, "recorded with 4 workers: picks depend on counts that other workers wrote");
    assert!(refused("evenkeel-journal 1 random 0 1 1\nlost 12").starts_with("12 lines were lost here"));
    let others = refused("evenkeel-journal 1 random 0 1 1\npick 0 free - - 3 empty");
    assert!(
        others.starts_with("3 requests were in flight in the pool, but only 0 of them are in this journal"),
        "{others}"
    );
}

#[test]
fn no_line_panics_however_wrong() {
    for row in rows::defaults() {
        let (journal, _) = recorded(&row, 5);
        let mut rng = Rng::new(11);
        for _ in 0..200 {
            let mut lines: Vec<String> = journal.lines().map(str::to_string).collect();
            for _ in 0..=rng.below(3) {
                let at = 1 + rng.below(lines.len() as u32 - 1) as usize;
                let (other, line) = (lines[rng.below(lines.len() as u32) as usize].clone(), &mut lines[at]);
                match rng.below(4) {
                    0 => *line = other,
                    1 => line.truncate(rng.below(line.len() as u32) as usize),
                    _ => {
                        let mut words: Vec<&str> = line.split(' ').collect();
                        let at = rng.below(words.len() as u32) as usize;
                        let with = ["0", "1", "2", "-", "18446744073709551615", "4294967295", "x", "", "later", "out"];
                        words[at] = with[rng.below(with.len() as u32) as usize];
                        *line = words.join(" ");
                    }
                }
            }
            let _said = replayed(&lines.join("\n"));
        }
    }
}
