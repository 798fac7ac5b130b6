//! Reader of published rows and claims; checks that the points and policies they name exist.

use super::judged_keys::CELLS;
use crate::experiment::{Bound, Cell, Claim, Figure, Point, Published, Side};
use crate::metric::{self, Metric, Unit};
use evenkeel_config::Code;
use evenkeel_config::tables::{Findings, Section, suggest};

pub(super) fn published(root: &Section, points: &[Point], findings: &mut Findings) -> Vec<Published> {
    let mut all = Vec::new();
    for row in root.sections("published") {
        let Some((at, policy)) = named(row, "algorithm", points, findings) else { continue };
        let cells = row.section("cells");
        let cells = CELLS
            .keys
            .iter()
            .filter(|key| cells.has(key.name))
            .filter_map(|key| Some(cell(metric::find(key.name)?, &cells.section(key.name), row, findings)));
        all.push(Published { at, policy, title: row.text("title"), cells: cells.collect() });
    }
    all
}

fn cell(metric: &'static Metric, table: &Section, row: &Section, findings: &mut Findings) -> Cell {
    let seconds = |table: &Section, key: &str| table.ns(key) as f64 / 1e9;
    let time = metric.unit == Unit::Time;
    let number = |key: &str| if time { seconds(table, key) } else { table.float(key) };
    let value = number("value");
    let relative = if table.has("relative") { table.float("relative") } else { row.float("relative") };
    let absolute = match time {
        true => seconds(if table.has("absolute") { table } else { row }, "absolute"),
        false => 0.0,
    };
    let off = (value * relative).max(absolute);
    let low = if table.has("from") { number("from") } else { value - off };
    let high = if table.has("to") { number("to") } else { value + off };
    if low > high {
        findings
            .add(Code::Contradiction, table.span_of("from"), "\"from\" must not be above \"to\"")
            .help("nothing is allowed now");
    }
    Cell { metric, value, allowed: (low, high), note: table.text("note") }
}

/// Labels of the point and policy that a table names; reports an unknown label.
fn named(table: &Section, key: &str, points: &[Point], findings: &mut Findings) -> Option<(String, String)> {
    let at = table.text("at");
    let point = match &at {
        None if points.len() == 1 => points.first(),
        None => None,
        Some(at) => points.iter().find(|point| point.label == *at),
    };
    let Some(point) = point else {
        let labels: Vec<&str> = points.iter().map(|p| p.label.as_str()).take(12).collect();
        let (message, help) = match &at {
            Some(at) => (format!("no point is named \"{at}\""), suggest(at, &labels)),
            None => (
                format!("there are {} points, and it does not say which", points.len()),
                format!("add at = {:?}", labels[0]),
            ),
        };
        findings.add(Code::NotAllowed, table.span_of("at"), message).help(help);
        return None;
    };
    let name = table.text(key)?;
    if !point.policies.iter().any(|p| p.label == name) {
        let labels: Vec<&str> = point.policies.iter().map(|p| p.label.as_str()).collect();
        findings
            .add(Code::UnknownAlgorithm, table.span_of(key), format!("\"{name}\" is not tried at this point"))
            .help(suggest(&name, &labels));
        return None;
    }
    Some((point.label.clone(), name))
}

pub(super) fn claims(root: &Section, points: &[Point], findings: &mut Findings) -> Vec<Claim> {
    root.sections("claim").iter().filter_map(|table| claim(table, points, findings)).collect()
}

fn claim(table: &Section, points: &[Point], findings: &mut Findings) -> Option<Claim> {
    let figure = figure(table, points, findings);
    let of = side(&table.section("of"), points, findings);
    let to = side(&table.section("to"), points, findings);
    let bound = bound(table, findings);
    let difference = table.word("by") == "difference";
    if difference && table.has("within") {
        findings
            .add(Code::Contradiction, table.span_of("by"), "\"within\" is about the ratio")
            .help("leave \"by\" out");
    }
    Some(Claim { says: table.text("says")?, figure: figure?, of: of?, to: to?, difference, bound: bound? })
}

fn figure(table: &Section, points: &[Point], findings: &mut Findings) -> Option<Figure> {
    match (metric::find(table.word("metric")), table.text("server")) {
        (Some(metric), None) => Some(Figure::Metric(metric)),
        (Some(_), Some(_)) => {
            findings
                .add(Code::Contradiction, table.span_of("server"), "\"server\" goes with the metric \"share\"")
                .help("leave it out");
            None
        }
        (None, Some(group)) => {
            let groups: Vec<&str> = points[0].groups.iter().map(|(name, _)| name.as_str()).collect();
            if !groups.contains(&group.as_str()) {
                findings
                    .add(Code::NotAllowed, table.span_of("server"), format!("no group of servers is named \"{group}\""))
                    .help(suggest(&group, &groups));
                return None;
            }
            Some(Figure::Share(group))
        }
        (None, None) => {
            findings
                .add(Code::Missing, table.span_of("metric"), "the metric \"share\" needs a \"server\"")
                .help("add server = \"s0\", the name of a group");
            None
        }
    }
}

fn side(table: &Section, points: &[Point], findings: &mut Findings) -> Option<Side> {
    match (table.has("algorithm"), table.has("constant")) {
        (true, false) => named(table, "algorithm", points, findings).map(|(at, policy)| Side::Measured { at, policy }),
        (false, true) => Some(Side::Constant(table.float("constant"))),
        _ => {
            findings
                .add(Code::Contradiction, table.span, "it needs either \"algorithm\" or \"constant\"")
                .help("write \"leastconn\", or { constant = 1 }");
            None
        }
    }
}

fn bound(table: &Section, findings: &mut Findings) -> Option<Bound> {
    type Row = (&'static str, fn(f64) -> Bound);
    const BOUNDS: [Row; 5] = [
        ("at_most", Bound::AtMost),
        ("at_least", Bound::AtLeast),
        ("not_above", Bound::NotAbove),
        ("not_below", Bound::NotBelow),
        ("within", Bound::Within),
    ];
    let set: Vec<_> = BOUNDS.into_iter().filter(|(name, _)| table.has(name)).collect();
    let [(name, bound)] = set[..] else {
        let names: Vec<&str> = BOUNDS.iter().map(|(name, _)| *name).collect();
        let message = format!("a claim needs exactly one of {}", names.join(", "));
        findings.add(Code::Contradiction, table.span_of("says"), message).help("write at_most = 1.0");
        return None;
    };
    Some(bound(table.float(name)))
}
