//! Changes to fields in the order in which Caddy makes them: changes to requests in turn; changes to responses
//! before the endpoint's own fields are there, or, if deferred, when the response is written.

use super::lexer::Directive;
use super::value;
use crate::ledger::Ledger;
use crate::model::{FieldKeys, RouteKeys, Value};
use crate::protection;
use evenkeel_config::draft::Entries;

/// Time of a change to a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Time {
    /// Time before the fields of the endpoint are there, and of changes to requests.
    #[default]
    Now,
    /// Time when the endpoint has responded, before its fields join the others.
    Endpoint,
    /// Time when the response is written.
    Deferred,
}

/// Value of a field behind a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Absent,
    Value(String),
    Unknown,
}

/// Changes of a directive. Caddy adds first, then sets, then removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Edit {
    pub add: Vec<(String, String)>,
    pub set: Vec<(String, String)>,
    pub remove: Vec<String>,
    pub time: Time,
    /// Field that must be absent.
    pub absent: Option<String>,
}

impl Edit {
    fn is_empty(&self) -> bool {
        self.add.is_empty() && self.set.is_empty() && self.remove.is_empty()
    }

    /// True if the order of its parts does not matter: no name occurs twice.
    fn is_plain(&self) -> bool {
        let lower = |name: &String| name.to_ascii_lowercase();
        let adds: Vec<String> = self.add.iter().map(|(name, _)| lower(name)).collect();
        let others: Vec<String> = self.set.iter().map(|(name, _)| name).chain(&self.remove).map(lower).collect();
        let is_alone =
            |name: &String| others.iter().filter(|other| *other == name).count() == 1 && !adds.contains(name);
        let is_single = adds.len() + others.len() == 1;
        is_single || others.iter().all(|name| is_alone(name) && !name.contains('*'))
    }

    /// Returns the same change in steps, each of which is plain.
    fn steps(&self) -> Vec<Edit> {
        if self.is_plain() {
            return vec![self.clone()];
        }
        let none = || Edit { absent: self.absent.clone(), time: self.time, ..Edit::default() };
        let adds = self.add.iter().map(|one| Edit { add: vec![one.clone()], ..none() });
        let sets = self.set.iter().map(|one| Edit { set: vec![one.clone()], ..none() });
        let removes = self.remove.iter().map(|one| Edit { remove: vec![one.clone()], ..none() });
        adds.chain(sets).chain(removes).collect()
    }

    /// Joins a later change to this change, if the two fit into a single change.
    fn join(&mut self, later: &Edit) -> bool {
        let mut both = self.clone();
        both.add.extend(later.add.iter().cloned());
        both.set.extend(later.set.iter().cloned());
        both.remove.extend(later.remove.iter().cloned());
        let fits = self.absent.is_none() && later.absent.is_none() && both.is_plain();
        if fits {
            *self = both;
        }
        fits
    }

    fn entries(&self) -> Entries {
        let mut table = Entries::default();
        if let Some(name) = &self.absent {
            let absent = Entries::one(name, Entries::one("present", false));
            table.set("when", Entries::one("header", absent));
        }
        self.remove.iter().for_each(|name| table.push("remove", name.as_str()));
        self.set.iter().for_each(|(name, value)| drop(table.table("set").set(name, value.as_str())));
        self.added().into_iter().for_each(|(name, value)| drop(table.table("add").set(&name, value)));
        table
    }

    /// Names with a value, or with several.
    fn added(&self) -> Vec<(String, Value)> {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in &self.add {
            match all.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
                Some((_, values)) => values.push(value.clone()),
                None => all.push((name.clone(), vec![value.clone()])),
            }
        }
        let value = |values: Vec<String>| match values.as_slice() {
            [one] => one.as_str().into(),
            _ => values.into(),
        };
        all.into_iter().map(|(name, values)| (name, value(values))).collect()
    }

    /// Values of fields behind the change.
    pub fn known(&self) -> Vec<(String, Known)> {
        let fixed = |value: &String| if value.contains('{') { Known::Unknown } else { Known::Value(value.clone()) };
        let added = self.add.iter().map(|(name, _)| (name.to_ascii_lowercase(), Known::Unknown));
        let set = self.set.iter().map(|(name, value)| (name.to_ascii_lowercase(), fixed(value)));
        added.chain(set).chain(self.remove.iter().map(|name| (name.to_ascii_lowercase(), Known::Absent))).collect()
    }
}

/// Reads the rows of `header`, `request_header`, `header_up` or `header_down`.
pub(super) fn read(
    rows: &[(&Directive, &[String])],
    fields: FieldKeys,
    set: &mut RouteKeys,
    ledger: &mut Ledger,
) -> Vec<Edit> {
    let (mut main, mut others) = (Edit::default(), Vec::new());
    for (row, words) in rows {
        ledger.carried(row.line);
        if words.first().is_some_and(|word| word == "defer") {
            main.time = Time::Deferred;
            continue;
        }
        if let Some(edit) = one(row, words, fields, set, ledger) {
            match edit.absent {
                Some(_) => others.push(edit),
                None => {
                    if edit.time == Time::Deferred {
                        main.time = Time::Deferred;
                    }
                    main.add.extend(edit.add);
                    for (name, value) in edit.set {
                        main.set.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
                        main.set.push((name, value));
                    }
                    main.remove.extend(edit.remove);
                }
            }
        }
    }
    if others.len() > 1 {
        // Versions of Caddy differ in this.
        for (row, _) in rows.iter().filter(|(_, words)| words.first().is_some_and(|word| word.starts_with('?'))) {
            let reason =
                "each default is set by itself here, and by some versions of Caddy only if all the fields are absent";
            ledger.changes(row.line, reason, "nothing, unless endpoints send one of them");
        }
    }
    if !main.is_empty() {
        others.insert(0, main);
    }
    others
}

/// Reads `[+|-|?|>]NAME [VALUE]`.
fn one(
    row: &Directive,
    words: &[String],
    fields: FieldKeys,
    keys: &mut RouteKeys,
    ledger: &mut Ledger,
) -> Option<Edit> {
    let (first, given) = (words.first()?, words.get(1).map_or("", String::as_str));
    let name = first.trim_start_matches(['+', '-', '?', '>']);
    let is_request = fields.table == "request_headers";
    let lower = name.to_ascii_lowercase();
    let lost = |reason: &str, ledger: &mut Ledger| {
        ledger.changes(row.line, reason, format!("set {name} by hand, or in the application"));
        None
    };
    if words.len() > 2 {
        return lost("fields are not replaced by expressions", ledger);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let stem = if first.starts_with('-') { name.strip_suffix('*').unwrap_or(name) } else { name };
    if stem.is_empty() || !stem.chars().all(fits) {
        return lost("fields are named in full, or by their beginning", ledger);
    }
    if matches!(
        &*lower,
        "upgrade" | "connection" | "content-length" | "transfer-encoding" | "te" | "trailer" | "keep-alive"
    ) {
        return lost("the field steers the message, and cannot be set", ledger);
    }
    if first.starts_with('-') {
        return Some(Edit {
            remove: vec![name.to_string()],
            time: if is_request { Time::Now } else { Time::Deferred },
            ..Edit::default()
        });
    }
    let replaces = is_request && !first.starts_with(['+', '?']);
    let withheld = Edit { remove: vec![name.to_string()], ..Edit::default() };
    let text = match value::read(given) {
        Ok(text) if text.contains("{upstream_hostport}") && lower != "host" => {
            Err("the endpoint is not known when fields are set".to_string())
        }
        other => other,
    };
    let text = match text {
        Ok(text) => text,
        Err(reason) if replaces && protection::can_be_withheld(name) => {
            ledger.changes(row.line, format!("{reason}: the field is removed"), format!("set {name} by hand"));
            return Some(withheld);
        }
        Err(reason) => return lost(&reason, ledger),
    };
    if is_request && lower == "host" {
        match text.as_str() {
            "{host}" => ledger.dropped(row.line, "Host passes as it came"),
            "{upstream_hostport}" => drop(keys.put(key!("send_host"), "endpoint")),
            text if text.contains('{') => return lost("the host that is sent is a fixed one", ledger),
            text => drop(keys.put(key!("send_host"), text)),
        }
        return None;
    }
    if is_request
        && matches!(&*lower, "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host")
        && matches!(text.as_str(), "{client.ip}" | "{scheme}" | "{host}")
    {
        ledger.dropped(row.line, "the field is always set");
        return None;
    }
    let pair = vec![(name.to_string(), text)];
    Some(match first.as_bytes()[0] {
        b'+' => Edit { add: pair, ..Edit::default() },
        b'?' => Edit { set: pair, time: Time::Deferred, absent: Some(name.to_string()), ..Edit::default() },
        b'>' => Edit { set: pair, time: Time::Deferred, ..Edit::default() },
        _ => Edit { set: pair, ..Edit::default() },
    })
}

/// Puts changes to requests, in their order.
pub(super) fn put_request(edits: &[Edit], set: &mut RouteKeys) {
    put(joined(edits.iter().flat_map(Edit::steps)), FieldKeys::REQUEST, set);
}

/// Puts changes to responses: first changes to the endpoint's own fields, then fields that are added to them, then deferred
/// changes, the last first.
pub(super) fn put_response(edits: &[Edit], is_own: bool, set: &mut RouteKeys) {
    let of = |time: Time| edits.iter().filter(move |edit| edit.time == time);
    let mut fields: Vec<(String, Vec<String>)> = Vec::new();
    for edit in of(Time::Now) {
        let mut change = |name: &String, value: &String, adds: bool| match fields
            .iter_mut()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
        {
            Some((_, values)) if adds => values.push(value.clone()),
            Some((_, values)) => *values = vec![value.clone()],
            None => fields.push((name.clone(), vec![value.clone()])),
        };
        edit.add.iter().for_each(|(name, value)| change(name, value, true));
        edit.set.iter().for_each(|(name, value)| change(name, value, false));
    }
    let mut first = Edit::default();
    for (name, values) in fields {
        match values.as_slice() {
            [one] if is_own => first.set.push((name, one.clone())),
            _ => first.add.extend(values.into_iter().map(|value| (name.clone(), value))),
        }
    }
    let down = of(Time::Endpoint).flat_map(Edit::steps);
    let first = Some(first).into_iter().filter(|edit| !edit.is_empty());
    let deferred: Vec<Edit> = of(Time::Deferred).flat_map(Edit::steps).collect();
    put(joined(down.chain(first).chain(reversed(edits, deferred))), FieldKeys::RESPONSE, set);
}

/// Steps of deferred changes. The last directive comes first.
fn reversed(edits: &[Edit], steps: Vec<Edit>) -> Vec<Edit> {
    let mut steps = steps.into_iter();
    let mut groups: Vec<Vec<Edit>> = Vec::new();
    for edit in edits.iter().filter(|edit| edit.time == Time::Deferred) {
        groups.push(steps.by_ref().take(edit.steps().len()).collect());
    }
    groups.into_iter().rev().flatten().collect()
}

/// Changes as few steps as possible.
fn joined(steps: impl Iterator<Item = Edit>) -> Vec<Edit> {
    let mut all: Vec<Edit> = Vec::new();
    for step in steps {
        if !all.last_mut().is_some_and(|last| last.join(&step)) {
            all.push(step);
        }
    }
    all
}

fn put(all: Vec<Edit>, fields: FieldKeys, set: &mut RouteKeys) {
    let is_plain = all.first().is_some_and(|first| first.absent.is_none());
    let (main, rest) = all.split_at(usize::from(is_plain));
    for edit in main {
        edit.remove.iter().for_each(|name| set.push(fields.remove, name.as_str()));
        edit.set.iter().for_each(|(name, value)| drop(set.insert(fields.set, name, value.as_str())));
        edit.added().into_iter().for_each(|(name, value)| drop(set.insert(fields.add, &name, value)));
    }
    let edits: Vec<Value> = rest.iter().map(|edit| edit.entries().into()).collect();
    if !edits.is_empty() {
        match fields.table {
            "request_headers" => set.put(key!("request_headers.edits"), edits),
            _ => set.put(key!("response_headers.edits"), edits),
        };
    }
}
