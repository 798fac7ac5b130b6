//! Values with samples, `%[src]` and `%ci`, in the spelling of evenkeel: `{client.ip}`.

use crate::model::braced;

/// Samples without arguments, and the variable for each.
const SAMPLES: &[(&str, &str)] = &[
    ("src", "{client.ip}"),
    ("src_port", "{client.port}"),
    ("dst_port", "{port}"),
    ("method", "{method}"),
    ("path", "{path}"),
    ("query", "{query}"),
    ("unique-id", "{request_id}"),
    ("ssl_fc_protocol", "{tls.version}"),
    ("ssl_fc_cipher", "{tls.cipher}"),
    ("ssl_fc_sni", "{tls.server_name}"),
    ("ssl_c_s_dn", "{tls.client.subject}"),
    ("date", "{time.unix}"),
    ("status", "{status}"),
    ("be_name", "{pool}"),
    ("srv_name", "{endpoint}"),
    ("capture.req.method", "{method}"),
];

/// Letters of log formats, and the variable for each.
const LETTERS: &[(&str, &str)] = &[
    ("%ci", "{client.ip}"),
    ("%cp", "{client.port}"),
    ("%fp", "{port}"),
    ("%HM", "{method}"),
    ("%ID", "{request_id}"),
    ("%HP", "{path}"),
    ("%sslv", "{tls.version}"),
    ("%sslc", "{tls.cipher}"),
    ("%b", "{pool}"),
    ("%s", "{endpoint}"),
    ("%ST", "{status}"),
];

/// Samples that are a path with its query.
const WITH_QUERY: &[&str] = &["capture.req.uri", "url", "pathq"];

/// A value with its variables, and whether a variable in it has the query as well.
#[derive(Debug, PartialEq)]
pub(crate) struct Text {
    pub text: String,
    pub has_query: bool,
}

/// Reads a value.
///
/// # Errors
/// Sample that has no variable.
pub(crate) fn read(value: &str) -> Result<Text, String> {
    let (mut out, mut rest, mut has_query) = (String::new(), value, false);
    while let Some(at) = rest.find('%') {
        out.push_str(&braced(&rest[..at]));
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("%%") {
            out.push('%');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix("%[") {
            let end = inner.find(']').ok_or("a bracket is not closed")?;
            let sample = inner[..end].trim();
            if WITH_QUERY.contains(&sample) {
                has_query = true;
                out.push_str("{path}");
            } else {
                out.push_str(&variable(sample).ok_or_else(|| format!("`%[{sample}]` has no variable"))?);
            }
            rest = &inner[end + 1..];
        } else if let Some((letters, variable)) =
            LETTERS.iter().filter(|(letters, _)| rest.starts_with(letters)).max_by_key(|(letters, _)| letters.len())
        {
            out.push_str(variable);
            rest = &rest[letters.len()..];
        } else {
            let end = rest[1..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(rest.len(), |n| n + 1);
            return Err(format!("`{}` has no variable", &rest[..end]));
        }
    }
    out.push_str(&braced(rest));
    Ok(Text { text: out, has_query })
}

fn variable(sample: &str) -> Option<String> {
    let (sample, converters) = match sample.split_once("),") {
        Some((before, converters)) => (format!("{before})"), converters),
        None => match sample.split_once(',') {
            Some((before, converters)) if !before.contains('(') => (before.to_string(), converters),
            _ => (sample.to_string(), ""),
        },
    };
    let sample = sample.strip_prefix("req.").unwrap_or(&sample);
    if !matches!(converters, "" | "lower" | "host_only" | "field(1,:)") {
        return None;
    }
    if let Some((name, argument)) = sample.split_once('(') {
        let argument = argument.trim_end_matches(')').split(',').next()?;
        return match name {
            "hdr" | "fhdr" if argument.eq_ignore_ascii_case("host") => Some("{host}".to_string()),
            "hdr" | "fhdr" => Some(format!("{{header.{argument}}}")),
            "cook" | "cookie" => Some(format!("{{cookie.{argument}}}")),
            "url_param" | "urlp" => Some(format!("{{query.{argument}}}")),
            "ssl_c_s_dn" => None,
            "str" => Some(braced(argument)),
            _ => None,
        };
    }
    SAMPLES.iter().find(|(name, _)| *name == sample).map(|(_, variable)| variable.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_variables() {
        for (value, text) in [
            ("https", "https"),
            ("%[src]", "{client.ip}"),
            ("a %ci:%cp b", "a {client.ip}:{client.port} b"),
            ("max-age={1} 5%%", "max-age={{1}} 5%"),
            ("https://%[hdr(host)]%[capture.req.uri]", "https://{host}{path}"),
            ("%[req.hdr(X-A),lower]", "{header.X-A}"),
        ] {
            assert_eq!(read(value).map(|read| read.text), Ok(text.to_string()), "{value}");
        }
        assert!(
            read("%[lua.x]").is_err()
                && read("%[ssl_c_sha1,hex]").is_err()
                && read("%Tq").is_err()
                && read("%[src").is_err()
        );
    }
}
