//! Flow diagrams of requests: boxes in columns, and bands between them as wide as their rate.

use crate::page::escape;
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
/// Width of a box in SVG units.
const BOX: f64 = 170.0;
const TOP: f64 = 26.0;
/// Space between the boxes of a column.
const GAP: f64 = 14.0;
/// Smallest height of a box, which has to fit its name.
const LEAST: f64 = 34.0;
/// Height of the total rate.
const WHOLE: f64 = 260.0;

/// A box of a column, with its text.
pub struct Node {
    /// Name in the box, shortened to 20 characters.
    pub name: String,
    /// Further text, below the name.
    pub text: String,
    /// Address of its page, if any.
    pub link: Option<String>,
    /// Class of the box, for its fault; empty if it has none.
    pub tone: &'static str,
}

/// A band between two boxes.
pub struct Band {
    /// Box on its left, as an index into its column.
    pub from: usize,
    /// Box on its right, as an index into the next column.
    pub to: usize,
    /// Rate along the band, per second.
    pub rate: f64,
    /// Share of the rate that fails, 0 to 1.
    pub errors: f64,
}

/// A column of boxes with a title.
pub struct Column {
    /// Title of the column, shown above it.
    pub title: String,
    /// Boxes from top to bottom.
    pub nodes: Vec<Node>,
}

/// Draws the columns. `bands[i]` are those between column `i` and the next.
pub fn flow(label: &str, columns: &[Column], bands: &[Vec<Band>]) -> String {
    let rates: Vec<Vec<f64>> = (0..columns.len()).map(|at| rates(columns, bands, at)).collect();
    let most = rates.iter().map(|column| column.iter().sum::<f64>()).fold(0.0, f64::max);
    let scale = if most > 0.0 { WHOLE / most } else { 0.0 };
    let heights = |column: &Vec<f64>| column.iter().map(|rate| (rate * scale).max(LEAST)).collect::<Vec<f64>>();
    let heights: Vec<Vec<f64>> = rates.iter().map(heights).collect();
    let tall = |column: &Vec<f64>| column.iter().sum::<f64>() + GAP * column.len().saturating_sub(1) as f64;
    let height = heights.iter().map(tall).fold(LEAST, f64::max) + TOP + 4.0;
    let left = |at: usize| at as f64 * (WIDTH - BOX) / columns.len().saturating_sub(1).max(1) as f64;
    let tops: Vec<Vec<f64>> = heights.iter().map(|heights| tops(heights)).collect();
    let label = escape(label);
    let mut out = format!(
        "<svg class=\"flow\" viewBox=\"-1 0 {} {height:.0}\" role=\"group\" aria-label=\"{label}\">\n",
        WIDTH + 2.0
    );
    for (at, bands) in bands.iter().enumerate() {
        // Positions in each box up to which its bands are drawn.
        let (mut out_of, mut into) = (tops[at].clone(), tops[at + 1].clone());
        for band in bands {
            let wide = (band.rate * scale).max(if band.rate > 0.0 { 1.0 } else { 0.0 });
            let (x1, x2) = (left(at) + BOX, left(at + 1));
            let (y1, y2) = (out_of[band.from], into[band.to]);
            out_of[band.from] += wide;
            into[band.to] += wide;
            let middle = (x1 + x2) / 2.0;
            let class = grade(band.errors);
            let (from, to) = (&columns[at].nodes[band.from].name, &columns[at + 1].nodes[band.to].name);
            let text = format!(
                "{} \u{2192} {}: {:.1}/s, {:.1} % errors",
                escape(from),
                escape(to),
                band.rate,
                band.errors * 100.0
            );
            let (end1, end2) = (y1 + wide, y2 + wide);
            let _ = writeln!(
                out,
                "<path class=\"flow-{class}\" d=\"M{x1:.1} {y1:.1} C{middle:.1} {y1:.1} {middle:.1} {y2:.1} {x2:.1} {y2:.1} V{end2:.1} \
                 C{middle:.1} {end2:.1} {middle:.1} {end1:.1} {x1:.1} {end1:.1} Z\"><title>{text}</title></path>"
            );
        }
    }
    for (at, column) in columns.iter().enumerate() {
        let x = left(at);
        let _ = writeln!(out, "<text class=\"title\" x=\"{x:.1}\" y=\"14\">{}</text>", escape(&column.title));
        for ((node, top), height) in column.nodes.iter().zip(&tops[at]).zip(&heights[at]) {
            let (full, name, text) = (escape(&node.name), escape(&shortened(&node.name)), escape(&node.text));
            let tone = node.tone;
            let drawn = format!(
                "<title>{full}: {text}</title><rect class=\"node {tone}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{BOX}\" height=\"{height:.1}\" rx=\"4\"/>\
                 <text class=\"name\" x=\"{0:.1}\" y=\"{1:.1}\">{name}</text><text class=\"rate {tone}\" x=\"{0:.1}\" y=\"{2:.1}\">{text}</text>",
                x + 10.0,
                top + 14.0,
                top + 28.0
            );
            match &node.link {
                Some(link) => _ = writeln!(out, "<a href=\"{}\">{drawn}</a>", escape(link)),
                None => _ = writeln!(out, "<g>{drawn}</g>"),
            }
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Returns the grade of a share of errors, 0 to 1, as the classes of bands have it: `fine`, `warn` from 0.1 %, `bad`
/// from 5 %.
pub fn grade(errors: f64) -> &'static str {
    match errors {
        e if e >= 0.05 => "bad",
        e if e >= 0.001 => "warn",
        _ => "fine",
    }
}

/// Returns the rate through each box of a column: the larger of the rates in and out.
fn rates(columns: &[Column], bands: &[Vec<Band>], at: usize) -> Vec<f64> {
    let sum = |bands: Option<&Vec<Band>>, of: &dyn Fn(&Band) -> usize, node: usize| {
        bands.into_iter().flatten().filter(|band| of(band) == node).map(|band| band.rate).sum::<f64>()
    };
    let before = at.checked_sub(1).and_then(|at| bands.get(at));
    let through = |node| sum(before, &|band| band.to, node).max(sum(bands.get(at), &|band| band.from, node));
    (0..columns[at].nodes.len()).map(through).collect()
}

/// Returns the top of each box.
fn tops(heights: &[f64]) -> Vec<f64> {
    let mut top = TOP;
    let place = |height: &f64| {
        let here = top;
        top += height + GAP;
        here
    };
    heights.iter().map(place).collect()
}

/// Shortens a name to fit into its box. Leaves out the middle, as the port is at the end.
fn shortened(name: &str) -> String {
    const MOST: usize = 20;
    match name.chars().count() {
        0..=MOST => name.to_string(),
        length => {
            let end = name.chars().skip(length - MOST / 2 + 1);
            name.chars().take(MOST / 2).chain(['\u{2026}']).chain(end).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(names: &[&str]) -> Column {
        let node = |name: &&str| Node { name: name.to_string(), text: "1/s".into(), link: None, tone: "" };
        Column { title: "column".into(), nodes: names.iter().map(node).collect() }
    }

    #[test]
    fn bands_are_as_wide_as_their_rate() {
        let band = |to, rate, errors| Band { from: 0, to, rate, errors };
        let drawn =
            flow("a", &[column(&["web"]), column(&["a", "b"])], &[vec![band(0, 30.0, 0.0), band(1, 10.0, 0.2)]]);
        assert!(drawn.contains("flow-fine") && drawn.contains("flow-bad") && !drawn.contains("NaN"), "{drawn}");
        // The first box has the full height, the others their part of it.
        let heights: Vec<&str> = drawn.split("height=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(heights, ["260.0", "195.0", "65.0"]);
    }

    #[test]
    fn nothing_that_flows_is_no_fault() {
        let drawn = flow("a", &[column(&["web"]), column(&[])], &[vec![]]);
        assert!(drawn.contains("web") && !drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        assert_eq!(shortened("a-very-long-name-of-a-pool"), "a-very-lon\u{2026}of-a-pool");
    }
}
