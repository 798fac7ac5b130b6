//! Tokens of real issuers: keys are made, tokens signed, sets fetched over sockets.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test is no worker: it may lock and wait")]

mod costs;
mod fetching;
mod issuer;
mod support;
mod verifying;

use evenkeel_config::Plan;
use evenkeel_tokens::{Check, Refused, Tokens};
use serde_json::Value;
use std::path::PathBuf;
use support::now;

/// A plan with a route for each `jwt`, named `r0` and so on.
fn plan(each: &[&str]) -> Plan {
    let mut text = "[listener.a]\nbind = ['127.0.0.1:1']\n[pool.p]\nendpoints = ['127.0.0.1:2']\n".to_string();
    for (at, jwt) in each.iter().enumerate() {
        text += &format!("[[route]]\nname = 'r{at}'\nmatch = {{ path = '/{at}' }}\npool = 'p'\njwt = {{ {jwt} }}\n");
        text += "limits = [{ in_flight = 1, key = 'claim:sub' }, { in_flight = 1, key = 'claim:roles' }]\n";
    }
    let outcome = evenkeel_config::parse_str("plan", &text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}

/// A file with keys, removed at the end of the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("evenkeel-keys-{}-{name}", std::process::id()));
        let file = File(path);
        file.write(text);
        file
    }

    /// Writes the file by renaming it into place, so that no look sees a part of it.
    fn write(&self, text: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, text).expect("the temporary folder can be written");
        std::fs::rename(&new, &self.0).expect("the temporary folder can be written");
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Verifier with keys in a file, and more rules.
struct Route {
    file: File,
    tokens: Tokens,
    check: Check,
}

impl Route {
    fn new(name: &str, keys: &str, rules: &str) -> Route {
        let file = File::new(name, keys);
        let plan = plan(&[&format!("keys = '{}', {rules}", file.0.display())]);
        let tokens = Tokens::default().next(&plan).expect("good keys");
        let check = Check::new(tokens.of("r0").expect("it has rules").clone());
        Route { file, tokens, check }
    }

    /// Field lines for the endpoint, or the reason of the refusal.
    fn ask(&mut self, token: &str) -> Result<String, Refused> {
        self.ask_at(token, now() * 1000)
    }

    fn ask_at(&mut self, token: &str, now_ms: i64) -> Result<String, Refused> {
        let checked = self.check.token(token.as_bytes(), now_ms)?;
        Ok(String::from_utf8(checked.token.lines.clone()).expect("text"))
    }
}

/// Claims that are valid for ten minutes, and more.
fn claims(more: Value) -> Value {
    let mut claims = serde_json::json!({ "sub": "ann", "exp": now() + 600 });
    let (Some(claims_map), Value::Object(more)) = (claims.as_object_mut(), more) else { unreachable!("objects") };
    claims_map.extend(more);
    claims
}
