//! Plots of the history that the process keeps, and the time that they show: the last minutes, or a part of them.

use super::page::Asked;
use evenkeel_draw::axis::Axis;
use evenkeel_draw::chart::{Chart, Line, Mark, Size};
use evenkeel_draw::heatmap::{Column, heatmap};
use evenkeel_draw::spark::spark;
use evenkeel_view::Event;
use evenkeel_view::history::{History, Span, Step};
use evenkeel_view::words::{self, time_of_day};
use maud::{Markup, PreEscaped, html};

/// Points of a plot: more than there are pixels for would only make the page heavier.
const POINTS: usize = 180;

/// Ranges to choose from: seconds, and the words for them.
const RANGES: [(u64, &str); 3] = [(60, "1 min"), (300, "5 min"), (900, "15 min")];

/// Time that the plots of a page show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// Last seconds, which move on.
    Last(u64),
    /// From and until, in seconds since 1970: a part that was chosen in a plot.
    Part(u64, u64),
}

impl Range {
    /// Returns the range of a query: `range`, or `from` and `until`. All that is kept without them, or if they make no
    /// sense.
    pub fn of(asked: &Asked) -> Range {
        let number = |name: &str| asked.value(name).and_then(|text| text.parse::<u64>().ok());
        match (number("from"), number("until"), number("range")) {
            (Some(from), Some(until), _) if from < until => Range::Part(from, until),
            (_, _, Some(seconds)) if RANGES.iter().any(|(known, _)| *known == seconds) => Range::Last(seconds),
            _ => Range::Last(900),
        }
    }

    /// Returns the spans of a history that end in this time.
    pub fn within(self, history: &History) -> History {
        let (from, until) = match (self, history.spans.last()) {
            (Range::Part(from, until), _) => (from.saturating_mul(1000), until.saturating_mul(1000)),
            (Range::Last(seconds), Some(last)) => (last.until_ms.saturating_sub(seconds * 1000) + 1, u64::MAX),
            (Range::Last(_), None) => (0, u64::MAX),
        };
        let is_within = |span: &Span| (from..=until).contains(&span.until_ms);
        let spreads = history.spans.iter().zip(&history.spreads).filter(|(span, _)| is_within(span));
        History {
            step_ms: history.step_ms,
            spreads: spreads.map(|(_, spread)| spread.clone()).collect(),
            spans: history.spans.iter().copied().filter(is_within).collect(),
        }
    }

    /// Draws the choice of ranges for a page.
    pub fn choice(self, path: &str) -> Markup {
        html! {
            div.ranges {
                nav aria-label="Time range" { @for (seconds, words) in RANGES {
                    a href={ (path) "?range=" (seconds) } aria-current=[(self == Range::Last(seconds)).then_some("true")] { (words) }
                } }
                @if let Range::Part(from, until) = self {
                    span { (time_of_day(from.saturating_mul(1000))) " \u{2013} " (time_of_day(until.saturating_mul(1000))) " UTC" }
                    a href=(path) { "Back to now" }
                } @else {
                    span.dim.pointer { "Drag in a plot to zoom in." }
                }
            }
        }
    }
}

/// Computes a figure from a span, whose length is in seconds.
type Figure = fn(&Span, f64) -> f64;

/// Plot of a history, and its axis.
pub struct Plot<'a> {
    pub title: &'a str,
    /// Axis and unit of the figures.
    pub axis: Axis,
    /// Name and figure of each line.
    pub lines: &'a [(&'a str, Figure)],
}

pub fn per_second() -> Axis {
    Axis::Plain { name: "/s".into(), log: false }
}

pub fn counts() -> Axis {
    Axis::Plain { name: String::new(), log: false }
}

/// Spans put together, so that they are few enough.
fn together(history: &History) -> (f64, Vec<Span>) {
    let size = history.spans.len().div_ceil(POINTS).max(1);
    let largest = |a: Option<f64>, b: Option<f64>| if a > b { a } else { b };
    let sum = |spans: &[Span]| {
        spans.iter().fold(Span::default(), |sum, span| Span {
            until_ms: span.until_ms,
            requests: sum.requests + span.requests,
            errors: sum.errors + span.errors,
            in_flight: sum.in_flight.max(span.in_flight),
            p50_ms: largest(sum.p50_ms, span.p50_ms),
            p95_ms: largest(sum.p95_ms, span.p95_ms),
            p99_ms: largest(sum.p99_ms, span.p99_ms),
        })
    };
    // Steps at the end are whole: the right side moves on with each second.
    let rest = history.spans.len() % size;
    let spans = history.spans[rest..].chunks(size).map(sum).collect();
    (f64::from(history.step_ms) / 1000.0 * size as f64, spans)
}

impl Plot<'_> {
    /// The plot, with the events of that time.
    pub fn draw(&self, history: &History, events: &[Event]) -> Markup {
        let (seconds, spans) = together(history);
        // A line along zero for a time without a request would read as a measurement.
        let is_quiet = spans.iter().all(|span| span.requests == 0 && span.in_flight == 0);
        let spans = if is_quiet { &[][..] } else { &spans[..] };
        let point = |figure: Figure| {
            let at = move |span: &Span| (span.until_ms as f64 / 1000.0, figure(span, seconds));
            spans.iter().map(at).collect()
        };
        let line = |(label, figure): &(&str, Figure)| Line {
            label: (*label).to_owned(),
            points: point(*figure),
            band: Vec::new(),
            is_dashed: false,
        };
        let mark = |event: &Event| Mark { x: event.at_ms as f64 / 1000.0, text: event.text.clone() };
        let chart = Chart {
            title: self.title.to_owned(),
            x: Axis::Clock,
            y: match &self.axis {
                Axis::Seconds { log } => Axis::Seconds { log: *log },
                Axis::Share => Axis::Share,
                Axis::Plain { name, log } => Axis::Plain { name: name.clone(), log: *log },
                _ => counts(),
            },
            lines: self.lines.iter().map(line).collect(),
            marks: events.iter().map(mark).collect(),
            size: Size::Tile,
        };
        PreEscaped(chart.svg())
    }
}

/// Returns the requests a second of a span.
pub fn rate(span: &Span, seconds: f64) -> f64 {
    f64::from(span.requests) / seconds
}

/// Returns the errors a second of a span.
pub fn errors(span: &Span, seconds: f64) -> f64 {
    f64::from(span.errors) / seconds
}

/// Returns the requests under way at the end of a span.
pub fn in_flight(span: &Span, _: f64) -> f64 {
    f64::from(span.in_flight)
}

fn seconds(ms: Option<f64>) -> f64 {
    ms.map_or(f64::NAN, |ms| ms / 1000.0)
}

/// Returns the median latency of a span.
pub fn p50(span: &Span, _: f64) -> f64 {
    seconds(span.p50_ms)
}

/// Returns the latency that 95 of 100 responses did not exceed.
pub fn p95(span: &Span, _: f64) -> f64 {
    seconds(span.p95_ms)
}

/// Returns the latency that 99 of 100 responses did not exceed.
pub fn p99(span: &Span, _: f64) -> f64 {
    seconds(span.p99_ms)
}

/// Draws the requests a second of the last five minutes into the cell of a table.
pub fn sparkline(history: &History) -> Markup {
    let last = &history.spans[history.spans.len().saturating_sub(60)..];
    let seconds = f64::from(history.step_ms) / 1000.0;
    let values: Vec<f64> = last.iter().map(|span| rate(span, seconds)).collect();
    let now = values.last().copied().unwrap_or_default();
    PreEscaped(spark(&values, &format!("{} a second now, five minutes of them drawn", words::rate(now))))
}

/// Draws how latencies were spread over time.
pub fn spread(history: &History) -> Markup {
    let step = f64::from(history.step_ms) / 1000.0;
    let column = |(span, steps): (&Span, &Vec<Step>)| {
        let until = span.until_ms as f64 / 1000.0;
        let cells = steps.iter().map(|s| (s.from_ms / 1000.0, s.until_ms / 1000.0, s.responses)).collect();
        Column { from: until - step, until, cells }
    };
    let columns: Vec<Column> = history.spans.iter().zip(&history.spreads).map(column).collect();
    PreEscaped(heatmap("Spread of latencies to the first byte: darker is more", &columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_put_together_lose_no_request() {
        let span =
            |n: u64| Span { until_ms: n * 1000, requests: 2, p99_ms: (n == 7).then_some(3.0), ..Span::default() };
        let history = History { step_ms: 1000, spans: (1..=900).map(span).collect(), spreads: Vec::new() };
        let (seconds, spans) = together(&history);
        assert_eq!((seconds, spans.len(), spans[179].until_ms), (5.0, POINTS, 900_000));
        assert!(spans.iter().all(|span| span.requests == 10));
        assert_eq!(spans.iter().filter(|span| span.p99_ms == Some(3.0)).count(), 1);
        assert_eq!(together(&History::default()).1, []);
    }

    #[test]
    fn a_range_has_the_spans_that_end_in_it() {
        let span = |n: u64| Span { until_ms: n * 1000, ..Span::default() };
        let history = History { step_ms: 1000, spans: (1..=900).map(span).collect(), spreads: Vec::new() };
        let ends = |range: Range| {
            let shown = range.within(&history).spans;
            (shown.len(), shown.first().map(|span| span.until_ms), shown.last().map(|span| span.until_ms))
        };
        assert_eq!(ends(Range::Last(60)), (60, Some(841_000), Some(900_000)));
        assert_eq!(ends(Range::Last(900)), (900, Some(1000), Some(900_000)));
        assert_eq!(ends(Range::Part(100, 110)), (11, Some(100_000), Some(110_000)));
        assert_eq!(ends(Range::Part(5000, 6000)), (0, None, None));
        assert_eq!(Range::Last(60).within(&History::default()).spans, []);
    }

    #[test]
    fn a_time_without_requests_has_no_lines() {
        let quiet = Span { until_ms: 1000, ..Span::default() };
        let history = |spans| History { step_ms: 1000, spans, spreads: Vec::new() };
        let plot = || Plot { title: "Requests", axis: per_second(), lines: &[("requests", rate)] };
        let drawn = plot().draw(&history(vec![quiet]), &[]).into_string();
        assert!(drawn.contains("Nothing in this time"), "{drawn}");
        let drawn = plot().draw(&history(vec![quiet, Span { requests: 3, ..quiet }]), &[]).into_string();
        assert!(drawn.contains("data-values=\"0 3\"") && drawn.contains("data-unit=\"/s\""), "{drawn}");
    }
}
