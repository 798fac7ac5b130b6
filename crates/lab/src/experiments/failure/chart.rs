//! How is a run drawn? One SVG for each balancer: failures, p99 and the share of each endpoint, second by second, with
//! a band where an endpoint was broken.

use super::measure::Second;
use std::fmt::Write;

/// A fault, to be shaded in every panel.
pub struct Band {
    /// What broke.
    pub name: &'static str,
    /// Which endpoint, from 0.
    pub endpoint: usize,
    /// From this second.
    pub from: f64,
    /// To this one.
    pub until: f64,
}

const WIDTH: f64 = 1120.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
/// Room for the names of the faults.
const TOP: f64 = 40.0;
const GAP: f64 = 26.0;
const FAILURES: f64 = 80.0;
const LATENCY: f64 = 110.0;
const SHARES: f64 = 110.0;
const BOTTOM: f64 = 24.0;

/// The ends of the latency axis, which is logarithmic.
const LATENCY_MS: (f64, f64) = (5.0, 10_000.0);

/// A part of the drawing: its upper edge and its height.
#[derive(Clone, Copy)]
struct Panel {
    top: f64,
    height: f64,
}

impl Panel {
    /// Where a share of the height, 0 to 1 from below, is.
    fn y(self, share: f64) -> f64 {
        self.top + self.height * (1.0 - share.clamp(0.0, 1.0))
    }
}

/// Draws one balancer. `failures_max` is the top of the axis of failures, the same for all balancers that are compared.
pub fn draw(name: &str, seconds: &[Second], bands: &[Band], failures_max: usize) -> String {
    let failures = Panel { top: TOP, height: FAILURES };
    let latency = Panel { top: failures.top + FAILURES + GAP, height: LATENCY };
    let shares = Panel { top: latency.top + LATENCY + GAP, height: SHARES };
    let height = shares.top + SHARES + BOTTOM;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{name}, second by second\">\n");
    let scale = Scale { seconds: seconds.len().max(1) as f64 };
    for band in bands {
        scale.band(&mut svg, band, &[failures, latency, shares]);
    }
    axis(&mut svg, failures, "failed / s", &[(0.0, "0".into()), (1.0, failures_max.to_string())]);
    let ticks = [10.0, 100.0, 1000.0, 10_000.0].map(|ms| (latency_share(ms), format!("{ms:.0}")));
    axis(&mut svg, latency, "p99, ms", &ticks);
    axis(&mut svg, shares, "endpoints", &[(0.0, "0".into()), (0.5, "50 %".into()), (1.0, "100 %".into())]);
    scale.failures(&mut svg, failures, seconds, failures_max);
    scale.latency(&mut svg, latency, seconds);
    scale.shares(&mut svg, shares, seconds);
    scale.time(&mut svg, shares);
    svg + "</svg>\n"
}

fn latency_share(ms: f64) -> f64 {
    let (low, high) = LATENCY_MS;
    (ms.max(low) / low).ln() / (high / low).ln()
}

/// Writing to a string cannot fail.
fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = svg.write_fmt(text);
}

fn axis(svg: &mut String, panel: Panel, title: &str, ticks: &[(f64, String)]) {
    put(svg, format_args!("<text class=\"title\" x=\"{LEFT}\" y=\"{:.1}\">{title}</text>\n", panel.top - 6.0));
    for (share, text) in ticks {
        let y = panel.y(*share);
        put(
            svg,
            format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>\n",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0
            ),
        );
    }
}

/// The axis of time, which all panels share.
struct Scale {
    seconds: f64,
}

impl Scale {
    fn x(&self, second: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (second / self.seconds).clamp(0.0, 1.0)
    }

    fn band(&self, svg: &mut String, band: &Band, panels: &[Panel]) {
        let (x, to) = (self.x(band.from), self.x(band.until));
        let about =
            format!("{} at endpoint {}, {:.1} s to {:.1} s", band.name, band.endpoint + 1, band.from, band.until);
        for Panel { top, height } in panels {
            put(
                svg,
                format_args!(
                    "<rect class=\"band\" x=\"{x:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{height}\">\
                     <title>{about}</title></rect>\n",
                    to - x
                ),
            );
        }
        let endpoint = band.endpoint + 1;
        put(svg, format_args!("<text class=\"fault\" x=\"{x:.1}\" y=\"14\">{} @{endpoint}</text>\n", band.name));
    }

    fn failures(&self, svg: &mut String, panel: Panel, seconds: &[Second], max: usize) {
        let wide = (self.x(1.0) - self.x(0.0)).max(1.0);
        for (at, second) in seconds.iter().enumerate() {
            let [gets, posts] = second.failed;
            let mut below = 0;
            for (class, count) in [("get", gets), ("post", posts)] {
                let (from, to) = (below as f64 / max.max(1) as f64, (below + count) as f64 / max.max(1) as f64);
                below += count;
                if count > 0 {
                    put(
                        svg,
                        format_args!(
                            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{:.1}\">\
                             <title>second {at}: {gets} GETs and {posts} POSTs failed</title></rect>\n",
                            self.x(at as f64),
                            panel.y(to),
                            panel.y(from) - panel.y(to)
                        ),
                    );
                }
            }
        }
    }

    fn latency(&self, svg: &mut String, panel: Panel, seconds: &[Second]) {
        // A second in which nothing was answered leaves a gap.
        let mut pen = 'M';
        let mut path = String::new();
        for (at, second) in seconds.iter().enumerate() {
            match second.p99_ms {
                Some(ms) => {
                    let (x, y) = (self.x(at as f64 + 0.5), panel.y(latency_share(ms)));
                    put(&mut path, format_args!("{pen}{x:.1} {y:.1}"));
                    pen = 'L';
                }
                None => pen = 'M',
            }
        }
        put(svg, format_args!("<path class=\"p99\" d=\"{path}\"/>\n"));
    }

    fn shares(&self, svg: &mut String, panel: Panel, seconds: &[Second]) {
        let endpoints = seconds.first().map_or(0, |second| second.reached.len());
        let below = |second: &Second, endpoint: usize| {
            let whole = second.reached.iter().sum::<usize>().max(1) as f64;
            second.reached[..endpoint].iter().sum::<usize>() as f64 / whole
        };
        for endpoint in 0..endpoints {
            let point = |(at, second): (usize, &Second), upto: usize| {
                format!("{:.1} {:.1}", self.x(at as f64 + 0.5), panel.y(below(second, upto)))
            };
            let upper = seconds.iter().enumerate().map(|each| point(each, endpoint + 1));
            let lower = seconds.iter().enumerate().rev().map(|each| point(each, endpoint));
            let outline = upper.chain(lower).collect::<Vec<_>>().join("L");
            let number = endpoint + 1;
            put(
                svg,
                format_args!("<path class=\"e{number}\" d=\"M{outline}Z\"><title>endpoint {number}</title></path>\n"),
            );
        }
    }

    fn time(&self, svg: &mut String, panel: Panel) {
        let step = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0].into_iter().find(|step| self.seconds / step <= 16.0);
        let step = step.unwrap_or(300.0);
        let mut second = 0.0;
        while second <= self.seconds {
            let (x, y) = (self.x(second), panel.top + panel.height + 16.0);
            put(svg, format_args!("<text class=\"tick middle\" x=\"{x:.1}\" y=\"{y:.1}\">{second:.0} s</text>\n"));
            second += step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds() -> Vec<Second> {
        let well = Second { failed: [0, 0], p99_ms: Some(12.0), reached: vec![5, 5] };
        let ill = Second { failed: [3, 1], p99_ms: None, reached: vec![10, 0] };
        vec![well.clone(), ill, well]
    }

    #[test]
    fn a_drawing_has_a_bar_for_each_failing_second_and_a_gap_where_nothing_was_answered() {
        let band = Band { name: "hung", endpoint: 1, from: 1.0, until: 2.0 };
        let svg = draw("a", &seconds(), &[band], 4);
        assert_eq!(svg.matches("class=\"get\"").count(), 1);
        assert!(svg.contains("second 1: 3 GETs and 1 POSTs failed"));
        assert_eq!(svg.matches("class=\"band\"").count(), 3);
        let line = svg.lines().find(|line| line.contains("p99\" d")).expect("there is a line");
        assert_eq!(line.matches('M').count(), 2, "{line}");
        assert!(svg.contains("class=\"e2\"") && !svg.contains("NaN"));
    }

    #[test]
    fn a_run_without_failures_or_seconds_is_drawn_too() {
        assert!(!draw("a", &seconds()[..1], &[], 0).contains("NaN"));
        assert!(draw("a", &[], &[], 0).ends_with("</svg>\n"));
    }

    #[test]
    fn the_latency_axis_is_logarithmic() {
        let step = latency_share(100.0) - latency_share(10.0);
        assert!((latency_share(1000.0) - latency_share(100.0) - step).abs() < 1e-9);
        assert_eq!((latency_share(1.0), latency_share(10_000.0)), (0.0, 1.0));
    }
}
