//! Advice as `evenkeel advise --json` prints it, and its patch.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    pub kind: String,
    pub subject: String,
    pub verdict: String,
    pub says: String,
    pub effect: Option<Effect>,
    /// First sentence of its evidence.
    pub evidence: String,
    pub patch: String,
}

/// Claimed change of a figure: -0.2 is a fifth less.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    pub figure: String,
    pub low: f64,
    pub middle: f64,
    pub high: f64,
    pub at: String,
}

/// All advice of a response: advice with a patch, and sentences of the rest.
pub fn read(json: &Value) -> (Vec<Advice>, Vec<String>) {
    let (mut changes, mut others) = (Vec::new(), Vec::new());
    for of in json["advice"].as_array().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let change = |at: usize| of["effect"]["change"][at].as_f64();
        let effect = (|| {
            let (figure, at) = (text(&of["effect"]["figure"]), text(&of["effect"]["at"]));
            Some(Effect { figure, low: change(0)?, middle: change(1)?, high: change(2)?, at })
        })();
        let (kind, subject, says) = (text(&of["kind"]), text(&of["subject"]), text(&of["says"]));
        match (of["verdict"].as_str(), of["patch"].as_str()) {
            (Some(verdict @ ("danger" | "change" | "depends")), Some(patch)) => changes.push(Advice {
                kind,
                subject,
                verdict: verdict.to_owned(),
                says,
                effect,
                evidence: text(&of["evidence"][0]),
                patch: patch.to_owned(),
            }),
            _ => others.push(format!("{subject}, {kind}: {says}")),
        }
    }
    (changes, others)
}

/// Text after a unified difference of one hunk. `None` if the text does not match it.
pub fn applied(text: &str, diff: &str) -> Option<String> {
    let mut lines = diff.lines().skip(2);
    let start: usize = lines.next()?.split(['-', ',']).nth(1)?.parse().ok()?;
    let mut old = text.lines();
    let mut new: Vec<&str> = old.by_ref().take(start.saturating_sub(1)).collect();
    for line in lines {
        let (mark, line) = line.split_at_checked(1)?;
        match mark {
            "+" => new.push(line),
            "-" => _ = old.next().filter(|old| *old == line)?,
            " " => new.push(old.next().filter(|old| *old == line)?),
            _ => {} // no line end at the end of the file
        }
    }
    new.extend(old);
    Some(new.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_is_applied_where_it_matches() {
        let diff = "--- f\n+++ f\n@@ -2,3 +2,3 @@\n b\n-c\n+x\n d\n";
        assert_eq!(applied("a\nb\nc\nd\ne\n", diff).as_deref(), Some("a\nb\nx\nd\ne\n"));
        assert_eq!(applied("a\nb\nd\n", diff), None);
    }

    #[test]
    fn only_advice_to_change_something_is_tested() {
        let of = |verdict: &str, patch: Value| {
            json!({ "kind": "k", "subject": "s", "says": "t", "verdict": verdict, "patch": patch,
            "effect": { "figure": "p99", "change": [-0.3, -0.2, -0.1], "at": "" }, "evidence": [] })
        };
        let all = json!({ "advice": [of("change", json!("d")), of("leave", json!("d")), of("change", Value::Null)] });
        let (changes, others) = read(&all);
        assert_eq!((changes.len(), others.len()), (1, 2));
        assert_eq!(changes[0].effect.as_ref().map(|effect| effect.low), Some(-0.3));
    }
}
