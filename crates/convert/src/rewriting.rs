//! Targets of redirects and replacements of paths, which both programs write with expressions.

use crate::model::Draft;
use evenkeel_config::plan::Redirect;

/// Puts the parts of a URL, or of a path, into the table of a redirect.
pub(crate) fn put_url(table: &mut Draft<Redirect>, url: &str) -> Result<(), String> {
    let rest = match url.split_once("://") {
        Some((scheme, rest)) => {
            // The client's own scheme is kept without a word.
            if scheme != "{scheme}" {
                table.put(key!("scheme"), scheme);
            }
            rest
        }
        None if url.starts_with("//") => return Err("a target without a scheme is not sent".to_string()),
        None if url.starts_with(['/', '{']) || url.is_empty() => {
            if !url.is_empty() {
                table.put(key!("path"), url);
            }
            return Ok(());
        }
        None => return Err(format!("\"{url}\" is neither a URL nor a path")),
    };
    let end = rest.find('/').or_else(|| rest.find("{path}")).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()) {
        Some((host, port)) => (host, port.parse::<u64>().ok()),
        None => (authority, None),
    };
    if !host.is_empty() && host != "{host}" {
        table.put(key!("host"), host);
    }
    if let Some(port) = port {
        table.put(key!("port"), port);
    }
    if !path.is_empty() && path != "{path}" {
        table.put(key!("path"), path);
    }
    Ok(())
}

/// Path that a replacement by an expression takes away, if that is all it does.
pub(crate) fn stripped(regex: &str, with: &str) -> Option<String> {
    let group = with.strip_prefix('/').unwrap_or(with);
    let has_slash = with.starts_with('/');
    if !matches!(group, "\\1" | "\\2" | "$1" | "$2") {
        return None;
    }
    let bare = regex.trim_start_matches('^').trim_end_matches('$');
    let second = group.ends_with('2');
    let ends: &[&str] = match (second, has_slash) {
        (true, true) => &["(/)?(.*)", "(/|)(.*)", "(/?)(.*)"],
        (true, false) => &[],
        (false, true) => &["/(.*)", "/?(.*)", "/(.+)"],
        (false, false) => &["(/.*)"],
    };
    let prefix = ends.iter().find_map(|end| bare.strip_suffix(end))?;
    let fixed = prefix.starts_with('/')
        && prefix.len() > 1
        && prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-_~".contains(&b));
    fixed.then(|| prefix.trim_end_matches('/').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_that_only_take_a_prefix_away_are_found() {
        for (regex, with, prefix) in [
            ("/api(/)?(.*)", "/\\2", Some("/api")),
            ("^/api/(.*)", "/\\1", Some("/api")),
            ("^/api/(.*)$", "/$1", Some("/api")),
            ("/api/v1(/.*)", "\\1", Some("/api/v1")),
            ("^/(.*)", "/\\1", None),
            ("^/api/(.*)", "/new/\\1", None),
            ("^/[a-z]/(.*)", "/\\1", None),
        ] {
            assert_eq!(stripped(regex, with).as_deref(), prefix, "{regex} {with}");
        }
    }
}
