//! Types for configurations: the running configuration, earlier configurations, and the outcome of a requested
//! configuration.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The configuration that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Running {
    /// Counts up with each change, from 0.
    pub generation: u64,
    /// Earlier configurations that still have requests.
    pub draining: u64,
    /// The file that the process was started with, if any.
    pub file: Option<String>,
    /// Kind of the change: `start`, `reload`, `apply` or `rollback`.
    #[serde(default)]
    pub how: String,
    /// Client, signal or file that asked for it.
    #[serde(default)]
    pub by: String,
    /// Start of its use, milliseconds since 1970.
    #[serde(default)]
    pub since_ms: u64,
    /// True if it differs from the file when that was read or written last: then a restart or a reload takes it back.
    #[serde(default)]
    pub differs: bool,
}

/// The configuration that runs, as a file would have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Config {
    /// The configuration that this is.
    pub running: Running,
    /// Text as TOML, with everything that it includes, and asterisks for secrets.
    pub text: String,
    /// Text as it was written, for clients that may change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A configuration that was in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Revision {
    /// Number of its generation.
    pub generation: u64,
    /// Start of its use, milliseconds since 1970.
    pub since_ms: u64,
    /// Kind of the change: `start`, `reload`, `apply` or `rollback`.
    pub how: String,
    /// Client, signal or file that asked for it.
    pub by: String,
    /// A line for each difference to the configuration before.
    pub changes: Vec<String>,
}

/// Configuration to run, as clients of the API send it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// Text as TOML. Paths in it are relative to the folder of the file that the process was started with.
    pub text: String,
}

/// Choice of the configuration to run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// Number of its generation; without a number, the configuration before.
    #[serde(default, deserialize_with = "crate::orders::whole")]
    #[schema(maximum = 4_294_967_295_u32)]
    pub generation: Option<u32>,
}

/// Request of an operator about the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    Reload,
    /// Applies this text instead.
    Apply(String),
    /// Checks this text: its differences from the running configuration, or its errors.
    Check(String),
    /// Runs an earlier configuration again: this, or the one before.
    Rollback(Option<u64>),
    /// Writes the running configuration to the file.
    Save,
}

/// Outcome of such a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    /// `applied`, `checked` or `saved`.
    pub result: String,
    /// The generation that runs now.
    pub generation: u64,
    /// Description in words, with the warnings.
    pub text: String,
    /// A line for each difference.
    pub changes: Vec<String>,
    /// Listeners, routes and pools that are new.
    pub added: Vec<String>,
    /// Listeners, routes and pools that differ.
    pub changed: Vec<String>,
    /// Listeners, routes and pools that are gone.
    pub removed: Vec<String>,
    /// Keys whose new values apply only after a restart or an upgrade.
    pub at_restart: Vec<String>,
    /// Warnings about the configuration; it is applied all the same.
    pub diagnostics: Vec<Diagnostic>,
}

/// Remark about a place in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic {
    /// Code of its kind, `EK` and four digits.
    pub code: String,
    /// `error` or `warning`.
    pub severity: String,
    pub message: String,
    /// File of the place, as it was named.
    pub file: String,
    /// Line of the place, from 1; none if the file as a whole is meant.
    pub line: Option<usize>,
    /// Character of the line, from 1.
    pub col: Option<usize>,
    /// Suggestion how to fix it, if any.
    pub help: Option<String>,
}
