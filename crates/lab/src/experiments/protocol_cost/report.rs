//! How are the figures printed? As a table and as JSON, with what evenkeel's is of each of the others', and with the goals.

use super::case::{Case, Goal};
use super::measure::{Cell, Effort};
use super::proxy::Proxy;
use super::rivals::OURS;
use crate::machine::{Cores, Machine};
use crate::report::table::{self, figures};
use crate::stats::Spread;
use serde_json::{Map, Value, json};

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
    /// The rows of each case.
    pub proxies: &'a [Proxy],
    /// A cell for each proxy.
    pub cases: Vec<(&'a Case, Vec<Cell>)>,
}

/// What became of a goal.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    /// By this share of this rival.
    Met(&'static str, f64),
    Missed(&'static str, f64),
    /// evenkeel or all the others have no figure.
    Unknown,
}

impl Report<'_> {
    /// What a reader must know of the machine and the method.
    pub fn header(&self) -> String {
        let Machine { kernel, cpu, cores, commit } = &self.machine;
        let Effort { rounds, seconds, .. } = self.effort;
        let versions: Vec<String> = self.proxies.iter().map(|p| format!("{}: {}", p.kind.name, p.version)).collect();
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
        let header = ["proxy", case.work.unit(), "(spread)", "evenkeel of it", "(spread)", "requests/s"];
        let mut rows = Vec::new();
        for (proxy, cell) in self.proxies.iter().zip(cells) {
            let mut row = vec![proxy.kind.name.to_owned()];
            row.extend(figures(Spread::of(&cell.runs), 2));
            let ours = (proxy.kind.name != OURS).then(|| self.ratio(cells, cell)).flatten();
            row.extend(figures(ours, 2));
            row.push(Spread::of(&cell.per_second).map_or_else(String::new, |s| format!("{:.0}", s.median)));
            rows.push(row);
        }
        let mut text = format!("{}: {}\n{}", case.name, case.about, table::draw(&header, &rows));
        for (proxy, cell) in self.proxies.iter().zip(cells) {
            for note in &cell.notes {
                text += &format!("  {}: {}\n", proxy.kind.name, note.replace('\n', "\n    "));
            }
        }
        for goal in case.goals {
            let outcome = match self.outcome(goal, cells) {
                Outcome::Met(of, share) => format!("met: {share:.2} of {of}"),
                Outcome::Missed(of, share) => format!("MISSED: {share:.2} of {of}"),
                Outcome::Unknown => "not known".to_owned(),
            };
            text += &format!("  goal: {outcome} ({})\n", wording(goal));
        }
        text
    }

    /// Everything, every single run included.
    pub fn json(&self) -> Value {
        let Machine { kernel, cpu, cores, commit } = &self.machine;
        let versions = self.proxies.iter().map(|p| (p.kind.name.to_owned(), Value::from(p.version.as_str())));
        let cases = self.cases.iter().map(|(case, cells)| {
            let named = self.proxies.iter().zip(cells);
            let by_proxy = named.map(|(proxy, cell)| (proxy.kind.name.to_owned(), self.cell(cell, cells)));
            let goals = case.goals.iter().map(|goal| {
                let met = match self.outcome(goal, cells) {
                    Outcome::Met(..) => Value::Bool(true),
                    Outcome::Missed(..) => Value::Bool(false),
                    Outcome::Unknown => Value::Null,
                };
                json!({"goal": wording(goal), "met": met})
            });
            json!({
                "name": case.name,
                "about": case.about,
                "unit": case.work.unit(),
                "proxies": by_proxy.collect::<Map<_, _>>(),
                "goals": goals.collect::<Vec<_>>(),
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
            "versions": versions.collect::<Map<_, _>>(),
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
            "evenkeel_of_it": spread(self.ratio(row, cell)),
            "runs": cell.runs,
            "requests_per_second": spread(Spread::of(&cell.per_second)),
            "notes": cell.notes,
        })
    }

    /// evenkeel's figures by those of a cell, round by round.
    fn ratio(&self, row: &[Cell], of: &Cell) -> Option<Spread> {
        let ours = self.proxies.iter().position(|proxy| proxy.kind.name == OURS)?;
        Spread::of_ratios(&row[ours].runs, &of.runs)
    }

    fn outcome(&self, goal: &Goal, cells: &[Cell]) -> Outcome {
        let medians = self.proxies.iter().zip(cells).filter(|(proxy, _)| goal.of.contains(&proxy.kind.name));
        let medians = medians.filter_map(|(proxy, cell)| Some((proxy, cell, Spread::of(&cell.runs)?.median)));
        let best = medians.min_by(|one, other| one.2.total_cmp(&other.2));
        let ratio = best.and_then(|(proxy, cell, _)| Some((proxy.kind.name, self.ratio(cells, cell)?.median)));
        match ratio {
            Some((of, share)) if share <= goal.at_most => Outcome::Met(of, share),
            Some((of, share)) => Outcome::Missed(of, share),
            None => Outcome::Unknown,
        }
    }
}

fn wording(goal: &Goal) -> String {
    let of = match goal.of {
        [one] => format!("of {one}"),
        several => format!("of the better of {}", several.join(", ")),
    };
    format!("at most {:.2} {of}", goal.at_most)
}

#[cfg(test)]
mod tests {
    use super::super::case;
    use super::*;
    use std::path::Path;

    #[test]
    fn a_goal_is_about_the_better_of_the_rivals_and_unknown_without_figures() {
        let proxies = Proxy::find(&[], Some(Path::new("/no/such/evenkeel"))).expect("none must be there");
        let report = Report {
            experiment: "h2-cost",
            command: String::new(),
            machine: Machine { kernel: String::new(), cpu: String::new(), cores: 2, commit: String::new() },
            cores: Cores { proxy: 1, load: vec![0] },
            effort: Effort { rounds: 2, seconds: 1, core: 1 },
            proxies: &proxies,
            cases: Vec::new(),
        };
        let cells = |figures: [&[f64]; 4]| figures.map(|runs| Cell { runs: runs.to_vec(), ..Cell::default() });
        let goal = Goal { of: &["haproxy", "nginx"], at_most: 0.8 };
        let all = cells([&[7.0, 9.0], &[20.0, 20.0], &[10.0, 10.0], &[1.0, 1.0]]);
        assert_eq!(report.outcome(&goal, &all), Outcome::Met("nginx", 0.8));
        let slow = cells([&[9.0, 9.0], &[], &[10.0, 10.0], &[1.0, 1.0]]);
        assert_eq!(report.outcome(&goal, &slow), Outcome::Missed("nginx", 0.9));
        assert_eq!(report.outcome(&goal, &cells([&[], &[1.0], &[1.0], &[]])), Outcome::Unknown);
        let text = report.table(&case::H2[0], &all);
        assert!(text.contains("goal: met: 0.40 of haproxy (at most 0.85 of haproxy)"), "{text}");
    }
}
