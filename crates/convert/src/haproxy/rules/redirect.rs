//! Redirects and fixed responses of HAProxy as actions of routes.

use super::sample;
use crate::model::{Action, Table, Value};
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
    let mut table = Table::default();
    match kind {
        "scheme" => drop(table.put("scheme", text.text)),
        "prefix" => {
            put_url(&mut table, text.text.trim_end_matches('/'))?;
            let above = match table.get("path") {
                Some(Value::Text(path)) => path.clone(),
                _ => String::new(),
            };
            if !above.is_empty() {
                table.put("path", format!("{above}{{path}}"));
            }
            if drop_query {
                table.put("keep_query", false);
            }
        }
        "location" => {
            put_url(&mut table, &text.text)?;
            if !text.has_query || drop_query {
                table.put("keep_query", false);
            }
        }
        _ => return Err("it names no target".to_string()),
    }
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Err(format!("{status} is not the status of a redirect"));
    }
    if status != 302 {
        table.put("status", status);
    }
    Ok(Action::Redirect(table.into()))
}

/// A fixed response of `http-request return`, from its words up to the condition.
///
/// # Errors
/// Reason why it cannot be written.
pub(crate) fn respond(words: &[String], default: u64) -> Result<(Action, Table), String> {
    let mut words = words.iter().map(String::as_str);
    let (mut table, mut fields) = (Table::one("status", default), Table::default());
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word {
            "status" | "deny_status" => {
                let status = value();
                let number: u64 = status.parse().map_err(|_| format!("\"{status}\" is not a status"))?;
                table.put("status", number);
            }
            "content-type" => drop(table.put("type", value())),
            "string" | "lf-string" => drop(table.put("body", sample::read(value())?.text)),
            "file" | "lf-file" => drop(table.put("file", value())),
            "hdr" => {
                let name = value();
                let text = sample::read(words.next().unwrap_or_default())?.text;
                fields.table("set").set(name, text.into());
            }
            "default-errorfiles" => {}
            "errorfile" | "errorfiles" => return Err("its file has a head; pages here are bodies only".to_string()),
            other => return Err(format!("`{other}` of a response is not known")),
        }
    }
    let value = match (table.entries.as_slice(), table.get("status")) {
        ([_], Some(status)) => status.clone(),
        _ => table.into(),
    };
    Ok((Action::Respond(value), fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haproxy::lexer::words;

    fn read(text: &str) -> Result<Table, String> {
        match redirect(&words(text))? {
            Action::Redirect(Value::Table(table)) => Ok(table),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn targets_are_taken_apart() {
        assert_eq!(read("scheme https code 301"), Ok(Table::one("scheme", "https").with("status", 301)));
        assert_eq!(read("prefix https://www.a.test"), Ok(Table::one("scheme", "https").with("host", "www.a.test")));
        assert_eq!(
            read("location https://www.%[hdr(host)]%[capture.req.uri] code 301"),
            Ok(Table::one("scheme", "https").with("host", "www.{host}").with("status", 301))
        );
        assert_eq!(read("location /new"), Ok(Table::one("path", "/new").with("keep_query", false)));
        for wrong in ["location //a.test", "location x", "", "location /x code 200", "location /x append-slash"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
