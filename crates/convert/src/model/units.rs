//! Durations and names in the spelling of the output, and sizes of other programs.

use evenkeel_config::plan::escaped;

/// Milliseconds as a duration: `1500` is `"1500ms"`, `90000` is `"90s"`.
pub(crate) fn duration(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    for (unit, name) in UNITS {
        // 90 s and 60 s read better than 1m30s and 1m.
        let at_least = if matches!(name, "m" | "d") { 2 * unit } else { unit };
        if ms >= at_least && ms.is_multiple_of(unit) {
            return format!("{}{name}", ms / unit);
        }
    }
    format!("{ms}ms")
}

/// Bytes of `10m`, `512k`, `1g`, `4096`; `None` if it is something else.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let unit = match text.bytes().last()?.to_ascii_lowercase() {
        b'k' => 1 << 10,
        b'm' => 1 << 20,
        b'g' => 1 << 30,
        _ => return text.parse().ok(),
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit)
}

/// A name that the configuration accepts: letters, digits, `_`, `-` and `.`, at most 64 of them.
pub(crate) fn name_of(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '-' };
    let name: String = text.chars().map(fits).take(60).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "unnamed".to_string() } else { name.to_string() }
}

/// Names for the pool of an address or a URL, the plainest first: `app` of `app:8000`, then `app-8000`. An address of
/// numbers keeps its port, which distinguishes such pools.
pub(crate) fn pool_names(address: &str) -> Vec<String> {
    let plain = |text: &str| name_of(&text.trim_matches(['[', ']', '/']).replace([':', '/', '.', '[', ']', '*'], "-"));
    let bare = address.split_once("://").map_or(address, |(_, rest)| rest);
    if let Some(path) = bare.strip_prefix("unix:") {
        let file = path.trim_end_matches(':').rsplit('/').next().unwrap_or_default();
        return vec![
            plain(file.trim_end_matches(".sock").trim_end_matches(".socket")),
            plain(path.trim_end_matches(':')),
        ];
    }
    let bare = without_variables(bare).to_ascii_lowercase();
    let (host, port) = match bare.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') => (host, port),
        _ => (bare.as_str(), ""),
    };
    let is_number = host.starts_with('[') || host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match port {
        "" | "80" | "443" => vec![plain(host)],
        _ if is_number => vec![plain(&bare)],
        _ => vec![plain(host), plain(&bare)],
    }
}

/// Text in which variables of the environment are replaced by their defaults, or by their names.
fn without_variables(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, variable)) = rest.split_once("${") {
        let (variable, behind) = variable.split_once('}').unwrap_or((variable, ""));
        out += before;
        out += variable
            .split_once(":-")
            .map_or(variable, |(name, default)| if default.is_empty() { name } else { default });
        rest = behind;
    }
    out + rest
}

/// Text as it is written in values in which `{NAME}` is a variable.
pub(crate) fn braced(text: &str) -> String {
    // `${NAME}` stays: it is a variable of the environment there too.
    let (mut out, mut from, mut at) = (String::with_capacity(text.len()), 0, 0);
    while let Some(found) = text[at..].find("${") {
        let start = at + found;
        let Some(end) = text[start..].find('}') else { break };
        out.push_str(&escaped(&text[from..start]));
        at = start + end + 1;
        out.push_str(&text[start..at]);
        from = at;
    }
    out + &escaped(&text[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_largest_that_fit() {
        for (ms, text) in [
            (0, "0ms"),
            (1, "1ms"),
            (1500, "1500ms"),
            (5000, "5s"),
            (60_000, "60s"),
            (120_000, "2m"),
            (86_400_000, "24h"),
        ] {
            assert_eq!(duration(ms), text);
        }
        assert_eq!((parse_size("10m"), parse_size("7"), parse_size("x")), (Some(10 << 20), Some(7), None));
    }

    #[test]
    fn pools_are_named_after_hosts() {
        for (address, names) in [
            ("http://app:8000", &["app", "app-8000"][..]),
            ("svc.internal:80", &["svc-internal"]),
            ("10.0.0.1:8080", &["10-0-0-1-8080"]),
            ("[::1]:80", &["1"]),
            ("unix:/run/app.sock", &["app", "run-app-sock"]),
            ("${HOST:-10.0.0.1}:8080", &["10-0-0-1-8080"]),
            ("${HOST}:8080", &["host", "host-8080"]),
        ] {
            assert_eq!(pool_names(address), names, "{address}");
        }
    }

    #[test]
    fn braces_are_doubled_but_for_the_environment() {
        assert_eq!(braced("a{b}c ${HOME} $x $src"), "a{{b}}c ${HOME} $x {dollar}src");
    }
}
