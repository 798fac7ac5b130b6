//! Panels of a run, second by second, above each other on a common time axis, shaded where something was broken: counts
//! as bars, a number as a line, and shares of a whole.

use crate::page::escape;
use std::fmt::Write;

/// A period that is shaded in every panel.
pub struct Shade {
    /// Name of the period, shown above it.
    pub name: String,
    /// Description, shown as a tooltip.
    pub about: String,
    /// Start in seconds of the run.
    pub from: f64,
    /// End in seconds of the run.
    pub until: f64,
}

/// A value per second. Its colour is its index among the series of its panel.
pub struct Series {
    /// Name of the series in the legend.
    pub name: String,
    /// Values, for each second.
    pub values: Vec<f64>,
}

/// A panel: a title, and a plot over time.
pub enum Panel {
    /// Counts, stacked on top of each other.
    Bars {
        /// Title of the panel, shown above it.
        title: String,
        /// Counts of each kind, from the bottom up.
        series: Vec<Series>,
        /// Upper end of the axis; the lower is 0.
        most: f64,
    },
    /// A number over a logarithmic axis. Seconds without a number leave a gap.
    Line {
        /// Title of the panel, shown above it.
        title: String,
        /// Values, for each second.
        values: Vec<Option<f64>>,
        /// Lower and upper end of its axis; above 0.
        ends: (f64, f64),
    },
    /// Shares of a whole, given as counts.
    Shares {
        /// Title of the panel, shown above it.
        title: String,
        /// Parts of the whole, from the bottom up.
        series: Vec<Series>,
    },
}

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
/// Space for the names of shaded periods, in two rows.
const TOP: f64 = 54.0;
const HEIGHT: f64 = 100.0;
const GAP: f64 = 26.0;
const BOTTOM: f64 = 24.0;

/// Draws the panels. `label` is the text for screen readers.
pub fn panels(label: &str, panels: &[Panel], shades: &[Shade]) -> String {
    let seconds = panels.iter().map(Panel::seconds).max().unwrap_or(0);
    let scale = Scale { seconds: seconds.max(1) as f64 };
    let height = TOP + panels.len() as f64 * (HEIGHT + GAP) - GAP + BOTTOM;
    let label = escape(label);
    let mut svg =
        format!("<svg class=\"panels\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\">\n");
    for (at, shade) in shades.iter().enumerate() {
        let (x, wide) = (scale.x(shade.from), scale.x(shade.until) - scale.x(shade.from));
        for panel in 0..panels.len() {
            let about = escape(&shade.about);
            let top = top(panel);
            put(
                &mut svg,
                format_args!(
                    "<rect class=\"shade\" x=\"{x:.1}\" y=\"{top}\" width=\"{wide:.1}\" height=\"{HEIGHT}\"><title>{about}</title></rect>\n"
                ),
            );
        }
        // Names of short periods are close to each other, so every second name is lower.
        let y = if at % 2 == 0 { 14 } else { 28 };
        put(&mut svg, format_args!("<text x=\"{x:.1}\" y=\"{y}\">{}</text>\n", escape(&shade.name)));
    }
    for (at, panel) in panels.iter().enumerate() {
        panel.draw(&mut svg, top(at), &scale);
    }
    scale.time(&mut svg, height - BOTTOM + 16.0);
    svg + "</svg>\n" + &panels.iter().map(Panel::legend).collect::<String>()
}

fn top(panel: usize) -> f64 {
    TOP + panel as f64 * (HEIGHT + GAP)
}

/// Appends formatted text, which cannot fail for a string.
fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = svg.write_fmt(text);
}

/// Time axis that all panels share.
struct Scale {
    seconds: f64,
}

impl Scale {
    fn x(&self, second: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (second / self.seconds).clamp(0.0, 1.0)
    }

    fn time(&self, svg: &mut String, y: f64) {
        let step = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0].into_iter().find(|step| self.seconds / step <= 16.0);
        let step = step.unwrap_or(300.0);
        let mut second = 0.0;
        while second <= self.seconds {
            let x = self.x(second);
            put(svg, format_args!("<text class=\"middle\" x=\"{x:.1}\" y=\"{y:.1}\">{second:.0} s</text>\n"));
            second += step;
        }
    }
}

impl Panel {
    fn seconds(&self) -> usize {
        match self {
            Panel::Bars { series, .. } | Panel::Shares { series, .. } => {
                series.iter().map(|one| one.values.len()).max().unwrap_or(0)
            }
            Panel::Line { values, .. } => values.len(),
        }
    }

    fn draw(&self, svg: &mut String, top: f64, scale: &Scale) {
        // Position of a share of the height, 0 to 1 from below.
        let y = |share: f64| top + HEIGHT * (1.0 - share.clamp(0.0, 1.0));
        match self {
            Panel::Bars { title, series, most } => {
                grid(svg, title, top, &[(0.0, "0".into()), (1.0, format!("{most:.0}"))], &y);
                let most = most.max(1.0);
                stack(series, |at, place, below, value| {
                    let (from, wide) = (scale.x(at as f64), (scale.x(1.0) - LEFT).max(1.0));
                    let (upper, lower) = (y((below + value) / most), y(below / most));
                    let (high, name) = (lower - upper, escape(&series[place].name));
                    if value > 0.0 {
                        put(
                            svg,
                            format_args!(
                                "<rect class=\"f{}\" x=\"{from:.1}\" y=\"{upper:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\">\
                             <title>second {at}: {value} {name}</title></rect>\n",
                                place % 8
                            ),
                        );
                    }
                });
            }
            Panel::Line { title, values, ends: (low, high) } => {
                let share = |value: f64| (value.max(*low) / low).ln() / (high / low).ln();
                let decade = |power| 10_f64.powi(power);
                let first = low.log10().ceil() as i32;
                let ticks: Vec<(f64, String)> = (first..)
                    .map(decade)
                    .take_while(|value| value <= high)
                    .map(|value| (share(value), format!("{value:.0}")))
                    .collect();
                grid(svg, title, top, &ticks, &y);
                let (mut pen, mut path) = ('M', String::new());
                for (at, value) in values.iter().enumerate() {
                    let Some(value) = value else {
                        pen = 'M';
                        continue;
                    };
                    put(&mut path, format_args!("{pen}{:.1} {:.1}", scale.x(at as f64 + 0.5), y(share(*value))));
                    pen = 'L';
                }
                put(svg, format_args!("<path class=\"line figure\" d=\"{path}\"/>\n"));
            }
            Panel::Shares { title, series } => {
                grid(svg, title, top, &[(0.0, "0".into()), (0.5, "50 %".into()), (1.0, "100 %".into())], &y);
                let mut edges = vec![(Vec::new(), Vec::new()); series.len()];
                let whole = |at: usize| series.iter().filter_map(|one| one.values.get(at)).sum::<f64>().max(1.0);
                stack(series, |at, place, below, value| {
                    let point = |count: f64| format!("{:.1} {:.1}", scale.x(at as f64 + 0.5), y(count / whole(at)));
                    edges[place].0.push(point(below + value));
                    edges[place].1.push(point(below));
                });
                for (place, (upper, lower)) in edges.into_iter().enumerate() {
                    let outline = upper.into_iter().chain(lower.into_iter().rev()).collect::<Vec<_>>().join("L");
                    let (colour, name) = (place % 8, escape(&series[place].name));
                    put(
                        svg,
                        format_args!("<path class=\"f{colour}\" d=\"M{outline}Z\"><title>{name}</title></path>\n"),
                    );
                }
            }
        }
    }

    /// Returns the legend of the colours; empty for a line.
    fn legend(&self) -> String {
        let (Panel::Bars { title, series, .. } | Panel::Shares { title, series }) = self else { return String::new() };
        let entry = |(place, one): (usize, &Series)| {
            format!("<span><i class=\"s{}\"></i>{}</span>", place % 8, escape(&one.name))
        };
        let entries: String = series.iter().enumerate().map(entry).collect();
        format!("<div class=\"legend\"><span>{}:</span>{entries}</div>\n", escape(title))
    }
}

/// Calls `each` with every value: its second, its index, the sum of those below it, and the value.
fn stack(series: &[Series], mut each: impl FnMut(usize, usize, f64, f64)) {
    let seconds = series.iter().map(|one| one.values.len()).max().unwrap_or(0);
    for at in 0..seconds {
        let mut below = 0.0;
        for (place, one) in series.iter().enumerate() {
            let value = one.values.get(at).copied().unwrap_or(0.0);
            each(at, place, below, value);
            below += value;
        }
    }
}

fn grid(svg: &mut String, title: &str, top: f64, ticks: &[(f64, String)], y: &impl Fn(f64) -> f64) {
    put(svg, format_args!("<text class=\"title\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>\n", top - 6.0, escape(title)));
    for (share, text) in ticks {
        let (y, right) = (y(*share), WIDTH - RIGHT);
        put(
            svg,
            format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>\n",
                LEFT - 6.0,
                y + 4.0
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, values: &[f64]) -> Series {
        Series { name: name.into(), values: values.to_vec() }
    }

    fn drawn(values: &[Option<f64>]) -> String {
        let all = [
            Panel::Bars {
                title: "failed".into(),
                series: vec![series("a<b", &[0.0, 3.0, 0.0]), series("c", &[0.0, 1.0])],
                most: 4.0,
            },
            Panel::Line { title: "p99".into(), values: values.to_vec(), ends: (5.0, 10_000.0) },
            Panel::Shares { title: "who".into(), series: vec![series("x", &[5.0, 10.0]), series("y", &[5.0, 0.0])] },
        ];
        let shade = Shade { name: "hung".into(), about: "x".into(), from: 1.0, until: 2.0 };
        panels("a", &all, &[shade])
    }

    #[test]
    fn there_is_a_bar_for_each_count_and_a_gap_where_nothing_is_known() {
        let svg = drawn(&[Some(12.0), None, Some(12.0)]);
        assert_eq!(svg.matches("class=\"shade\"").count(), 3);
        assert!(svg.contains("second 1: 3 a&lt;b") && svg.contains("second 1: 1 c"), "{svg}");
        let line = svg.lines().find(|line| line.contains("line figure")).expect("there is a line");
        assert_eq!(line.matches('M').count(), 2, "{line}");
        assert!(svg.contains("<i class=\"s1\"></i>y") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn bars_stand_on_each_other_and_steps_of_a_line_are_factors() {
        let svg = drawn(&[Some(50.0), Some(500.0), Some(5000.0)]);
        // Three quarters of 100 from the bottom at 154, then a quarter above.
        assert!(svg.contains("y=\"79.0\" width=\"344.0\" height=\"75.0\""), "{svg}");
        assert!(svg.contains("y=\"54.0\" width=\"344.0\" height=\"25.0\""), "{svg}");
        let line = svg.lines().find(|line| line.contains("line figure")).expect("there is a line");
        let ys: Vec<f64> =
            line.split(['M', 'L']).skip(1).filter_map(|at| at.split([' ', '"']).nth(1)?.parse().ok()).collect();
        assert!(ys.len() == 3 && ((ys[0] - ys[1]) - (ys[1] - ys[2])).abs() < 0.2, "{ys:?}");
    }

    #[test]
    fn nothing_is_drawn_too() {
        assert!(!drawn(&[]).contains("NaN") && !panels("", &[], &[]).contains("NaN"));
    }
}
