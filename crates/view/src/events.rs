//! Events of the process: the latest changes of endpoints, pools and configuration, and what operators did.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Counts up, from 1.
    pub id: u64,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// `endpoint`, `pool`, `operator`, `config` or `process`.
    pub kind: String,
    /// The pool that it is about.
    pub pool: Option<String>,
    /// The endpoint of that pool.
    pub endpoint: Option<String>,
    /// What happened.
    pub text: String,
    /// Who did it.
    pub by: Option<String>,
}
