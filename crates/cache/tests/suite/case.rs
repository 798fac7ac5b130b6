//! Cases and their notation, which `mod.rs` describes.

use super::FieldList;
use std::path::Path;

/// Weight of a case in the published tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Required,
    Optional,
    /// A question to which both answers are right.
    Check,
    /// Not from the public suite, and required here.
    Ours,
}

/// A case: exchanges in order, over one path.
#[derive(Clone, Debug)]
pub struct Case {
    pub id: String,
    pub kind: Kind,
    /// Ids of the cases that must pass for this one to mean something.
    pub after: Vec<String>,
    pub exchanges: Vec<Exchange>,
}

/// A request, the answer that the endpoint has for it, and what is expected.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    pub method: String,
    pub suffix: String,
    pub fields: FieldList,
    pub body: Option<String>,
    pub answer: Answer,
    pub from: Option<Source>,
    pub status: Status,
    pub wants: Vec<Want>,
    pub content: Content,
    pub interim: Option<Vec<(u16, FieldList)>>,
    /// Fields that the endpoint must get.
    pub sees: FieldList,
    pub sees_method: Option<String>,
    pub wait: u64,
}

/// Answer of the endpoint to one request.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub closes: bool,
    pub after: u64,
    pub status: Option<u16>,
    /// Name, value, and true if the client must get it.
    pub fields: Vec<(String, String, bool)>,
    pub body: Option<String>,
    pub interim: Vec<(u16, FieldList)>,
}

/// Origin of a response, as a case expects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Cached,
    Forwarded,
    ByEtag,
    ByDate,
}

/// Status of a response, as a case expects it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    #[default]
    OfAnswer,
    Any,
    Is(u16),
}

/// Content of a response, as a case expects it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    #[default]
    OfAnswer,
    Any,
    Is(String),
}

/// Expectation for a field of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    Equal(String, String),
    Above(String, u64),
    Present(String),
    Absent(String),
    Not(String, String),
}

/// Reads every file of a folder that ends with `.txt`, in order of their names.
pub fn read_folder(folder: &Path) -> Result<Vec<Case>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let mut cases: Vec<Case> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        cases.extend(read(&text).map_err(|e| format!("{}:{e}", path.display()))?);
    }
    for (index, case) in cases.iter().enumerate() {
        if cases[..index].iter().any(|known| known.id == case.id) {
            return Err(format!("two cases are called {}", case.id));
        }
        if let Some(missing) = case.after.iter().find(|id| !cases.iter().any(|known| known.id == **id)) {
            return Err(format!("{} comes after {missing}, which is not there", case.id));
        }
    }
    Ok(cases)
}

/// Reads the text of a file. An error begins with the number of its line.
pub fn read(text: &str) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if !line.is_empty() && !line.starts_with('#') {
            read_line(line, &mut cases).ok_or_else(|| format!("{}: cannot read \"{line}\"", index + 1))?;
        }
    }
    Ok(cases)
}

fn read_line(line: &str, cases: &mut Vec<Case>) -> Option<()> {
    if let Some(rest) = line.strip_prefix('[') {
        cases.push(read_title(rest)?);
        return Some(());
    }
    let exchanges = &mut cases.last_mut()?.exchanges;
    let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
    if mark.starts_with(|c: char| c.is_ascii_uppercase()) {
        exchanges.push(Exchange { method: mark.into(), suffix: rest.into(), ..Exchange::default() });
        return Some(());
    }
    let exchange = exchanges.last_mut()?;
    match mark {
        ">" => exchange.fields.push(field(rest)?),
        ">>" => exchange.body = Some(rest.into()),
        "<" => read_answer(rest, &mut exchange.answer)?,
        "<~" => {
            let (name, value) = field(rest)?;
            exchange.answer.fields.push((name, value, false));
        }
        "<<" => exchange.answer.body = Some(rest.into()),
        "<1" => exchange.answer.interim.push(interim(rest)?),
        "=" => read_expected(rest, exchange)?,
        "==" => exchange.content = if rest == "any" { Content::Any } else { Content::Is(rest.into()) },
        "=1" if rest == "none" => exchange.interim = Some(Vec::new()),
        "=1" => exchange.interim.get_or_insert_default().push(interim(rest)?),
        "^" => match field(rest) {
            Some(field) => exchange.sees.push(field),
            None => exchange.sees_method = Some(rest.into()),
        },
        "wait" => exchange.wait += rest.parse::<u64>().ok()?,
        _ => return None,
    }
    Some(())
}

fn read_title(rest: &str) -> Option<Case> {
    let (id, rest) = rest.split_once("] ")?;
    let (kind, after) = rest.split_once(" after ").unwrap_or((rest, ""));
    let kind = match kind {
        "required" => Kind::Required,
        "optional" => Kind::Optional,
        "check" => Kind::Check,
        "ours" => Kind::Ours,
        _ => return None,
    };
    let after = after.split_whitespace().map(str::to_owned).collect();
    Some(Case { id: id.into(), kind, after, exchanges: Vec::new() })
}

fn read_answer(rest: &str, answer: &mut Answer) -> Option<()> {
    if rest == "closes" {
        answer.closes = true;
    } else if let Some(seconds) = rest.strip_prefix("after ") {
        answer.after = seconds.parse().ok()?;
    } else if let Ok(status) = rest.parse() {
        answer.status = Some(status);
    } else {
        let (name, value) = field(rest)?;
        answer.fields.push((name, value, true));
    }
    Some(())
}

fn read_expected(rest: &str, exchange: &mut Exchange) -> Option<()> {
    exchange.from = match rest {
        "cached" => Some(Source::Cached),
        "forwarded" => Some(Source::Forwarded),
        "validated etag" => Some(Source::ByEtag),
        "validated date" => Some(Source::ByDate),
        "any" => {
            exchange.status = Status::Any;
            return Some(());
        }
        _ => {
            if let Ok(status) = rest.parse() {
                exchange.status = Status::Is(status);
            } else {
                exchange.wants.push(want(rest)?);
            }
            return Some(());
        }
    };
    Some(())
}

fn want(rest: &str) -> Option<Want> {
    if let Some(name) = rest.strip_prefix('+') {
        return Some(Want::Present(name.into()));
    }
    if let Some(rest) = rest.strip_prefix('-') {
        return Some(match field(rest) {
            Some((name, value)) => Want::Not(name, value),
            None => Want::Absent(rest.into()),
        });
    }
    if let Some((name, number)) = rest.split_once(" > ") {
        return Some(Want::Above(name.into(), number.parse().ok()?));
    }
    field(rest).map(|(name, value)| Want::Equal(name, value))
}

/// Reads `Name: value`. White space at the ends of the value stays, but for the space after the colon.
fn field(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    (!name.contains(' ')).then(|| (name.into(), value.strip_prefix(' ').unwrap_or(value).into()))
}

fn interim(text: &str) -> Option<(u16, FieldList)> {
    let mut parts = text.split(" | ");
    let status = parts.next()?.parse().ok()?;
    Some((status, parts.map(field).collect::<Option<FieldList>>()?))
}
