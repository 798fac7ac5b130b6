//! Progress of an experiment: a line on the terminal, overwritten in place; nothing without a terminal.

use std::io::{IsTerminal, Write};
use std::time::Instant;

const WIDTH: usize = 24;

/// Progress bar, erased when dropped.
pub struct Progress {
    shown: bool,
    began: Instant,
}

impl Progress {
    /// Creates a bar on standard error, if that is a terminal.
    pub fn new() -> Progress {
        Progress { shown: std::io::stderr().is_terminal(), began: Instant::now() }
    }

    /// Shows `done` of `whole`, and a text on the current step.
    pub fn tell(&self, done: f64, whole: f64, text: &str) {
        if self.shown {
            eprint!("\r\x1b[K{}", line(done, whole, text, self.began.elapsed().as_secs_f64()));
            let _ = std::io::stderr().flush(); // a closed terminal needs no progress
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// Text of the bar. `took`: seconds so far, for the estimate of the rest.
fn line(done: f64, whole: f64, text: &str, took: f64) -> String {
    let share = if whole > 0.0 { (done / whole).clamp(0.0, 1.0) } else { 0.0 };
    let full = (share * WIDTH as f64).round() as usize;
    let left = (share > 0.0).then(|| (took / share - took).max(0.0));
    let left = left
        .map_or_else(String::new, |left| format!(", {:.0}:{:02.0} left", (left / 60.0).floor(), (left % 60.0).floor()));
    format!("[{}{}] {done:.0} of {whole:.0} {text}{left}", "#".repeat(full), "-".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_bar_is_full_at_the_end_and_never_longer() {
        assert_eq!(line(0.0, 10.0, "", 0.0), "[------------------------] 0 of 10 ");
        assert_eq!(line(5.0, 10.0, "x", 75.0), "[############------------] 5 of 10 x, 1:15 left");
        assert_eq!(line(11.0, 10.0, "", 9.0), "[########################] 11 of 10 , 0:00 left");
    }
}
