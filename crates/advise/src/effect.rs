//! Effects of changes, with their intervals and their order.

/// Figure that a change improves, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Share of requests that fail.
    Failures,
    /// 99th percentile of latencies.
    Latency,
    /// Processor time of the balancer.
    Processor,
    /// Requests that reach endpoints.
    Requests,
    Bytes,
}

impl Figure {
    pub fn name(self) -> &'static str {
        match self {
            Figure::Failures => "failed",
            Figure::Latency => "p99",
            Figure::Processor => "cpu",
            Figure::Requests => "requests",
            Figure::Bytes => "bytes",
        }
    }

    /// Noun phrase, to be followed by a change.
    pub fn text(self) -> &'static str {
        match self {
            Figure::Failures => "failed requests",
            Figure::Latency => "p99",
            Figure::Processor => "processor time of the balancer",
            Figure::Requests => "requests to endpoints",
            Figure::Bytes => "bytes to clients",
        }
    }
}

/// Effect of a change on a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub figure: Figure,
    /// Relative change with its 90 % interval: low, middle and high; -0.2 is a fifth less. All three are equal for a
    /// figure that is derived instead of sampled.
    pub change: [f64; 3],
    /// Conditions under which it was found, such as a load.
    pub at: String,
}

impl Effect {
    /// Change in words: `p99 -21 % [-24, -18]`.
    pub fn text(&self) -> String {
        let [low, middle, high] = self.change.map(|change| change * 100.0);
        let figure = self.figure.text();
        match low == high {
            true => format!("{figure} {middle:+.0} %, {}", self.at),
            false => format!("{figure} {middle:+.0} % [{low:+.0}, {high:+.0}], {}", self.at),
        }
    }
}
