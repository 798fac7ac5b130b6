//! How far is an experiment? One line on the terminal that is written over; nothing if there is no terminal.

use std::io::{IsTerminal, Write};

const WIDTH: usize = 24;

/// A progress bar, which is erased when it is dropped.
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// On standard error, if that is a terminal.
    pub fn new() -> Progress {
        Progress { shown: std::io::stderr().is_terminal() }
    }

    /// `done` of `whole`, and what is going on.
    pub fn tell(&self, done: f64, whole: f64, text: &str) {
        if self.shown {
            eprint!("\r\x1b[K{}", line(done, whole, text));
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

fn line(done: f64, whole: f64, text: &str) -> String {
    let share = if whole > 0.0 { (done / whole).clamp(0.0, 1.0) } else { 0.0 };
    let full = (share * WIDTH as f64).round() as usize;
    format!("[{}{}] {done:.0} of {whole:.0} {text}", "#".repeat(full), "-".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_bar_is_full_at_the_end_and_never_longer() {
        assert_eq!(line(0.0, 10.0, ""), "[------------------------] 0 of 10 ");
        assert_eq!(line(5.0, 10.0, "x"), "[############------------] 5 of 10 x");
        assert_eq!(line(11.0, 10.0, ""), "[########################] 11 of 10 ");
    }
}
