//! Advice on the configuration as its operators see it.

use crate::advising::{Advising, Kept, Question};
use crate::predictions::Predictions;
use evenkeel_admin::api::problem::Problem;
use evenkeel_admin::api::running::Answer;
use evenkeel_advise::diff::bare;
use evenkeel_discovery::providers::revisions::Revisions;
use evenkeel_proxy::Looker;
use evenkeel_view::Status;
use evenkeel_view::advice::{Advised, Computing};
use std::path::PathBuf;
use std::sync::Arc;

/// Name for a configuration without a file, as an operator would save it.
const UNSAVED: &str = "evenkeel.toml";

/// Returns the advice on the latest configuration, or begins to compute it. With `whole`, patches have the lines around
/// their changes.
///
/// # Errors
/// There is no advice, for the reason of the problem.
pub fn advised(
    advising: &Advising,
    revisions: &Revisions,
    (looker, predictions): (Arc<Looker>, Predictions),
    status: impl FnOnce() -> Status,
    whole: bool,
) -> Result<Answer, Problem> {
    let latest = revisions.latest();
    let plan = latest.wanted.plan.clone();
    let since_ms = match advising.of(&plan, latest.generation) {
        Kept::Made(made) => {
            let advised = made.map_err(Problem::refused)?;
            return Ok(Answer::Made(if whole { advised } else { without_context(advised) }));
        }
        Kept::Computing(since_ms) => since_ms,
        Kept::Begins(mut computation) => {
            let since_ms = computation.since_ms;
            let file = revisions.file.clone().unwrap_or_else(|| PathBuf::from(UNSAVED));
            let text = latest.text().map_or_else(|| plan.to_toml_with_secrets(), str::to_owned);
            let status = status();
            tokio::spawn(async move {
                match predictions.of(&looker, None).await {
                    Ok(shadows) => computation.start(Question { file, text, plan, status, shadows }),
                    Err(problem) => computation.end(Err(problem.detail)),
                }
            });
            since_ms
        }
    };
    Ok(Answer::Computing(Computing { since_ms, detail: "the advice is being computed; ask again in a second".into() }))
}

/// Removes the unchanged lines of patches: the file may have secrets that only those who may change it see.
fn without_context(mut advised: Advised) -> Advised {
    for patch in advised.advice.iter_mut().filter_map(|advice| advice.patch.as_mut()) {
        *patch = bare(patch);
    }
    advised
}
