//! Replays of journals. [`Replay`] reads the lines of a [`journal`](crate::journal), runs the same balancer over them,
//! and stops at the first pick that differs, with the reasons of both.
//!
//! No input makes it panic.

use crate::algorithms;
use crate::endpoints::endpoint::EndpointId;
use crate::endpoints::set::{EndpointSet, Exclusion, Member, Slot};
use crate::machines::queue::{Queue, Waiting};
use crate::machines::slow_start::FULL;
use crate::measurement::loads::Counts;
use crate::measurement::report::LoadReport;
use crate::measurement::request::{FailureKind, Outcome, Request};
use crate::measurement::ticket::Ticket;
use crate::seam::balancer::Balancer;
use crate::seam::explain::{Candidate, Explanation};
use crate::seam::journal::{HEADER, Picked, REFUSALS, VERSION, Way};
use crate::seam::params::{Kind, Params, Value};
use crate::seam::picker::Seat;
use crate::seam::view::View;
use crate::structures::published::Published;
use crate::structures::time::Instant;
use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::str::{FromStr, Split};
use std::sync::Arc;
use std::task::Waker;

/// Most slots of a set. No pool has more; bounds how much memory a wrong line can make the replay allocate.
const SLOTS_MAX: usize = 1 << 16;

/// A replay in progress, fed line by line.
#[derive(Default)]
pub struct Replay {
    running: Option<Run>,
    summary: Summary,
    /// Number of the pick to explain, from 1, and its explanation.
    wanted: Option<u64>,
    explained: Option<String>,
}

/// Totals of a replay so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines read, the line that stopped the replay included.
    pub lines: u64,
    /// Journals begun: each balancer of the pool writes its part.
    pub journals: u64,
    /// Picks that were the same, refusals included.
    pub picks: u64,
}

/// Error that stopped a replay before the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Number of the line, from 1.
    pub line: u64,
    /// Reason why the replay stopped there.
    pub why: Why,
}

/// Reason why a replay stops at a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The line is not part of a journal.
    Unreadable(String),
    /// From here on, picks depend on state that the journal does not contain.
    NotComparable(String),
    /// The replay made another pick.
    Differs {
        /// Time of the pick, as recorded.
        now: Instant,
        /// Endpoint that was picked, and its state.
        recorded: String,
        /// Endpoint that is picked now, and the reason.
        replayed: String,
    },
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.why {
            Why::Unreadable(problem) => write!(f, "not a line of a journal: {problem}"),
            Why::NotComparable(why) => write!(f, "cannot be compared: {why}"),
            Why::Differs { now, recorded, replayed } => {
                write!(f, "another pick, at {} ns\n  recorded: {recorded}\n  replayed: {replayed}", now.0)
            }
        }
    }
}

impl std::error::Error for Stopped {}

impl Replay {
    /// Replays the next line, given without its line end.
    ///
    /// # Errors
    /// The reason why the replay cannot continue.
    pub fn line(&mut self, line: &str) -> Result<(), Stopped> {
        self.summary.lines += 1;
        self.take(line).map_err(|why| Stopped { line: self.summary.lines, why })
    }

    /// Returns the totals so far.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Asks for the explanation of the pick with this number, from 1.
    pub fn explain(&mut self, pick: u64) {
        self.wanted = Some(pick);
    }

    /// Returns that explanation, once the pick was made.
    pub fn explained(&self) -> Option<&str> {
        self.explained.as_deref()
    }

    fn take(&mut self, line: &str) -> Result<(), Why> {
        let mut words = Words(line.split(' '));
        let kind = words.next("the kind of line")?;
        if kind == HEADER {
            self.running = Some(Run::begin(&mut words)?);
            self.summary.journals += 1;
            return Ok(());
        }
        let Some(run) = &mut self.running else { return unreadable(format!("it does not begin with {HEADER}")) };
        match kind {
            "set" => run.set(&mut words)?,
            "pick" => {
                let picked = run.pick(&mut words);
                if self.wanted == Some(self.summary.picks + 1) {
                    self.explained = Some(run.explanation.to_string());
                }
                picked?;
                self.summary.picks += 1;
            }
            "at" => run.at(&mut words)?,
            "end" => run.end(&mut words)?,
            "report" => run.report(&mut words)?,
            "probe" => run.probe(&mut words)?,
            "lost" => {
                let lost: u64 = words.number("lines")?;
                return Err(Why::NotComparable(format!(
                    "{lost} lines were lost here because the disk did not keep up"
                )));
            }
            other => return unreadable(format!("unknown kind of line: \"{other}\"")),
        }
        words.end()
    }
}

/// A balancer that is being replayed.
struct Run {
    balancer: Balancer,
    published: Published<View>,
    counts: Counts,
    queue: Arc<Queue>,
    /// Stands for all requests that wait.
    waiting: Option<Waiting>,
    explanation: Explanation,
}

impl Run {
    fn begin(words: &mut Words<'_>) -> Result<Run, Why> {
        let version = words.next("the version")?;
        if version != VERSION {
            return unreadable(format!("line format version {version}; this evenkeel reads version {VERSION}"));
        }
        let name = words.next("the algorithm")?;
        let Some(algorithm) = algorithms::find(name) else { return unreadable(format!("no algorithm \"{name}\"")) };
        let seat = Seat { worker: words.number("the worker")?, workers: words.number("the workers")? };
        if seat.workers != 1 || seat.worker != 0 {
            let why =
                format!("recorded with {} workers: picks depend on counts that other workers wrote", seat.workers);
            return Err(Why::NotComparable(why));
        }
        let seed = words.hex("the seed")?;
        let mut params = Params::defaults(algorithm.params);
        for word in &mut words.0 {
            let (name, text) = word.split_once('=').ok_or_else(|| bad("a parameter", word))?;
            let row = algorithm.params.iter().find(|p| p.name == name).ok_or_else(|| bad("a parameter", word))?;
            let value = match row.kind {
                Kind::Int { .. } => text.parse().ok().map(Value::Int),
                Kind::Float { .. } => text.parse().ok().map(Value::Float),
                Kind::Duration { .. } => text.parse().ok().map(Value::Duration),
                Kind::HashKey => None,
            };
            let value = value.ok_or_else(|| bad("a parameter", word))?;
            params.set(row.name, value).map_err(|e| Why::Unreadable(e.to_string()))?;
        }
        let (counts, queue) = (Counts::new(1), Arc::new(Queue::new(1)));
        let published = Published::new(View { set: EndpointSet::default(), counts: counts.clone() });
        let balancer = Balancer::new(algorithm, &params, published.reader(), queue.clone(), seat, seed);
        let balancer = balancer.map_err(|e| Why::Unreadable(e.to_string()))?;
        Ok(Run { balancer, published, counts, queue, waiting: None, explanation: Explanation::default() })
    }

    fn set(&mut self, words: &mut Words<'_>) -> Result<(), Why> {
        let now = words.now()?;
        let set = read_set(words)?;
        self.counts = self.counts.grown_to(set.slots());
        for member in std::iter::once(&set).chain(set.overflow()).flat_map(EndpointSet::members) {
            let (reported, at) = self.counts.reported(member.slot);
            reported.now_of(at, member.id);
        }
        self.published.publish(View { set, counts: self.counts.clone() });
        self.balancer.refresh(now);
        Ok(())
    }

    fn pick(&mut self, words: &mut Words<'_>) -> Result<(), Why> {
        let now = words.now()?;
        let way = words.way()?;
        let key = words.optional("a key", |words| words.hex("a key"))?;
        let tried = words.next("slots tried")?;
        let (tried, beyond) = tried.strip_suffix(",beyond").map_or((tried, false), |tried| (tried, true));
        let tried = match tried {
            "-" => Vec::new(),
            list => list.split(',').map(|s| number(s, "a slot tried").map(Slot)).collect::<Result<_, _>>()?,
        };
        let (total, recorded): (u32, _) = (words.number("requests in flight")?, words.picked()?);
        let here = self.balancer.loads().in_flight_total();
        if total != here {
            return Err(Why::NotComparable(format!(
                "{total} requests were in flight in the pool, but only {here} of them are in this journal: picks depend on \
                 counts written by others, such as the balancer of an earlier configuration until its requests have ended"
            )));
        }
        self.enqueue(way);
        let request = Request { key, tried: &tried, beyond };
        let explanation = &mut self.explanation;
        let picked = self.balancer.pick_explained(&request, way == Way::Waited, now, explanation);
        let replayed = Picked(picked.as_ref().map(Ticket::slot).map_err(|why| *why));
        self.compare(recorded, replayed, now)
    }

    fn at(&mut self, words: &mut Words<'_>) -> Result<(), Why> {
        let (now, way, slot, recorded) = (words.now()?, words.way()?, words.slot()?, words.picked()?);
        self.enqueue(way);
        let picked = self.balancer.start_at(slot, now);
        let replayed = Picked(picked.as_ref().map(Ticket::slot).map_err(|why| *why));
        self.explanation = Explanation::default();
        self.compare(recorded, replayed, now)
    }

    fn end(&mut self, words: &mut Words<'_>) -> Result<(), Why> {
        let (now, slot) = (words.now()?, words.slot()?);
        let held = words.number::<u8>("whether it had a place")? != 0;
        let (latency_ns, outcome) = (words.number("a latency")?, words.next("an outcome")?);
        let retry_after_ns = words.optional("a Retry-After", |words| words.number("a Retry-After"))?;
        let outcome = match outcome {
            "success" => Outcome::Success,
            "cancelled" => Outcome::Cancelled,
            name => match FailureKind::ALL.into_iter().find(|kind| kind.name() == name) {
                Some(kind) => Outcome::Failure { kind, retry_after_ns },
                None => return Err(bad("an outcome", name)),
            },
        };
        if self.balancer.loads().in_flight_here(slot) == 0 {
            return unreadable(format!("a request ends at slot {}, where none is in flight", slot.0));
        }
        self.balancer.end(Ticket::replayed(slot, held, latency_ns), outcome, now);
        Ok(())
    }

    fn report(&mut self, words: &mut Words<'_>) -> Result<(), Why> {
        let (now, slot) = (words.now()?, words.slot()?);
        let (in_flight, latency_ns) = (words.number("requests in flight")?, words.number("a latency")?);
        let report = LoadReport { in_flight, latency_ns, stamp: words.number("a stamp")? };
        // The picks show if the report was used.
        let _ = self.balancer.report(slot, &report, now);
        Ok(())
    }

    fn probe(&mut self, words: &mut Words<'_>) -> Result<(), Why> {
        let now = words.now()?;
        let recorded = words.optional("a slot", Words::slot)?;
        let replayed = self.balancer.poll_probe(now);
        let describe =
            |slot: Option<Slot>| slot.map_or("asks no slot".to_string(), |slot| format!("asks slot {}", slot.0));
        let (same, recorded, replayed) = (recorded == replayed, describe(recorded), describe(replayed));
        if same { Ok(()) } else { Err(Why::Differs { now, recorded, replayed }) }
    }

    fn enqueue(&mut self, way: Way) {
        match way {
            Way::Behind if self.waiting.is_none() => self.waiting = self.queue.enter(Waker::noop().clone()).ok(),
            Way::Behind => {}
            Way::Free | Way::Waited => self.waiting = None,
        }
    }

    fn compare(&self, recorded: Picked, replayed: Picked, now: Instant) -> Result<(), Why> {
        if recorded == replayed {
            return Ok(());
        }
        let (recorded, mut because) = (self.describe(recorded), self.describe(replayed));
        let Explanation { rule, candidates, .. } = &self.explanation;
        if !rule.is_empty() {
            let compared: Vec<_> = candidates.iter().map(|c| c.slot.0.to_string()).collect();
            let _ = write!(because, "; {rule}; compared slots {}", compared.join(", "));
        }
        Err(Why::Differs { now, recorded, replayed: because })
    }

    /// Describes a pick with the state of its endpoint at the time.
    #[cold]
    fn describe(&self, picked: Picked) -> String {
        let slot = match picked.0 {
            Ok(slot) => slot,
            Err(why) => return format!("none: {why}"),
        };
        let Explanation { candidates, excluded, .. } = &self.explanation;
        let mut text = format!("slot {}", slot.0);
        if let Some(Candidate { id, in_flight, weight, score, .. }) = candidates.iter().find(|c| c.slot == slot) {
            let _ = write!(text, " (endpoint {:x}): {in_flight} in flight, weight {weight}", id.0);
            if let Some(score) = score {
                let _ = write!(text, ", score {score}");
            }
        } else if let Some((_, id, why)) = excluded.iter().find(|e| e.0 == slot) {
            let _ = write!(text, " (endpoint {:x}): {why}", id.0);
        } else if let Some(m) = self.balancer.set().get(slot) {
            let in_flight = self.balancer.loads().in_flight(slot);
            let _ = write!(text, " (endpoint {:x}): {in_flight} in flight, weight {}, not compared", m.id.0, m.weight);
        } else {
            text.push_str(": not in the set");
        }
        text
    }
}

fn read_set(words: &mut Words<'_>) -> Result<EndpointSet, Why> {
    let slots: usize = words.number("slots")?;
    if slots > SLOTS_MAX {
        return unreadable(format!("{slots} slots; at most {SLOTS_MAX} are possible"));
    }
    let in_panic = words.number::<u8>("whether it is in panic")? != 0;
    let (mut groups, mut excluded, mut draining) = (vec![Vec::new()], Vec::new(), Vec::new());
    let (mut seen, mut out, mut drains) = (BTreeSet::new(), false, false);
    for word in &mut words.0 {
        match word {
            "out" => out = true,
            "overflow" => {
                out = false;
                groups.push(Vec::new());
            }
            "draining" => (out, drains) = (false, true),
            _ => {
                let mut parts = Words(word.split(':'));
                let (slot, id) = (parts.slot()?, EndpointId(parts.hex("an id")?));
                // An endpoint excluded from the first set may be in an overflow set.
                if slot.index() >= slots || !(out || seen.insert(slot)) {
                    return Err(bad("a slot of its own", word));
                }
                if out {
                    let name = parts.next("why it is out")?;
                    let why = Exclusion::STANDING.into_iter().find(|why| format!("{why:?}") == name);
                    excluded.push((slot, id, why.ok_or_else(|| bad("why it is out", word))?));
                } else if let Some(group) = if drains { Some(&mut draining) } else { groups.last_mut() } {
                    let (weight, in_flight_max) = (parts.number("a weight")?, parts.number("a limit")?);
                    let (ramp, trial) = (parts.number("a ramp")?, parts.number("a trial")?);
                    let tier = parts.0.next().map_or(Ok(0), |tier| number(tier, "a tier"))?;
                    if weight == 0 || !(1..=FULL).contains(&ramp) {
                        return Err(bad("a member", word));
                    }
                    group.push(Member { slot, id, weight, in_flight_max, ramp, trial, tier });
                }
                parts.end()?;
            }
        }
    }
    let mut groups = groups.into_iter();
    let set = EndpointSet::of(groups.next().unwrap_or_default(), excluded, slots);
    let set = set.with_overflow(groups.map(|members| EndpointSet::of(members, Vec::new(), slots)).collect());
    let set = set.with_draining(draining);
    Ok(if in_panic { set.panicking() } else { set })
}

fn unreadable<T>(problem: String) -> Result<T, Why> {
    Err(Why::Unreadable(problem))
}

fn bad(what: &str, word: &str) -> Why {
    Why::Unreadable(format!("expected {what}, not \"{word}\""))
}

fn number<T: FromStr>(word: &str, what: &str) -> Result<T, Why> {
    word.parse().map_err(|_| bad(what, word))
}

/// Remaining words of a line.
struct Words<'a>(Split<'a, char>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, Why> {
        self.0.next().filter(|word| !word.is_empty()).ok_or_else(|| Why::Unreadable(format!("{what} is missing")))
    }

    fn end(&mut self) -> Result<(), Why> {
        self.0.next().map_or(Ok(()), |word| Err(bad("nothing more", word)))
    }

    fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Why> {
        number(self.next(what)?, what)
    }

    fn hex(&mut self, what: &str) -> Result<u64, Why> {
        let word = self.next(what)?;
        u64::from_str_radix(word, 16).map_err(|_| bad(what, word))
    }

    fn now(&mut self) -> Result<Instant, Why> {
        self.number("a moment").map(Instant)
    }

    fn slot(&mut self) -> Result<Slot, Why> {
        self.number("a slot").map(Slot)
    }

    fn way(&mut self) -> Result<Way, Why> {
        let word = self.next("a way")?;
        Way::ALL.iter().find(|(_, name)| *name == word).map(|(way, _)| *way).ok_or_else(|| bad("a way", word))
    }

    fn picked(&mut self) -> Result<Picked, Why> {
        let word = self.next("a pick")?;
        match REFUSALS.iter().find(|(_, name)| *name == word) {
            Some((why, _)) => Ok(Picked(Err(*why))),
            None => number(word, "a slot or a refusal").map(|slot| Picked(Ok(Slot(slot)))),
        }
    }

    /// Reads an optional value; `None` for `-`.
    fn optional<T>(&mut self, what: &str, read: impl FnOnce(&mut Self) -> Result<T, Why>) -> Result<Option<T>, Why> {
        let mut ahead = self.0.clone();
        if ahead.next() == Some("-") {
            self.next(what)?;
            return Ok(None);
        }
        read(self).map(Some)
    }
}
