//! What do the figures say, in sentences? Computed from the data: losses beside wins, and nothing where the figures do
//! not differ by enough.

use super::conduct::Took;
use super::measure::Lived;
use super::told::Told;

/// One thing in which balancers are compared. Less is better.
struct Measure {
    what: &'static str,
    unit: &'static str,
    /// Infinite for never; `None` if there was nothing to do.
    of: fn(&Lived) -> Option<f64>,
    /// Differences up to this, and up to a quarter of the smaller, are noise.
    noise: f64,
    /// Digits after the point.
    digits: usize,
}

const MEASURES: [Measure; 6] = [
    Measure { what: "failed GETs", unit: "", of: |lived| Some(lived.felt.gets as f64), noise: 2.0, digits: 0 },
    Measure { what: "failed POSTs", unit: "", of: |lived| Some(lived.felt.posts as f64), noise: 2.0, digits: 0 },
    Measure { what: "cut answers", unit: "", of: |lived| Some(lived.felt.begun as f64), noise: 2.0, digits: 0 },
    Measure { what: "p99", unit: " ms", of: |lived| lived.felt.quantiles_ms.map(|q| q[1]), noise: 5.0, digits: 1 },
    Measure { what: "time to steer away", unit: " s", of: away, noise: 0.5, digits: 1 },
    Measure { what: "time back to its share", unit: " s", of: back, noise: 0.5, digits: 1 },
];

fn away(lived: &Lived) -> Option<f64> {
    Some(if lived.to_the_end { f64::INFINITY } else { lived.away.as_secs_f64() })
}

/// A balancer that had not steered away has no way back.
fn back(lived: &Lived) -> Option<f64> {
    let back = lived.share_back.map_or(f64::INFINITY, |time| time.as_secs_f64());
    (!lived.to_the_end).then_some(back)
}

/// A sentence on the whole run for each balancer, and one for each fault in which they differ.
pub fn sentences(told: &Told) -> Vec<String> {
    let names: Vec<&str> = told.balancers.iter().map(|balancer| balancer.kind.name).collect();
    let whole = names.iter().zip(&told.ran.took).map(|(name, took)| on_all(name, took));
    let faults = told.ran.struck.iter().enumerate().map(|(number, struck)| {
        let lived: Vec<&Lived> = told.ran.took.iter().map(|took| &took.lived[number]).collect();
        on_fault(struck.fault.name, &names, &lived)
    });
    whole.chain(faults).collect()
}

fn on_all(name: &str, took: &Took) -> String {
    let felt = &took.felt;
    let share = 100.0 * felt.failed() as f64 / felt.requests.max(1) as f64;
    let p99 = felt.quantiles_ms.map_or(String::new(), |q| format!(", p99 {:.1} ms", q[1]));
    let wrong = felt.seen.get("wrong answer").copied().unwrap_or(0);
    let mixed = if wrong > 0 { format!("; {wrong} clients got an answer that was not theirs") } else { String::new() };
    format!(
        "{name}: {} of {} requests failed ({share:.3} %): {} GETs and {} POSTs before an answer, {} within it{p99}; {} POSTs \
         were done twice{mixed}.",
        felt.failed(),
        felt.requests,
        felt.gets,
        felt.posts,
        felt.begun,
        took.posts_twice,
    )
}

fn on_fault(fault: &str, names: &[&str], lived: &[&Lived]) -> String {
    let parts: Vec<String> = MEASURES.iter().filter_map(|measure| compare(measure, names, lived)).collect();
    match parts.is_empty() {
        true => format!("{fault}: not distinguishable."),
        false => format!("{fault}: {}.", parts.join("; ")),
    }
}

/// The best and the worst balancers, if they differ clearly. A time that never came is worse than any.
fn compare(measure: &Measure, names: &[&str], lived: &[&Lived]) -> Option<String> {
    let values = names.iter().zip(lived).filter_map(|(name, lived)| Some((name, (measure.of)(lived)?)));
    let values: Vec<(&&str, f64)> = values.collect();
    let least = values.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let near = |value: f64, to: f64| value == to || to.is_finite() && (value - to).abs() <= measure.noise.max(to / 4.0);
    if least.is_infinite() || near(most, least) {
        return None;
    }
    let tell = |(name, value): &(&&str, f64)| match value.is_infinite() {
        true => format!("{name} (never)"),
        false => format!("{name} ({value:.*}{})", measure.digits, measure.unit),
    };
    let those = |wanted: &dyn Fn(f64) -> bool| {
        let those = values.iter().filter(|(_, value)| wanted(*value));
        those.map(tell).collect::<Vec<_>>().join(", ")
    };
    let best = those(&|value| near(value, least));
    let worst = those(&|value| near(value, most) && !near(value, least));
    Some(format!("{}: best {best}, worst {worst}", measure.what))
}

#[cfg(test)]
mod tests {
    use super::super::measure::Felt;
    use super::*;
    use std::time::Duration;

    fn lived(gets: usize, share_back_ms: Option<u64>) -> Lived {
        Lived {
            felt: Felt { gets, quantiles_ms: Some([10.0, 12.0, 20.0]), ..Felt::default() },
            away: Duration::ZERO,
            to_the_end: false,
            first_back: None,
            share_back: share_back_ms.map(Duration::from_millis),
            reached: None,
        }
    }

    #[test]
    fn balancers_that_do_not_differ_are_not_ranked() {
        let (one, other) = (lived(1, Some(100)), lived(3, Some(500)));
        assert_eq!(on_fault("hung", &["a", "b"], &[&one, &other]), "hung: not distinguishable.");
    }

    #[test]
    fn any_time_is_better_than_never() {
        let (one, other) = (lived(0, Some(2000)), lived(0, None));
        let told = on_fault("hung", &["a", "b"], &[&one, &other]);
        assert_eq!(told, "hung: time back to its share: best a (2.0 s), worst b (never).");
    }

    #[test]
    fn best_and_worst_are_named_and_no_balancer_is_both() {
        let all = [lived(0, Some(2000)), lived(2, None), lived(4, Some(2100))];
        let told = on_fault("hung", &["a", "b", "c"], &all.iter().collect::<Vec<_>>());
        let back = "time back to its share: best a (2.0 s), c (2.1 s), worst b (never)";
        assert_eq!(told, format!("hung: failed GETs: best a (0), b (2), worst c (4); {back}."));
    }
}
