//! The control side of a pool: health, ejection, ramp and limit of each endpoint, and the time at which to look at them
//! again. State is kept by identity, so it outlives reloads; [`crate::eligible`] folds it into the set.

use crate::endpoints::eligible::{self, Candidate, Locality, Panic, Rules, Standing};
use crate::endpoints::endpoint::{EndpointId, EndpointSpec, Forced};
use crate::endpoints::set::{EndpointSet, Slot};
use crate::endpoints::state::{Change, State};
use crate::endpoints::subset::Subset;
use crate::machines::concurrency::{self, Interval, Limit};
use crate::machines::health::{self, Health, Initial, Verdict};
use crate::machines::outlier::{self, Cause, Ejection, Phase};
use crate::machines::slow_start::{self, FULL};
use crate::measurement::loads::Counts;
use crate::measurement::observed::{Streaks, Watch};
use crate::structures::tally::Tally;
use crate::structures::time::{Instant, SECOND_NS};
use std::collections::BTreeMap;

/// Settings of the control side. By default all endpoints count as healthy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// Active checks, whose results the shell passes to [`Pool::on_check`](crate::Pool::on_check).
    pub health: Option<health::Settings>,
    /// Ejection of endpoints by the outcomes of their requests.
    pub outlier: Option<outlier::Settings>,
    /// Ramps for endpoints that join or recover.
    pub slow_start: Option<slow_start::Settings>,
    /// Behaviour when few endpoints are healthy.
    pub panic: Panic,
    /// Preference for the own zone; `None` if zones do not matter.
    pub locality: Option<Locality>,
    /// Limits that follow the latency of endpoints.
    pub concurrency: Option<concurrency::Settings>,
    /// Use of only a part of the endpoints; takes effect with the next [`Pool::update`](crate::Pool::update).
    pub subset: Option<Subset>,
}

impl Settings {
    fn watch(&self) -> Watch {
        let thresholds = self.outlier.as_ref().map(Streaks::thresholds).unwrap_or_default();
        let peaks = self.concurrency.is_some();
        let tallies = peaks || self.outlier.is_some_and(|o| o.compares());
        let server_errors = self.outlier.is_some_and(|o| o.consecutive_5xx > 0 || o.success_rate.is_some());
        Watch { on: self.outlier.is_some() || peaks, thresholds, server_errors, tallies, peaks }
    }
}

/// Delay after which ejected endpoints of other tiers are tried while a tier fails that cannot be spared, nanoseconds.
/// Short enough to end the outage soon after they are back, and a change of state per second is bearable in a log.
const HASTENED_NS: u64 = SECOND_NS;

/// Most changes that are kept until they are taken. Further changes are dropped, the newest first.
const CHANGES_MAX: usize = 10_000;

/// State of an endpoint on the control side.
#[derive(Clone, Debug)]
struct Known {
    slot: Slot,
    spec: EndpointSpec,
    health: Option<Health>,
    ejection: Ejection,
    /// True if checks and ejection let it be used; and the start of its ramp, if any.
    usable: bool,
    ramp_from: Option<Instant>,
    /// True if it ramps when it becomes usable. False at the start of a pool, when all endpoints are new.
    ramps: bool,
    limit: Option<Limit>,
    /// Sums at the start of the current interval, of ejection and of limits.
    judged: Tally,
    limited: Tally,
    state: State,
}

/// Control side of a pool, apart from slots and publishing.
#[derive(Debug, Default)]
pub(crate) struct Control {
    settings: Settings,
    /// State of the endpoints, in the order of the configuration.
    known: Vec<Known>,
    judge_at: Option<Instant>,
    limit_at: Option<Instant>,
    changes: Vec<Change>,
    /// True if there were endpoints before.
    begun: bool,
}

impl Control {
    pub(crate) fn configure(&mut self, settings: Settings, counts: &Counts, now: Instant) {
        if settings == self.settings {
            return; // or intervals would begin anew
        }
        self.settings = settings;
        self.judge_at = settings.outlier.filter(|o| o.compares()).map(|o| now.after(o.interval_ns));
        self.limit_at = settings.concurrency.map(|c| now.after(c.interval_ns));
        for known in &mut self.known {
            // Endpoints that already serve continue until a check contradicts that: a reload is no reason to wait.
            known.health = settings.health.map(|_| known.health.unwrap_or(Health::new(Initial::Healthy, now)));
            known.limit = settings.concurrency.map(|c| known.limit.unwrap_or(Limit::new(&c)).within(&c));
            if settings.outlier.is_none() {
                known.ejection = Ejection::new(known.ejection.trial(), now);
            }
            let (observed, at) = counts.observed(known.slot);
            (known.judged, known.limited) = (observed.tallied(at), observed.tallied(at));
        }
    }

    /// Returns the endpoints to use; `None` for all.
    pub(crate) fn part(&self, specs: &[EndpointSpec]) -> Option<Vec<EndpointSpec>> {
        self.settings.subset.map(|subset| subset.of(specs))
    }

    /// Returns the measurements that workers have to record.
    pub(crate) fn watch(&self) -> Watch {
        self.settings.watch()
    }

    /// Replaces the endpoints. Those that stay keep their state.
    pub(crate) fn update(&mut self, placed: Vec<(Slot, EndpointSpec)>, counts: &Counts, now: Instant) {
        let mut before: BTreeMap<EndpointId, Known> = self.known.drain(..).map(|k| (k.spec.id, k)).collect();
        for (slot, spec) in placed {
            let known = match before.remove(&spec.id) {
                Some(known) => Known { slot, spec, ..known },
                None => self.newcomer(slot, spec, counts, now),
            };
            self.known.push(known);
        }
        self.begun |= !self.known.is_empty();
        self.bring_back_excess(counts, now);
    }

    fn newcomer(&self, slot: Slot, spec: EndpointSpec, counts: &Counts, now: Instant) -> Known {
        let (observed, at) = counts.observed(slot);
        observed.clear_streaks(at); // those of the slot's previous endpoint
        let (reported, row) = counts.reported(slot);
        reported.now_of(row, spec.id);
        let (sums, settings) = (observed.tallied(at), &self.settings);
        let mut known = Known {
            slot,
            spec,
            health: settings.health.map(|h| Health::new(h.initial, now)),
            ejection: Ejection::new(observed.latest_trial(at), now),
            usable: false,
            ramp_from: None,
            ramps: self.begun,
            limit: settings.concurrency.map(|c| Limit::new(&c)),
            judged: sums,
            limited: sums,
            state: State::Up,
        };
        self.settle_use(&mut known, now);
        known.state = self.state(&known, now);
        known
    }

    /// Applies the result of a check.
    pub(crate) fn on_check(&mut self, id: EndpointId, passed: bool, counts: &Counts) {
        let Some(known) = self.known.iter_mut().find(|k| k.spec.id == id) else { return };
        let (Some(settings), Some(health)) = (&self.settings.health, &mut known.health) else { return };
        known.ramps |= health.on_check(settings, passed) == Some(health::Transition::Down);
        if passed && known.ejection.on_passed_check() {
            begin_trial(known, counts);
        }
    }

    /// Does everything that is due.
    pub(crate) fn settle(&mut self, counts: &Counts, now: Instant) {
        match self.settings.outlier {
            Some(settings) => self.settle_ejections(&settings, counts, now),
            // Without detection no outcome would end a probation.
            None => {
                let is_over = |k: &&mut Known| matches!(k.ejection.phase(), Phase::Out { until, .. } if until <= now);
                self.known.iter_mut().filter(is_over).for_each(|known| known.bring_back(counts, now));
            }
        }
        if let Some(settings) = self.settings.concurrency.filter(|_| self.limit_at.is_some_and(|at| at <= now)) {
            self.limit_at = Some(now.after(settings.interval_ns));
            self.known.iter_mut().for_each(|known| step_limit(known, &settings, counts));
        }
        let mut known = std::mem::take(&mut self.known);
        for k in &mut known {
            self.settle_use(k, now);
            let (from, to) = (k.state, self.state(k, now));
            if from != to && self.changes.len() < CHANGES_MAX {
                self.changes.push(Change { id: k.spec.id, from, to, at: now });
            }
            k.state = to;
        }
        self.known = known;
    }

    /// Ejects an endpoint for as long as an ejection lasts. Returns false if there is no such endpoint in service.
    pub(crate) fn eject_by_order(&mut self, id: EndpointId, counts: &Counts, now: Instant) -> bool {
        let settings = self.settings.outlier.unwrap_or_default();
        let known = self.known.iter_mut().find(|k| k.spec.id == id && k.ejection.phase() == Phase::In);
        known.is_some_and(|known| {
            known.ejection.eject(&settings, Cause::Operator, now);
            let (observed, at) = counts.observed(known.slot);
            observed.clear_streaks(at);
            true
        })
    }

    /// Ends the ejection or probation of an endpoint. Returns false if there is no such endpoint out of service.
    pub(crate) fn restore(&mut self, id: EndpointId, counts: &Counts, now: Instant) -> bool {
        let known = self.known.iter_mut().find(|k| k.spec.id == id && k.ejection.phase() != Phase::In);
        known.is_some_and(|known| {
            known.bring_back(counts, now);
            true
        })
    }

    /// Updates whether checks and ejection let an endpoint be used. An endpoint that becomes usable again ramps.
    fn settle_use(&self, known: &mut Known, now: Instant) {
        let usable = known.is_checked(now) && known.is_in();
        if usable && !known.usable {
            known.ramp_from = known.ramps.then_some(now);
            known.ramps = true;
        }
        known.usable = usable;
    }

    fn settle_ejections(&mut self, settings: &outlier::Settings, counts: &Counts, now: Instant) {
        for known in &mut self.known {
            let (observed, at) = counts.observed(known.slot);
            if let Some(passed) = observed.verdict(at, known.ejection.trial())
                && matches!(known.ejection.phase(), Phase::Trial { .. })
            {
                observed.clear_streaks(at);
                known.ejection.on_trial(settings, passed, now);
            }
            if known.ejection.expire(now) {
                begin_trial(known, counts);
            }
        }
        let thresholds = self.settings.watch().thresholds;
        for i in 0..self.known.len() {
            let (observed, at) = counts.observed(self.known[i].slot);
            if let Some(cause) = observed.streaks(at).reached(thresholds)
                && !self.eject(i, settings, cause, counts, now)
                && self.known[i].is_checked(now)
            {
                self.hasten_trials(self.known[i].spec.priority, now);
            }
        }
        if self.judge_at.is_some_and(|at| at <= now) {
            self.judge_at = Some(now.after(settings.interval_ns));
            self.judge(settings, counts, now);
        }
        self.bring_back_excess(counts, now);
    }

    /// Compares the endpoints with their pool over the interval that ends now.
    fn judge(&mut self, settings: &outlier::Settings, counts: &Counts, now: Instant) {
        let (mut who, mut tallies) = (Vec::new(), Vec::new());
        for (i, known) in self.known.iter_mut().enumerate() {
            let (observed, at) = counts.observed(known.slot);
            let sums = observed.tallied(at);
            let since = sums.since(std::mem::replace(&mut known.judged, sums));
            if known.ejection.phase() == Phase::In {
                who.push(i);
                tallies.push(since);
            }
        }
        for (i, cause) in outlier::far_worse(settings, &tallies) {
            self.eject(who[i], settings, cause, counts, now);
        }
    }

    /// Ejects an endpoint if it is in use and the pool can spare it. Returns false if it stays in use because the pool
    /// has too few others.
    fn eject(&mut self, i: usize, settings: &outlier::Settings, cause: Cause, counts: &Counts, now: Instant) -> bool {
        let (observed, at) = counts.observed(self.known[i].slot);
        if self.known[i].spec.forced.is_some() {
            // Its results of the meantime must not count when its own checks and requests decide again either.
            observed.clear_streaks(at);
            return true;
        }
        if !self.known[i].is_in_unforced() {
            return true;
        }
        let spared = self.can_spare(i, settings, cause, now);
        if spared {
            self.known[i].ejection.eject(settings, cause, now);
            observed.clear_streaks(at);
        }
        spared
    }

    /// True if the pool can spare an endpoint: another tier could serve instead of its tier, or another endpoint is
    /// left and fewer of its tier are out than may be. The cap keeps the last tier in use, whose endpoints are better
    /// than none; it must not keep requests at dead endpoints while others are healthy. The cap always applies to
    /// ejection by comparison, as an endpoint that is slow or fails a part of its requests still carries load.
    fn can_spare(&self, i: usize, settings: &outlier::Settings, cause: Cause, now: Instant) -> bool {
        let tier = self.known[i].spec.priority;
        if cause.is_streak() && self.another_serves(tier, now) {
            return true;
        }
        let mut others = self.known.iter().enumerate().filter(|(other, _)| *other != i);
        let (out, of) = self.out(tier);
        others.any(|(_, k)| k.is_in_unforced() && k.is_checked(now)) && out < settings.out_max(of)
    }

    /// True if another tier could serve alone: enough of it is healthy for it not to panic.
    fn another_serves(&self, tier: u8, now: Instant) -> bool {
        let (mut wanted, mut fit) = ([0u32; 1 + u8::MAX as usize], [0u32; 1 + u8::MAX as usize]);
        for k in self.known.iter().filter(|k| k.counts() && k.spec.priority != tier) {
            wanted[usize::from(k.spec.priority)] += 1;
            fit[usize::from(k.spec.priority)] += u32::from(k.is_in() && k.is_checked(now));
        }
        let share = self.settings.panic.healthy_below;
        wanted.iter().zip(fit).any(|(&wanted, fit)| fit > 0 && f64::from(fit) >= share * f64::from(wanted))
    }

    /// Number of endpoints of a tier that are ejected or on probation, and number that the configuration wants used.
    fn out(&self, tier: u8) -> (usize, usize) {
        let wanted = self.known.iter().filter(|k| k.counts() && k.spec.priority == tier);
        (wanted.clone().filter(|k| k.ejection.phase() != Phase::In).count(), wanted.count())
    }

    /// Brings forward the trials of ejected endpoints in other tiers, as this tier fails too and cannot be spared.
    fn hasten_trials(&mut self, tier: u8, now: Instant) {
        let elsewhere = self.known.iter_mut().filter(|k| k.spec.priority != tier);
        elsewhere.for_each(|k| k.ejection.hasten(now.after(HASTENED_NS)));
    }

    /// Brings back endpoints when a tier that shrank, or that now has to serve alone, has more out than allowed: those
    /// on probation first, then those whose ejection ends first. Endpoints ejected by an operator stay out.
    fn bring_back_excess(&mut self, counts: &Counts, now: Instant) {
        let Some(settings) = self.settings.outlier else { return };
        let mut tiers: Vec<u8> = self.known.iter().filter(|k| k.counts()).map(|k| k.spec.priority).collect();
        tiers.sort_unstable();
        tiers.dedup();
        for tier in tiers {
            let (out, of) = self.out(tier);
            if self.another_serves(tier, now) {
                continue;
            }
            for _ in settings.out_max(of)..out {
                let ends = |k: &&mut Known| match k.ejection.phase() {
                    Phase::Out { until, .. } => until,
                    Phase::In | Phase::Trial { .. } => now,
                };
                let of_tier = |k: &&mut Known| k.counts() && k.spec.priority == tier;
                let out = self.known.iter_mut().filter(of_tier).filter(|k| k.ejection.is_out_by_itself());
                if let Some(known) = out.min_by_key(ends) {
                    known.bring_back(counts, now);
                }
            }
        }
    }

    /// Returns the set as of `now`.
    pub(crate) fn fold(&self, now: Instant) -> EndpointSet {
        let candidates: Vec<Candidate<'_>> = self.known.iter().map(|k| self.candidate(k, now)).collect();
        let Settings { panic, locality, .. } = self.settings;
        eligible::fold(&candidates, &Rules { panic, locality })
    }

    fn candidate<'k>(&self, known: &'k Known, now: Instant) -> Candidate<'k> {
        let Known { slot, spec, limit, .. } = known;
        let limits = [spec.in_flight_max, limit.map_or(0, |l| l.in_flight_max())];
        let in_flight_max = limits.into_iter().filter(|&max| max != 0).min().unwrap_or(0);
        let (standing, ramp) = (known.standing(now), self.ramp(known, now));
        Candidate { slot: *slot, spec, standing, ramp, in_flight_max }
    }

    /// Returns the part of its weight that an endpoint has. All ramps of a pool step at the same times, so that the
    /// number of sets does not grow with the number of ramping endpoints.
    fn ramp(&self, known: &Known, now: Instant) -> u16 {
        let (Some(settings), Some(from)) = (self.settings.slow_start, known.ramp_from) else { return FULL };
        let step = Instant(now.0 - now.0 % settings.step_ns());
        if known.usable { settings.ramp(step.since(from)) } else { FULL }
    }

    fn state(&self, known: &Known, now: Instant) -> State {
        match (known.standing(now), known.ejection.phase()) {
            _ if known.spec.drain => State::Draining,
            _ if known.spec.weight == 0 => State::Disabled,
            _ if known.spec.unresolved => State::Unresolved,
            (Standing::Unhealthy, _) => State::Down,
            (Standing::Unchecked, _) => State::Unchecked,
            (Standing::Fit, _) if self.ramp(known, now) < FULL => State::Ramping,
            (Standing::Fit, _) => State::Up,
            (_, Phase::Out { cause, .. }) => State::Ejected(cause),
            (_, Phase::Trial { .. }) => State::Probation,
            (_, Phase::In) if self.ramp(known, now) < FULL => State::Ramping,
            (_, Phase::In) => State::Up,
        }
    }

    /// Returns the time at which something is due next; `None` if nothing is.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let step = self.settings.slow_start.map(|s| Instant((now.0 / s.step_ns() + 1).saturating_mul(s.step_ns())));
        let of = |k: &Known| {
            let checked = k.health.and_then(|h| h.verdict().usable_at());
            let back = if let Phase::Out { until, .. } = k.ejection.phase() { Some(until) } else { None };
            let ramp = step.filter(|_| self.ramp(k, now) < FULL);
            checked.into_iter().chain(back).chain(ramp).filter(|&at| at > now).min()
        };
        self.known.iter().filter_map(of).chain(self.judge_at).chain(self.limit_at).min()
    }

    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    pub(crate) fn states(&self) -> impl Iterator<Item = (EndpointId, State)> + '_ {
        self.known.iter().map(|k| (k.spec.id, k.state))
    }
}

impl Known {
    /// True if the configuration wants the endpoint used.
    fn counts(&self) -> bool {
        self.spec.counts()
    }

    /// Ends its ejection or probation at once.
    fn bring_back(&mut self, counts: &Counts, now: Instant) {
        self.ejection.bring_back(now);
        let (observed, at) = counts.observed(self.slot);
        observed.clear_streaks(at);
    }

    /// True if it is not ejected, or forced up.
    fn is_in(&self) -> bool {
        self.spec.forced == Some(Forced::Up) || self.ejection.phase() == Phase::In
    }

    /// True if it counts as an endpoint that may be ejected: wanted, not forced, and not out already.
    fn is_in_unforced(&self) -> bool {
        self.counts() && self.spec.forced.is_none() && self.ejection.phase() == Phase::In
    }

    /// True if its checks or an operator let it be used.
    fn is_checked(&self, now: Instant) -> bool {
        if let Some(forced) = self.spec.forced {
            return forced == Forced::Up;
        }
        match self.health.map(|h| h.verdict()) {
            None | Some(Verdict::Up) => true,
            Some(Verdict::Down) => false,
            Some(unchecked) => unchecked.usable_at().is_none_or(|at| at <= now),
        }
    }

    fn standing(&self, now: Instant) -> Standing {
        match self.ejection.phase() {
            _ if self.spec.forced == Some(Forced::Up) => Standing::Fit,
            _ if self.spec.forced == Some(Forced::Down) => Standing::Unhealthy,
            _ if !self.is_checked(now) => match self.health.map(|h| h.verdict()) {
                Some(Verdict::Unchecked { .. }) => Standing::Unchecked,
                _ => Standing::Unhealthy,
            },
            Phase::In => Standing::Fit,
            Phase::Out { .. } => Standing::Ejected,
            Phase::Trial { .. } => Standing::Trial(self.ejection.trial()),
        }
    }
}

/// Makes the first outcome of the trial that has begun its verdict.
fn begin_trial(known: &Known, counts: &Counts) {
    let (observed, at) = counts.observed(known.slot);
    observed.begin_trial(at, known.ejection.trial());
}

fn step_limit(known: &mut Known, settings: &concurrency::Settings, counts: &Counts) {
    let (observed, at) = counts.observed(known.slot);
    let (sums, in_flight) = (observed.tallied(at), observed.take_peak(at));
    let since = sums.since(std::mem::replace(&mut known.limited, sums));
    let latency_ns = since.latency_ns as f64 / f64::from(since.timed.max(1));
    if let Some(limit) = &mut known.limit {
        limit.step(settings, &Interval { requests: since.timed, latency_ns, in_flight });
    }
}
