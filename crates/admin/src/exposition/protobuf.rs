//! Metrics in the protocol buffers of Prometheus: the metrics of the text format, and native histograms, which text
//! does not have. The messages are from io.prometheus.client, with the fields that are used here.

use prost::Message;

/// Histograms with steps by powers of a root of 2, each in a single series.
#[derive(Clone, Debug, PartialEq)]
pub struct Native {
    /// Name of the metric family.
    pub name: &'static str,
    pub help: &'static str,
    /// Fineness of the steps: 2 to the power of it for an octave.
    pub schema: i32,
    /// Largest value that counts as zero.
    pub zero_threshold: f64,
    /// Series, for each set of labels.
    pub series: Vec<Series>,
}

/// Native histogram of a set of labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Labels with their values.
    pub labels: Vec<(&'static str, String)>,
    /// Everything that was observed, together.
    pub sum: f64,
    /// Observations that count as zero.
    pub zeros: u64,
    /// Observations by step, ascending: the step n ends at 2 to the power of n / 2^schema.
    pub steps: Vec<(i32, u64)>,
}

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(enumeration = "Kind", tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum Kind {
    Counter = 0,
    Gauge = 1,
    Untyped = 3,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Value>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Value>,
    #[prost(message, optional, tag = "5")]
    untyped: Option<Value>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// Value of a gauge, a counter or an untyped metric.
#[derive(Clone, Copy, PartialEq, Message)]
struct Value {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(double, tag = "2")]
    sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

/// Steps in ascending order.
#[derive(Clone, Copy, PartialEq, Message)]
struct Span {
    /// Steps that are left out before the first; of the first span its number.
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// Encodes the metrics of a text of version 0.0.4 and these histograms, each family with its length before it.
pub fn encode(text: &str, native: &[Native], out: &mut Vec<u8>) {
    for family in families(text).into_iter().chain(native.iter().map(family)) {
        // A Vec takes everything.
        let _ = family.encode_length_delimited(out);
    }
}

fn families(text: &str) -> Vec<MetricFamily> {
    let mut families: Vec<MetricFamily> = Vec::new();
    let mut help = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest
                .split_once(' ')
                .map(|(_, help)| help.replace("\\n", "\n").replace("\\\\", "\\"))
                .unwrap_or_default();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let kind = match kind {
                "counter" => Kind::Counter,
                "gauge" => Kind::Gauge,
                "histogram" => Kind::Histogram,
                _ => Kind::Untyped,
            };
            let help = std::mem::take(&mut help);
            families.push(MetricFamily { name: name.to_owned(), help, kind: kind.into(), metric: Vec::new() });
        } else if let (Some(family), Some((name, labels, value))) = (families.last_mut(), sample(line)) {
            add(family, name, labels, value);
        }
    }
    families
}

/// Adds the sample of a line to its family.
fn add(family: &mut MetricFamily, name: &str, mut label: Vec<Label>, value: f64) {
    let it = || Some(Value { value });
    match family.kind() {
        Kind::Counter => family.metric.push(Metric { label, counter: it(), ..Metric::default() }),
        Kind::Gauge => family.metric.push(Metric { label, gauge: it(), ..Metric::default() }),
        Kind::Untyped => family.metric.push(Metric { label, untyped: it(), ..Metric::default() }),
        Kind::Histogram => {
            let end = label.iter().position(|label| label.name == "le").map(|at| label.remove(at));
            if family.metric.last().is_none_or(|last| last.label != label) {
                family.metric.push(Metric { label, histogram: Some(Histogram::default()), ..Metric::default() });
            }
            let Some(histogram) = family.metric.last_mut().and_then(|last| last.histogram.as_mut()) else { return };
            match (name.strip_prefix(&family.name), end) {
                (Some("_count"), _) => histogram.sample_count = value as u64,
                (Some("_sum"), _) => histogram.sample_sum = value,
                (_, Some(end)) => {
                    let upper_bound = number(&end.value).unwrap_or(f64::INFINITY);
                    histogram.bucket.push(Bucket { cumulative_count: value as u64, upper_bound });
                }
                _ => {}
            }
        }
    }
}

/// A line as `name{label="value",...} 1`.
fn sample(line: &str) -> Option<(&str, Vec<Label>, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (name, quoted) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, behind) = unquoted(quoted)?;
            labels.push(Label { name: name.to_owned(), value });
            rest = behind;
        }
        rest = &rest[1..];
    }
    Some((name, labels, number(rest.split_whitespace().next()?)?))
}

/// Returns a value up to its closing mark, and the text behind that.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match (escaped, c) {
            (false, '"') => return Some((value, &text[at + 1..])),
            (false, '\\') => escaped = true,
            (true, 'n') => (escaped, _) = (false, value.push('\n')),
            _ => (escaped, _) = (false, value.push(c)),
        }
    }
    None
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        text => text.parse().ok(),
    }
}

fn family(native: &Native) -> MetricFamily {
    let one = |series: &Series| {
        let label = series.labels.iter().map(|(name, value)| Label { name: (*name).to_owned(), value: value.clone() });
        let mut histogram = Histogram {
            sample_count: series.zeros + series.steps.iter().map(|(_, count)| count).sum::<u64>(),
            sample_sum: series.sum,
            schema: Some(native.schema),
            zero_threshold: Some(native.zero_threshold),
            zero_count: Some(series.zeros),
            ..Histogram::default()
        };
        let (mut next, mut before) = (0, 0);
        for &(step, count) in series.steps.iter().filter(|(_, count)| *count > 0) {
            match histogram.positive_span.last_mut() {
                Some(span) if step == next => span.length += 1,
                _ => histogram.positive_span.push(Span { offset: step - next, length: 1 }),
            }
            histogram.positive_delta.push(count as i64 - before);
            (next, before) = (step + 1, count as i64);
        }
        Metric { label: label.collect(), histogram: Some(histogram), ..Metric::default() }
    };
    let (name, help) = (native.name.to_owned(), native.help.to_owned());
    MetricFamily { name, help, kind: Kind::Histogram.into(), metric: native.series.iter().map(one).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str, native: &[Native]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, native, &mut out);
        out
    }

    fn decoded(mut bytes: &[u8]) -> Vec<MetricFamily> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            all.push(MetricFamily::decode_length_delimited(&mut bytes).expect("a message"));
        }
        all
    }

    #[test]
    fn text_is_said_again() {
        let text = "# HELP x_total How \\\\ many.\n# TYPE x_total counter\nx_total{a=\"b\\\"c,}\",d=\"\"} 3\nx_total 4\n\
                    # HELP h_seconds How long.\n# TYPE h_seconds histogram\nh_seconds_sum{p=\"q\"} 1.5\nh_seconds_count{p=\"q\"} 3\n\
                    h_seconds_bucket{le=\"1.0\",p=\"q\"} 2\nh_seconds_bucket{le=\"+Inf\",p=\"q\"} 3\nh_seconds_sum{p=\"r\"} 0.0\n\
                    # HELP g A gauge.\n# TYPE g gauge\ng NaN\nnonsense\n";
        let families = decoded(&encoded(text, &[]));
        let [counter, histogram, gauge] = &families[..] else { panic!("{families:?}") };
        assert_eq!((&*counter.name, &*counter.help, counter.kind()), ("x_total", "How \\ many.", Kind::Counter));
        let label = |name: &str, value: &str| Label { name: name.into(), value: value.into() };
        assert_eq!(counter.metric[0].label, [label("a", "b\"c,}"), label("d", "")]);
        assert_eq!(
            (counter.metric[0].counter, counter.metric[1].counter),
            (Some(Value { value: 3.0 }), Some(Value { value: 4.0 }))
        );
        assert_eq!(histogram.metric.len(), 2);
        let first = histogram.metric[0].histogram.as_ref().expect("a histogram");
        assert_eq!((first.sample_count, first.sample_sum, first.schema), (3, 1.5, None));
        assert_eq!(
            first.bucket.iter().map(|bucket| (bucket.upper_bound, bucket.cumulative_count)).collect::<Vec<_>>(),
            [(1.0, 2), (f64::INFINITY, 3)]
        );
        assert!(gauge.metric.len() == 1 && gauge.metric[0].gauge.expect("a gauge").value.is_nan());
    }

    #[test]
    fn steps_are_spans_and_differences() {
        let series = Series {
            labels: vec![("pool", "a".into())],
            sum: 2.5,
            zeros: 1,
            steps: vec![(-3, 2), (-2, 0), (-1, 5), (0, 4)],
        };
        let native =
            Native { name: "n_seconds", help: "How long.", schema: 2, zero_threshold: 1e-5, series: vec![series] };
        let families = decoded(&encoded("", &[native]));
        let histogram = families[0].metric[0].histogram.as_ref().expect("a histogram");
        assert_eq!((histogram.sample_count, histogram.zero_count, histogram.schema), (12, Some(1), Some(2)));
        assert_eq!(histogram.positive_span, [Span { offset: -3, length: 1 }, Span { offset: 1, length: 2 }]);
        assert_eq!(histogram.positive_delta, [2, 3, -1]);
    }
}
