//! Everything that advice is derived from.

use crate::diff::Patch;
use crate::edit::{At, set, set_inner};
use crate::traffic::Traffic;
use evenkeel_config::Plan;
use evenkeel_config::plan::{Action, Listener, Mode, Pool, Route, Workers};
use evenkeel_view::Status;
use evenkeel_view::shadows::PoolShadows;
use evenkeel_whatif::record::Record;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reads a changed text as `evenkeel check` does: the plan, or the reason why there is none.
pub type Check<'a> = &'a dyn Fn(&str) -> Result<Plan, String>;

/// Size of simulations: more of it finds smaller differences.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Runs with different seeds.
    pub seeds: u32,
    /// Number in each run, at least 100.
    pub requests: u64,
    pub threads: usize,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { seeds: 8, requests: 20_000, threads: 1 }
    }
}

/// Configuration, with what is known about its traffic.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Path of the configuration, for commands and patches.
    pub file: &'a str,
    pub text: &'a str,
    pub plan: &'a Plan,
    pub check: Check<'a>,
    /// Processors of the machine, for `workers = "auto"`.
    pub cores: u32,
    /// Instances that share the endpoints.
    pub balancers: u32,
    /// Mean work of a request, if known.
    pub work: Option<Duration>,
    pub effort: Effort,
    pub traffic: Option<&'a Traffic>,
    /// Requests of the log, for its replay under other algorithms.
    pub record: Option<&'a Record>,
    /// State of a running instance.
    pub status: Option<&'a Status>,
    /// Predictions of its shadows.
    pub shadows: &'a [PoolShadows],
    /// Address of its admin, for commands.
    pub admin: Option<&'a str>,
    /// Time at which trials end, finished or not. `None` for as long as they take.
    pub until: Option<Instant>,
}

/// Mean work of a request if nothing is known.
const WORK: Duration = Duration::from_millis(10);

impl<'a> Inputs<'a> {
    /// The configuration of a file without anything else.
    pub fn of(file: &'a str, text: &'a str, plan: &'a Plan, check: Check<'a>) -> Inputs<'a> {
        Inputs {
            file,
            text,
            plan,
            check,
            cores: 1,
            balancers: 1,
            work: None,
            effort: Effort::default(),
            traffic: None,
            record: None,
            status: None,
            shadows: &[],
            admin: None,
            until: None,
        }
    }

    /// True if the time for trials is over.
    pub fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    pub fn workers(&self) -> u32 {
        match self.plan.runtime.workers {
            Workers::Auto => self.cores,
            Workers::Count(count) => count.into(),
        }
    }

    pub fn work(&self) -> Duration {
        self.work.unwrap_or(WORK)
    }

    /// Pools that requests, sessions or flows reach and that list their endpoints, with a choice between at least two.
    pub fn pools(&self) -> impl Iterator<Item = &'a Arc<Pool>> {
        let chooses = |pool: &&Arc<Pool>| pool.endpoints.iter().filter(|e| e.weight > 0 && !e.drain).count() > 1;
        self.plan.pools.iter().filter(chooses)
    }

    /// Listeners whose routes lead to a pool.
    pub fn listeners(&self, pool: &Pool) -> Vec<&'a Arc<Listener>> {
        let plan = self.plan;
        let leads = |listener: &&Arc<Listener>| plan.routes_on(&listener.name).any(|route| leads_to(route, &pool.name));
        self.plan.listeners.iter().filter(leads).collect()
    }

    /// True if all listeners of a pool forward requests.
    pub fn is_http(&self, pool: &Pool) -> bool {
        self.listeners(pool).iter().all(|listener| listener.mode == Mode::Http)
    }

    /// Patch that sets a key, with the plan that follows.
    ///
    /// # Errors
    /// The reason why there is no patch.
    pub fn patch(&self, at: At<'_>, key: &str, value: &str) -> Result<(Patch, Plan), String> {
        let no_section = || format!("no section in {} to edit: add {key} = {value}", self.file);
        let text = set(self.text, at, key, value).ok_or_else(no_section)?;
        self.patched(text)
    }

    /// Patch that sets a key of an inline table, or the table if that is absent. The other keys of the table stay.
    ///
    /// # Errors
    /// The reason why there is no patch.
    pub fn patch_inner(&self, at: At<'_>, key: &str, inner: &str, value: &str) -> Result<(Patch, Plan), String> {
        match set_inner(self.text, at, key, inner, value) {
            Some(text) => self.patched(text),
            None => self.patch(at, key, &format!("{{ {inner} = {value} }}")),
        }
    }

    fn patched(&self, text: String) -> Result<(Patch, Plan), String> {
        let plan = (self.check)(&text)?;
        if plan == *self.plan {
            return Err("the change has no effect".to_string());
        }
        Ok((Patch::of(self.file, self.text, text), plan))
    }

    /// Command that repeats the advice of a kind.
    pub fn repeat(&self, kind: &str) -> String {
        let mut command = format!("evenkeel advise -c {} --only {kind}", quoted(self.file));
        if self.balancers != 1 {
            command += &format!(" --balancers {}", self.balancers);
        }
        if let Some(work) = self.work {
            command += &format!(" --work {}us", work.as_micros());
        }
        let (Effort { seeds, requests, .. }, usual) = (self.effort, Effort::default());
        if (seeds, requests) != (usual.seeds, usual.requests) {
            command += &format!(" --seeds {seeds} --requests {requests}");
        }
        if let Some(traffic) = self.traffic {
            for log in &traffic.names {
                command += &format!(" --log {}", quoted(log));
            }
        }
        if let Some(admin) = self.admin {
            command += &format!(" --admin {}", quoted(admin));
        }
        command
    }
}

/// True if a route may send requests to a pool.
fn leads_to(route: &Route, pool: &str) -> bool {
    match &route.action {
        Action::Pool(name) => **name == *pool,
        Action::Choice(choice) => choice.pools.iter().any(|name| **name == *pool),
        Action::Split(split) => split.weights.iter().any(|(name, _)| **name == *pool),
        Action::Redirect(_) | Action::Respond(_) => false,
    }
}

/// Quotes text for a shell, if that is necessary.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
