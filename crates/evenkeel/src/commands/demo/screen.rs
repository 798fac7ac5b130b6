//! Screen at the end of the demo: bars, a verdict and an outage, within 80 columns and with room for the rest of 24 rows.

use super::outage::Outage;
use super::report::percentile;
use super::trial::Trial;
use evenkeel_balance::state::State;
use std::fmt::Write;
use std::time::Duration;

/// Columns of the longest bar.
const BAR: usize = 52;

/// The percentile that is drawn is the highest of these that every algorithm has.
const DRAWN: [f64; 4] = [99.0, 95.0, 90.0, 50.0];

/// Share of requests above which an algorithm would overload a single real server.
const GREEDY: f64 = 0.9;

/// Returns the text of the screen.
pub fn screen(trials: &[Trial], outage: &Outage) -> String {
    let mut out = String::new();
    let shown = DRAWN.into_iter().find(|&p| trials.iter().all(|t| percentile(t, p).is_some()));
    if let Some(p) = shown {
        bars(&mut out, trials, p);
    }
    answer(&mut out, outage);
    let _ = writeln!(
        out,
        "\nMore: --details (all percentiles), --json; `evenkeel algorithms` explains each\n\
         one, `evenkeel sim` tries them on systems like yours."
    );
    out
}

fn bars(out: &mut String, trials: &[Trial], p: f64) {
    let ms = |trial: &Trial| percentile(trial, p).unwrap_or_default();
    let (greedy, mut fair): (Vec<&Trial>, Vec<&Trial>) =
        trials.iter().partition(|t| t.shares.iter().any(|share| *share > GREEDY));
    fair.sort_by(|a, b| ms(a).total_cmp(&ms(b)));
    let longest = trials.iter().map(ms).fold(0.0, f64::max);
    let _ =
        writeln!(out, "\np{p}: one request in {:.0} took longer. Ten endpoints, 1 to 1000 ms.\n", 100.0 / (100.0 - p));
    for trial in &fair {
        row(out, trial, ms(trial), longest);
    }
    if let [best, .., worst] = &fair[..] {
        let (best_ms, worst_ms) = (ms(best), ms(worst));
        let (best, worst) = (best.algorithm.name, worst.algorithm.name);
        let _ = writeln!(out, "\np{p}: {best} {best_ms:.0} ms, {worst} {worst_ms:.0} ms");
    }
    if !greedy.is_empty() {
        out.push_str("\nApart, since all went to one endpoint, and a real server would be overloaded:\n");
    }
    for trial in greedy {
        row(out, trial, ms(trial), longest);
    }
}

fn row(out: &mut String, trial: &Trial, ms: f64, longest: f64) {
    let eighths = (ms / longest * (BAR * 8) as f64).round() as usize;
    let mut bar = "\u{2588}".repeat(eighths / 8);
    // U+2588 is a full block, the seven after it are narrower by an eighth each.
    bar.extend(char::from_u32(0x2590 - (eighths % 8) as u32).filter(|_| !eighths.is_multiple_of(8)));
    let _ = writeln!(out, "  {:12} {bar:BAR$} {ms:>6.0} ms", trial.algorithm.name);
}

/// Adds the behaviour of the pool when its endpoint died.
fn answer(out: &mut String, outage: &Outage) {
    let most = outage.answered.iter().copied().max().unwrap_or(0).max(1);
    let height = |n: u64| match n {
        0 => ' ',
        // Eight heights from U+2581 on.
        _ => char::from_u32(0x2581 + (n * 7).div_ceil(most).min(7) as u32).unwrap_or(' '),
    };
    let answered: String = outage.answered.iter().map(|&n| height(n)).collect();
    let failed: String = outage.failed.iter().map(|&n| if n == 0 { '.' } else { 'x' }).collect();
    let count: u64 = outage.failed.iter().sum();
    let _ = writeln!(out, "\nEndpoint {} was killed under load, and revived 2 s later:\n", outage.victim);
    let _ = writeln!(out, "  its answers  {answered}");
    let _ = writeln!(out, "  failures     {failed}  {count} of {} requests failed", outage.requests);
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let left = match outage.out {
        Some((after, State::Ejected(_))) => format!("ejected after {}", seconds(after)),
        Some((after, _)) => format!("down after {}", seconds(after)),
        None => "not taken out".to_string(),
    };
    let back =
        outage.back.map_or("not back yet".to_string(), |after| format!("back {} after its revival", seconds(after)));
    let _ = writeln!(out, "  {left}, {back}; {} retries elsewhere", outage.retries);
}

#[cfg(test)]
mod tests {
    use super::super::load::Seen;
    use super::*;
    use evenkeel_balance::algorithms;
    use evenkeel_balance::outlier::Cause;
    use hdrhistogram::Histogram;

    fn trial(name: &str, p99_ms: u64, share: f64) -> Trial {
        let mut latency_us = Histogram::new(3).expect("three digits are allowed");
        latency_us.record_n(1000, 1960).expect("it grows");
        latency_us.record_n(p99_ms * 1000, 40).expect("it grows");
        let seen = Seen { latency_us, errors: 0, wall: Duration::from_secs(1), capped: false };
        let algorithm = algorithms::ALL.iter().find(|a| a.name == name).expect("it is registered");
        Trial { algorithm, seen, shares: vec![share, 1.0 - share] }
    }

    #[test]
    fn the_best_is_first_and_what_would_overload_a_server_stands_apart() {
        let trials = [trial("round_robin", 890, 0.5), trial("first", 21, 1.0), trial("leastconn", 83, 0.6)];
        let outage = Outage {
            victim: "b".into(),
            answered: vec![8, 1, 0, 4],
            failed: vec![0, 0, 1, 0],
            requests: 900,
            retries: 3,
            out: Some((Duration::from_millis(140), State::Ejected(Cause::Gateway))),
            back: None,
        };
        let text = screen(&trials, &outage);
        let places =
            ["  leastconn ", "  round_robin ", "leastconn 83 ms, round_robin 890 ms", "overloaded", "  first "];
        let places: Vec<_> =
            places.iter().map(|what| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"))).collect();
        assert!(places.is_sorted(), "{text}");
        assert!(
            text.contains("\u{2588}\u{2582} \u{2585}") && text.contains("..x.  1 of 900 requests failed"),
            "{text}"
        );
        assert!(text.contains("ejected after 0.1 s, not back yet; 3 retries elsewhere"), "{text}");
    }
}
