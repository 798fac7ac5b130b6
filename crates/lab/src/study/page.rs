//! How does the page of such an experiment look? The verdicts first, then the machines, the plots and the figures; the method, the
//! command and every run at its end.

use super::Found;
use super::claim::Finding;
use super::comparison::Comparison;
use crate::machine::Machine;
use evenkeel_draw::intervals::strip;
use evenkeel_draw::page::{closed, escape, heading, page, paragraphs, points, table};
use serde_json::Value;

/// The page. `findings`: all of them. `said`: all of it, for machines.
pub fn draw(found: &Found, findings: &[Finding], predicted: &Comparison, machine: &Machine, said: &Value) -> String {
    let mut parts = vec![verdicts(findings), heading("The machines"), found.topology.clone()];
    for plot in found.plots.iter().chain(&predicted.plots()) {
        parts.push(heading(&plot.title));
        parts.push(plot.svg.clone());
    }
    parts.push(heading("Figures"));
    parts.push(table(&found.figures));
    for (title, rows) in &found.tables {
        parts.push(heading(title));
        parts.push(table(rows));
    }
    if let compared @ [_, ..] = &predicted.table()[..] {
        parts.extend([heading("Prediction and measurement"), table(compared), paragraphs(&predicted.reasons())]);
    }
    parts.push(heading("How it was measured"));
    parts.push(paragraphs(&found.method));
    parts.push(paragraphs(&found.failed.told));
    let command = said["command"].as_str().unwrap_or_default();
    let date = said["date"].as_str().unwrap_or_default();
    let versions = found.versions.iter().map(|(name, version)| format!("{name}: {version}"));
    let machine = format!(
        "{date}, Linux {}, {} with {} cores; commit {}",
        machine.kernel, machine.cpu, machine.cores, machine.commit
    );
    parts.push(points(&[format!("command: {command}"), machine].into_iter().chain(versions).collect::<Vec<_>>()));
    parts.push(closed("Every run", &format!("<pre>{}</pre>\n", escape(&format!("{said:#}")))));
    page(found.title, STYLE, &parts)
}

/// How many claims have which verdict, then a line each: the verdict, the claim and its source, the figure beside what is needed.
fn verdicts(findings: &[Finding]) -> String {
    let mut counts: Vec<(&str, &str, usize)> = Vec::new();
    for finding in findings {
        let (name, class) = (finding.verdict.name(), finding.verdict.class());
        match counts.iter_mut().find(|(known, ..)| *known == name) {
            Some((.., count)) => *count += 1,
            None => counts.push((name, class, 1)),
        }
    }
    let count = |(name, class, count): &(&str, &str, usize)| format!("<b class=\"{class}\">{count} {name}</b>");
    let counts: Vec<String> = counts.iter().map(count).collect();
    let line = |finding: &Finding| {
        let class = finding.verdict.class();
        let drawn = finding.measured.map(|(of, needs)| strip(of.median, (of.low, of.high), needs, class));
        let (figure, needs) = finding.figures().unwrap_or_default();
        let measured = if figure.is_empty() { String::new() } else { format!("{figure}<br>needed: {needs}") };
        format!(
            "<tr><td><b class=\"{class}\">{}</b><br>{} <small>({})</small><br><small>{}{}</small></td><td>{}<small>{measured}</small></td></tr>\n",
            finding.verdict.name(),
            escape(finding.claim.text),
            escape(finding.claim.source),
            escape(&finding.what),
            finding.doubt(),
            drawn.unwrap_or_default(),
        )
    };
    let lines: String = findings.iter().map(line).collect();
    format!(
        "<p class=\"counts\">{}</p>\n<div class=\"wide\"><table class=\"verdicts\">\n<tr><th>claim</th><th>measured, with its \
         90 % interval</th></tr>\n{lines}</table></div>\n",
        counts.join(" · ")
    )
}

const STYLE: &str = "
pre { overflow-x: auto; font-size: 12px; } svg.intervals { max-width: 760px; } svg.flow { max-width: 760px; }
.flow .node { fill: var(--card); stroke: var(--line); } .flow .name { fill: var(--text); font-weight: 600; }
.flow .title { font-weight: 600; } .flow-fine { fill: var(--s0); opacity: .45; }
.verdicts td { text-align: left; white-space: normal; vertical-align: top; } .verdicts th { text-align: left; white-space: normal; }
.verdicts small { color: var(--dim); } .verdicts td:last-child { min-width: 150px; }
.strip { width: 150px; height: 16px; display: block; margin-top: 3px; } .strip .wanted { fill: var(--good); opacity: .18; }
.strip .holds { fill: var(--good); } .strip .fails { fill: var(--bad); } .strip .open { fill: var(--dim); }
";
