//! Largest part of a plan that this machine can apply: pieces of providers that it cannot apply are omitted.

use super::reload::{self, Report};
use crate::in_use::InUse;
use evenkeel_config::Outcome;
use evenkeel_discovery::Discovery;
use evenkeel_discovery::providers::Providers;
use evenkeel_discovery::providers::merge::{Merged, Search, Step, Unwanted};
use evenkeel_runtime::Runtime;

/// Applies a plan with the pieces that other providers add to it, and returns the merged plan. Omits pieces of
/// providers that this machine cannot apply: pieces that an error names, else pieces that a search finds. `in_use` gets
/// the addresses of listeners that are omitted because another process has them.
pub async fn change(
    mut outcome: Outcome,
    providers: &mut Providers,
    runtime: &mut Runtime,
    discovery: &Discovery,
    in_use: &mut InUse,
) -> (Report, Option<Merged>) {
    let before = runtime.plan();
    let Some(base) = &mut outcome.plan else {
        return (reload::change(outcome, runtime, discovery).await, None);
    };
    base.share(&before);
    let base = &*base;
    let (mut unwanted, mut taken) = (Unwanted::new(), InUse::default());
    let mut search: Option<Search> = None;
    // Report of the change with all pieces, if no error attributes its failure to some.
    let mut whole = None;
    loop {
        let left_out = search.as_ref().map_or_else(|| unwanted.clone(), |search| search.unwanted(&unwanted));
        let (merged, numbers) = providers.merge(base, &left_out, &before);
        let plan = Some(merged.plan.clone());
        let outcome = Outcome { plan, diagnostics: outcome.diagnostics.clone() };
        let mut report = reload::change(outcome, runtime, discovery).await;
        let tried = match report.result {
            reload::Result::Refused => return (report, Some(merged)),
            reload::Result::Applied => Ok(()),
            reload::Result::Failed => {
                let blame = |fault: &reload::Fault| merged.blame(&fault.subjects, &fault.why, &before, &mut unwanted);
                // All faults: each omits a piece at once.
                if report.faults.iter().map(blame).fold(false, |any, is| any | is) {
                    taken.add(&merged.plan, &unwanted);
                    continue;
                }
                let why = report.faults.iter().map(|fault| &*fault.why).collect::<Vec<_>>();
                Err(why.join("; "))
            }
        };
        let step = if let Some(search) = &mut search {
            search.learn(tried)
        } else if tried.is_ok() {
            Step::Over
        } else {
            search = merged.search(&before);
            if search.is_none() {
                return (report, Some(merged));
            }
            whole = Some((report, merged));
            continue;
        };
        match (step, report.result) {
            (Step::Try, _) => {}
            // The last try of the search failed: the parts that work are tried once more.
            (Step::Over, reload::Result::Failed) if search.is_some() => {
                unwanted = search.take().map_or_else(Unwanted::new, |search| search.unwanted(&unwanted));
            }
            (Step::Over, _) => {
                providers.settle(&merged, &numbers);
                *in_use = taken;
                report.changes = evenkeel_config::changes(&before, &runtime.plan());
                return (report, Some(merged));
            }
            (Step::Elsewhere, _) => {
                let (report, merged) = whole.unwrap_or((report, merged));
                return (report, Some(merged));
            }
        }
    }
}
