//! Values with their intervals: a line each on a common axis, or a strip for a table cell.

use crate::axis::{Axis, Scale};
use crate::number::digits;
use crate::page::escape;
use std::fmt::Write;

/// Height of a line, and the ends of the scale if names are short.
const LINE: f64 = 22.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 600.0;
/// Widest room for names: longer names would leave too little for the scale.
const NAMES_MAX: f64 = 330.0;
/// Room for a character of a name, in the size that phones get.
const CHARACTER: f64 = 8.6;
/// Room below the lines, for labels of ticks and the name of the axis.
const AXIS: f64 = 40.0;

/// Row of the drawing: a median with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    /// Lower and upper end of its interval; `None` if there is only the median.
    pub interval: Option<(f64, f64)>,
    pub median: f64,
    /// Expected value, drawn as a dashed mark.
    pub expected: Option<f64>,
    /// Index into [`COLOURS`](crate::page::COLOURS), 0 to 7.
    pub colour: usize,
}

/// Draws all of them on a common scale, which begins at 0 or at the lowest end if that is below. `label`: for readers
/// who do not see it. `unit`: the name of the axis.
pub fn intervals(rows: &[Row], label: &str, unit: &str) -> String {
    let ends = |row: &Row| [Some(row.median), row.interval.map(|of| of.0), row.interval.map(|of| of.1), row.expected];
    let values: Vec<f64> = rows.iter().flat_map(ends).flatten().collect();
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * CHARACTER + 20.0).clamp(LEFT, NAMES_MAX);
    let axis = Axis::Plain { name: unit.to_owned(), log: false };
    let scale = Scale::around(&values, left, RIGHT);
    let place = |x: f64| scale.place(x);
    let bottom = LINE * rows.len() as f64 + 4.0;
    let (height, label) = (bottom + AXIS, escape(label));
    let mut svg = format!(
        "<svg class=\"intervals\" viewBox=\"0 0 700 {height}\" role=\"img\" aria-label=\"{label}\"><title>{label}</title>"
    );
    for tick in scale.ticks(5) {
        let (x, text) = (place(tick), axis.label(tick));
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom}\"/>\
             <text class=\"middle\" x=\"{x:.1}\" y=\"{}\">{text}</text>",
            bottom + 15.0
        );
    }
    let _ = write!(
        svg,
        "<text class=\"middle\" x=\"{:.1}\" y=\"{}\">{}</text>",
        (left + RIGHT) / 2.0,
        bottom + 33.0,
        escape(unit)
    );
    for (at, row) in rows.iter().enumerate() {
        let (y, colour) = (LINE * (at as f64 + 0.5) + 2.0, row.colour % 8);
        // Writing to a String cannot fail.
        let mut add = |text: String| _ = svg.write_str(&text);
        add(format!("<text class=\"end\" x=\"{}\" y=\"{}\">{}</text>", left - 12.0, y + 4.0, escape(&row.name)));
        add(format!("<line class=\"grid\" x1=\"{left}\" x2=\"{RIGHT}\" y1=\"{y}\" y2=\"{y}\"/>"));
        if let Some((low, high)) = row.interval {
            let (from, to) = (place(low), place(high));
            let width = (to - from).max(1.0);
            add(format!(
                "<rect class=\"f{colour} band\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"12\"/>",
                y - 6.0
            ));
        }
        add(format!("<circle class=\"f{colour}\" cx=\"{:.1}\" cy=\"{y}\" r=\"4\"/>", place(row.median)));
        if let Some(expected) = row.expected {
            let x = place(expected);
            add(format!("<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>", y - 9.0, y + 9.0));
        }
        add(format!("<text x=\"{}\" y=\"{}\">{}</text>", RIGHT + 12.0, y + 4.0, digits(row.median)));
    }
    svg + "</svg>\n"
}

/// Draws the interval of a value and its median over the band that is wanted, with both ends of the scale. A bound that
/// is infinite is none. `class`: of the verdict.
pub fn strip(median: f64, (low, high): (f64, f64), (from, to): (f64, f64), class: &str) -> String {
    const WIDTH: f64 = 150.0;
    let finite = |x: &f64| x.is_finite();
    let all: Vec<f64> = [median, low, high, from, to].into_iter().filter(finite).collect();
    let (first, last) =
        (all.iter().fold(f64::INFINITY, |a, b| a.min(*b)), all.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b)));
    let margin = ((last - first) * 0.15).max(f64::MIN_POSITIVE);
    let place = |x: f64| ((x - first + margin) / (last - first + 2.0 * margin)).clamp(0.0, 1.0) * WIDTH;
    let (wanted, wide) = (place(from), (place(to) - place(from)).max(1.0));
    let (begin, long) = (place(low), (place(high) - place(low)).max(1.5));
    // A single value has no scale.
    let ends = if last > first {
        let tick = |x: f64| format!("<line class=\"grid\" x1=\"{:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"18\"/>", place(x));
        format!(
            "{}{}<text x=\"0\" y=\"30\">{}</text><text class=\"end\" x=\"{WIDTH}\" y=\"30\">{}</text>",
            tick(first),
            tick(last),
            digits(first),
            digits(last)
        )
    } else {
        String::new()
    };
    format!(
        "<svg class=\"strip\" viewBox=\"0 0 {WIDTH} 32\" aria-hidden=\"true\"><rect class=\"wanted\" x=\"{wanted:.1}\" y=\"0\" width=\"{wide:.1}\" \
         height=\"16\"/>{ends}<rect class=\"{class}\" x=\"{begin:.1}\" y=\"6\" width=\"{long:.1}\" height=\"4\"/><circle class=\"{class}\" cx=\"{:.1}\" \
         cy=\"8\" r=\"4\"/></svg>",
        place(median)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_on_one_scale_from_zero_with_its_ticks() {
        let row = |median, interval| Row { name: "a<b".into(), interval, median, expected: Some(0.5), colour: 9 };
        let drawn = intervals(&[row(1.0, Some((0.5, 1.0))), row(0.0, None)], "x", "ms");
        // The scale ends at 1.05: 1 is at 190 + 410 / 1.05, 0.5 at half of that way.
        assert!(
            drawn.contains("<rect class=\"f1 band\" x=\"385.2\" y=\"7.0\" width=\"195.2\" height=\"12\"/>"),
            "{drawn}"
        );
        assert!(
            drawn.contains("cx=\"580.5\"") && drawn.contains("cx=\"190.0\"") && drawn.contains("a&lt;b"),
            "{drawn}"
        );
        assert!(drawn.contains(">0</text>") && drawn.contains(">1</text>") && drawn.contains(">ms</text>"), "{drawn}");
        assert!(!intervals(&[], "", "").contains("NaN"));
        // From -1.1 to 1.1: 0 is in the middle, and has a tick.
        let negative = intervals(&[row(1.0, Some((-1.0, 1.0)))], "x", "ms");
        assert!(negative.contains("x1=\"395.0\" x2=\"395.0\" y1=\"0\""), "{negative}");
    }

    #[test]
    fn long_names_have_room() {
        let row = Row { name: "x".repeat(30), interval: None, median: 1.0, expected: None, colour: 0 };
        assert!(intervals(&[row], "x", "ms").contains("<text class=\"end\" x=\"266\""));
    }

    #[test]
    fn a_strip_has_the_interval_beside_what_is_wanted() {
        let drawn = strip(1.0, (0.5, 1.5), (1.0, f64::INFINITY), "holds");
        // From 0.5 to 1.5 with a margin of 0.15 at both sides; the wanted band has no upper bound.
        assert!(drawn.contains("class=\"wanted\" x=\"75.0\" y=\"0\" width=\"75.0\""), "{drawn}");
        assert!(
            drawn.contains("class=\"holds\" x=\"17.3\" y=\"6\" width=\"115.4\"") && drawn.contains("cx=\"75.0\""),
            "{drawn}"
        );
        assert!(drawn.contains(">0.50</text>") && drawn.contains(">1.50</text>"), "{drawn}");
        assert!(!strip(1.0, (1.0, 1.0), (1.0, 1.0), "x").contains("NaN"));
    }
}
