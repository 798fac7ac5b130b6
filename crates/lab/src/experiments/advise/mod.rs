//! Experiment `advise`: each piece of advice on ten configurations, applied and measured.

// Order: outcome, score, setting, advice, traffic, cases, case
mod advice;
mod case;
mod cases;
mod outcome;
mod score;
mod setting;
mod traffic;

use crate::balancers;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::machine;
use crate::scratch::Scratch;
use crate::study::{self, Cases, Options, Rounds};
use case::Case;
use clap::{Args, FromArgMatches};
use outcome::{Advised, Measured};
use setting::Setting;
use std::path::Path;
use std::time::Duration;

pub static EXPERIMENT: Experiment = Experiment {
    name: "advise",
    summary: "Advice of `evenkeel advise` on ten configurations, applied and measured",
    docs: "Five examples of evenkeel and five configurations of other programs, converted by `evenkeel convert`, run in front of endpoints \
of this program, with addresses of the loopback interface and an access log; all else is as it was. Endpoints take the time that a request \
states, and serve a few requests at a time; some are slower than others, stop, or answer with errors. Clients send requests at random \
times, independent of responses, and a seed gives the same requests with the same work.

A longer run makes the log. `evenkeel advise -c FILE --log LOG` reads it, and the state of the running instance if the configuration has an \
admin listener. Each change that it proposes is applied alone, and `evenkeel check` has to accept it. Then the original and the changed \
configurations run in turn, under the same requests in each round.

A change is better or worse if the 90 % interval of the median over rounds says so, and the median differs by more than 5 %. A claim holds \
if the measured interval overlaps the claimed interval, widened by two points. A failed request counts as a wait of ten seconds. Claims about requests and bytes \
are of a route, and measured over all routes. A claim about failures is compared over all rounds. Claims \
about conditions that a case does not have are not compared. Advice to leave something is listed, but not tested.",
    args: |command| Arguments::augment_args(command).mut_arg("against", |arg| arg.default_value("").hide(true)),
    run: |matches| Arguments::from_arg_matches(matches).map_err(|e| Error::Wrong(e.to_string())).and_then(|a| run(&a)),
};

#[derive(Args, Debug)]
struct Arguments {
    #[command(flatten)]
    study: Options,
    #[command(flatten)]
    cases: Cases,
    /// Duration of each run in seconds, after a second that does not count; logs take five times as long. Defaults to 6,
    /// with --quick to 1, with --full to 20.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: Option<u64>,
}

impl Arguments {
    fn length(&self) -> Duration {
        let usual = match (self.study.quick, self.study.full()) {
            (true, _) => 1,
            (_, true) => 20,
            _ => 6,
        };
        Duration::from_secs(self.seconds.unwrap_or(usual))
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let options = &arguments.study;
    arguments.cases.check(&cases::ALL.iter().map(|case| case.name).collect::<Vec<_>>())?;
    let evenkeel = balancers::find_evenkeel(options.evenkeel.as_deref())?;
    machine::allow_files(20_000);
    let scratch = Scratch::new()?;
    let folder = arguments.cases.folder(&scratch)?;
    let runs = |case: &&'static Case| arguments.cases.runs(case.name, case.quick || !options.quick);
    let mut cases = Vec::new();
    for case in cases::ALL.iter().filter(runs) {
        eprintln!("{}", case.name);
        cases.push(measure(case, evenkeel.program(), &folder, arguments)?);
    }
    study::present(&Measured { cases }.found(vec![evenkeel.named_version()]), options)
}

/// Asks for advice on a case, and measures each change beside the original.
fn measure(case: &'static Case, evenkeel: &str, folder: &Path, arguments: &Arguments) -> Result<Advised> {
    let (setting, length) = (Setting::new(case, evenkeel, folder)?, arguments.length());
    let original = setting.checked("original", &setting.text)?;
    let (changes, others) = advice::read(&setting.ask(&original, length * 5)?);
    let mut configs = vec![original];
    for (number, change) in changes.iter().enumerate() {
        let patched = advice::applied(&setting.text, &change.patch);
        let patched = patched.ok_or_else(|| Error::Wrong(format!("a patch does not apply:\n{}", change.patch)))?;
        configs.push(setting.checked(&format!("{}-{}", number + 1, change.kind), &patched)?);
    }
    // Without a change there is nothing to compare.
    let rounds = if changes.is_empty() { 0 } else { arguments.study.rounds() };
    let names: Vec<String> = (0..configs.len()).map(|at| named(case, at, &changes)).collect();
    let rounds = Rounds::run(&names, rounds, |at, round| setting.run(&configs[at], length, round as u64 + 1))?;
    let of = |at: usize| rounds.of(at).copied().collect();
    Ok(Advised { case, changes, others, runs: (0..configs.len()).map(of).collect() })
}

fn named(case: &Case, at: usize, changes: &[advice::Advice]) -> String {
    match at.checked_sub(1) {
        None => format!("{}: original", case.name),
        Some(at) => format!("{}: {}", case.name, changes[at].kind),
    }
}
