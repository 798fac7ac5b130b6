//! How are the figures printed? As a table and as JSON, both with what is needed to compare and repeat.

use super::case::{Case, Measure};
use super::measure::{Cell, Effort};
use super::proxy::Proxy;
use crate::machine::{Cores, Machine};
use crate::report::table::{self, figures};
use crate::stats::Spread;
use serde_json::{Value, json};

/// What was measured, by which command, on which machine.
pub struct Report<'a> {
    /// Its name.
    pub experiment: &'static str,
    /// The command line.
    pub command: String,
    /// The machine.
    pub machine: Machine,
    /// Which processes had which cores.
    pub cores: Cores,
    /// How long and how often.
    pub effort: Effort,
    /// The columns.
    pub proxies: &'a [Proxy],
    /// The rows: a cell for each proxy.
    pub cases: Vec<(&'a Case, Vec<Cell>)>,
}

/// The proxy that the others are compared with.
const BASE: &str = "haproxy";

impl Report<'_> {
    /// What a reader must know of the machine and the method.
    pub fn header(&self) -> String {
        let Machine { kernel, cpu, cores, commit } = &self.machine;
        let Effort { rounds, seconds, .. } = self.effort;
        let versions: Vec<String> = self.proxies.iter().map(|p| format!("{}: {}", p.name, p.version)).collect();
        format!(
            "{}\ncommit {commit}; Linux {kernel}; {cpu}, {cores} cores; proxy on core {}, load and endpoints on {:?}\n{}\n\
             {rounds} interleaved rounds of {seconds} s, closed loop; median (smallest..largest)\n",
            self.command,
            self.cores.proxy,
            self.cores.load,
            versions.join("\n"),
        )
    }

    /// The figures of one case, aligned.
    pub fn table(&self, case: &Case, cells: &[Cell]) -> String {
        let mut header = vec!["proxy", case.measure.unit(), "(spread)", "of haproxy", "(spread)"];
        if case.measure == Measure::Cpu {
            header.extend(["requests/s", "new upstream connections/request"]);
        }
        let mut rows = Vec::new();
        for (proxy, cell) in self.proxies.iter().zip(cells) {
            let mut row = vec![proxy.name.clone()];
            row.extend(figures(Spread::of(&cell.runs), 2));
            row.extend(figures(self.ratio(cell, cells), 2));
            if case.measure == Measure::Cpu {
                row.push(Spread::of(&cell.per_second).map_or_else(String::new, |s| format!("{:.0}", s.median)));
                row.push(Spread::of(&cell.connections).map_or_else(String::new, |s| format!("{:.3}", s.median)));
            }
            rows.push(row);
        }
        let mut text = format!("{}: {}\n{}", case.name, case.about, table::draw(&header, &rows));
        for (proxy, cell) in self.proxies.iter().zip(cells) {
            for note in &cell.notes {
                text += &format!("  {}: {note}\n", proxy.name);
            }
        }
        text
    }

    /// Everything, every single run included.
    pub fn json(&self) -> Value {
        let Machine { kernel, cpu, cores, commit } = &self.machine;
        let proxies = self.proxies.iter().map(|p| (p.name.clone(), Value::from(p.version.as_str())));
        let cases = self.cases.iter().map(|(case, cells)| {
            let by_proxy =
                self.proxies.iter().zip(cells).map(|(proxy, cell)| (proxy.name.clone(), self.cell(cell, cells)));
            json!({
                "name": case.name,
                "about": case.about,
                "unit": case.measure.unit(),
                "proxies": by_proxy.collect::<serde_json::Map<_, _>>(),
            })
        });
        json!({
            "experiment": self.experiment,
            "command": self.command,
            "commit": commit,
            "machine": {
                "kernel": kernel,
                "cpu": cpu,
                "cores": cores,
                "proxy_core": self.cores.proxy,
                "load_cores": self.cores.load,
            },
            "versions": proxies.collect::<serde_json::Map<_, _>>(),
            "rounds": self.effort.rounds,
            "seconds": self.effort.seconds,
            "loop": "closed",
            "cases": cases.collect::<Vec<_>>(),
        })
    }

    fn cell(&self, cell: &Cell, row: &[Cell]) -> Value {
        let spread = |spread: Option<Spread>| spread.map(|s| json!({"median": s.median, "min": s.min, "max": s.max}));
        json!({
            "figure": spread(Spread::of(&cell.runs)),
            "of_haproxy": spread(self.ratio(cell, row)),
            "runs": cell.runs,
            "requests_per_second": spread(Spread::of(&cell.per_second)),
            "upstream_connections_per_request": spread(Spread::of(&cell.connections)),
            "calls": cell.calls.iter().map(|(name, count)| (name.clone(), Value::from(*count))).collect::<serde_json::Map<_, _>>(),
            "notes": cell.notes,
        })
    }

    fn ratio(&self, cell: &Cell, row: &[Cell]) -> Option<Spread> {
        let base = self.proxies.iter().position(|proxy| proxy.name == BASE)?;
        Spread::of_ratios(&cell.runs, &row[base].runs)
    }
}
