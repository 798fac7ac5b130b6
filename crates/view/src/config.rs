//! What does the API say of configurations: the one that runs, those before it, and what became of one that was asked for?

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The configuration that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Running {
    /// Counts up with each change, from 0.
    pub generation: u64,
    /// Earlier ones that still have requests.
    pub draining: u64,
    /// The file that the process was started with, if any.
    pub file: Option<String>,
    /// How it came: `start`, `reload`, `apply` or `rollback`.
    #[serde(default)]
    pub how: String,
    /// Who asked for it.
    #[serde(default)]
    pub by: String,
    /// Since when it runs, milliseconds since 1970.
    #[serde(default)]
    pub since_ms: u64,
    /// Whether it differs from what the file said when it was read or written last: then a restart or a reload takes it back.
    #[serde(default)]
    pub differs: bool,
}

/// The configuration that runs, as a file would say it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Config {
    /// Which one it is.
    pub running: Running,
    /// As TOML, with everything that it includes, and asterisks for secrets.
    pub text: String,
    /// As it was written, for clients that may change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A configuration that was in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Revision {
    /// Its number.
    pub generation: u64,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
    /// How it came: `start`, `reload`, `apply` or `rollback`.
    pub how: String,
    /// Who asked for it.
    pub by: String,
    /// A line for each difference to the one before.
    pub changes: Vec<String>,
}

/// A configuration to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Proposal {
    /// As TOML. Paths in it are relative to the folder of the file that the process was started with.
    pub text: String,
}

/// Which configuration is to run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// Its generation; without one, the one before.
    #[serde(default, deserialize_with = "crate::orders::whole")]
    #[schema(maximum = 4_294_967_295_u32)]
    pub generation: Option<u32>,
}

/// What is wanted of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// That the file is read again.
    Reload,
    /// That this text runs in its place.
    Apply(String),
    /// To know what this text would change, or what is wrong with it.
    Check(String),
    /// That an earlier one runs again: this, or the one before.
    Rollback(Option<u64>),
    /// That the file says what runs.
    Save,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outcome {
    /// `applied`, `checked` or `saved`.
    pub result: String,
    /// The generation that runs now.
    pub generation: u64,
    /// In words, with the warnings.
    pub text: String,
    /// A line for each difference.
    pub changes: Vec<String>,
    /// Listeners, routes and pools that are new.
    pub added: Vec<String>,
    /// Those that are not as they were.
    pub changed: Vec<String>,
    /// Those that are gone.
    pub removed: Vec<String>,
    /// Keys that say something new, which only a restart or an upgrade would do.
    pub at_restart: Vec<String>,
    /// The warnings.
    pub diagnostics: Vec<Diagnostic>,
}

/// What is to be said of a place in a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic {
    /// What kind it is, `EK` and four digits.
    pub code: String,
    /// `error` or `warning`.
    pub severity: String,
    /// What is wrong.
    pub message: String,
    /// In which file.
    pub file: String,
    /// On which line, from 1; none if the file as a whole is meant.
    pub line: Option<usize>,
    /// At which character of the line, from 1.
    pub col: Option<usize>,
    /// What would be right.
    pub help: Option<String>,
}
