//! Values with samples, `%[src]` and `%ci`, in the spelling of evenkeel: `{client.ip}`.

use crate::haproxy::samples::{self, Context};
use crate::haproxy::state::State;
use crate::model::braced;

/// Letters of log formats, and the variable for each.
const LETTERS: &[(&str, &str)] = &[
    ("%ci", "{client.ip}"),
    ("%cp", "{client.port}"),
    ("%fp", "{port}"),
    ("%HM", "{method}"),
    ("%HU", "{request_uri}"),
    ("%HQ", "{query}"),
    ("%ID", "{request_id}"),
    ("%HP", "{path}"),
    ("%sslv", "{tls.version}"),
    ("%sslc", "{tls.cipher}"),
    ("%b", "{pool}"),
    ("%s", "{endpoint}"),
    ("%ST", "{status}"),
];

/// Reads a value at the place of a rule. Samples of things that an earlier rule changed have no variable.
///
/// # Errors
/// Sample that has no variable.
pub(crate) fn read(value: &str, context: &Context<'_>, state: &State) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), value);
    while let Some(at) = rest.find('%') {
        out.push_str(&braced(&rest[..at]));
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("%%") {
            out.push('%');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix("%[") {
            let end = closing(inner).ok_or("a bracket is not closed")?;
            out.push_str(&variable(&inner[..end], context, state)?);
            rest = &inner[end + 1..];
        } else if let Some((letters, variable)) =
            LETTERS.iter().filter(|(letters, _)| rest.starts_with(letters)).max_by_key(|(letters, _)| letters.len())
        {
            out.push_str(&unchanged(variable, letters, context, state)?);
            rest = &rest[letters.len()..];
        } else {
            let end = rest[1..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(rest.len(), |n| n + 1);
            return Err(format!("`{}` has no variable", &rest[..end]));
        }
    }
    out.push_str(&braced(rest));
    Ok(out)
}

/// Place of the bracket that closes a sample, which may have brackets in parentheses.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (c == ']' && depth == 0).then_some(at)
    })
}

fn variable(sample: &str, context: &Context<'_>, state: &State) -> Result<String, String> {
    let sample = last_of_field(sample.trim());
    let text = samples::expression(&sample, context, &|name| state.variable(name))?;
    unchanged(&text, &sample, context, state)
}

fn unchanged(text: &str, sample: &str, context: &Context<'_>, state: &State) -> Result<String, String> {
    match state.is_stale(text, context.maps) {
        true => Err(format!("`{sample}` reads what a rule before it has changed")),
        false => Ok(text.to_string()),
    }
}

/// The sample of a field with a converter for its last element, as `hdr` has it in a value.
pub(crate) fn last_of_field(sample: &str) -> String {
    let bare = sample.strip_prefix("req.").unwrap_or(sample);
    let (name, rest) = bare.split_once(')').unwrap_or((bare, ""));
    let is_list = name.starts_with("hdr(") && !name.contains(',') && !name.eq_ignore_ascii_case("hdr(host");
    if is_list { format!("{name}),last{rest}") } else { sample.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Maps;
    use evenkeel_config::NoFiles;

    #[test]
    fn samples_become_variables() {
        let maps = Maps::default();
        let context = Context { maps: &maps, files: &NoFiles, port: None };
        let read = |value: &str| read(value, &context, &State::default());
        for (value, text) in [
            ("https", "https"),
            ("%[src]", "{client.ip}"),
            ("a %ci:%cp b", "a {client.ip}:{client.port} b"),
            ("max-age={1} 5%%", "max-age={{1}} 5%"),
            ("https://%[hdr(host)]%[capture.req.uri]", "https://{header.Host}{request_uri}"),
            ("%[req.hdr(X-A),lower]", "{header.X-A|field(-1,',')|trim|lower}"),
            ("%[path,field(2,/)]", "{path|field(2,/)}"),
        ] {
            assert_eq!(read(value), Ok(text.to_string()), "{value}");
        }
        assert!(
            read("%[lua.x]").is_err()
                && read("%[ssl_c_sha1,hex]").is_err()
                && read("%Tq").is_err()
                && read("%[src").is_err()
        );
    }
}
