//! Events of the process: the latest changes of endpoints, pools and configuration, and actions of operators.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use utoipa::ToSchema;

/// Subject of an event, by which readers can filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An endpoint changed its state.
    Endpoint,
    /// A pool began to panic, or is over it.
    Pool,
    /// An operator changed something.
    Operator,
    /// A configuration was read.
    Config,
    /// The process started, takes over or ends.
    Process,
}

impl Kind {
    /// Returns the word that the API has for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Endpoint => "endpoint",
            Kind::Pool => "pool",
            Kind::Operator => "operator",
            Kind::Config => "config",
            Kind::Process => "process",
        }
    }
}

/// Change of an endpoint, a pool, the configuration or the process.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Counts up, from 1.
    pub id: u64,
    /// Time, milliseconds since 1970.
    pub at_ms: u64,
    /// `endpoint`, `pool`, `operator`, `config` or `process`.
    pub kind: Cow<'static, str>,
    /// The pool that it is about.
    pub pool: Option<Arc<str>>,
    /// The endpoint of that pool.
    pub endpoint: Option<Arc<str>>,
    /// Description of the change in words.
    pub text: String,
    /// Operator, signal or file that caused it.
    pub by: Option<String>,
}

impl Event {
    /// The pool and the endpoint, with `gap` between them, or else the kind.
    pub fn about(&self, gap: &str) -> String {
        let about: Vec<&str> = [&self.pool, &self.endpoint].into_iter().flatten().map(|name| &**name).collect();
        if about.is_empty() { self.kind.to_string() } else { about.join(gap) }
    }
}
