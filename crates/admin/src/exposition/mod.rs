//! Formats of metrics: OpenMetrics 1.0 for clients that ask for it, as Prometheus does, its protocol buffers for those that take native
//! histograms, and for all others the text format of Prometheus, version 0.0.4, which every collector reads.

// Order: writer, names, protobuf
mod names;
mod protobuf;
mod writer;

pub use names::Names;
pub use protobuf::{Native, Series};
pub use writer::Writer;

/// Format of metrics, as `Accept` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Text,
    /// Protocol buffers of Prometheus, each with its length, with native histograms.
    Protobuf,
}

impl Format {
    /// Returns the format that `Accept` prefers. Text without the field, and if it has none of them.
    pub fn asked_for(accept: Option<&str>) -> Format {
        let (mut protobuf, mut open_metrics, mut text) = (0.0_f64, 0.0_f64, 0.0_f64);
        for range in accept.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let parameter = |name: &str| {
                let mut named = range.split(';').skip(1).filter_map(|part| part.trim().split_once('='));
                named
                    .find(|(key, _)| key.trim().eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.trim().trim_matches('"'))
            };
            let quality: f64 = parameter("q").and_then(|q| q.parse().ok()).unwrap_or(1.0);
            if kind.eq_ignore_ascii_case("application/openmetrics-text")
                && parameter("version").is_none_or(|version| version == "1.0.0")
            {
                open_metrics = quality.max(open_metrics);
            }
            if kind.eq_ignore_ascii_case("application/vnd.google.protobuf")
                && parameter("proto") == Some("io.prometheus.client.MetricFamily")
                && parameter("encoding") == Some("delimited")
            {
                protobuf = quality.max(protobuf);
            }
            if kind.eq_ignore_ascii_case("text/plain") {
                text = quality.max(text);
            }
        }
        if protobuf > 0.0 && protobuf >= open_metrics && protobuf >= text {
            return Format::Protobuf;
        }
        if open_metrics > 0.0 && open_metrics >= text { Format::OpenMetrics } else { Format::Text }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let asked = [
            Some(prometheus),
            Some("text/plain;q=0.4, Application/OpenMetrics-Text; q=0.5"),
            None,
            Some("*/*"),
            Some("text/plain, application/openmetrics-text;q=0.9"),
            Some("application/openmetrics-text;version=0.0.1"),
            Some("application/openmetrics-text;q=0"),
            Some(";;,=q"),
        ];
        let open_metrics = asked.map(Format::asked_for).map(|format| format == Format::OpenMetrics);
        assert_eq!(open_metrics, [true, true, false, false, false, false, false, false]);
        let family = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily";
        let native = format!("{family};encoding=delimited,{prometheus}");
        assert_eq!(Format::asked_for(Some(&native)), Format::Protobuf);
        assert_eq!(Format::asked_for(Some(&format!("{family};encoding=text"))), Format::Text);
        assert_eq!(Format::asked_for(Some(&format!("{family};encoding=delimited;q=0.5,text/plain"))), Format::Text);
    }
}
