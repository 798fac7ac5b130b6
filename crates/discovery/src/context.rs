//! The part of a plan that a source may use besides its own settings.

use evenkeel_config::plan::Resolver;

/// What a source is given besides its own settings.
#[derive(Clone, Debug)]
pub struct Context {
    /// How names are resolved.
    pub resolver: Resolver,
}
