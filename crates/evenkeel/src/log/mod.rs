//! The log of the process: lines on standard error, formatted as `runtime.log` has it. Each has the process id, as during an
//! upgrade two processes write to the same place.

pub mod queue;

use crate::failure::color;
use evenkeel_config::plan::{Level, Log, LogFormat};
use evenkeel_config::printable::printable;
use queue::Queue;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::{fmt, io, panic, thread};
use tracing::Event;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts the log. Earlier lines are lost.
pub fn start(log: Log) {
    // Without a thread for it, the log still writes its lines.
    let out = Queue::of_stderr()
        .map_or_else(|_| BoxMakeWriter::new(io::stderr), |queue| BoxMakeWriter::new(move || queue.clone()));
    panic::set_hook(Box::new(|panic| {
        let (thread, trace) = (thread::current(), Backtrace::capture());
        let trace = if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
        tracing::error!(thread = thread.name().unwrap_or("?"), "{panic}{trace}");
    }));
    let level = match log.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt().with_writer(out).with_max_level(level).with_target(false);
    // Discovery reports failures of these crates itself, once.
    let silent = ["kube_client", "kube_runtime"].map(|target| (target, LevelFilter::OFF));
    let targets = Targets::from_iter(silent).with_default(level);
    match log.format {
        LogFormat::Json => lines.json().flatten_event(true).map_event_format(Json).finish().with(targets).init(),
        LogFormat::Text => {
            let fields =
                debug_fn(|writer, field, value| write!(writer, "{}", shown(field.name(), format!("{value:?}"))));
            let lines = lines.with_ansi(color()).with_timer(Stamp).fmt_fields(fields.delimited(" "));
            lines.finish().with(targets).init();
        }
    }
}

/// A field of a line of text. Texts of clients may be in it, which neither end the line nor move the cursor.
fn shown(name: &str, value: String) -> String {
    match name {
        // Diagnostics have several lines.
        "message" => printable(&value, &['\n', '\t']).into_owned(),
        name => format!("{name}={}", printable(&quoted(value), &[])),
    }
}

/// Value of a field. Quotes a value with spaces, since its end would be ambiguous.
fn quoted(value: String) -> String {
    if value.contains(char::is_whitespace) && !value.starts_with('"') { format!("{value:?}") } else { value }
}

/// The time and the process id.
struct Stamp;

impl FormatTime for Stamp {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        SystemTime.format_time(writer)?;
        write!(writer, " [{}]", std::process::id())
    }
}

/// Lines of JSON with the process id as their first field.
struct Json<F>(F);

impl<S, N, F> FormatEvent<S, N> for Json<F>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, ctx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(ctx, Writer::new(&mut line), event)?;
        let fields = line.strip_prefix('{').ok_or(fmt::Error)?;
        write!(writer, "{{\"pid\":{},{}", std::process::id(), printable(fields, &['\n']))
    }
}

#[cfg(test)]
mod tests {
    use super::{quoted, shown};

    #[test]
    fn no_text_moves_the_cursor_or_ends_a_line() {
        assert_eq!(shown("message", "a\u{9b}31m\u{202e}b\nc".into()), "a\\u009b31m\\u202eb\nc");
        assert_eq!(shown("host", "a\u{9b}\u{2066}".into()), "host=a\\u009b\\u2066");
        assert_eq!(shown("host", "a\nb\u{2028}".into()), r#"host="a\nb\u{2028}""#);
    }

    #[test]
    fn a_value_with_spaces_is_quoted_once() {
        for (value, shown) in [("a", "a"), ("a b", "\"a b\""), ("\"a b\"", "\"a b\""), ("say \"x\"", r#""say \"x\"""#)]
        {
            assert_eq!(quoted(value.to_string()), shown);
        }
    }
}
