//! A conversion that runs in this process.

use crate::originals::file_name;
use evenkeel_config::Disk;
use evenkeel_config::plan::Workers;
use evenkeel_convert::{From, Report, convert};
use evenkeel_proxy::{Command, Server};
use std::fs;
use std::path::Path;

/// A conversion with one worker, which ends on drop.
pub struct Ours {
    server: Option<Server>,
    pub report: Report,
    pub toml: String,
}

/// A conversion that does not run: its errors, with its text.
pub struct Refused(pub String);

impl Ours {
    /// Converts a configuration, and starts the result.
    pub fn start(from: From, text: &str, dir: &Path) -> Result<Ours, Refused> {
        let source = dir.join(file_name(from));
        let converted = convert(&source.display().to_string(), text, Some(from), &Disk).expect("the format is named");
        let file = dir.join("evenkeel.toml");
        // The key of sticky sessions is made there.
        let state = format!("\n[runtime]\nstate = \"{}\"\n", dir.join("state").display());
        let text =
            if converted.toml.contains("[runtime") { converted.toml.clone() } else { converted.toml.clone() + &state };
        fs::write(&file, &text).expect("a folder of ours");
        let outcome = evenkeel_config::load(&file, &|_| None);
        let errors = evenkeel_config::render_text(&outcome.diagnostics, false);
        let refused = |why: &str| Refused(format!("{why}\n{}", converted.toml));
        let mut plan = outcome.plan.ok_or_else(|| refused(&errors))?;
        plan.runtime.workers = Workers::Count(1);
        let server = Server::start(plan).map_err(|error| refused(&error.to_string()))?;
        Ok(Ours { server: Some(server), report: converted.report, toml: converted.toml })
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.command(Command::Stop);
            server.join();
        }
    }
}
