//! Experiment `whatif`: the judge of `evenkeel whatif`. Logs of simulated and live systems whose truth is run, and spoilt
//! logs.

// Order: long, outcome, live, score, ask, breakers, cases, truth, case, lines, entry, traces
mod ask;
mod breakers;
mod case;
mod cases;
mod entry;
mod lines;
mod live;
mod long;
mod outcome;
mod score;
mod traces;
mod truth;

use crate::balancers;
use crate::child;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::progress::Progress;
use crate::scratch::Scratch;
use crate::study::{self, Cases, Options};
use ask::Response;
use breakers::Breaker;
use clap::{Args, FromArgMatches};
use outcome::{Broken, Measured};
use score::{Judged, Subject};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub static EXPERIMENT: Experiment = Experiment {
    name: "whatif",
    summary: "Predictions of `evenkeel whatif` from logs, against what really happens; and logs that it must refuse",
    docs: "The simulator makes a log of each case under one policy, and the program reads it as any log. The truth is run: every other \
policy gets the arrivals of the log, over seeds that the log did not have, until the differences of p99 are known to 1 % or 40 seeds \
have run. A case counts if the log is accepted. Its figures count if the true difference of p50, p90 and p99, and the true share of each \
endpoint, lie in the interval at 90 %, widened by one standard error of the truth. Intervals have to be narrower than the policies \
differ, where they differ by 2 % at least. A recommendation is right if its p99 is the lowest, or differs from it by less than 2 % or \
by less than chance.

Breakers are logs from which nothing can be known: spoilt logs, and systems that no model of single endpoints describes. The program \
has to refuse them.

Simulated logs and truths come from the same simulator that the program replays with, so these cases test the estimate, the intervals and \
the refusals. They do not test whether real endpoints behave like simulated endpoints.

Live cases (--live) do. evenkeel runs in front of endpoints of this program, which sleep for the work of a request, each for a few requests \
at a time, first come, first served. Clients send requests at random times, independent of responses. The access log of a run is asked about. \
Then every alternative really runs, in turn, with the arrivals of the log and other work, and its latencies and shares are those of its \
access log. Such a truth has an interval of its own: at 90 %, by Student's t over the rounds. A figure counts as held if this interval and \
that of the answer meet. It does not count if the interval of the truth is wider than the latency, as after a pause of the machine.",
    args: |command| Arguments::augment_args(command).mut_arg("against", |arg| arg.default_value("").hide(true)),
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|a| run(&a)),
};

#[derive(Args, Debug)]
struct Arguments {
    #[command(flatten)]
    study: Options,
    /// Run the live cases instead of the simulated cases and breakers: about twenty minutes
    #[arg(long)]
    live: bool,
    /// Length of the log of a live case in seconds. Defaults to 30, with --quick to 5. Alternatives run for two thirds of it,
    /// with --quick for a third.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: Option<u64>,
    #[command(flatten)]
    cases: Cases,
    /// Instead of judging, write a log of HAProxy with so many lines to standard output
    #[arg(long, value_name = "N")]
    lines: Option<u64>,
}

/// Task of a thread: a case or a breaker, by its index in the table.
enum Task {
    Case(usize),
    Live(usize),
    Breaker(usize),
}

enum Done {
    Case(Box<Judged>),
    Live(Box<Judged>),
    Breaker(Broken),
}

impl Arguments {
    /// Lengths of live runs; --quick shows that they run.
    fn effort(&self) -> live::Effort {
        let seconds = self.seconds.unwrap_or(if self.study.quick { 5 } else { 30 }) as f64;
        let truth = if self.study.quick { seconds / 3.0 } else { 2.0 * seconds / 3.0 };
        let [log, truth] = [seconds, truth].map(Duration::from_secs_f64);
        live::Effort { log, truth, rounds: self.study.rounds_of_many() }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    if let Some(lines) = arguments.lines {
        return long::write(lines, &mut std::io::stdout().lock());
    }
    let options = &arguments.study;
    let simulated = cases::ALL.iter().map(|row| row.name).chain(breakers::ALL.iter().map(|row| row.name));
    arguments.cases.check(&simulated.chain(live::cases::ALL.iter().map(|row| row.name)).collect::<Vec<_>>())?;
    let evenkeel = balancers::find_evenkeel(options.evenkeel.as_deref())?;
    let scratch = Scratch::new()?;
    let folder = &arguments.cases.folder(&scratch)?;
    // The whole table of one kind, or the small cases of both.
    let runs = |name: &str, quick: bool, is_live: bool| {
        arguments.cases.runs(name, if options.quick { quick } else { is_live == arguments.live })
    };
    let of_cases = (0..cases::ALL.len()).filter(|&at| runs(cases::ALL[at].name, cases::ALL[at].quick, false));
    let of_live = (0..live::cases::ALL.len()).filter(|&at| {
        let row = &live::cases::ALL[at];
        runs(row.name, row.quick, true)
    });
    let of_breakers =
        (0..breakers::ALL.len()).filter(|&at| runs(breakers::ALL[at].name, breakers::ALL[at].quick, false));
    let tasks = of_live.map(Task::Live).chain(of_cases.map(Task::Case)).chain(of_breakers.map(Task::Breaker));
    let tasks: Vec<Task> = tasks.collect();
    // Few seeds show that it runs.
    let seeds = if options.quick { (4, 4) } else { (10, 40) };
    // Live cases sleep most of the time.
    let threads = std::thread::available_parallelism().map_or(1, usize::from) + usize::from(arguments.live);
    let done = all(&tasks, threads, |task| match *task {
        Task::Case(at) => judge(evenkeel.program(), &cases::ALL[at], seeds, folder).map(Box::new).map(Done::Case),
        Task::Live(at) => live::judge(evenkeel.program(), &live::cases::ALL[at], arguments.effort(), folder)
            .map(Box::new)
            .map(Done::Live),
        Task::Breaker(at) => spoil(evenkeel.program(), &breakers::ALL[at], folder).map(Done::Breaker),
    })?;
    let mut measured = Measured::default();
    for done in done {
        match done {
            Done::Case(case) => measured.cases.push(*case),
            Done::Live(case) => measured.live.push(*case),
            Done::Breaker(breaker) => measured.breakers.push(breaker),
        }
    }
    study::present(&measured.found(vec![evenkeel.named_version()]), options)
}

/// Runs all tasks on so many threads, and returns their results in the order of the tasks.
fn all<D: Send>(tasks: &[Task], threads: usize, work: impl Fn(&Task) -> Result<D> + Sync) -> Result<Vec<D>> {
    let (next, progress) = (AtomicUsize::new(0), Mutex::new((0, Progress::new())));
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed); // each number is given once
            let Some(task) = tasks.get(at) else { return Ok(done) };
            done.push((at, work(task)?));
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.0 += 1;
            progress.1.tell(f64::from(progress.0), tasks.len() as f64, task.name());
        }
    };
    let done: Vec<Result<Vec<(usize, D)>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Interrupted))).collect()
    });
    let mut all: Vec<(usize, D)> = done.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, done)| done).collect())
}

impl Task {
    fn name(&self) -> &'static str {
        match *self {
            Task::Case(at) => cases::ALL[at].name,
            Task::Live(at) => live::cases::ALL[at].name,
            Task::Breaker(at) => breakers::ALL[at].name,
        }
    }
}

fn judge(evenkeel: &str, row: &case::Row, seeds: truth::Seeds, folder: &Path) -> Result<Judged> {
    child::go_on()?;
    let case = row.case();
    let (_, log) = case.log();
    let response = ask::ask(evenkeel, &case, &case.entries(&log), folder)?;
    let truth = truth::run(&case, &log, seeds);
    Ok(Judged::of(&Subject::of(&case), response, truth))
}

fn spoil(evenkeel: &str, breaker: &'static Breaker, folder: &Path) -> Result<Broken> {
    child::go_on()?;
    let (case, entries) = breaker.log();
    let response: Response = ask::ask(evenkeel, &case, &entries, folder)?;
    Ok(Broken { breaker, response })
}
