//! Judgement of responses by the truth.

use super::ask::{Answer, Range, Response};
use super::case::Case;
use super::truth::{Figures, Mean, QUANTILES, Truth};

/// Tolerance of figures relative to the latency: histograms of the truth have three significant digits.
const RESOLUTION: f64 = 0.002;

/// Tolerance of shares, for intervals without a width.
const SHARE_RESOLUTION: f64 = 0.001;

/// Half-width of the truth's interval, relative to the latency, from which the truth says nothing: the machine paused in
/// one of a few live runs.
const VAGUE: f64 = 0.5;

/// Relative difference of p99 below which two policies are alike.
const ALIKE: f64 = 0.02;

/// Policies whose figures differ by less than this share of the latency leave nothing to tell apart.
const SPREAD_MIN: f64 = 0.02;

/// System of a log, and the question about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    pub name: &'static str,
    /// Policy in force while the log was made.
    pub policy: &'static str,
    /// Format of the log's lines.
    pub format: &'static str,
    /// Names of the endpoints in responses.
    pub endpoints: Vec<String>,
    /// True if the question changes more than the policy, so that the policy of the log is a question, too.
    pub is_changed: bool,
}

impl Subject {
    pub fn of(case: &Case) -> Subject {
        let mut endpoints: Vec<String> = (0..case.endpoints().len()).map(|at| case.format.endpoint(at)).collect();
        endpoints.extend(case.slow_start.map(|_| "added 0".to_owned()));
        let Case { name, policy, format, .. } = *case;
        Subject { name, policy, format: format.name(), endpoints, is_changed: case.slow_start.is_some() }
    }
}

/// Judgement of a figure of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub question: String,
    /// Index among [`QUANTILES`]; 3 for shares.
    pub figure: usize,
    pub interval: Range,
    pub truth: Mean,
    /// Share of the figures that the intervals hold, with the error of the truth: 0 or 1, of shares the part of
    /// the endpoints.
    pub held: f64,
    /// Same share without the error of the truth.
    pub held_strictly: f64,
}

/// Response to a case, compared with the truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub subject: Subject,
    pub response: Response,
    pub truth: Truth,
    pub checked: Vec<Checked>,
    /// True if the median interval of the quantile is narrower than the difference between the policies; `None` if
    /// policies do not differ or no interval was given.
    pub is_narrow: [Option<bool>; 3],
    /// True if the recommended policy has the lowest p99, or a p99 that differs from it by less than 2 % or not
    /// significantly; `None` without a recommendation.
    pub is_right: Option<bool>,
    /// True if it is right, or if a right policy is said to be as good.
    pub is_right_or_alike: Option<bool>,
}

impl Judged {
    pub fn of(subject: &Subject, response: Response, truth: Truth) -> Judged {
        let mut checked = Vec::new();
        if response.is_accepted() {
            let is_asked = |of: &&Figures| subject.is_changed || of.policy != subject.policy;
            for figures in truth.policies.iter().filter(is_asked) {
                let answer = response.answer(figures.policy).filter(|answer| answer.refused.is_none());
                if let Some(answer) = answer {
                    check(subject, (figures, truth.errors), answer, &mut checked);
                }
            }
        }
        let is_narrow = std::array::from_fn(|at| narrow(at, &checked, &truth));
        let recommended = response.best.iter().filter(|_| response.is_accepted());
        let right_of =
            |names: &mut dyn Iterator<Item = &String>| names.map(|name| is_right(name, &truth)).reduce(|a, b| a || b);
        let is_right = right_of(&mut recommended.clone());
        let is_right_or_alike = is_right.and(right_of(&mut recommended.chain(&response.alike)));
        Judged { subject: subject.clone(), response, truth, checked, is_narrow, is_right, is_right_or_alike }
    }

    /// Share of the figures of a kind that the intervals hold; `None` without such figures.
    pub fn held(&self, figure: usize) -> Option<f64> {
        mean(self.checked.iter().filter(|of| of.figure == figure).map(|of| of.held))
    }
}

fn check(subject: &Subject, (figures, errors): (&Figures, f64), answer: &Answer, out: &mut Vec<Checked>) {
    let question = figures.policy.to_owned();
    for (figure, interval) in answer.change_ms.iter().enumerate() {
        let (truth, latency_ms) = (figures.change_ms[figure], figures.latency_ms[figure].value);
        if errors * truth.error > VAGUE * latency_ms {
            continue;
        }
        // An interval that is missing from an answer holds nothing.
        let interval = interval.unwrap_or(Range { low: f64::NAN, middle: f64::NAN, high: f64::NAN });
        let holds = |slack| f64::from(u8::from(contains(interval, truth.value, slack + RESOLUTION * latency_ms)));
        let (held, held_strictly) = (holds(errors * truth.error), holds(0.0));
        out.push(Checked { question: question.clone(), figure, interval, truth, held, held_strictly });
    }
    let share = |(at, truth): (usize, &Mean)| {
        let interval = subject.endpoints.get(at).and_then(|name| answer.shares.get(name)).copied();
        let holds = |slack: f64| interval.is_some_and(|of| contains(of, truth.value, slack + SHARE_RESOLUTION));
        HeldShare { interval, truth: *truth, held: holds(errors * truth.error), held_strictly: holds(0.0) }
    };
    let shares: Vec<HeldShare> = figures.shares.iter().enumerate().map(share).collect();
    let part = |count: usize| count as f64 / shares.len().max(1) as f64;
    // The share that is shown is that of the first endpoint that is missed, or of the last endpoint.
    if let Some(shown) = shares.iter().find(|share| !share.held).or(shares.last()) {
        out.push(Checked {
            question,
            figure: QUANTILES.len(),
            interval: shown.interval.unwrap_or_default(),
            truth: shown.truth,
            held: part(shares.iter().filter(|share| share.held).count()),
            held_strictly: part(shares.iter().filter(|share| share.held_strictly).count()),
        });
    }
}

/// Share of an endpoint, compared with the truth.
struct HeldShare {
    interval: Option<Range>,
    truth: Mean,
    held: bool,
    held_strictly: bool,
}

fn contains(interval: Range, value: f64, slack: f64) -> bool {
    interval.low - slack <= value && value <= interval.high + slack
}

fn narrow(figure: usize, checked: &[Checked], truth: &Truth) -> Option<bool> {
    let spread = truth.spread_ms()[figure];
    let latency_ms = truth.policies.iter().map(|of| of.latency_ms[figure].value).fold(f64::INFINITY, f64::min);
    if spread.value < 3.0 * spread.error || spread.value < SPREAD_MIN * latency_ms {
        return None;
    }
    let of = checked.iter().filter(|of| of.figure == figure && of.interval.low.is_finite());
    let mut widths: Vec<f64> = of.map(|of| of.interval.high - of.interval.low).collect();
    widths.sort_by(f64::total_cmp);
    widths.get(widths.len() / 2).map(|width| *width < spread.value)
}

fn is_right(recommended: &str, truth: &Truth) -> bool {
    let of = truth.policies.iter().find(|of| super::ask::is_same(recommended, of.policy));
    let (Some(of), Some(best)) = (of, truth.best()) else { return false };
    let Some(worse) = truth.p99_over(of.policy, best.policy) else { return false };
    // 1.645 standard errors, or more of a few runs: the lower end of an interval at 90 %.
    worse.value - truth.errors.max(1.645) * worse.error <= 0.0 || worse.value <= ALIKE * best.latency_ms[2].value
}

/// Mean of values; `None` without any.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    (count > 0.0).then(|| sum / count)
}

/// Scores over all cases and breakers: shares from 0 to 1; `None` if nothing is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    pub accepted: Option<f64>,
    /// Share of the figures of accepted cases within their intervals, by figure; shares last.
    pub held: [Option<f64>; 4],
    pub held_all: Option<f64>,
    pub held_strictly: Option<f64>,
    /// Share of the accepted cases whose intervals of p99 are narrower than the policies differ, of those in which they
    /// do differ; and over all quantiles.
    pub narrow_p99: Option<f64>,
    pub narrow: Option<f64>,
    pub right: Option<f64>,
    pub right_or_alike: Option<f64>,
    /// Share of the breakers that were refused.
    pub refused: Option<f64>,
}

impl Scores {
    /// `refused`: of each breaker, true if it was refused.
    pub fn of(cases: &[Judged], refused: &[bool]) -> Scores {
        let share = |of: bool| f64::from(u8::from(of));
        let accepted: Vec<&Judged> = cases.iter().filter(|of| of.response.is_accepted()).collect();
        let checked = || accepted.iter().flat_map(|of| &of.checked);
        Scores {
            accepted: mean(cases.iter().map(|of| share(of.response.is_accepted()))),
            held: std::array::from_fn(|at| mean(checked().filter(|of| of.figure == at).map(|of| of.held))),
            held_all: mean(checked().map(|of| of.held)),
            held_strictly: mean(checked().map(|of| of.held_strictly)),
            narrow_p99: mean(accepted.iter().filter_map(|of| of.is_narrow[2]).map(share)),
            narrow: mean(accepted.iter().flat_map(|of| of.is_narrow).flatten().map(share)),
            right: mean(accepted.iter().filter_map(|of| of.is_right).map(share)),
            right_or_alike: mean(accepted.iter().filter_map(|of| of.is_right_or_alike).map(share)),
            refused: mean(refused.iter().copied().map(share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{cases, truth};
    use super::*;
    use serde_json::{Value, json};

    /// Response that knows the truth, with intervals of this relative width around it.
    fn knowing(case: &Case, truth: &Truth, width: f64, best: &str) -> Response {
        let answer = |of: &Figures| {
            let mut answer = json!({ "question": of.policy, "refused": null });
            for (at, (name, _)) in QUANTILES.iter().enumerate() {
                let half = width * of.latency_ms[at].value / 2.0;
                let change = of.change_ms[at].value;
                answer[format!("{name}_ms")] =
                    json!({ "value": 1.0, "change": [change - half, change, change + half] });
            }
            let share = |(at, of): (usize, &Mean)| {
                (case.format.endpoint(at), json!([of.value - width, of.value, of.value + width]))
            };
            answer["shares"] = of.shares.iter().enumerate().map(share).collect::<serde_json::Map<_, _>>().into();
            answer
        };
        let answers: Vec<Value> = truth.policies.iter().map(answer).collect();
        let said = json!({ "refused": [], "answers": answers, "verdict": { "best": best, "alike": [] } });
        Response::of(&said.to_string())
    }

    fn case() -> (Case, Truth) {
        let case = cases::ALL[0].case();
        let (_, log) = case.log();
        let truth = truth::run(&case, &log, (4, 4));
        (case, truth)
    }

    #[test]
    fn who_knows_the_truth_gets_every_point() {
        let (case, truth) = case();
        let best = truth.best().unwrap().policy;
        let judged = Judged::of(&Subject::of(&case), knowing(&case, &truth, 0.01, best), truth);
        // Three policies other than the policy in force, with four figures each.
        assert_eq!((judged.checked.len(), judged.is_right, judged.is_narrow[2]), (12, Some(true), Some(true)));
        let scores = Scores::of(&[judged], &[true, false]);
        assert_eq!((scores.held_all, scores.held_strictly, scores.refused), (Some(1.0), Some(1.0), Some(0.5)));
    }

    #[test]
    fn intervals_that_say_nothing_are_not_narrow() {
        let (case, truth) = case();
        let judged = Judged::of(&Subject::of(&case), knowing(&case, &truth, 10.0, "round_robin"), truth);
        assert_eq!(judged.is_narrow[2], Some(false));
        assert_eq!(judged.is_right, Some(false), "turns are the worst here");
        assert_eq!(judged.held(2), Some(1.0));
    }

    #[test]
    fn a_truth_that_says_nothing_is_not_compared() {
        let (case, mut truth) = case();
        for of in &mut truth.policies {
            of.change_ms[2].error = of.latency_ms[2].value;
        }
        let judged = Judged::of(&Subject::of(&case), knowing(&case, &truth, 0.01, "leastconn"), truth);
        assert_eq!([0, 1, 2, 3].map(|at| judged.held(at)), [Some(1.0), Some(1.0), None, Some(1.0)]);
    }

    #[test]
    fn wrong_and_missing_figures_are_missed() {
        let (case, truth) = case();
        let mut response = knowing(&case, &truth, 0.01, "leastconn");
        response.answers[1].change_ms = [None; 3];
        response.answers[1].shares.clear();
        let shifted = |of: Range| Range { low: of.low + 99.0, middle: of.middle + 99.0, high: of.high + 99.0 };
        response.answers[2].change_ms = response.answers[2].change_ms.map(|of| of.map(shifted));
        let judged = Judged::of(&Subject::of(&case), response, truth.clone());
        assert_eq!([0, 1, 2].map(|at| judged.held(at).map(|of| (of * 3.0).round())), [Some(1.0); 3]);
        assert_eq!(judged.held(3).map(|of| (of * 3.0).round()), Some(2.0));
        // A refused case is not judged.
        let refused = Response { refused: vec![("gap".into(), "t".into())], ..Response::default() };
        let judged = Judged::of(&Subject::of(&case), refused, truth);
        assert_eq!((judged.checked.len(), judged.is_right), (0, None));
        assert_eq!(Scores::of(&[judged], &[]).accepted, Some(0.0));
    }
}
