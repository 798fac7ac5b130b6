//! Common parts of experiments: options, interleaved rounds, verdicts on claims, and reports as text, JSON and HTML.

// Order: cases, grid, options, page, comparison, claim, perf, plot, prediction, topology, figures & rounds, meter
mod cases;
mod claim;
pub mod comparison;
pub mod figures;
pub mod grid;
mod meter;
mod options;
mod page;
pub mod perf;
mod plot;
pub mod prediction;
mod rounds;
pub mod topology;

pub use cases::Cases;
pub use claim::{Claim, Finding, Says};
pub use comparison::Comparison;
pub use meter::{Meter, Used, busy};
pub use options::Options;
pub use plot::Plot;
pub use prediction::Prediction;
pub use rounds::{Failed, Rounds};

use crate::error::{Error, Result, While};
use crate::machine::Machine;
use crate::report::table;
use serde_json::{Value, json};
use std::path::Path;

/// Names and versions of the programs that ran.
pub type Versions = Vec<(String, String)>;

/// Results of an experiment, for text, JSON and the page.
#[derive(Default)]
pub struct Found {
    pub title: &'static str,
    /// Drawing of the machines, as SVG.
    pub topology: String,
    /// Verdicts on the claims, in their order.
    pub findings: Vec<Finding>,
    /// Table of figures; the first row is the header.
    pub figures: Vec<Vec<String>>,
    /// Further tables, each with its title.
    pub tables: Vec<(String, Vec<Vec<String>>)>,
    /// Plots in the order of the page.
    pub plots: Vec<Plot>,
    /// Index of the plot at the top of the page, over these plots and those of predictions.
    pub lead: usize,
    /// Method and limits, in paragraphs.
    pub method: Vec<String>,
    pub versions: Versions,
    pub raw: Value,
    /// Runs with failed requests.
    pub failed: Failed,
}

impl Found {
    /// Adds claims, tables, plots and runs of a further part.
    pub fn add(&mut self, part: Found) {
        self.findings.extend(part.findings);
        self.tables.extend(part.tables);
        self.plots.extend(part.plots);
        match (&mut self.raw, part.raw) {
            (Value::Object(runs), Value::Object(more)) => runs.extend(more),
            (Value::Null, more) => self.raw = more,
            _ => {}
        }
        self.failed = std::mem::take(&mut self.failed).and(part.failed);
    }

    /// Adds the runs of a part, as JSON below its name, with those that failed.
    pub fn add_runs(&mut self, part: &str, runs: Value, failed: Failed) {
        if self.raw.is_null() {
            self.raw = json!({});
        }
        self.raw[part] = runs;
        self.failed = std::mem::take(&mut self.failed).and(failed);
    }
}

/// Prints the results, and writes the files that the options ask for.
///
/// # Errors
/// A file cannot be written, or something failed in every run (after writing all files).
pub fn present(found: &Found, options: &Options) -> Result<()> {
    present_beside(found, &Comparison::default(), options)
}

/// Presents results with the simulator's predictions, whose verdicts and plots come last.
///
/// # Errors
/// A file cannot be written.
pub fn present_beside(found: &Found, predicted: &Comparison, options: &Options) -> Result<()> {
    let machine = Machine::this();
    let findings: Vec<Finding> = found.findings.iter().cloned().chain(predicted.findings()).collect();
    for finding in &findings {
        println!("{}: {}\n  {}", finding.verdict.name(), finding.claim.text, finding.told());
    }
    let untitled = std::iter::once((None, &found.figures));
    let titled = found.tables.iter().map(|(title, rows)| (Some(title), rows));
    let compared = predicted.table();
    for (title, of) in untitled.chain(titled).chain([(None, &compared)]) {
        if let Some((header, rows)) = of.split_first() {
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            let title = title.map_or_else(String::new, |title| format!("{title}\n"));
            println!("\n{title}{}", table::draw(&header, rows));
        }
    }
    found.failed.told.iter().for_each(|line| println!("{line}"));
    let versions: serde_json::Map<String, Value> =
        found.versions.iter().map(|(name, version)| (name.clone(), json!(version))).collect();
    let of_simulator = predicted.plots();
    let (lead, _) = page::leading(found, &of_simulator);
    let said = json!({
        "title": found.title,
        "date": date(),
        "command": options.command(),
        "machine": { "kernel": machine.kernel, "cpu": machine.cpu, "cores": machine.cores, "commit": machine.commit },
        "versions": versions,
        "findings": findings.iter().map(Finding::json).collect::<Value>(),
        "predictions": predicted.json(),
        "lead": lead.map(|plot| json!({ "title": plot.title, "reading": plot.reading })),
        "failed": found.failed.json,
        "raw": found.raw,
    });
    if let Some(path) = &options.json {
        write(path, &format!("{said:#}\n"))?;
    }
    if let Some(path) = &options.report {
        write(path, &page::draw(found, &findings, predicted, &machine, &said))?;
    }
    if let Some(path) = &options.picture {
        match lead.filter(|plot| plot.svg.starts_with("<svg")) {
            Some(plot) => write(path, &evenkeel_draw::page::standalone(&plot.svg))?,
            None => eprintln!("there is no plot to be written to {}", path.display()),
        }
    }
    match found.failed.without.is_empty() {
        true => Ok(()),
        false => Err(Error::Refused(format!("in every run requests failed: {}", found.failed.without.join(", ")))),
    }
}

/// Current date, such as 2026-11-30.
fn date() -> String {
    let output = crate::child::output(&["date", "+%F"].map(str::to_owned), std::time::Duration::from_secs(5));
    output.map_or_else(|_| String::new(), |output| output.text.trim().to_owned())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).or_say(|| format!("cannot write {}", path.display()))
}
