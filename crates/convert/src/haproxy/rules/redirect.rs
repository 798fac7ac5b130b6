//! Redirects and fixed responses of HAProxy as actions of routes.

use super::effect::Scope;
use super::sample;
use crate::haproxy::samples::Context;
use crate::haproxy::state::State;
use crate::model::{Action, Draft, Entries, RouteKeys, Value, braced};
use evenkeel_config::plan::Respond;

/// A redirect, from its words up to the condition. `is_plain` is true if its target has no samples.
///
/// # Errors
/// Reason why it cannot be written.
pub(crate) fn redirect(
    words: &[String],
    is_plain: bool,
    context: &Context<'_>,
    state: &State,
) -> Result<Action, String> {
    let mut words = words.iter().map(String::as_str);
    let (mut kind, mut target, mut status, mut drop_query, mut slash) = ("", "", 302, false, "");
    while let Some(word) = words.next() {
        match word {
            "location" | "prefix" | "scheme" => (kind, target) = (word, words.next().unwrap_or_default()),
            "code" => status = words.next().and_then(|n| n.parse().ok()).unwrap_or(302),
            "drop-query" => drop_query = true,
            "ignore-empty" | "keep-query" => {}
            "append-slash" => slash = "/",
            "set-cookie" | "clear-cookie" => return Err(format!("a redirect cannot carry out `{word}`")),
            other => return Err(format!("`{other}` of a redirect is not known")),
        }
    }
    let text = match is_plain {
        true => braced(target).replace('%', "{percent}"),
        false => sample::read(target, context, state)?,
    };
    let rest = || sample::read(if drop_query { "%[path]" } else { "%[pathq]" }, context, state);
    let to = match kind {
        "scheme" => format!("{text}://{}{}", sample::read("%[req.hdr(Host)]", context, state)?, rest()?),
        // A slash alone puts nothing in front of the path.
        "prefix" if text == "/" && slash.is_empty() => return Err("it leads to the same place".to_string()),
        "prefix" if !slash.is_empty() && !drop_query => {
            return Err("`append-slash` is available with `drop-query` only".to_string());
        }
        "prefix" => format!("{}{}{slash}", if text == "/" { "" } else { &text }, rest()?),
        "location" => text,
        _ => return Err("it names no target".to_string()),
    };
    let to = if to.starts_with("{path}") { to.replacen("{path}", "/{path|after(/)}", 1) } else { to };
    if !(to.starts_with('/') || to.starts_with("http://") || to.starts_with("https://")) || to.starts_with("//") {
        return Err(format!("\"{to}\" is neither a URL nor a path"));
    }
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Err(format!("{status} is not the status of a redirect"));
    }
    let table = Draft::one(key!("to"), to);
    Ok(Action::Redirect(if status == 302 { table } else { table.with(key!("status"), status) }))
}

/// A fixed response of `http-request return`, from its words up to the condition, and the keys of its route.
///
/// # Errors
/// Reason why it cannot be written.
pub(crate) fn respond(
    words: &[String],
    default: u64,
    scope: &Scope<'_>,
    state: &State,
) -> Result<(Action, RouteKeys), String> {
    let mut words = words.iter().map(String::as_str);
    let (mut table, mut fields) = (Draft::one(key!("status"), default), Draft::default());
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word {
            "deny" | "tarpit" | "return" | "reject" | "silent-drop" | "block" => {}
            "status" | "deny_status" => {
                let status = value();
                let number: u64 = status.parse().map_err(|_| format!("\"{status}\" is not a status"))?;
                table.put(key!("status"), number);
            }
            "content-type" => drop(table.put(key!("type"), value())),
            "string" => drop(table.put(key!("body"), value())),
            "lf-string" => {
                let text = sample::read(value(), scope.context, state)?;
                if text.contains('{') {
                    return Err("the text of a response has no variables".to_string());
                }
                table.put(key!("body"), text);
            }
            "file" => drop(table.put(key!("file"), value())),
            "hdr" => {
                let name = value();
                let text = sample::read(words.next().unwrap_or_default(), scope.context, state)?;
                fields.insert(key!("response_headers.set"), name, text);
            }
            "default-errorfiles" => {}
            "errorfile" => {
                let page = Entries::one("errorfile", value());
                fields.push(key!("error_pages"), page);
            }
            "errorfiles" | "lf-file" => return Err(format!("`{word}` of a response is not available")),
            other => return Err(format!("`{other}` of a response is not known")),
        }
    }
    paged(&table, &mut fields)?;
    Ok((Action::Respond(table), fields))
}

/// Puts the status of the response into its page.
fn paged(table: &Draft<Respond>, fields: &mut RouteKeys) -> Result<(), String> {
    let Some(Value::List(pages)) = fields.get(key!("error_pages")).cloned() else { return Ok(()) };
    let Some(Value::Int(status @ 400..)) = table.get(key!("status")) else {
        return Err("pages with a head are for errors only".to_string());
    };
    let with = |page: Value| match page {
        Value::Table(page) => {
            let mut with = Entries::one("status", vec![*status]);
            page.iter().for_each(|(key, value)| drop(with.set(key, value.clone())));
            Value::Table(with)
        }
        other => other,
    };
    fields.put(key!("error_pages"), Value::List(pages.into_iter().map(with).collect()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haproxy::lexer::words;
    use crate::model::Maps;
    use evenkeel_config::NoFiles;
    use evenkeel_config::plan::Redirect;

    fn read(text: &str) -> Result<Draft<Redirect>, String> {
        let maps = Maps::default();
        let context = Context { maps: &maps, files: &NoFiles, port: None };
        match redirect(&words(text), false, &context, &State::default())? {
            Action::Redirect(table) => Ok(table),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn targets_are_urls() {
        let to = |text: &str| Draft::one(key!("to"), text);
        let url = "https://{header.Host}{request_uri}";
        assert_eq!(read("scheme https code 301"), Ok(to(url).with(key!("status"), 301)));
        assert_eq!(read("prefix https://www.a.test"), Ok(to("https://www.a.test{request_uri}")));
        assert_eq!(read("prefix /a drop-query"), Ok(to("/a{path}")));
        assert_eq!(read("location https://%[hdr(host)]%[capture.req.uri]"), Ok(to(url)));
        assert_eq!(read("location /new"), Ok(to("/new")));
        for wrong in ["location //a.test", "location x", "", "location /x code 200"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
