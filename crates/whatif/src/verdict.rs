//! The verdict: the policy to choose, by the 99th percentile and then the median.

use crate::answer::{Answer, range};
use crate::worlds::World;

/// Labels of what to choose, in a form for machines and as a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Label of the best answer; `None` if there is none.
    pub best: Option<String>,
    /// Labels of those that are not distinguishable from it.
    pub alike: Vec<String>,
    /// Sentence with the policy, its changes of p99 and p50 with intervals, and the policies that are as good.
    pub text: String,
}

/// Differences below this are of no use, as a natural logarithm.
const USEFUL: f64 = 0.03;

/// Judges the answers; `logged` is the label of the policy in force.
pub fn verdict(answers: &[Answer], worlds: &[World], logged: &str) -> Verdict {
    let systems: Vec<usize> = worlds.iter().map(|world| world.system).collect();
    let known: Vec<&Answer> = answers.iter().filter(|answer| !answer.is_bound && answer.figures.is_ok()).collect();
    let mean = |answer: &Answer| answer.by_world.iter().map(|of| of[0]).sum::<f64>() / answer.by_world.len() as f64;
    let Some(best) = known.iter().min_by(|a, b| mean(a).total_cmp(&mean(b))) else {
        let text = "no question has an answer; each says why".to_string();
        return Verdict { best: None, alike: Vec::new(), text };
    };
    // The tail of a log is noisy; a median that is better for sure decides where p99 does not.
    let is_alike = |other: &&&Answer| {
        (0..3).all(|of| {
            let differences = other.by_world.iter().zip(&best.by_world).map(|(a, b)| a[of] - b[of]);
            let range = range(&differences.collect::<Vec<_>>(), &systems);
            range.has_zero() || range.middle < USEFUL
        })
    };
    let alike: Vec<&&Answer> = known.iter().filter(|other| other.label != best.label).filter(is_alike).collect();
    let own = alike.iter().find(|answer| answer.is_of_the_log).copied();
    let chosen = own.unwrap_or(best);
    let rest = alike.iter().filter(|other| other.label != chosen.label).map(|other| other.label.clone());
    let alike: Vec<String> = rest.chain((chosen.label != best.label).then(|| best.label.clone())).collect();
    let text = text(chosen, &alike, logged);
    Verdict { best: Some(chosen.label.clone()), alike, text }
}

fn text(best: &Answer, alike: &[String], logged: &str) -> String {
    let others = match alike {
        [] => String::new(),
        [one] => format!("; {one} is not distinguishable from it"),
        many => format!("; {} are not distinguishable from it", many.join(", ")),
    };
    if best.is_of_the_log {
        return format!("leave {logged}: nothing that was tried is better by more than chance{others}");
    }
    let Ok(figures) = &best.figures else { return String::new() };
    let [p50, _, p99] = figures.times;
    let ms = |ns: f64| format!("{:+.2} ms", ns / 1e6);
    let choice = match best.label == logged {
        true => format!("{logged} under these conditions"),
        false => format!("{} instead of {logged}", best.label),
    };
    format!(
        "{choice}: p99 {} [{}, {}], p50 {} [{}, {}]{others}",
        ms(p99.change.middle),
        ms(p99.change.low),
        ms(p99.change.high),
        ms(p50.change.middle),
        ms(p50.change.low),
        ms(p50.change.high)
    )
}
