//! Advice as JSON for programs.

use crate::advice::Advice;
use serde_json::{Value, json};

/// Returns advice as a JSON object, in order of effect.
pub fn json(file: &str, all: &[Advice]) -> Value {
    let one = |advice: &Advice| {
        let effect = advice.effect.as_ref().map(|effect| {
            json!({
                "figure": effect.figure.name(),
                "change": effect.change,
                "at": effect.at,
            })
        });
        json!({
            "kind": advice.kind,
            "subject": advice.subject,
            "verdict": advice.verdict.name(),
            "says": advice.says,
            "effect": effect,
            "evidence": advice.evidence,
            "repeat": advice.repeat,
            "patch": advice.patch.as_ref().map(|patch| &patch.diff),
        })
    };
    json!({ "config": file, "advice": all.iter().map(one).collect::<Vec<_>>() })
}
