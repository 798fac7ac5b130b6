//! Answers: figures of a question as changes from the policy of the log, with intervals over the worlds.

use crate::model::Model;
use crate::question::{Conditions, Question};
use crate::traffic::Traffic;
use crate::worlds::World;
use evenkeel_sim::replay::{Drawn, Played};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Standard normal quantile of the ends of a 90 % interval.
pub(crate) const WITHIN_90: f64 = 1.645;

/// Largest share of picks that find more in flight than the log ever shows before an answer says so.
const BEYOND_MAX: f64 = 0.05;

/// Ends and middle of a 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

impl Range {
    /// True if the interval has 0.
    pub fn has_zero(&self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }
}

/// Time of requests: its value under the question, and its change from the log, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub value: f64,
    pub change: Range,
}

/// Figures of a question; shares and failures are parts from 0 to 1.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Median, 90th and 99th percentile.
    pub times: [Time; 3],
    /// Share of the tries by endpoint, with its name; of added endpoints last.
    pub shares: Vec<(String, Range)>,
    /// Share of failed requests.
    pub failed: Range,
    /// Share of the picks that find more in flight than the log ever shows at that endpoint.
    pub extrapolated: f64,
}

/// Answer to a question, or the reason why there is none.
#[derive(Clone, Debug)]
pub struct Answer {
    pub label: String,
    pub is_of_the_log: bool,
    /// True for a choice that no balancer can make.
    pub is_bound: bool,
    pub figures: Result<Figures, String>,
    /// Natural logarithms of the 99th and 90th percentile and of the median by world.
    pub(crate) by_world: Vec<[f64; 3]>,
}

impl Answer {
    /// Remark on how far the figures can be trusted or followed; empty for none.
    pub fn note(&self) -> String {
        match &self.figures {
            Ok(_) if self.is_bound => "a bound: no balancer can do it".to_string(),
            Ok(figures) if figures.extrapolated > BEYOND_MAX => {
                format!("{:.0} % of it beyond what the log shows", 100.0 * figures.extrapolated)
            }
            Ok(_) => String::new(),
            Err(why) => why.clone(),
        }
    }
}

/// Answers questions in the worlds, on as many threads. Also returns the explored requests of each world under the policy
/// of the log.
pub fn answers(
    model: &Model,
    traffic: &Traffic,
    worlds: &[World],
    questions: &[Question],
    threads: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> (Vec<Answer>, Vec<Vec<Drawn>>) {
    let unchanged = Question {
        label: model.policy.label.clone(),
        policy: model.policy.clone(),
        conditions: Conditions::default(),
        bound: None,
    };
    let all: Vec<&Question> = std::iter::once(&unchanged).chain(questions).collect();
    let runs = worlds.len() * all.len();
    let (next, played) = (AtomicUsize::new(0), Mutex::new(vec![None; runs]));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, runs) {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Relaxed);
                    if run >= runs {
                        return;
                    }
                    let question = all[run % all.len()];
                    let result = worlds[run / all.len()].play(question);
                    played.lock().unwrap_or_else(PoisonError::into_inner)[run] = Some(result);
                    progress(run + 1, runs);
                }
            });
        }
    });
    let played: Vec<Played> =
        played.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect();
    let of = |question: usize| -> Vec<&Played> { played.iter().skip(question).step_by(all.len()).collect() };
    let (base, systems) = (of(0), worlds.iter().map(|world| world.system).collect::<Vec<_>>());
    let answer = |(number, question): (usize, &Question)| {
        let runs = of(number + 1);
        let is_bound = question.bound.is_some();
        let is_of_the_log =
            !is_bound && question.policy.is_same(&model.policy) && question.conditions.are_those_of_the_log();
        let by_world =
            runs.iter().map(|of| [of.ln_p99.value, of.p90_ns.max(1.0).ln(), of.median_ns.max(1.0).ln()]).collect();
        Answer {
            label: question.label.clone(),
            is_of_the_log,
            is_bound,
            figures: match question.refusal() {
                Some(why) => Err(why),
                None => figures(model, question.conditions.names(&traffic.names), &base, &runs, &systems),
            },
            by_world,
        }
    };
    let drawn = base.iter().map(|run| run.drawn.clone()).collect();
    (questions.iter().enumerate().map(answer).collect(), drawn)
}

fn figures(
    model: &Model,
    names: Vec<String>,
    base: &[&Played],
    runs: &[&Played],
    systems: &[usize],
) -> Result<Figures, String> {
    let part = |is: fn(&Played) -> bool| runs.iter().filter(|of| is(of)).count() as f64 / runs.len() as f64;
    if part(|of| of.full > 0.01) > 0.1 {
        return Err("some requests would find all endpoints at their limits".to_string());
    }
    let piles = runs.iter().filter(|of| !of.steady).collect::<Vec<_>>();
    if piles.len() as f64 > 0.1 * runs.len() as f64 {
        let name = names.get(piles[0].busiest).map_or("an endpoint", String::as_str);
        return Err(format!("{name} may get more than it can do, so that requests pile up"));
    }
    let time = |at: usize, of: fn(&Played) -> f64| {
        let logged = model.measured.times_ns[at];
        let changes: Vec<f64> =
            runs.iter().zip(base).map(|(run, base)| logged * (of(run) / of(base).max(1.0) - 1.0)).collect();
        let change = range(&changes, systems);
        Time { value: logged + change.middle, change }
    };
    let share = |at: usize| {
        let Range { low, middle, high } =
            range(&runs.iter().map(|run| run.shares[at].value).collect::<Vec<_>>(), systems);
        Range { low: low.max(0.0), middle, high: high.min(1.0) }
    };
    let failed: Vec<f64> = runs.iter().map(|run| run.failed).collect();
    Ok(Figures {
        times: [time(0, |of| of.median_ns), time(1, |of| of.p90_ns), time(2, |of| of.ln_p99.value.exp())],
        shares: names.into_iter().enumerate().map(|(at, name)| (name, share(at))).collect(),
        failed: range(&failed, systems),
        extrapolated: runs.iter().map(|run| run.beyond).sum::<f64>() / runs.len() as f64,
    })
}

/// 90 % interval of values by world: it covers the interval of each system.
pub(crate) fn range(values: &[f64], systems: &[usize]) -> Range {
    let count = systems.iter().max().map_or(0, |most| most + 1);
    let of = |system: usize| values.iter().zip(systems).filter(move |(_, of)| **of == system).map(|(value, _)| *value);
    let means: Vec<f64> = (0..count).map(|system| of(system).sum::<f64>() / of(system).count().max(1) as f64).collect();
    let squares: f64 = values.iter().zip(systems).map(|(value, &system)| (value - means[system]).powi(2)).sum();
    let deviation = (squares / (values.len().saturating_sub(count)).max(1) as f64).sqrt();
    let half = WITHIN_90 * deviation * (1.0 + 1.0 / (values.len() as f64 / count.max(1) as f64)).sqrt();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min) - half;
    let high = means.iter().copied().fold(f64::NEG_INFINITY, f64::max) + half;
    Range { low, middle: means.iter().sum::<f64>() / means.len().max(1) as f64, high }
}
