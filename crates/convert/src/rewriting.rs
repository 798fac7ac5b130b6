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
