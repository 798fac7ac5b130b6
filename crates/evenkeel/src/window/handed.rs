//! Stored responses that pass from a process to its successor, as operators see it.

use evenkeel_config::Plan;
use evenkeel_proxy::handover::{self, Cut};
use evenkeel_proxy::{Giving, Numbers, Taken};
use evenkeel_runtime::control::Control;
use evenkeel_view::events::Kind;
use evenkeel_view::words::{bytes, grouped};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use tokio::sync::watch;

/// Statistics of the plan that runs, with its cache.
type Running = watch::Receiver<Arc<Numbers>>;

/// Begins a handover of stored responses. Returns it with the socket for the other process; `None` without a cache, or if the handover
/// cannot begin, which is logged.
pub fn give(plan: &Plan, running: Running) -> Option<(Giving, UnixStream)> {
    let start = || {
        let (ours, theirs) = UnixStream::pair()?;
        Ok::<_, std::io::Error>((Giving::start(ours, Numbers::handover(running))?, theirs))
    };
    let started = has_cache(plan).then(start)?;
    started.inspect_err(|error| tracing::warn!(%error, "cannot hand over stored responses")).ok()
}

/// Begins to take the stored responses of the previous process.
pub fn take(stream: &UnixStream, plan: &Plan, running: Running, control: &Control) {
    if !has_cache(plan) {
        return;
    }
    let events = control.events().clone();
    let done = move |taken: Taken| {
        let text = text(&taken);
        tracing::info!("{text}");
        events.tell(Kind::Process, (None, None), text, None);
    };
    if let Err(error) = handover::take(stream, Numbers::handover(running), done) {
        tracing::warn!(%error, "cannot take over stored responses");
    }
}

fn has_cache(plan: &Plan) -> bool {
    plan.routes.iter().any(|route| route.filters.cache.is_some())
}

/// Result of a handover in words.
fn text(taken: &Taken) -> String {
    let count =
        if taken.responses == 1 { "1 response".to_owned() } else { format!("{} responses", grouped(taken.responses)) };
    let mut text = format!("the cache took over {count}, {}, from the previous process", bytes(taken.bytes));
    if taken.left_out > 0 {
        text += &format!("; {} left out: newer here, purged, or no room", grouped(taken.left_out));
    }
    match taken.cut {
        None => {}
        Some(Cut::Closed) => text += "; the connection ended before all of them came",
        Some(Cut::Broken(why)) => text += &format!("; no more: {why}"),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handover_is_told_with_what_is_missing() {
        let taken = Taken { responses: 1234, bytes: 5_600_000, ..Taken::default() };
        assert_eq!(text(&taken), "the cache took over 1,234 responses, 5.60 MB, from the previous process");
        let cut = text(&Taken { responses: 1, left_out: 2, cut: Some(Cut::Closed), ..taken });
        assert!(
            cut.contains("1 response,") && cut.contains("2 left out") && cut.ends_with("before all of them came"),
            "{cut}"
        );
    }
}
