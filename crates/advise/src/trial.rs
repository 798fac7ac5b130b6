//! Trials: two pools under the same requests in the simulator, paired by seed.
//!
//! A configuration has neither the work of a request nor the cores of an endpoint. So trials assume them, in several
//! ways, and only a difference that holds under all of them counts. An endpoint has as many cores as its weight, in
//! units of the smallest weight: unequal weights mean unequal machines.

use crate::inputs::{Effort, Inputs};
use evenkeel_config::plan::Pool;
use evenkeel_sim::experiment::Experiment;
use evenkeel_sim::file;
use evenkeel_sim::file::pool::FromPool;
use evenkeel_sim::interval::Interval;
use evenkeel_sim::metric;
use evenkeel_sim::scenario::{Cold, Fault, Mode, Policy, Scenario, Server, Serving};
use evenkeel_view::advice::{Effect, Figure};

/// Confidence of the intervals of effects.
const CONFIDENCE: f64 = 0.9;

/// Confidence of a choice among several candidates: with five of them, a choice of none better is wrong in one of
/// forty cases.
const SURE: f64 = 0.99;

/// Relative difference below which no change is worth making.
pub const WORTH: f64 = 0.05;

/// Distribution of the work of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    Exponential,
    /// Log-normal, sigma 1.5: a few requests are many times longer than the rest.
    Heavy,
}

/// Event at the first endpoint during a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    None,
    /// Errors instead of responses, from a tenth of the run on.
    Errors,
    /// Start after a tenth of the run, at a tenth of full speed, which is reached 10 s later.
    ColdStart,
}

/// Load, work and events that both pools of a trial get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scene {
    /// Load as a share of the capacity of all endpoints.
    pub load: f64,
    pub spread: Spread,
    pub event: Event,
}

/// Loads and spreads without an event.
pub const USUAL: [Scene; 6] = [
    scene(0.7, Spread::Exponential),
    scene(0.5, Spread::Exponential),
    scene(0.9, Spread::Exponential),
    scene(0.7, Spread::Heavy),
    scene(0.5, Spread::Heavy),
    scene(0.85, Spread::Heavy),
];

const fn scene(load: f64, spread: Spread) -> Scene {
    Scene { load, spread, event: Event::None }
}

impl Scene {
    pub fn text(&self) -> String {
        let spread = match self.spread {
            Spread::Exponential => "exponential work",
            Spread::Heavy => "heavy-tailed work",
        };
        let event = match self.event {
            Event::None => "",
            Event::Errors => ", while an endpoint answers with errors",
            Event::ColdStart => ", while an endpoint starts cold",
        };
        format!("{:.0} % load, {spread}{event}", self.load * 100.0)
    }
}

/// Values of a figure by seed.
pub type Values = Vec<f64>;

/// Runs a pool under a scene and returns a figure by seed. `None` if it does not settle, the pool cannot be simulated,
/// or the time is over.
pub fn run(inputs: &Inputs<'_>, pool: &Pool, balancers: u32, scene: Scene, figure: &str) -> Option<Values> {
    let experiment = experiment(inputs, pool, balancers, scene)?;
    let Effort { seeds, threads, .. } = inputs.effort;
    let seeds: Vec<u64> = (1..=u64::from(seeds)).collect();
    // With a limit, the clock is read between runs: a run of 10,000 endpoints takes seconds.
    let at_once = if inputs.until.is_some() { threads.max(1) } else { seeds.len() };
    let mut values = Values::new();
    for some in seeds.chunks(at_once.max(1)) {
        if inputs.is_late() {
            return None;
        }
        let results = experiment.run(some, threads, &|_, _| {}).ok()?;
        values.extend(results.points.first()?.first()?.values(metric::find(figure)?)?);
    }
    Some(values)
}

/// Relative changes of a figure by seed: both had the same requests.
fn changes(old: &[f64], new: &[f64]) -> Values {
    old.iter().zip(new).map(|(old, new)| new / old.max(f64::MIN_POSITIVE) - 1.0).collect()
}

/// Relative change of a figure with its interval, paired by seed.
pub fn change(old: &[f64], new: &[f64]) -> Interval {
    Interval::of(&changes(old, new), CONFIDENCE)
}

/// Difference of a figure with its interval, paired by seed.
pub fn difference(old: &[f64], new: &[f64]) -> Interval {
    let differences: Vec<f64> = old.iter().zip(new).map(|(old, new)| new - old).collect();
    Interval::of(&differences, CONFIDENCE)
}

/// Effect on p99 by its interval.
pub fn effect(change: Interval, scene: Scene) -> Effect {
    Effect { figure: Figure::Latency, change: [change.low(), change.mean, change.high()], at: scene.text() }
}

/// Mean over seeds in milliseconds.
pub fn mean_ms(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64 * 1e3
}

/// Comparison of p99 of two pools over [`USUAL`] scenes.
#[derive(Debug)]
pub struct Comparison {
    /// Relative change by scene.
    pub changes: Vec<Interval>,
    /// Mean change over all scenes.
    pub overall: Interval,
    /// Wider interval of that mean, at 99 %.
    sure: Interval,
}

impl Comparison {
    /// Compares values by scene and seed. `None` if one has no values for a scene, as it does not settle there.
    pub fn of(old: &[Option<Values>], new: &[Option<Values>]) -> Option<Comparison> {
        let pairs: Option<Vec<Values>> =
            old.iter().zip(new).map(|(old, new)| Some(changes(old.as_ref()?, new.as_ref()?))).collect();
        let by_scene = pairs.filter(|scenes| !scenes.is_empty())?;
        let seeds = by_scene.iter().map(Vec::len).min()?;
        let mean = |seed: usize| by_scene.iter().map(|scene| scene[seed]).sum::<f64>() / by_scene.len() as f64;
        let means: Values = (0..seeds).map(mean).collect();
        Some(Comparison {
            changes: by_scene.iter().map(|scene| Interval::of(scene, CONFIDENCE)).collect(),
            overall: Interval::of(&means, CONFIDENCE),
            sure: Interval::of(&means, SURE),
        })
    }

    /// True if p99 is lower by at least [`WORTH`] over all scenes, and distinguishably higher in none.
    pub fn is_better(&self) -> bool {
        let loses = self.changes.iter().any(|change| change.low() > 0.0 && change.mean > WORTH / 5.0);
        self.sure.high() < 0.0 && self.overall.mean <= -WORTH && !loses
    }

    /// Returns the change of p99, averaged over the scenes.
    pub fn effect(&self) -> Effect {
        let change = [self.overall.low(), self.overall.mean, self.overall.high()];
        Effect {
            figure: Figure::Latency,
            change,
            at: format!("on average over {} loads and spreads of work", self.changes.len()),
        }
    }
}

fn experiment(inputs: &Inputs<'_>, pool: &Pool, balancers: u32, scene: Scene) -> Option<Experiment> {
    let ns = inputs.work().as_nanos();
    let work = match scene.spread {
        Spread::Exponential => format!("work.exponential = \"{ns}ns\""),
        Spread::Heavy => format!("work.lognormal = {{ mean = \"{ns}ns\", sigma = 1.5 }}"),
    };
    let text = format!(
        "summary = \"trial\"\nrequests = {}\nload.share = {}\nlink = \"200us\"\n[service.pool]\nbalancers = {balancers}\n\
         {work}\nserver = [{{ sharing = 1 }}]\n",
        inputs.effort.requests, scene.load
    );
    let from = FromPool { pool, workers: inputs.workers(), rate: None };
    let mut experiment = file::read_with("trial.toml", &text, Some(&from)).experiment?;
    for point in &mut experiment.points {
        point.policies = vec![Policy::algorithm(pool.balance.clone())];
        let scenario = &mut point.scenario;
        let servers = &mut scenario.services.first_mut()?.servers;
        let least = servers.iter().map(|server| server.weight).min().unwrap_or(1).max(1);
        let cores = |server: &Server| f64::from(server.weight) / f64::from(least);
        let all: f64 = servers.iter().map(cores).sum();
        let per_second = scene.load * all / inputs.work().as_secs_f64();
        let tenth_ns = (scenario.requests as f64 / per_second * 1e8) as u64;
        for server in servers.iter_mut() {
            server.serving = Serving::Sharing { cores: cores(server) };
        }
        if let Some(first) = servers.first_mut() {
            happen(scene.event, first, tenth_ns);
        }
        set_rate(scenario, per_second);
    }
    Some(experiment)
}

fn set_rate(scenario: &mut Scenario, per_second: f64) {
    scenario.load = evenkeel_sim::scenario::Load::Poisson { per_second };
}

fn happen(event: Event, server: &mut Server, tenth_ns: u64) {
    match event {
        Event::None => {}
        Event::Errors => {
            let mode = Mode::FailFast { after_ns: 1_000_000 };
            server.faults = vec![Fault { from_ns: tenth_ns, until_ns: u64::MAX, mode }];
        }
        Event::ColdStart => {
            server.joins_ns = tenth_ns;
            server.cold = Some(Cold { speed: 0.1, window_ns: 10_000_000_000 });
        }
    }
}
