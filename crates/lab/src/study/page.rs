//! Page of an experiment: main result as a sentence and a chart, further plots, figures and method; verdicts on claims
//! and all runs at the end.

use super::Found;
use super::claim::Finding;
use super::comparison::Comparison;
use super::plot::Plot;
use crate::machine::Machine;
use evenkeel_draw::intervals::strip;
use evenkeel_draw::page::{closed, escape, heading, page, paragraph, paragraphs, plots, points, table};
use serde_json::Value;

/// Renders the page. `findings`: including those on predictions. `report`: all runs as JSON.
pub fn draw(found: &Found, findings: &[Finding], predicted: &Comparison, machine: &Machine, report: &Value) -> String {
    let of_simulator = predicted.plots();
    let (lead, others) = leading(found, &of_simulator);
    let date = report["date"].as_str().unwrap_or_default();
    let mut parts = vec![format!(
        "<p class=\"dim\">{} · {} cores of {} · {}</p>\n",
        escape(date),
        machine.cores,
        escape(&machine.cpu),
        counts(findings)
    )];
    if let Some(lead) = lead {
        let reading = if lead.reading.is_empty() { String::new() } else { paragraph(&lead.reading) };
        parts.push(format!("<div class=\"lead\">\n{reading}<h3>{}</h3>\n{}</div>\n", escape(&lead.title), lead.svg));
        parts.push("<p class=\"dim\">Dots are medians of the rounds, bands their 90 % intervals.</p>\n".into());
    }
    parts.extend([heading("The machines"), found.topology.clone()]);
    if !others.is_empty() {
        parts.push(heading("Plots"));
        parts.push(plots(others.iter().map(|plot| (plot.title.as_str(), plot.svg.as_str()))));
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
    let command = report["command"].as_str().unwrap_or_default();
    let versions = found.versions.iter().map(|(name, version)| format!("{name}: {version}"));
    let kernel = format!("Linux {}; commit {}", machine.kernel, machine.commit);
    parts.push(points(&[format!("command: {command}"), kernel].into_iter().chain(versions).collect::<Vec<_>>()));
    parts.push(verdicts(findings));
    parts.push(closed("Every run", &format!("<pre>{}</pre>\n", escape(&format!("{report:#}")))));
    page(found.title, STYLE, &parts)
}

/// Plot at the top of the page, and the others in order.
pub fn leading<'p>(found: &'p Found, of_simulator: &'p [Plot]) -> (Option<&'p Plot>, Vec<&'p Plot>) {
    let mut all: Vec<&Plot> = found.plots.iter().chain(of_simulator).collect();
    let lead = (!all.is_empty()).then(|| all.remove(found.lead.min(all.len() - 1)));
    (lead, all)
}

/// Number of claims by verdict, as a link to them.
fn counts(findings: &[Finding]) -> String {
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
    format!("<a href=\"#claims\">claims</a>: {}", if counts.is_empty() { "none".into() } else { counts.join(", ") })
}

/// Table with a row for each claim: verdict, claim, source, figure and bound.
fn verdicts(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
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
        "<h2 id=\"claims\">Claims</h2>\n<div class=\"wide\"><table class=\"verdicts\">\n<tr><th>claim</th><th>measured, with its \
         90 % interval</th></tr>\n{lines}</table></div>\n"
    )
}

const STYLE: &str = "
pre { overflow-x: auto; font-size: 12px; } svg.intervals { max-width: 760px; } svg.flow { max-width: 760px; }
.dim { color: var(--dim); font-size: 14px; } .dim a { color: inherit; }
.lead { margin: 1.2rem 0 .4rem; } .lead p { font-size: 1.1rem; max-width: 760px; } .lead h3 { font-size: 1rem; margin: 1rem 0 .4rem; }
.plots section:has(.panels) { grid-column: 1 / -1; }
@media (min-width: 700px) { .lead svg.intervals { max-width: 900px; } }
.flow .node { fill: var(--card); stroke: var(--line); } .flow .name { fill: var(--text); font-weight: 600; }
.flow .title { font-weight: 600; } .flow-fine { fill: var(--s0); opacity: .45; }
.verdicts td { text-align: left; white-space: normal; vertical-align: top; } .verdicts th { text-align: left; white-space: normal; }
.verdicts small { color: var(--dim); } .verdicts td:last-child { min-width: 150px; }
.strip { width: 150px; height: 32px; display: block; margin-top: 3px; } .strip text { font-size: 11px; } .strip .wanted { fill: var(--good); opacity: .18; }
.strip .holds { fill: var(--good); } .strip .fails { fill: var(--bad); } .strip .open { fill: var(--dim); }
";
