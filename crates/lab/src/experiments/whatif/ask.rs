//! Calls of `evenkeel whatif`, and its response.

use super::case::Case;
use super::entry::Entry;
use super::truth::{QUANTILES, QUESTIONS};
use crate::child;
use crate::error::{Result, While};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Limit of a call; the largest log takes some seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Ends and middle of an interval at 90 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

/// Response of `whatif`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// Reasons for the refusal of the whole log, with their kinds; empty if it was accepted.
    pub refused: Vec<(String, String)>,
    pub answers: Vec<Answer>,
    /// Recommended policy, and policies that are as good.
    pub best: Option<String>,
    pub alike: Vec<String>,
    /// Failure of the program itself.
    pub error: Option<String>,
    pub seconds: f64,
}

/// Answer to a question: a policy instead of the policy in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub question: String,
    pub refused: Option<String>,
    /// Changes in milliseconds, by quantile.
    pub change_ms: [Option<Range>; 3],
    /// Shares by the names of endpoints.
    pub shares: BTreeMap<String, Range>,
}

/// Writes the log of a case and asks `evenkeel whatif` about it. `folder`: for its files, which begin with the name of
/// the case.
///
/// # Errors
/// A file cannot be written, or the experiment is interrupted.
pub fn ask(evenkeel: &str, case: &Case, entries: &[Entry], folder: &Path) -> Result<Response> {
    let logs = logs(case, entries, folder)?;
    let how = match case.is_configured {
        true => {
            let path = folder.join(format!("{}.toml", case.name));
            write(&path, &configuration(case))?;
            vec!["--from".to_owned(), path.display().to_string(), "--pool".to_owned(), "web".to_owned()]
        }
        false => vec!["--balance".to_owned(), case.claimed.to_owned()],
    };
    call(evenkeel, case.name, logs, [how, case.words()].concat(), folder)
}

/// Asks `evenkeel whatif` about logs, with the words `how`. Writes the command of the case `name` into `folder`.
///
/// # Errors
/// A file cannot be written, or the experiment is interrupted.
pub fn call(evenkeel: &str, name: &str, logs: Vec<String>, how: Vec<String>, folder: &Path) -> Result<Response> {
    let words = |of: &[&str]| of.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let questions = words(&["--try", &QUESTIONS.join(","), "--json"]);
    let command = [words(&[evenkeel, "whatif"]), logs, how, questions].concat();
    write(&folder.join(format!("{name}.command")), &(command.join(" ") + "\n"))?;
    let began = Instant::now();
    let mut response = match child::output(&command, PATIENCE) {
        Ok(output) => Response::of(&output.text),
        Err(error) => {
            child::go_on()?;
            Response { error: Some(error.to_string()), ..Response::default() }
        }
    };
    response.seconds = began.elapsed().as_secs_f64();
    Ok(response)
}

/// Writes the logs of a case and returns their paths: each balancer of a case has its own file, unless the case is a
/// breaker whose instances are said to be one.
fn logs(case: &Case, entries: &[Entry], folder: &Path) -> Result<Vec<String>> {
    let balancers = if case.is_split { case.balancers() } else { 1 };
    let mut paths = Vec::new();
    for balancer in 0..balancers {
        let path = folder.join(match balancers {
            1 => format!("{}.log", case.name),
            _ => format!("{}-{}.log", case.name, balancer + 1),
        });
        let of: Vec<Entry> = entries.iter().filter(|of| balancers == 1 || of.balancer == balancer).cloned().collect();
        let mut text = case.format.write(&of);
        if case.bad_lines {
            spoil_lines(&mut text);
        }
        write(&path, &text)?;
        paths.push(path.display().to_string());
    }
    Ok(paths)
}

/// Cuts the last line, and inserts lines that are not requests.
fn spoil_lines(text: &mut String) {
    text.truncate(text.len() - 30);
    for part in 1..6 {
        let at = text.len() / 6 * part;
        if let Some(end) = text.get(at..).and_then(|rest| rest.find('\n')) {
            text.insert_str(
                at + end + 1,
                "<134>Nov 30 10:00:00 lb haproxy[512]: Server web/s9 is UP.\nnot a request\n",
            );
        }
    }
}

/// Configuration of evenkeel with the pool of a case.
fn configuration(case: &Case) -> String {
    let mut text = format!(
        "[listener.web]\nbind = [\"127.0.0.1:8080\"]\n\n[[route]]\npool = \"web\"\n\n[pool.web]\nbalance = \"{}\"\nendpoints = [\n",
        case.claimed
    );
    for (at, server) in case.endpoints().iter().enumerate() {
        let _ = writeln!(text, "  {{ addr = \"10.0.0.{}:80\", weight = {} }},", at + 1, server.weight);
    }
    text + "]\n"
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).or_say(|| format!("cannot write {}", path.display()))
}

impl Response {
    /// Reads the output of the program: JSON, whatever its exit status, and messages after it.
    pub fn of(output: &str) -> Response {
        let first = serde_json::Deserializer::from_str(output).into_iter::<Value>().next();
        let Some(Ok(json)) = first.filter(|json| json.as_ref().is_ok_and(Value::is_object)) else {
            let lines: Vec<&str> = output.lines().take(3).collect();
            return Response { error: Some(format!("no JSON: {}", lines.join(" "))), ..Response::default() };
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let verdict = &json["verdict"];
        Response {
            refused: list(&json["refused"]).iter().map(|why| (text(&why["kind"]), text(&why["text"]))).collect(),
            answers: list(&json["answers"]).iter().map(Answer::of).collect(),
            best: verdict["best"].as_str().map(str::to_owned),
            alike: list(&verdict["alike"]).iter().map(text).collect(),
            error: None,
            seconds: 0.0,
        }
    }

    pub fn is_accepted(&self) -> bool {
        self.error.is_none() && self.refused.is_empty() && self.answers.iter().any(|answer| answer.refused.is_none())
    }

    /// Sentence why the log was not accepted.
    pub fn why(&self) -> String {
        if let Some(error) = &self.error {
            return format!("error: {error}");
        }
        match self.refused.first() {
            Some((kind, _)) => {
                let kinds: Vec<&str> = self.refused.iter().map(|(kind, _)| kind.as_str()).collect();
                if kinds.len() > 1 { kinds.join(", ") } else { kind.clone() }
            }
            None => "every question".to_owned(),
        }
    }

    pub fn answer(&self, policy: &str) -> Option<&Answer> {
        self.answers.iter().find(|answer| is_same(&answer.question, policy))
    }
}

/// True if two names stand for the same policy.
pub fn is_same(name: &str, policy: &str) -> bool {
    name == policy || (policy == "random" && matches!(name, "p2c" | "power_of_two"))
}

impl Answer {
    fn of(json: &Value) -> Answer {
        let change = |name: &str| range(&json[format!("{name}_ms")]["change"]);
        let shares = json["shares"].as_object().into_iter().flatten();
        Answer {
            question: json["question"].as_str().unwrap_or_default().to_owned(),
            refused: json["refused"].as_str().map(str::to_owned),
            change_ms: QUANTILES.map(|(name, _)| change(name)),
            shares: shares.filter_map(|(name, share)| Some((name.clone(), range(share)?))).collect(),
        }
    }
}

fn range(json: &Value) -> Option<Range> {
    let [low, middle, high] = [0, 1, 2].map(|at| json.get(at).and_then(Value::as_f64));
    Some(Range { low: low?, middle: middle?, high: high? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_with_messages_behind_it() {
        let response = Response::of(
            r#"{"refused":[],"answers":[{"question":"p2c","refused":null,"p99_ms":{"value":9.0,"change":[-3.5,-2,-1]},
            "shares":{"a":[0.4,0.5,0.6]}},{"question":"leastconn","refused":"not seen"}],
            "verdict":{"best":"p2c","alike":["leastconn"]}}
            warning: 3 lines"#,
        );
        assert!(response.is_accepted());
        let answer = response.answer("random").unwrap();
        assert_eq!(answer.change_ms, [None, None, Some(Range { low: -3.5, middle: -2.0, high: -1.0 })]);
        assert_eq!(answer.shares["a"].high, 0.6);
        assert_eq!(response.answer("leastconn").unwrap().refused.as_deref(), Some("not seen"));
        assert_eq!((response.best.as_deref(), response.alike.len()), (Some("p2c"), 1));
    }

    #[test]
    fn a_refusal_and_a_failure_are_told_apart() {
        let refused =
            Response::of(r#"{"refused":[{"kind":"sampled","text":"t"},{"kind":"gap","text":"u"}],"answers":[]}"#);
        assert!(!refused.is_accepted());
        assert_eq!(refused.why(), "sampled, gap");
        let failed = Response::of("error: unrecognized subcommand 'whatif'");
        assert_eq!(failed.why(), "error: no JSON: error: unrecognized subcommand 'whatif'");
        assert!(!failed.is_accepted());
    }

    #[test]
    fn bad_lines_leave_the_others() {
        let mut text = "a line that is long enough to be a request\n".repeat(50);
        spoil_lines(&mut text);
        assert_eq!(text.matches("not a request").count(), 5);
        assert_eq!(text.matches("a line that is long enough to be a request\n").count(), 49);
        assert!(!text.ends_with('\n'));
    }
}
