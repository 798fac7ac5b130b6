//! Redirects and fixed responses of HAProxy as actions of routes.

use super::sample;
use crate::model::{Action, Draft, RouteKeys};
use crate::rewriting::put_url;

/// A redirect, from its words up to the condition.
///
/// # Errors
/// Reason why it cannot be written.
pub(crate) fn redirect(words: &[String]) -> Result<Action, String> {
    let mut words = words.iter().map(String::as_str);
    let (mut kind, mut target, mut status, mut drop_query) = ("", "", 302, false);
    while let Some(word) = words.next() {
        match word {
            "location" | "prefix" | "scheme" => (kind, target) = (word, words.next().unwrap_or_default()),
            "code" => status = words.next().and_then(|n| n.parse().ok()).unwrap_or(302),
            "drop-query" => drop_query = true,
            "ignore-empty" | "keep-query" => {}
            "append-slash" => return Err("`append-slash` is not available".to_string()),
            "set-cookie" | "clear-cookie" => return Err(format!("a redirect cannot carry out `{word}`")),
            other => return Err(format!("`{other}` of a redirect is not known")),
        }
    }
    let text = sample::read(target)?;
    let mut table = Draft::default();
    match kind {
        "scheme" => drop(table.put(key!("scheme"), text.text)),
        "prefix" => {
            put_url(&mut table, text.text.trim_end_matches('/'))?;
            if let Some(above) = table.text(key!("path")) {
                table.put(key!("path"), format!("{above}{{path}}"));
            }
            if drop_query {
                table.put(key!("keep_query"), false);
            }
        }
        "location" => {
            put_url(&mut table, &text.text)?;
            if !text.has_query || drop_query {
                table.put(key!("keep_query"), false);
            }
        }
        _ => return Err("it names no target".to_string()),
    }
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Err(format!("{status} is not the status of a redirect"));
    }
    if status != 302 {
        table.put(key!("status"), status);
    }
    Ok(Action::Redirect(table))
}

/// A fixed response of `http-request return`, from its words up to the condition, and the fields that it sets.
///
/// # Errors
/// Reason why it cannot be written.
pub(crate) fn respond(words: &[String], default: u64) -> Result<(Action, RouteKeys), String> {
    let mut words = words.iter().map(String::as_str);
    let (mut table, mut fields) = (Draft::one(key!("status"), default), Draft::default());
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word {
            "status" | "deny_status" => {
                let status = value();
                let number: u64 = status.parse().map_err(|_| format!("\"{status}\" is not a status"))?;
                table.put(key!("status"), number);
            }
            "content-type" => drop(table.put(key!("type"), value())),
            "string" | "lf-string" => drop(table.put(key!("body"), sample::read(value())?.text)),
            "file" | "lf-file" => drop(table.put(key!("file"), value())),
            "hdr" => {
                let name = value();
                let text = sample::read(words.next().unwrap_or_default())?.text;
                fields.insert(key!("response_headers.set"), name, text);
            }
            "default-errorfiles" => {}
            "errorfile" | "errorfiles" => {
                return Err("its file has a head, and `respond` sends a body only".to_string());
            }
            other => return Err(format!("`{other}` of a response is not known")),
        }
    }
    Ok((Action::Respond(table), fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haproxy::lexer::words;
    use evenkeel_config::plan::Redirect;

    fn read(text: &str) -> Result<Draft<Redirect>, String> {
        match redirect(&words(text))? {
            Action::Redirect(table) => Ok(table),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn targets_are_taken_apart() {
        assert_eq!(read("scheme https code 301"), Ok(Draft::one(key!("scheme"), "https").with(key!("status"), 301)));
        assert_eq!(
            read("prefix https://www.a.test"),
            Ok(Draft::one(key!("scheme"), "https").with(key!("host"), "www.a.test"))
        );
        assert_eq!(
            read("location https://www.%[hdr(host)]%[capture.req.uri] code 301"),
            Ok(Draft::one(key!("scheme"), "https").with(key!("host"), "www.{host}").with(key!("status"), 301))
        );
        assert_eq!(read("location /new"), Ok(Draft::one(key!("path"), "/new").with(key!("keep_query"), false)));
        for wrong in ["location //a.test", "location x", "", "location /x code 200", "location /x append-slash"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
