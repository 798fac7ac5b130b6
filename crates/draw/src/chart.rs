//! Line charts over two axes, as SVG.

use crate::axis::{Axis, Scale};
use crate::page::escape;
use std::fmt::Write;

/// Dimensions of a chart, by its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// For a report, where it has the width of the page.
    Report,
    /// For a dashboard, beside other charts: the axes have no names.
    Tile,
}

/// Position of the plot in its picture.
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Size {
    fn frame(self) -> Frame {
        let (width, height, [left, right, top, bottom]) = match self {
            Size::Report => (760.0, 340.0, [84.0, 34.0, 12.0, 44.0]),
            Size::Tile => (560.0, 180.0, [60.0, 26.0, 10.0, 24.0]),
        };
        Frame { width, height, left, right: width - right, top, bottom: height - bottom }
    }
}

/// Width of the corner of a tile that has no label of the x axis.
const CORNER: f64 = 30.0;

/// An event to be marked on the x axis.
pub struct Mark {
    /// Position, in units of the x axis.
    pub x: f64,
    /// Description, shown as a tooltip.
    pub text: String,
}

/// A series of points, drawn as a line.
pub struct Line {
    /// Name of the series in the legend.
    pub label: String,
    /// Points, ascending in x. NaN in y interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// Interval around the line: x, and the lower and upper end. Empty if there is none.
    pub band: Vec<(f64, f64, f64)>,
    /// True for a reference rather than an alternative.
    pub is_dashed: bool,
}

/// A chart of lines over two axes.
pub struct Chart {
    /// Caption above the chart, and its text for screen readers.
    pub title: String,
    /// Horizontal axis, with its quantity.
    pub x: Axis,
    /// Vertical axis, with its quantity.
    pub y: Axis,
    /// Series to draw, in the order of the legend.
    pub lines: Vec<Line>,
    /// Events to mark on the x axis.
    pub marks: Vec<Mark>,
    /// Size, which also decides if the axes have names.
    pub size: Size,
}

impl Chart {
    /// Returns the chart as an HTML figure, with title and legend.
    pub fn svg(&self) -> String {
        let xs: Vec<f64> = self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.0)).collect();
        let ys: Vec<f64> = self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.1)).collect();
        let frame = self.size.frame();
        let x = Scale::of(&self.x, &xs, frame.left, frame.right);
        let y = Scale::of(&self.y, &ys, frame.bottom, frame.top);
        let mut out = format!(
            "<figure><figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{0}\"{3}>\n",
            escape(&self.title),
            frame.width,
            frame.height,
            self.ends(&frame, &xs),
        );
        if self.size == Size::Tile && ys.iter().all(|y| y.is_nan()) {
            let (x, y) = ((frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0);
            let _ = writeln!(out, "<text class=\"middle nothing\" x=\"{x}\" y=\"{y}\">Nothing in this time</text>");
            out.push_str("</svg></figure>\n");
            return out;
        }
        self.grid(&mut out, &frame, &x, &y);
        self.area(&mut out, &frame, &x, &y);
        if self.size == Size::Report {
            self.names(&mut out, &frame);
        }
        for mark in self.marks.iter().filter(|mark| x.has(mark.x)) {
            let at = x.place(mark.x);
            let (top, bottom, text) = (frame.top, frame.bottom, escape(&mark.text));
            let _ = writeln!(
                out,
                "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"><title>{text}</title></line>"
            );
        }
        for (index, line) in self.lines.iter().enumerate().filter(|(_, line)| !line.band.is_empty()) {
            let upper = line.band.iter().map(|(px, _, high)| (*px, *high));
            let lower = line.band.iter().rev().map(|(px, low, _)| (*px, *low));
            let points: String =
                upper.chain(lower).map(|(px, py)| format!("{:.1},{:.1} ", x.place(px), y.place(py))).collect();
            let _ = writeln!(out, "<polygon class=\"band f{}\" points=\"{}\"/>", index % 8, points.trim_end());
        }
        for (index, line) in self.lines.iter().enumerate() {
            let at = |(px, py): &(f64, f64)| format!("{:.1},{:.1} ", x.place(*px), y.place(*py));
            // With more lines than colours, the second round of colours is dashed, as references are.
            let dashed = if line.is_dashed || index >= 8 { " dashed" } else { "" };
            if self.size == Size::Tile {
                let (label, values) = (escape(&line.label), line.points.iter().map(|(_, y)| compact(*y)));
                let values = values.collect::<Vec<_>>().join(" ");
                let _ = writeln!(out, "<g data-label=\"{label}\" data-values=\"{values}\">");
            }
            // An unknown value interrupts its line.
            for part in line.points.split(|(_, py)| py.is_nan()).filter(|part| !part.is_empty()) {
                let points: String = part.iter().map(at).collect();
                let class = format!("line{dashed} s{}", index % 8);
                let _ = writeln!(out, "<polyline class=\"{class}\" points=\"{}\"/>", points.trim_end());
            }
            if self.size == Size::Tile {
                out.push_str("</g>\n");
            }
        }
        out.push_str("</svg>\n<div class=\"legend\">");
        for (index, line) in self.lines.iter().enumerate() {
            let _ = write!(out, "<span><i class=\"s{}\"></i>{}</span>", index % 8, escape(&line.label));
        }
        out.push_str("</div></figure>\n");
        out
    }

    /// Ends of a tile's x axis, of its points and of the picture, for scripts that show the value under a pointer.
    fn ends(&self, frame: &Frame, xs: &[f64]) -> String {
        if self.size != Size::Tile || xs.is_empty() {
            return String::new();
        }
        let first = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let last = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let unit = match &self.y {
            Axis::Seconds { .. } => "s",
            Axis::Plain { name, .. } => name,
            _ => "",
        };
        let (left, right, top, bottom) = (frame.left, frame.right, frame.top, frame.bottom);
        format!(
            " data-from=\"{first:.0}\" data-until=\"{last:.0}\" data-frame=\"{left} {right} {top} {bottom}\" data-unit=\"{}\" tabindex=\"0\"",
            escape(unit)
        )
    }

    /// Shade below the first line of a tile whose axis begins at zero.
    fn area(&self, out: &mut String, frame: &Frame, x: &Scale, y: &Scale) {
        let Some(line) = self.lines.first().filter(|_| self.size == Size::Tile && y.is_linear()) else { return };
        let known: Vec<&(f64, f64)> = line.points.iter().filter(|(_, py)| !py.is_nan()).collect();
        let (Some((first, _)), Some((last, _))) = (known.first(), known.last()) else { return };
        let points: String = known.iter().map(|(px, py)| format!("{:.1},{:.1} ", x.place(*px), y.place(*py))).collect();
        let (from, to, bottom) = (x.place(*first), x.place(*last), frame.bottom);
        let _ = writeln!(out, "<polygon class=\"band f0\" points=\"{from:.1},{bottom} {points}{to:.1},{bottom}\"/>");
    }

    /// Draws the grid with its labels.
    fn grid(&self, out: &mut String, frame: &Frame, x: &Scale, y: &Scale) {
        let Frame { left, right, top, bottom, .. } = *frame;
        for tick in y.ticks(if self.size == Size::Tile { 4 } else { 7 }) {
            let at = y.place(tick);
            let label = self.y.label(tick);
            let _ = writeln!(out, "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
            let _ = writeln!(out, "<text class=\"end\" x=\"{}\" y=\"{:.1}\">{label}</text>", left - 8.0, at + 4.0);
        }
        for (index, tick) in x.ticks(7).into_iter().enumerate() {
            let at = x.place(tick);
            let label = self.x.label(tick);
            let _ = writeln!(out, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>");
            // In the corner it would meet the lowest label of the other axis.
            if self.size == Size::Report || at >= left + CORNER {
                // A narrow screen has room for every second label.
                let odd = if self.size == Size::Tile && index % 2 == 1 { " odd" } else { "" };
                let _ = writeln!(
                    out,
                    "<text class=\"middle{odd}\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>",
                    bottom + 17.0
                );
            }
        }
    }

    /// Draws the names of the axes.
    fn names(&self, out: &mut String, frame: &Frame) {
        let (middle, height) = ((frame.left + frame.right) / 2.0, frame.height - 6.0);
        let name = escape(self.x.name());
        let _ = writeln!(out, "<text class=\"middle\" x=\"{middle}\" y=\"{height}\">{name}</text>");
        let (middle, name) = ((frame.top + frame.bottom) / 2.0, escape(self.y.name()));
        let _ = writeln!(out, "<text class=\"middle\" transform=\"translate(13 {middle}) rotate(-90)\">{name}</text>");
    }
}

/// A value in three digits; nothing for an unknown value.
fn compact(value: f64) -> String {
    if value.is_nan() {
        return "-".into();
    }
    format!("{value:.2e}").parse::<f64>().unwrap_or(value).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(points: Vec<(f64, f64)>) -> String {
        let line = Line { label: "p99".into(), points, band: Vec::new(), is_dashed: false };
        let (x, y) = (Axis::Clock, Axis::Seconds { log: false });
        Chart { title: "Latency".into(), x, y, lines: vec![line], marks: Vec::new(), size: Size::Tile }.svg()
    }

    #[test]
    fn a_tile_has_its_values_for_a_pointer() {
        let drawn = tile(vec![(1000.0, 0.004_687), (1005.0, f64::NAN), (1010.0, 1.5)]);
        assert!(
            drawn.contains("data-from=\"1000\" data-until=\"1010\"") && drawn.contains("data-unit=\"s\""),
            "{drawn}"
        );
        assert!(drawn.contains("data-label=\"p99\" data-values=\"0.00469 - 1.5\""), "{drawn}");
        assert!(!drawn.contains("NaN"), "{drawn}");
    }

    #[test]
    fn a_tile_without_values_has_words_and_no_clock() {
        for points in [Vec::new(), vec![(1000.0, f64::NAN)]] {
            let drawn = tile(points);
            assert!(drawn.contains("Nothing in this time") && !drawn.contains("00:00"), "{drawn}");
        }
    }
}
