//! `evenkeel replay`: reads a journal, repeats its picks, and shows the first pick that differs.

use crate::arguments::Replay;
use crate::failure::{Failure, reason};
use crate::output::print;
use evenkeel_balance::replay::{self, Stopped, Why};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Runs `evenkeel replay`.
pub fn replay(arguments: &Replay) -> Result<(), Failure> {
    let mut replay = replay::Replay::default();
    if let Some(pick) = arguments.explain {
        replay.explain(pick);
    }
    for file in &arguments.files {
        let unreadable =
            |error: &io::Error| Failure::running(format!("cannot read {}: {}", file.display(), reason(error)));
        let before = replay.summary().lines;
        for line in BufReader::new(File::open(file).map_err(|e| unreadable(&e))?).lines() {
            let line = line.map_err(|e| unreadable(&e))?;
            let taken = replay.line(&line);
            if let Some((pick, explained)) = arguments.explain.zip(replay.explained()) {
                // Also where the replay stops at it.
                print(&format!(
                    "pick {pick}, line {} of {}\n{line}\n{explained}",
                    replay.summary().lines - before,
                    file.display()
                ))?;
                return taken.map_err(|stopped| failure(file, before, replay.summary().picks, stopped));
            }
            taken.map_err(|stopped| failure(file, before, replay.summary().picks, stopped))?;
        }
    }
    let replay::Summary { picks, journals, .. } = replay.summary();
    if journals == 0 {
        return Err(Failure::running("the journal is empty; telemetry.journal writes it"));
    }
    if let Some(pick) = arguments.explain {
        return Err(Failure::running(format!("there is no pick {pick}: the journal has {picks} picks")));
    }
    let what = if journals == 1 { "one journal".to_string() } else { format!("{journals} journals") };
    print(&format!("ok: all {picks} picks of {what} are the same\n"))
}

/// With the line as it is counted in its file.
fn failure(file: &Path, before: u64, same: u64, stopped: Stopped) -> Failure {
    let differs = matches!(stopped.why, Why::Differs { .. });
    let stopped = Stopped { line: stopped.line - before, ..stopped };
    let problem = format!("{}, after {same} picks that are the same: {stopped}", file.display());
    if differs { Failure::differs(problem) } else { Failure::running(problem) }
}
