//! Results as a self-contained HTML page: verdict, plots and tables.

use crate::experiment::{Experiment, Point};
use crate::interval::Interval;
use crate::results::{Results, Row};
use crate::verdict::{self, Verdict};
use crate::{Policy, text};
use evenkeel_draw::axis::Axis;
use evenkeel_draw::chart::{Chart, Line, Size};
use evenkeel_draw::page as html;

/// Maximum policies in a plot; yardsticks are always drawn.
const SERIES_MAX: usize = 16;

/// Maximum groups of servers in a plot over time.
const GROUPS_MAX: usize = 8;

pub fn page(experiment: &Experiment, results: &Results) -> String {
    let mut parts = vec![html::paragraph(&experiment.summary)];
    parts.push(html::verdicts(&text::sentences(experiment, results)));
    if !experiment.claims.is_empty() {
        let judged = experiment.claims.iter().map(|claim| {
            let verdict = verdict::claim(claim, experiment, results).verdict;
            let class = match verdict {
                Verdict::Holds => "holds",
                Verdict::Fails => "fails",
                _ => "open",
            };
            (class, verdict.as_str(), claim.says.as_str())
        });
        parts.push(html::claims(&judged.collect::<Vec<_>>()));
    }
    parts.extend(against_what_varies(experiment, results));
    for (point, rows) in experiment.points.iter().zip(&results.points) {
        if !point.label.is_empty() {
            parts.push(html::heading(&point.label));
        }
        parts.push(by_percentile(point, rows));
        parts.push(html::table(&text::table(point, rows)));
        parts.push(over_time(point, rows));
    }
    if !experiment.published.is_empty() {
        parts.push(html::heading("Published, and ours"));
        parts.push(html::table(&text::published(experiment, results)));
    }
    parts.push(html::heading("How it was made"));
    if let Some(source) = &experiment.source {
        parts.push(html::paragraph(source));
    }
    parts.push(html::paragraph(&format!(
        "evenkeel {} sim {}, {} seeds from {}: production balancing code in virtual time. Latency is from when a client sent \
         its request, or, with an open load, from when it came due. Intervals hold 95 % by Student's t over seeds; algorithms are \
         compared seed by seed.",
        env!("CARGO_PKG_VERSION"),
        experiment.name,
        results.seeds.len(),
        results.seeds.first().copied().unwrap_or_default(),
    )));
    html::page(&format!("evenkeel sim: {}", experiment.name), "", &parts)
}

/// Policies of a point to draw, each with its index.
fn drawn(point: &Point) -> impl Iterator<Item = (usize, &Policy)> {
    let yardsticks = point.policies.iter().filter(|policy| policy.is_reference()).count();
    let mut left = SERIES_MAX.saturating_sub(yardsticks);
    point.policies.iter().enumerate().filter(move |(_, policy)| {
        let takes = policy.is_reference() || left > 0;
        left -= usize::from(takes && !policy.is_reference());
        takes
    })
}

/// Plot of latency by percentile, on an axis on which each further nine takes the same width.
fn by_percentile(point: &Point, rows: &[Row]) -> String {
    let settled: Vec<(&Policy, &Row)> = drawn(point)
        .map(|(index, policy)| (policy, &rows[index]))
        .filter(|(_, row)| row.steady && !row.latency.is_empty())
        .collect();
    if settled.is_empty() {
        return html::paragraph("No steady state, so there is no latency to draw.");
    }
    let most = settled.iter().map(|(_, row)| row.latency.len()).max().unwrap_or(1) as f64;
    // At least ten requests are beyond the last point.
    let nines = (most / 10.0).log10().clamp(1.0, 5.0);
    let line = |(policy, row): (&Policy, &Row)| {
        let steps = 120;
        let at = |i: usize| {
            let x = nines * i as f64 / f64::from(steps);
            (x, row.latency.value_at_quantile(1.0 - 10f64.powf(-x)) as f64 / 1e9)
        };
        Line {
            label: policy.label.clone(),
            // From the tenth percentile on: a few lucky requests below it would decide the scale.
            points: (0..=steps as usize).map(at).filter(|(x, _)| *x > 0.045).collect(),
            band: Vec::new(),
            is_dashed: policy.is_reference(),
        }
    };
    Chart {
        title: "Latency by percentile".to_string(),
        x: Axis::Nines(nines),
        y: Axis::Seconds { log: true },
        lines: settled.into_iter().map(line).collect(),
        marks: Vec::new(),
        size: Size::Report,
    }
    .svg()
}

/// Plot of the ranked metric against the key that varies; `None` unless exactly 1 key does, with two points or more.
fn against_what_varies(experiment: &Experiment, results: &Results) -> Option<String> {
    let xs: Vec<f64> = experiment.points.iter().map(|point| point.x).collect::<Option<_>>()?;
    if xs.len() < 2 {
        return None;
    }
    let metric = experiment.rank;
    let line = |(_, policy): (usize, &Policy)| {
        let interval = |(at, x): (usize, &f64)| {
            let index = experiment.points[at].policies.iter().position(|p| p.label == policy.label)?;
            Some((*x, results.points[at][index].interval(metric)?))
        };
        let intervals: Vec<(f64, Interval)> = xs.iter().enumerate().filter_map(interval).collect();
        let band = |(x, interval): &(f64, Interval)| (*x, interval.low(), interval.high());
        Line {
            label: policy.label.clone(),
            points: intervals.iter().map(|(x, interval)| (*x, interval.mean)).collect(),
            band: intervals.iter().filter(|(_, interval)| interval.half.is_finite()).map(band).collect(),
            is_dashed: policy.is_reference(),
        }
    };
    let key = experiment.points[0].label.split(" = ").next().unwrap_or_default();
    let lines = drawn(&experiment.points[0]).map(line);
    let (low, high) = (xs.iter().copied().fold(f64::INFINITY, f64::min), xs.iter().copied().fold(0.0, f64::max));
    let log = low > 0.0 && high / low > 8.0;
    let y = match metric.unit {
        crate::metric::Unit::Time => Axis::Seconds { log: true },
        _ => Axis::Plain { name: metric.name.to_string(), log: false },
    };
    let title = format!("{} against {key}", metric.name);
    let x = Axis::Plain { name: key.to_string(), log };
    let lines = lines.filter(|line| !line.points.is_empty()).collect();
    Some(Chart { title, x, y, lines, marks: Vec::new(), size: Size::Report }.svg())
}

/// Plots of the share of requests and of requests in flight over time by group of servers, for each policy.
fn over_time(point: &Point, rows: &[Row]) -> String {
    if point.groups.len() < 2 {
        return String::new();
    }
    let mut out = String::new();
    for (index, policy) in drawn(point) {
        let over = &rows[index].over_time;
        let lines = |figures: &[Vec<f64>]| {
            let line = |((name, servers), values): (&(String, std::ops::Range<usize>), &Vec<f64>)| {
                let at = |(i, y): (usize, &f64)| ((i as f64 + 0.5) * over.step, *y);
                let label = if servers.len() > 1 { format!("{name}, {} servers", servers.len()) } else { name.clone() };
                let points = values.iter().enumerate().map(at).collect();
                Line { label, points, band: Vec::new(), is_dashed: false }
            };
            point.groups.iter().zip(figures).take(GROUPS_MAX).map(line).collect::<Vec<_>>()
        };
        let seconds = || Axis::Plain { name: "seconds".to_string(), log: false };
        let chart = |what: &str, y: Axis, lines| {
            let title = format!("{}: {what}", policy.label);
            Chart { title, x: seconds(), y, lines, marks: Vec::new(), size: Size::Report }
        };
        let share = chart("share of requests", Axis::Share, lines(&over.share));
        let y = Axis::Plain { name: "in flight".to_string(), log: false };
        let in_flight = chart("in flight at one server", y, lines(&over.in_flight));
        out += &html::pair(&share.svg(), &in_flight.svg());
    }
    html::folded("Over time, by group of servers, first seed", &out)
}

#[cfg(test)]
mod tests {
    use crate::{builtin, file};

    /// Names of tags that are not closed. Hand-written SVG easily misses a tag.
    fn unclosed(page: &str) -> Vec<String> {
        let (mut open, mut rest): (Vec<String>, &str) = (Vec::new(), page);
        while let Some(at) = rest.find('<') {
            let end = at + rest[at..].find('>').expect("each tag ends");
            let tag = &rest[at + 1..end];
            rest = &rest[end + 1..];
            let name = tag.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
            match tag {
                _ if ["!doctype", "meta", "html"].contains(&name) || tag.ends_with('/') => {}
                _ if tag.starts_with('/') => assert_eq!(open.pop().as_deref(), Some(name)),
                _ => open.push(name.to_string()),
            }
        }
        open
    }

    #[test]
    fn a_yardstick_is_drawn_however_many_algorithms_there_are() {
        let text = builtin::find("dispatchers").expect("it is built in").text;
        let mut experiment = file::read("dispatchers.toml", text).experiment.expect("it is clean");
        experiment.set_requests(2000);
        let results = experiment.run(&[1, 2], 1, &|_, _| {}).expect("nothing contradicts itself");
        let page = super::page(&experiment, &results);
        assert_eq!(unclosed(&page), Vec::<String>::new());
        let figures: Vec<&str> =
            page.split("<figure>").filter(|figure| figure.starts_with("<figcaption>p99")).collect();
        assert!(!figures.is_empty() && figures.iter().all(|figure| figure.contains("</i>jsq</span>")), "{figures:?}");
        assert!(figures.iter().all(|figure| figure.contains("class=\"band ")), "intervals are drawn");
    }

    #[test]
    fn the_page_is_whole_and_has_every_series() {
        let text = builtin::find("tower-a").expect("it is built in").text;
        let mut experiment = file::read("tower-a.toml", text).experiment.expect("it is clean");
        experiment.set_requests(5000);
        let results = experiment.run(&[1, 2], 1, &|_, _| {}).expect("nothing contradicts itself");
        let page = super::page(&experiment, &results);
        assert_eq!(unclosed(&page), Vec::<String>::new());
        for series in ["peak_ewma", "round_robin", "max100, 4 servers", "Latency by percentile", "99.9 %", "holds"] {
            assert!(page.contains(series), "{series} is not there");
        }
        assert!(!page.contains("NaN") && !page.contains("inf") && !page.contains("src="), "{page}");
        assert!(!page.contains("<script") && !page.contains("http"), "it takes nothing from elsewhere");
    }
}
