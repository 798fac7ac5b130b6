//! Allowance of tasks that a client has made many of, such as the streams of an HTTP/2 connection. Together they have
//! about the turn of a single task in each round, and a single member at a time waits among the tasks that have used up
//! their turns. So many streams take no more from other clients than a few do.
//!
//! A round ends when a task that has used up its turn continues, or with a poll of the kernel while there is none.

use super::waker_slot::WakerSlot;
use super::{tasks, units};
use evenkeel_balance::slab::Key;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Units of a round. Twice a turn, as the streams of a busy connection are cheaper together.
const ROUND: i64 = 2 * units::TURN as i64;

/// Units that a group may owe. It continues once it has paid for them, in rounds in which others have their turns.
const OWED_MAX: i64 = 8 * ROUND;

/// Allowance of a group of tasks.
#[derive(Debug, Default)]
pub struct Allowance {
    /// Units that are left in `round`; negative if work took more than there was.
    left: Cell<i64>,
    round: Cell<u32>,
    /// Member that waits among the tasks that have used up their turns, or has its turn now. There is a member here if
    /// others wait.
    delegate: Cell<Option<Key>>,
    /// Members that wait behind it, in order.
    waiting: RefCell<VecDeque<Key>>,
}

/// A member of a group, for as long as its task does the work that is charged.
#[derive(Debug)]
pub struct Member {
    of: Rc<Allowance>,
    /// Its task, from when it waits for a turn until it has it.
    waits: Option<Key>,
}

impl Member {
    pub fn new(of: Rc<Allowance>) -> Member {
        Member { of, waits: None }
    }

    /// Runs a turn of the work, unless it waits for a turn, or its group has nothing left in this round.
    #[inline]
    pub fn poll<T>(&mut self, cx: &mut Context<'_>, work: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        if self.waits.is_some_and(|key| self.of.is_behind(key)) {
            return Poll::Pending;
        }
        let left = self.of.left();
        if left <= 0 {
            self.wait(cx);
            return Poll::Pending;
        }
        let had_to_wait = self.leave();
        let lent = units::lend(left);
        let (polled, wants_turn) = tasks::as_member(|| work(cx));
        self.of.left.set((left - lent.give_back()).max(-OWED_MAX));
        if had_to_wait {
            self.of.wake_next();
        }
        if wants_turn && polled.is_pending() {
            self.wait(cx);
        } else if had_to_wait {
            self.of.appoint();
        }
        polled
    }

    /// Waits for a turn behind the others of the group.
    #[cold]
    fn wait(&mut self, cx: &Context<'_>) {
        let WakerSlot::Task(key) = WakerSlot::of(cx) else {
            return tasks::wait_for_turn(cx);
        };
        let was_woken = self.waits.replace(key).is_some();
        if self.of.delegate.get() == Some(key) {
            return tasks::spend(key);
        }
        let mut waiting = self.of.waiting.borrow_mut();
        // A member that was woken and found nothing left keeps its place.
        if was_woken {
            waiting.push_front(key)
        } else {
            waiting.push_back(key)
        }
        drop(waiting);
        self.of.appoint();
    }

    /// Ends the wait for a turn; true if there was a wait.
    #[inline]
    fn leave(&mut self) -> bool {
        let Some(key) = self.waits.take() else { return false };
        if self.of.delegate.get() == Some(key) {
            self.of.delegate.set(None);
        }
        self.of.waiting.borrow_mut().retain(|other| *other != key);
        true
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
        // Also if it waits no more: a panic may have ended its turn before the next member was appointed.
        self.of.appoint();
    }
}

impl Allowance {
    /// Units that are left in this round.
    #[inline]
    fn left(&self) -> i64 {
        let round = tasks::round();
        if self.round.replace(round) != round {
            self.left.set((self.left.get() + ROUND).min(ROUND));
        }
        self.left.get()
    }

    /// True if a member still waits for its turn.
    fn is_behind(&self, key: Key) -> bool {
        match self.delegate.get() == Some(key) {
            true => tasks::is_spent(key),
            false => self.waiting.borrow().contains(&key),
        }
    }

    /// Wakes the next member that waits, if there are units left for it.
    fn wake_next(&self) {
        let next = if self.left.get() > 0 { self.waiting.borrow_mut().pop_front() } else { None };
        next.into_iter().for_each(tasks::wake);
    }

    /// Has the next member wait among other tasks, unless a member does.
    fn appoint(&self) {
        if self.delegate.get().is_some() {
            return;
        }
        let next = self.waiting.borrow_mut().pop_front();
        if let Some(next) = next {
            self.delegate.set(Some(next));
            tasks::spend(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{run, spawn, yield_now};
    use super::*;
    use crate::event_loop::budget::{charge, proceed};
    use std::future::poll_fn;
    use std::pin::pin;

    /// Runs work as a member of a group.
    async fn shared(of: Rc<Allowance>, work: impl Future<Output = ()>) {
        let (mut member, mut work) = (Member::new(of), pin!(work));
        poll_fn(|cx| member.poll(cx, |cx| work.as_mut().poll(cx))).await;
    }

    /// Spawns tasks of a group that use up a turn over and over, and count.
    fn group(tasks: usize, turns: usize) -> Rc<Cell<usize>> {
        let (of, count) = (Rc::new(Allowance::default()), Rc::new(Cell::new(0)));
        for _ in 0..tasks {
            let (of, count) = (of.clone(), count.clone());
            spawn(shared(of, async move {
                for _ in 0..turns {
                    count.set(count.get() + 1);
                    charge(units::TURN);
                    proceed().await;
                }
            }));
        }
        count
    }

    #[test]
    fn a_group_of_many_takes_turns_as_a_group_of_few() {
        run(async {
            let (many, few) = (group(200, 1000), group(1, 1000));
            while many.get() + few.get() < 1000 {
                yield_now().await;
            }
            let share = few.get() as f64 / 1000.0;
            // In each round a group has two turns, of which a single task takes a turn or both.
            assert!((0.25..0.75).contains(&share), "{share}");
        })
        .unwrap();
    }

    #[test]
    fn all_members_have_their_turns_and_end() {
        run(async {
            let (first, second) = (group(50, 20), group(3, 20));
            while first.get() < 50 * 20 || second.get() < 3 * 20 {
                yield_now().await;
            }
        })
        .unwrap();
    }

    #[test]
    fn members_that_are_dropped_while_they_wait_hold_up_no_other() {
        run(async {
            let (of, ended) = (Rc::new(Allowance::default()), Rc::new(Cell::new(0)));
            let tasks: Vec<_> = (0..20)
                .map(|_| {
                    let (of, ended) = (of.clone(), ended.clone());
                    spawn(shared(of, async move {
                        for _ in 0..10 {
                            charge(units::TURN);
                            proceed().await;
                        }
                        ended.set(ended.get() + 1);
                    }))
                })
                .collect();
            yield_now().await;
            tasks.iter().step_by(2).for_each(|task| task.abort());
            while ended.get() < 10 {
                yield_now().await;
            }
        })
        .unwrap();
    }

    #[test]
    fn a_panic_of_a_member_in_its_turn_holds_up_no_other() {
        run(async {
            let (of, ended) = (Rc::new(Allowance::default()), Rc::new(Cell::new(0)));
            for n in 0..20 {
                let (of, ended) = (of.clone(), ended.clone());
                spawn(shared(of, async move {
                    for turn in 0..10 {
                        charge(units::TURN);
                        proceed().await;
                        assert!(turn < 5 || n % 4 < 2, "every other pair panics");
                    }
                    ended.set(ended.get() + 1);
                }));
            }
            while ended.get() < 10 {
                yield_now().await;
            }
        })
        .unwrap();
    }

    #[test]
    fn work_that_costs_more_than_a_round_is_paid_for_in_later_ones() {
        run(async {
            let (of, count) = (Rc::new(Allowance::default()), Rc::new(Cell::new(0)));
            for _ in 0..2 {
                let (of, count) = (of.clone(), count.clone());
                spawn(shared(of, async move {
                    loop {
                        count.set(count.get() + 1);
                        charge(4 * ROUND as u32);
                        proceed().await;
                    }
                }));
            }
            let before = tasks::round();
            while count.get() < 50 {
                yield_now().await;
            }
            let rounds = tasks::round() - before;
            assert!((150..=300).contains(&rounds), "{rounds}");
        })
        .unwrap();
    }
}
