//! How does the page of such an experiment look? The verdicts first, then the machines, the plots and the figures; the method, the
//! command and every run at its end.

use super::Found;
use crate::machine::Machine;
use evenkeel_draw::page::{claims, escape, folded, heading, page, paragraphs, points, table};
use serde_json::Value;

/// The page. `said`: all of it, for machines.
pub fn draw(found: &Found, machine: &Machine, said: &Value) -> String {
    let texts: Vec<String> = found
        .findings
        .iter()
        .map(|one| format!("{} ({}). {}", one.claim.text, one.claim.source, one.measured))
        .collect();
    let lines: Vec<(&str, &str, &str)> = found
        .findings
        .iter()
        .zip(&texts)
        .map(|(one, text)| (one.verdict.class(), one.verdict.name(), text.as_str()))
        .collect();
    let mut parts = vec![claims(&lines), heading("The machines"), found.topology.clone()];
    for plot in &found.plots {
        parts.push(heading(&plot.title));
        parts.push(plot.svg.clone());
    }
    parts.push(heading("Figures"));
    parts.push(table(&found.figures));
    parts.push(heading("How it was measured"));
    parts.push(paragraphs(&found.method));
    let command = said["command"].as_str().unwrap_or_default();
    let date = said["date"].as_str().unwrap_or_default();
    let versions = found.versions.iter().map(|(name, version)| format!("{name}: {version}"));
    let machine = format!(
        "{date}, Linux {}, {} with {} cores; commit {}",
        machine.kernel, machine.cpu, machine.cores, machine.commit
    );
    parts.push(points(&[format!("command: {command}"), machine].into_iter().chain(versions).collect::<Vec<_>>()));
    parts.push(folded("Every run", &format!("<pre>{}</pre>\n", escape(&format!("{said:#}")))));
    page(found.title, STYLE, &parts)
}

const STYLE: &str = "
pre { overflow-x: auto; font-size: 12px; } svg.intervals { max-width: 760px; } svg.flow { max-width: 760px; }
.flow .node { fill: var(--card); stroke: var(--line); } .flow .name { fill: var(--text); font-weight: 600; }
.flow .title { font-weight: 600; } .flow-fine { fill: var(--s0); opacity: .45; }
.holds, .fails, .open { display: inline-block; min-width: 9.5em; }
";
