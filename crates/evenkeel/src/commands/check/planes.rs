//! Report of `check --planes`: the parts of the pool's algorithm that each listener's plane keeps, and all planes side
//! by side.

use crate::output::table;
use evenkeel_config::planes::report::Line;
use evenkeel_config::planes::{Fidelity, Forwarding, algorithms, page, policies};
use serde_json::{Value, json};
use std::fmt::Write;

/// Formats the report: three tables, the latter two with notes.
pub fn text(lines: &[Line]) -> String {
    let row = |line: &Line| {
        vec![
            line.listener.to_string(),
            line.kind.name().to_owned(),
            line.pool.to_string(),
            line.balance.to_string(),
            line.keeps.word().to_owned(),
            why(line),
        ]
    };
    let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
    let mut out = table(&["LISTENER", "PLANE", "POOL", "ALGORITHM", "KEPT", "HOW"], &rows);
    out += "\nAll planes: ~ is an approximation, no a refusal, each with the number of its note\n\n";
    let name = |algorithm: &str, with: Option<&str>| {
        let with = with.map(|with| format!(" {{{}}}", with.replace(" = ", "=").replace("=3 and more", ">2")));
        format!("{algorithm}{}", with.unwrap_or_default())
    };
    side_by_side("ALGORITHM", &page::algorithms(name), &mut out);
    out.push('\n');
    side_by_side("SETTING", &page::settings(), &mut out);
    out
}

/// Difference or reason, and for a refusal the planes that keep the algorithm.
fn why(line: &Line) -> String {
    let why = line.keeps.why().unwrap_or_default();
    let keep: Vec<&str> = line.that_keep().into_iter().map(Forwarding::name).collect();
    match line.keeps {
        Fidelity::Refused(_) if !keep.is_empty() => format!("{why}; kept by {}", keep.join(", ")),
        _ => why.to_owned(),
    }
}

fn side_by_side(first: &str, all: &page::Table, out: &mut String) {
    let names = Forwarding::ALL.map(|kind| kind.name().to_uppercase());
    let header: Vec<&str> = [first].into_iter().chain(names.iter().map(String::as_str)).collect();
    let row = |(name, cells): &(String, [String; 6])| [name.clone()].into_iter().chain(cells.clone()).collect();
    *out += &table(&header, &all.rows.iter().map(row).collect::<Vec<Vec<String>>>());
    out.push('\n');
    for (at, note) in all.notes.iter().enumerate() {
        let _ = writeln!(out, "  {:>2}  {note}", at + 1);
    }
}

/// Returns the report as JSON, with the diagnostics of the file.
pub fn json(lines: &[Line], diagnostics: Value) -> Value {
    let line = |line: &Line| {
        json!({
            "listener": &*line.listener,
            "plane": line.kind.name(),
            "pool": &*line.pool,
            "algorithm": line.balance.to_string(),
            "kept": line.keeps.word(),
            "why": line.keeps.why(),
            "kept_by": line.that_keep().into_iter().map(Forwarding::name).collect::<Vec<_>>(),
        })
    };
    let kinds = |keeps: &[Fidelity; 6]| -> Value {
        let one = |(kind, keeps): (&Forwarding, &Fidelity)| {
            (kind.name().to_owned(), json!({ "kept": keeps.word(), "why": keeps.why() }))
        };
        Value::Object(Forwarding::ALL.iter().zip(keeps).map(one).collect())
    };
    let algorithm =
        |row: &algorithms::Row| json!({ "algorithm": row.algorithm, "with": row.with, "planes": kinds(&row.keeps) });
    let setting = |row: &policies::Row| json!({ "setting": row.setting, "planes": kinds(&row.keeps) });
    let costs = Forwarding::ALL.iter().zip(policies::COST);
    let costs: serde_json::Map<String, Value> =
        costs.map(|(kind, cost)| (kind.name().to_owned(), cost.into())).collect();
    json!({
        "diagnostics": diagnostics,
        "listeners": lines.iter().map(line).collect::<Vec<_>>(),
        "algorithms": algorithms::ROWS.iter().map(algorithm).collect::<Vec<_>>(),
        "settings": policies::ROWS.iter().map(setting).collect::<Vec<_>>(),
        "costs": costs,
    })
}
