//! Changes of the configuration: plans that providers offer, and former plans. [`reload`] replaces a plan with another.
//! [`possible`] finds the part of a plan that this machine can apply.

// Order: possible, reload
pub mod possible;
pub mod reload;

use evenkeel_admin::api::problem::Problem;
use evenkeel_config::{Diagnostic, Machine, Plan, changes, parse_str, render_text};
use evenkeel_discovery::providers::Providers;
use evenkeel_discovery::providers::file::File;
use evenkeel_discovery::providers::merge::{Merged, Origins, Unwanted};
use evenkeel_discovery::providers::parts::{Part, State};
use evenkeel_discovery::providers::revisions::{Handed, Revision, Revisions};
use evenkeel_discovery::providers::wanted::{Offer, Provenance, Wanted};
use evenkeel_tls::with_tls;
use evenkeel_tokens::with_keys;
use evenkeel_view::config::{self, Running};
use evenkeel_view::status::Provider;
use evenkeel_view::words::unix_ms;
use std::sync::Arc;
use std::time::SystemTime;

/// Providers of plans, and the plans that ran.
pub struct Configured {
    /// Origin of the plan: a configuration file, or the text that the command line stands for.
    pub providers: Providers,
    pub revisions: Revisions,
}

impl Configured {
    /// Starts with a plan. `handed`: the plan that the previous process had applied, if its file has another plan.
    pub fn new(file: File, plan: Plan, handed: Option<Handed>) -> Configured {
        let plan = Arc::new(plan);
        let first = match handed {
            Some(handed) => handed.first(plan),
            None => {
                let [provider, how, by] =
                    [if file.path().is_some() { "file" } else { "typed" }, "start", "the command line"];
                let texts = Some(Arc::new(file.texts().clone()));
                let (provider, how, by) = (provider.to_owned(), how.to_owned(), by.to_owned());
                let wanted = Wanted { plan, provenance: Provenance { provider, how, by, texts } };
                let (since_ms, changes, warnings) = (unix_ms(SystemTime::now()), Vec::new(), Vec::new());
                let (merged, origins) = (wanted.plan.clone(), Origins::default());
                Revision { generation: 0, since_ms, wanted, merged, origins, changes, differs: false, warnings }
            }
        };
        let revisions = Revisions::new(file.path().map(Into::into), first);
        Configured { providers: Providers::new(file, with_keys(with_tls(Machine::this()))), revisions }
    }

    /// Returns the plan to start with: the plan of the file, with the parts that other providers had added in the
    /// previous process. `merged`: the whole plan of that process.
    pub fn resume(&mut self, plan: Plan, merged: Option<&str>) -> Plan {
        let before = merged.and_then(|text| parse_str("the process before", text, &|_| None).plan);
        let Some(before) = before else { return plan };
        self.providers.resume(&plan, &before);
        let (merged, _) = self.providers.merge(&plan, &Unwanted::new(), &before);
        self.revisions.resumed(Arc::new(merged.plan.clone()), merged.origins);
        merged.plan
    }

    /// The file, read again.
    ///
    /// # Errors
    /// There is none.
    pub fn reload(&self, by: &str) -> Result<Offer, Problem> {
        let none =
            || Problem::refused("evenkeel was started without a configuration file, so there is nothing to reload");
        self.providers.reload(by).ok_or_else(none)
    }

    /// Returns the previous plan, or the plan of this generation. `running`: the generation that runs.
    ///
    /// # Errors
    /// No such configuration is kept.
    pub fn rollback(&self, to: Option<u64>, running: u64, by: &str) -> Result<Offer, Problem> {
        let kept = || self.revisions.all().iter().map(|one| one.generation.to_string()).collect::<Vec<_>>().join(", ");
        let found = match to {
            Some(generation) if generation == running => {
                return Err(Problem::refused(format!("generation {generation} is already running")));
            }
            Some(generation) => self
                .revisions
                .get(generation)
                .ok_or_else(|| Problem::not_found(format!("unknown generation {generation}; generations: {}", kept()))),
            None => self.revisions.before().ok_or_else(|| Problem::refused("there is no earlier configuration")),
        };
        found.map(|revision| revision.offer(by))
    }

    /// Returns the changes that a text would make.
    ///
    /// # Errors
    /// Everything that is wrong with the text.
    pub fn check(&self, text: &str, generation: u64) -> Result<config::Outcome, Problem> {
        let outcome = self.providers.typed(text, "").outcome;
        let said = render_text(&outcome.diagnostics, false);
        let diagnostics = shown(&outcome.diagnostics);
        let plan = outcome.plan.ok_or_else(|| Problem::wrong_config(said.clone(), diagnostics.clone()))?;
        let changes = changes(&self.revisions.latest().wanted.plan, &plan);
        Ok(config::Outcome {
            result: "checked".into(),
            generation,
            text: said,
            changes,
            diagnostics,
            ..Default::default()
        })
    }

    /// Writes the running configuration to the file.
    ///
    /// # Errors
    /// The reason, as text for the operator.
    pub fn save(&self, generation: u64) -> Result<config::Outcome, Problem> {
        let texts = self.revisions.latest().wanted.provenance.texts;
        let texts =
            texts.ok_or_else(|| Problem::refused("the running configuration has no text that could be saved"))?;
        self.providers.save(&texts).map_err(Problem::refused)?;
        self.revisions.saved();
        let file = self.providers.file().unwrap_or_else(|| "the file".into());
        let text = format!("running configuration written to {}\n", file.display());
        Ok(config::Outcome { result: "saved".into(), generation, text, ..Default::default() })
    }

    /// Records that a wanted plan runs, with the parts that other providers have added. `warnings`: warnings about it.
    pub fn applied(
        &self,
        (wanted, added): (Wanted, Merged),
        generation: u64,
        changes: &[String],
        warnings: Vec<Diagnostic>,
    ) {
        let in_file = self.providers.texts();
        let differs = wanted.provenance.texts.as_ref().is_none_or(|texts| texts.files != in_file.files);
        let (since_ms, changes) = (unix_ms(SystemTime::now()), changes.to_vec());
        let (merged, origins) = (Arc::new(added.plan), added.origins);
        self.revisions.push(Revision { generation, since_ms, wanted, merged, origins, changes, differs, warnings });
    }
}

/// Converts a revision for the API, without data that only the process needs.
pub fn revision(revision: &Revision) -> config::Revision {
    let Provenance { how, by, .. } = revision.wanted.provenance.clone();
    let Revision { generation, since_ms, changes, .. } = revision.clone();
    config::Revision { generation, since_ms, how, by, changes }
}

/// Converts the running revision for the API. `file`: the configuration file of the process.
pub fn running(revision: &Revision, file: Option<String>) -> Running {
    let Provenance { how, by, .. } = revision.wanted.provenance.clone();
    let (generation, since_ms, differs) = (revision.generation, revision.since_ms, revision.differs);
    Running { generation, draining: 0, file, how, by, since_ms, differs }
}

/// A provider without its pieces.
pub fn provider(state: &State) -> Provider {
    let Part { listeners, routes, pools } = &*state.part;
    let [listeners, routes, pools] = [listeners.len(), routes.len(), pools.len()].map(|n| n as u32);
    let changed_ms = state.put_at.map(|at| at.as_millis() as u64);
    let refused = state.refused.iter().map(|refusal| format!("{}: {}", refusal.of, refusal.why)).collect();
    let (name, fault, warnings) = (state.name.to_owned(), state.fault.clone(), state.warnings.to_vec());
    Provider { name, listeners, routes, pools, changed_ms, fault, refused, warnings }
}

/// Converts diagnostics for the API.
pub fn shown(diagnostics: &[Diagnostic]) -> Vec<config::Diagnostic> {
    let one = |diagnostic: &Diagnostic| {
        let start = diagnostic.at.range.as_ref().map(|range| range.start);
        config::Diagnostic {
            code: diagnostic.code.as_str().to_owned(),
            severity: diagnostic.severity().as_str().to_owned(),
            message: diagnostic.message.clone(),
            file: match &diagnostic.at.path {
                Some(path) => format!("{}: {path}", diagnostic.at.file),
                None => diagnostic.at.file.clone(),
            },
            line: start.map(|start| start.line),
            col: start.map(|start| start.col),
            help: diagnostic.help.clone(),
        }
    };
    diagnostics.iter().map(one).collect()
}
