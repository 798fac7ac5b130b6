//! How is a plot drawn? Lines over two axes, as SVG.

use super::html::escape;
use crate::metric::Unit;
use crate::verdict::{digits, shown};
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// What an axis shows.
pub enum Axis {
    /// Percentiles: 1 is 90 %, 2 is 99 %, up to so many.
    Nines(f64),
    /// Times.
    Seconds {
        /// Whether each step is a factor.
        log: bool,
    },
    /// 0 to 1.
    Share,
    /// Numbers.
    Plain {
        /// What they count.
        name: String,
        /// Whether each step is a factor.
        log: bool,
    },
}

/// One series.
pub struct Line {
    /// In the legend.
    pub label: String,
    /// Ascending in x.
    pub points: Vec<(f64, f64)>,
    /// Its interval: x, and the lower and upper end. Empty where there is none.
    pub band: Vec<(f64, f64, f64)>,
    /// A yardstick rather than something to choose.
    pub is_dashed: bool,
}

/// A plot.
pub struct Chart {
    /// Above it.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// What is drawn.
    pub lines: Vec<Line>,
}

impl Chart {
    /// A figure with its title and legend.
    pub fn svg(&self) -> String {
        let xs: Vec<f64> = self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.0)).collect();
        let ys: Vec<f64> = self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.1)).collect();
        let (x, y) = (Scale::of(&self.x, &xs, LEFT, WIDTH - RIGHT), Scale::of(&self.y, &ys, HEIGHT - BOTTOM, TOP));
        let mut out = format!(
            "<figure><figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n",
            escape(&self.title)
        );
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for tick in y.ticks() {
            let at = y.place(tick);
            let label = self.y.label(tick);
            let _ = writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>");
            let _ = writeln!(out, "<text class=\"end\" x=\"{}\" y=\"{:.1}\">{label}</text>", LEFT - 8.0, at + 4.0);
        }
        for tick in x.ticks() {
            let at = x.place(tick);
            let label = self.x.label(tick);
            let _ = writeln!(out, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
            let _ = writeln!(out, "<text class=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>", bottom + 17.0);
        }
        let middle = (LEFT + right) / 2.0;
        let _ = writeln!(
            out,
            "<text class=\"middle\" x=\"{middle}\" y=\"{}\">{}</text>",
            HEIGHT - 6.0,
            escape(self.x.name())
        );
        let _ = writeln!(
            out,
            "<text class=\"middle\" transform=\"translate(13 {}) rotate(-90)\">{}</text>",
            (TOP + bottom) / 2.0,
            escape(self.y.name())
        );
        for (index, line) in self.lines.iter().enumerate().filter(|(_, line)| !line.band.is_empty()) {
            let upper = line.band.iter().map(|(px, _, high)| (*px, *high));
            let lower = line.band.iter().rev().map(|(px, low, _)| (*px, *low));
            let points: String =
                upper.chain(lower).map(|(px, py)| format!("{:.1},{:.1} ", x.place(px), y.place(py))).collect();
            let _ = writeln!(out, "<polygon class=\"band f{}\" points=\"{}\"/>", index % 8, points.trim_end());
        }
        for (index, line) in self.lines.iter().enumerate() {
            let at = |(px, py): &(f64, f64)| format!("{:.1},{:.1} ", x.place(*px), y.place(*py));
            let points: String = line.points.iter().map(at).collect();
            // More lines than colours: the second round of colours is dashed, as yardsticks are.
            let dashed = if line.is_dashed || index >= 8 { " dashed" } else { "" };
            let _ = writeln!(out, "<polyline class=\"line{dashed} s{}\" points=\"{}\"/>", index % 8, points.trim_end());
        }
        out.push_str("</svg>\n<div class=\"legend\">");
        for (index, line) in self.lines.iter().enumerate() {
            let _ = write!(out, "<span><i class=\"s{}\"></i>{}</span>", index % 8, escape(&line.label));
        }
        out.push_str("</div></figure>\n");
        out
    }
}

impl Axis {
    fn name(&self) -> &str {
        match self {
            Axis::Nines(_) => "percentile",
            Axis::Seconds { .. } => "latency",
            Axis::Share => "share",
            Axis::Plain { name, .. } => name,
        }
    }

    fn log(&self) -> bool {
        matches!(self, Axis::Seconds { log: true } | Axis::Plain { log: true, .. })
    }

    fn label(&self, x: f64) -> String {
        match self {
            Axis::Nines(_) => match x as u32 {
                0 => "0 %".to_string(),
                1 => "90 %".to_string(),
                2 => "99 %".to_string(),
                nines => format!("99.{} %", "9".repeat(nines as usize - 2)),
            },
            Axis::Seconds { .. } => {
                let text = shown(x, Unit::Time);
                text.replace(".00", "").replace(".0 ", " ")
            }
            Axis::Share => format!("{:.0} %", x * 100.0),
            Axis::Plain { .. } => {
                let text = digits(x);
                if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
            }
        }
    }
}

/// From values to places.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
    whole: bool,
}

impl Scale {
    fn of(axis: &Axis, values: &[f64], from: f64, to: f64) -> Scale {
        let positive = |x: &&f64| **x > 0.0;
        let high = values.iter().copied().fold(0.0, f64::max);
        let low = values.iter().filter(positive).copied().fold(f64::INFINITY, f64::min);
        let (low, high) = match axis {
            Axis::Nines(nines) => (0.0, *nines),
            Axis::Share => (0.0, (high * 1.05).clamp(0.01, 1.0)),
            _ if axis.log() && low.is_finite() => {
                // Whole steps of 1, 2 and 5.
                (step_below(low), step_above(high.max(low * 1.01)))
            }
            _ => (0.0, if high > 0.0 { high * 1.05 } else { 1.0 }),
        };
        Scale { low, high, from, to, log: axis.log() && low > 0.0, whole: matches!(axis, Axis::Nines(_)) }
    }

    fn place(&self, x: f64) -> f64 {
        let part = match self.log {
            true => (x.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (x - self.low) / (self.high - self.low),
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let all: Vec<f64> = steps(self.low, self.high);
            // Many decades: only their starts.
            return if all.len() > 12 { all.into_iter().filter(|x| is_decade(*x)).collect() } else { all };
        }
        if self.whole {
            return (0..=self.high as u32).map(f64::from).collect();
        }
        let step = step_above((self.high - self.low) / 7.0);
        (0..).map(|i| self.low + f64::from(i) * step).take_while(|x| *x <= self.high * 1.0001).collect()
    }
}

/// 1, 2, 5, 10, 20 and so on.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let mut at = step_below(low);
    let mut all = Vec::new();
    while at <= high * 1.0001 {
        all.push(at);
        at = step_above(at * 1.01);
    }
    all
}

fn is_decade(x: f64) -> bool {
    let exponent = x.log10();
    (exponent - exponent.round()).abs() < 1e-6
}

fn step_above(x: f64) -> f64 {
    let decade = 10f64.powf(x.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * decade).find(|s| *s >= x * 0.9999).unwrap_or(10.0 * decade)
}

fn step_below(x: f64) -> f64 {
    let decade = 10f64.powf((x * 1.0001).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|m| m * decade).find(|s| *s <= x * 1.0001).unwrap_or(decade)
}
