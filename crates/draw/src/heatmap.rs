//! Heat maps of durations over time: a column per span of time, a row per step of durations, the darker the more.

use crate::axis::{Axis, Scale};
use crate::number::seconds;
use crate::page::escape;
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 888.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 234.0;

/// Durations within a span of time.
pub struct Column {
    /// Start of the span, seconds since 1970.
    pub from: f64,
    /// End of the span, seconds since 1970.
    pub until: f64,
    /// Shortest and longest duration of each step in seconds, and the number of durations within.
    pub cells: Vec<(f64, f64, u32)>,
}

/// Returns the heat map as an HTML figure with its title.
pub fn heatmap(title: &str, columns: &[Column]) -> String {
    let times: Vec<f64> = columns.iter().flat_map(|column| [column.from, column.until]).collect();
    let ends = |column: &Column| column.cells.iter().flat_map(|(low, high, _)| [*low, *high]).collect::<Vec<_>>();
    let durations: Vec<f64> = columns.iter().flat_map(ends).collect();
    let (time, duration) = (Axis::Clock, Axis::Seconds { log: true });
    let (x, y) = (Scale::of(&time, &times, LEFT, RIGHT), Scale::of(&duration, &durations, BOTTOM, TOP));
    let title = escape(title);
    let mut out = format!(
        "<figure><figcaption>{title}</figcaption>\n<svg class=\"heat\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n"
    );
    // The darkness is relative to the column, so that a quiet minute shows its spread as a busy minute does.
    for column in columns {
        let all: u32 = column.cells.iter().map(|(_, _, count)| count).sum();
        for (low, high, count) in &column.cells {
            let depth = 1.0 + (f64::from(*count) / f64::from(all.max(1))).sqrt() * 7.99;
            let (left, right) = (x.place(column.from), x.place(column.until));
            let (top, bottom) = (y.place(*high), y.place(low.max(high / 2.0)));
            let _ = writeln!(
                out,
                "<rect class=\"h{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{count} of {all}: {} to {}</title></rect>",
                depth as u32,
                (right - left).max(0.5),
                (bottom - top).max(0.5),
                seconds(*low),
                seconds(*high)
            );
        }
    }
    for tick in y.ticks(5) {
        let (at, label) = (y.place(tick), duration.label(tick));
        let _ = writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
        let _ = writeln!(out, "<text class=\"end\" x=\"{}\" y=\"{:.1}\">{label}</text>", LEFT - 8.0, at + 4.0);
    }
    for tick in x.ticks(7) {
        let (at, label) = (x.place(tick), time.label(tick));
        let _ = writeln!(out, "<text class=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>", BOTTOM + 17.0);
    }
    out.push_str("</svg></figure>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_of_a_column_is_the_darkest() {
        let column = |from: f64, cells: &[(f64, f64, u32)]| Column { from, until: from + 5.0, cells: cells.to_vec() };
        let drawn =
            heatmap("a", &[column(0.0, &[(0.001, 0.002, 1)]), column(5.0, &[(0.002, 0.004, 99), (0.1, 0.2, 1)])]);
        assert_eq!(drawn.matches("<rect").count(), 3);
        assert!(drawn.contains("class=\"h8\"") && drawn.contains("class=\"h1\"") && !drawn.contains("NaN"), "{drawn}");
        assert!(!heatmap("none", &[]).contains("NaN"));
    }
}
