//! Verifiers of all routes of a plan, and the places of their keys.

use crate::source::{Settings, Source};
use crate::verifier::Verifier;
use evenkeel_config::{Plan, Subject};
use std::collections::HashMap;
use std::sync::Arc;

/// Verifiers of all routes of a plan. Routes with the same place of keys share it.
#[derive(Debug, Default)]
pub struct Tokens {
    routes: HashMap<Arc<str>, Arc<Verifier>>,
    sources: Vec<Arc<Source>>,
}

impl Tokens {
    /// Reads the files of a plan. Keys that were fetched for the plan before stay.
    ///
    /// # Errors
    /// The files that cannot be read, or have no keys that can be used, each with its route.
    pub fn next(&self, plan: &Plan) -> Result<Tokens, Vec<(Subject, String)>> {
        let (mut next, mut errors, claims) = (Tokens::default(), Vec::new(), plan.claims());
        for (at, route) in plan.routes.iter().enumerate() {
            let Some(rules) = &route.filters.jwt else { continue };
            match next.source(Settings::of(rules), self) {
                Ok(source) => {
                    let verifier = Verifier::new(route, rules, source, &claims);
                    next.routes.insert(route.name.clone(), verifier.into());
                }
                Err(error) => errors.push((Subject::Route(at), format!("jwt of route \"{}\": {error}", route.name))),
            }
        }
        if errors.is_empty() { Ok(next) } else { Err(errors) }
    }

    fn source(&mut self, settings: Settings, before: &Tokens) -> Result<Arc<Source>, String> {
        let is_same = |source: &&Arc<Source>| *source.settings() == settings;
        let fetched = || before.sources.iter().filter(|source| source.url().is_some()).find(is_same);
        if let Some(source) = self.sources.iter().find(is_same) {
            return Ok(source.clone());
        }
        let source = match fetched() {
            Some(source) => source.clone(),
            None => Arc::new(Source::new(settings)?),
        };
        self.sources.push(source.clone());
        Ok(source)
    }

    /// Verifier of a route, if its requests need tokens.
    pub fn of(&self, route: &str) -> Option<&Arc<Verifier>> {
        self.routes.get(route)
    }

    /// Places of keys, each once.
    pub fn sources(&self) -> &[Arc<Source>] {
        &self.sources
    }

    /// True if no keys are in files, so that there is nothing to look at.
    pub fn has_no_files(&self) -> bool {
        self.sources.iter().all(|source| source.url().is_some())
    }

    /// Reads files again that have changed. Blocks.
    pub fn look(&self) {
        self.sources.iter().for_each(|source| source.look());
    }
}
