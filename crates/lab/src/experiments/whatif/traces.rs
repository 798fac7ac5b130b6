//! Samples of public traces: token counts and the times between requests of a language model.

use std::sync::LazyLock;

/// Requests of a trace in their order.
struct Sample {
    /// Milliseconds since the previous request.
    gaps_ms: Vec<u32>,
    tokens: Vec<u32>,
}

static CODE: LazyLock<Sample> = LazyLock::new(|| Sample::of(include_str!("llm-code.csv")));
static CONVERSATION: LazyLock<Sample> = LazyLock::new(|| Sample::of(include_str!("llm-conversation.csv")));

impl Sample {
    fn of(text: &str) -> Sample {
        let rows = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (gap, tokens) = line.split_once(',')?;
            Some((gap.parse::<u32>().ok()?, tokens.parse::<u32>().ok()?))
        });
        let (gaps_ms, tokens) = rows.unzip();
        Sample { gaps_ms, tokens }
    }
}

/// Token counts of responses to programmers: mean 28, coefficient of variation 2.3.
pub fn code() -> &'static [u32] {
    &CODE.tokens
}

/// Token counts of responses in conversations: mean 211, coefficient of variation 0.7.
pub fn conversation() -> &'static [u32] {
    &CONVERSATION.tokens
}

/// Arrivals of the requests of programmers, in nanoseconds: `count` at a mean rate of `per_second`. Gaps vary with a
/// coefficient of 16, so the load comes in bursts.
pub fn bursts(count: usize, per_second: f64) -> Vec<u64> {
    let gaps = &CODE.gaps_ms;
    let mean_ms = gaps.iter().map(|ms| f64::from(*ms)).sum::<f64>() / gaps.len() as f64;
    let scale_ns = 1e9 / per_second / mean_ms;
    let mut at = 0.0;
    let arrivals = gaps.iter().cycle().take(count).map(|ms| {
        at += f64::from(*ms) * scale_ns;
        at as u64
    });
    arrivals.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variation(values: impl Iterator<Item = f64> + Clone) -> f64 {
        let count = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / count;
        (values.map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt() / mean
    }

    #[test]
    fn samples_vary_as_their_traces() {
        let tokens = |of: &'static [u32]| variation(of.iter().map(|n| f64::from(*n)));
        assert_eq!((code().len(), conversation().len()), (3000, 2000));
        assert!((2.0..2.6).contains(&tokens(code())) && (0.6..0.8).contains(&tokens(conversation())));
        let arrivals = bursts(6_001, 100.0);
        let gaps = arrivals.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
        assert!(variation(gaps) > 10.0);
        assert!((55.0..65.0).contains(&(arrivals[6_000] as f64 / 1e9)));
    }
}
