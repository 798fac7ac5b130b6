//! Samples of HAProxy with their converters, `hdr(host),lower`, as variables of evenkeel with their functions.

use super::lexer::Section;
use crate::model::{Draft, Entries, Maps, braced, escape};
use evenkeel_config::Files;
use evenkeel_config::plan;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Most rows of a map that are written into the configuration.
const ROWS: usize = 1000;

/// Reason why a condition on the values of a file cannot be written.
pub(super) const TORN: &str = "HAProxy compares all values of a file that several rules use by the method of the first";

/// Facts that the meaning of a sample depends on.
pub(super) struct Context<'c> {
    pub maps: &'c Maps,
    pub files: &'c dyn Files,
    /// Port of the frontend, if it is known.
    pub port: Option<String>,
}

/// Samples without arguments, and the variable for each.
const SAMPLES: &[(&str, &str)] = &[
    ("src", "{client.ip}"),
    ("src_port", "{client.port}"),
    ("dst_port", "{port}"),
    ("method", "{method}"),
    ("path", "{path}"),
    ("query", "{query}"),
    ("url", "{request_uri}"),
    ("pathq", "{request_uri}"),
    ("capture.req.uri", "{request_uri}"),
    ("base", "{header.Host}{path}"),
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

/// The parts of a text between commas that are in no brackets.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// A word and the text in the brackets behind it.
pub(super) fn called(text: &str) -> (&str, Option<&str>) {
    match text.split_once('(') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').unwrap_or(rest))),
        None => (text, None),
    }
}

/// A sample with its converters as a text with variables. `of_variable` has the text of variables.
///
/// # Errors
/// Reason why there is none.
pub(super) fn expression(
    text: &str,
    context: &Context<'_>,
    of_variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let parts = split(text.trim());
    let mut out = source(parts[0], of_variable).ok_or_else(|| format!("`%[{}]` has no variable", text.trim()))?;
    for converter in &parts[1..] {
        out = convert(&out, converter.trim(), context)?;
    }
    Ok(out)
}

fn source(sample: &str, of_variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let sample = sample.strip_prefix("req.").unwrap_or(sample);
    let (name, argument) = called(sample);
    let Some(argument) = argument else {
        return SAMPLES.iter().find(|(name, _)| *name == sample).map(|(_, variable)| variable.to_string());
    };
    let first = argument.split(',').next()?.trim();
    match name {
        "hdr" | "fhdr" if first.eq_ignore_ascii_case("host") => Some("{header.Host}".to_string()),
        "hdr" | "fhdr" => Some(format!("{{header.{first}}}")),
        "cook" | "cookie" => Some(format!("{{cookie.{first}}}")),
        "url_param" | "urlp" => Some(format!("{{query.{first}}}")),
        "str" => Some(braced(argument)),
        "var" => of_variable(first),
        _ => None,
    }
}

/// The text with a converter behind its variable.
fn convert(text: &str, converter: &str, context: &Context<'_>) -> Result<String, String> {
    let (name, argument) = called(converter);
    let argument = argument.unwrap_or_default();
    if name == "map" || name.starts_with("map_") {
        return lookup(text, name, argument, context);
    }
    let quoted = |text: &str| match text.contains(['\'', ',', ')', ' ']) {
        true => format!("'{}'", text.replace('\'', "''")),
        false => text.to_string(),
    };
    let function = match name {
        "lower" | "upper" => name.to_string(),
        "last" => "field(-1,',')|trim".to_string(),
        "host_only" => "before(:)".to_string(),
        "url_dec" => "url_decode".to_string(),
        "url_enc" => "url_encode".to_string(),
        "field" | "word" => match argument.split_once(',') {
            Some((number, ends)) if number.parse::<i64>().is_ok_and(|n| n != 0) && !ends.contains(',') => {
                format!("{name}({number},{})", quoted(ends))
            }
            _ => return Err(format!("the converter `{converter}` is not available")),
        },
        _ => return Err(format!("the converter `{converter}` is not available")),
    };
    let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match inner.filter(|inner| !inner.contains(['{', '}']) && !inner.is_empty()) {
        Some(inner) => Ok(format!("{{{inner}|{function}}}")),
        // A constant, or several variables.
        None if !text.contains('{') && name == "lower" => Ok(text.to_ascii_lowercase()),
        None => Err(format!("the converter `{converter}` is for one variable")),
    }
}

/// `map_beg(FILE,DEFAULT)` as a variable.
fn lookup(text: &str, name: &str, argument: &str, context: &Context<'_>) -> Result<String, String> {
    let (file, default) = argument.split_once(',').map_or((argument, None), |(file, value)| (file, Some(value)));
    let map = table(text, name, file, context)?;
    let map = match default {
        Some(value) => map.with(key!("default"), braced(value)),
        None => map,
    };
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("map");
    Ok(format!("{{map.{}}}", context.maps.name(stem, &map)))
}

/// A map of a file, with the text that it looks up.
pub(super) fn table(text: &str, name: &str, file: &str, context: &Context<'_>) -> Result<Draft<plan::Map>, String> {
    let kind = name.strip_prefix("map").unwrap_or(name).trim_start_matches('_');
    let kind = kind.strip_suffix("_str").unwrap_or(kind);
    let how = match kind {
        "" | "str" => "exact",
        "beg" => "prefix",
        "end" => "suffix",
        "reg" | "sub" | "dir" | "dom" => "regex",
        "ip" => "network",
        "int" => "range",
        _ => return Err(format!("maps are not looked up by `{kind}`")),
    };
    if is_torn(file, context.files) {
        return Err(TORN.to_string());
    }
    let map = Draft::one(key!("from"), text);
    let map = if how == "exact" { map } else { map.with(key!("match"), how) };
    let rows = rows(file, context);
    match rows {
        Some(rows) if rows.len() <= ROWS => {
            let mut table = Entries::default();
            for (key, value) in rows {
                let key = match kind {
                    "reg" => crate::expression::whole(&key, false),
                    "sub" => format!(".*{}.*", escape(&key)),
                    "dir" => bounded(&key, "/?"),
                    "dom" => bounded(&key, "/?.:"),
                    _ => key,
                };
                if table.get(&key).is_none() {
                    table.set(&key, value.as_str());
                }
            }
            Ok(map.with(key!("rows"), table))
        }
        _ if matches!(how, "exact" | "prefix" | "suffix" | "network") => Ok(map.with(key!("file"), file)),
        _ => Err(format!("the file {file} was not read")),
    }
}

/// Expression for a text with a word between these characters.
pub(super) fn bounded(word: &str, ends: &str) -> String {
    let word = escape(word.trim_matches(|c| ends.contains(c)));
    format!("(.*[{ends}])?{word}([{ends}].*)?")
}

/// Keys and values of a file of a map.
fn rows(file: &str, context: &Context<'_>) -> Option<Vec<(String, String)>> {
    let row = |line: String| {
        let (key, value) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
        (key.to_string(), value.trim().to_string())
    };
    Some(lines(file, context)?.into_iter().map(row).filter(|(_, value)| !value.is_empty()).collect())
}

/// Lines of a file, without comments. `None` if it cannot be read.
pub(super) fn lines(file: &str, context: &Context<'_>) -> Option<Vec<String>> {
    let bytes = context.files.read(Path::new(file)).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let each = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Some(each.map(str::to_string).collect())
}

/// Files of a machine, without those that are used by several methods. All uses of a file by text within a value, at its
/// end or between separators share a list, which has the method and the flags of the first use in the configuration.
pub(super) struct Sole<'f> {
    files: &'f dyn Files,
    torn: BTreeSet<PathBuf>,
}

impl<'f> Sole<'f> {
    pub fn new(files: &'f dyn Files, sections: &[Section]) -> Sole<'f> {
        let mut uses: BTreeMap<(&str, String), BTreeSet<(String, bool)>> = BTreeMap::new();
        for words in sections.iter().flat_map(|section| &section.items).map(|item| &item.words) {
            for (at, word) in words.iter().enumerate() {
                let maps = split(word).into_iter().map(called).filter_map(|(name, argument)| {
                    let file = argument?.split(',').next()?;
                    Some((name.strip_prefix("map_")?.trim_end_matches("_str").to_string(), file))
                });
                let lists =
                    (word == "-f").then(|| (method(&words[..at]), words.get(at + 1).map_or("", String::as_str)));
                for (method, file) in maps.map(|(method, file)| ((method, false), file)).chain(lists) {
                    let is_listed = matches!(&*method.0, "sub" | "end" | "dir" | "dom");
                    let kind = if is_listed { "list".to_string() } else { method.0.clone() };
                    uses.entry((file, kind)).or_default().insert(method);
                }
            }
        }
        let torn =
            uses.into_iter().filter(|(_, methods)| methods.len() > 1).map(|((file, _), _)| file.into()).collect();
        Sole { files, torn }
    }
}

/// Method and case of the test that ends before its file.
fn method(words: &[String]) -> (String, bool) {
    let from = words.iter().rposition(|word| word == "{" || word == "!{" || word == "acl").unwrap_or_default();
    let words = &words[from..];
    let named = words.windows(2).find(|pair| pair[0] == "-m").map(|pair| pair[1].clone());
    let ends = ["beg", "end", "sub", "reg", "dir", "dom"];
    let is_of = |end: &&str| words.iter().any(|word| called(word).0.ends_with(&format!("_{end}")));
    let method = named.or_else(|| ends.into_iter().find(is_of).map(str::to_string));
    (method.unwrap_or_else(|| "str".to_string()), words.iter().any(|word| word == "-i"))
}

impl Files for Sole<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if self.torn.contains(path) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.files.read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.files.list(folder)
    }
}

/// True for a file that is used by several methods.
pub(super) fn is_torn(file: &str, files: &dyn Files) -> bool {
    files.read(Path::new(file)).is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::NoFiles;

    #[test]
    fn converters_become_functions() {
        let maps = Maps::default();
        let context = Context { maps: &maps, files: &NoFiles, port: None };
        let read = |text: &str| expression(text, &context, &|_| None);
        for (text, value) in [
            ("req.hdr(X-A),lower", "{header.X-A|lower}"),
            ("path,field(2,/)", "{path|field(2,/)}"),
            ("hdr(host),field(1,:),lower", "{header.Host|field(1,:)|lower}"),
            ("str(a)", "a"),
            ("path,map_beg(/x.map,none)", "{map.x}"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(value), "{text}");
        }
        assert!(read("path,regsub(a,b)").is_err() && read("lua.x").is_err() && read("var(txn.x)").is_err());
    }
}
