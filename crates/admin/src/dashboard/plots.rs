//! How does the last quarter of an hour look? The history of the process as plots.

use evenkeel_draw::axis::Axis;
use evenkeel_draw::chart::{Chart, Line, Mark, Size};
use evenkeel_draw::heatmap::{Column, heatmap};
use evenkeel_draw::spark::spark;
use evenkeel_view::Event;
use evenkeel_view::history::{History, Span, Step};
use maud::{Markup, PreEscaped};

/// Points of a plot: more than there are pixels for would only make the page heavier.
const POINTS: usize = 180;

/// What of a span is drawn.
type Figure = fn(&Span, f64) -> f64;

/// A plot of one of the histories.
pub struct Plot<'a> {
    /// Above it.
    pub title: &'a str,
    /// Up.
    pub axis: Axis,
    /// Name and figure of each line; the figure gets the span's length in seconds.
    pub lines: &'a [(&'a str, Figure)],
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
    // Those of the end are whole: what is on the right moves on with each second.
    let rest = history.spans.len() % size;
    let spans = history.spans[rest..].chunks(size).map(sum).collect();
    (f64::from(history.step_ms) / 1000.0 * size as f64, spans)
}

impl Plot<'_> {
    /// The plot, with what happened meanwhile.
    pub fn draw(&self, history: &History, events: &[Event]) -> Markup {
        let (seconds, spans) = together(history);
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
                _ => Axis::Plain { name: String::new(), log: false },
            },
            lines: self.lines.iter().map(line).collect(),
            marks: events.iter().map(mark).collect(),
            size: Size::Tile,
        };
        PreEscaped(chart.svg())
    }
}

/// Requests a second.
pub fn rate(span: &Span, seconds: f64) -> f64 {
    f64::from(span.requests) / seconds
}

/// Errors a second.
pub fn errors(span: &Span, seconds: f64) -> f64 {
    f64::from(span.errors) / seconds
}

/// Requests under way.
pub fn in_flight(span: &Span, _: f64) -> f64 {
    f64::from(span.in_flight)
}

fn seconds(ms: Option<f64>) -> f64 {
    ms.map_or(f64::NAN, |ms| ms / 1000.0)
}

/// Half of the latencies are below.
pub fn p50(span: &Span, _: f64) -> f64 {
    seconds(span.p50_ms)
}

/// 95 of 100 are.
pub fn p95(span: &Span, _: f64) -> f64 {
    seconds(span.p95_ms)
}

/// 99 of 100 are.
pub fn p99(span: &Span, _: f64) -> f64 {
    seconds(span.p99_ms)
}

/// Requests a second in the cell of a table: a minute a point would hide what is new, so these are the last five minutes.
pub fn sparkline(history: &History) -> Markup {
    let last = &history.spans[history.spans.len().saturating_sub(60)..];
    let seconds = f64::from(history.step_ms) / 1000.0;
    let values: Vec<f64> = last.iter().map(|span| rate(span, seconds)).collect();
    let now = values.last().copied().unwrap_or_default();
    PreEscaped(spark(&values, &format!("{now:.1} requests a second now")))
}

/// How latencies were spread.
pub fn spread(history: &History) -> Markup {
    let step = f64::from(history.step_ms) / 1000.0;
    let column = |(span, steps): (&Span, &Vec<Step>)| {
        let until = span.until_ms as f64 / 1000.0;
        let cells = steps.iter().map(|s| (s.from_ms / 1000.0, s.until_ms / 1000.0, s.responses)).collect();
        Column { from: until - step, until, cells }
    };
    let columns: Vec<Column> = history.spans.iter().zip(&history.spreads).map(column).collect();
    PreEscaped(heatmap("Latency to the first byte: the darker, the more of that moment's responses", &columns))
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
}
