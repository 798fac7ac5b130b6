//! Where do answers come from? One file for each kind of source, and one line here. A source runs for ever and puts what it
//! finds into its [`Out`]; one that has to ask again and again leaves that to [`poll`](crate::polling::poll).

mod dns;
mod file;

use crate::context::Context;
use crate::out::Out;
use evenkeel_config::plan::Source;

/// Runs the source that a plan names.
pub async fn run(source: Source, context: Context, out: Out) -> ! {
    match source {
        Source::Dns(dns) => dns::run(dns, context, out).await,
        Source::File(path) => file::run(path, out).await,
    }
}
