//! Parts of a plan that a source needs in addition to its own settings.

use evenkeel_config::plan::Resolver;

/// Plan settings that sources share.
#[derive(Clone, Debug)]
pub struct Context {
    /// Name servers and TTL bounds.
    pub resolver: Resolver,
}
