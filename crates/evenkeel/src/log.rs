//! How does the log of the process look? As `runtime.log` says, on standard error.

use crate::failure::color;
use evenkeel_config::plan::{Level, Log, LogFormat};
use tracing::level_filters::LevelFilter;

/// Starts it. What is logged before is lost.
pub fn start(log: Log) {
    let level = match log.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
        Level::Trace => LevelFilter::TRACE,
    };
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level).with_target(false);
    match log.format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        LogFormat::Text => lines.with_ansi(color()).init(),
    }
}
