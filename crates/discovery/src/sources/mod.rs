//! Sources of endpoints: one file per kind, and one line here. A source runs forever and puts its answers
//! into its [`Out`]; those that have to poll use [`poll`](crate::polling::poll).

mod dns;
mod file;

use crate::context::Context;
use crate::out::Out;
use evenkeel_config::plan::Source;

/// Runs a source of a plan, forever.
pub async fn run(source: Source, context: Context, out: Out) -> ! {
    match source {
        Source::Dns(dns) => dns::run(dns, context, out).await,
        Source::File(path) => file::run(path, out).await,
    }
}
