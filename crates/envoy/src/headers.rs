//! Changes of fields of requests and responses. See [`Changes`].
//!
//! Envoy applies the changes of a route, a virtual host and a route configuration one after the other. Each of the three
//! removes fields, overwrites fields and adds fields. Values and conditions are about the fields that are there after
//! the removals. Where no change depends on a field, this is one table of a plan. Else it is a list of edits.

use crate::formats::{Value, values};
use crate::node::Node;
use crate::values::{Named, add, present};
use evenkeel_config::plan::{
    Match, RequestEdit, RequestHeaders, ResponseEdit, ResponseHeaders, ResponseWhen, Template, add_field,
};
use std::sync::Arc;

/// Changes of a route, a virtual host or a route configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub request: Fields,
    pub response: Fields,
}

/// Changes of the fields of requests, or of responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    remove: Vec<Arc<str>>,
    entries: Vec<Entry>,
}

/// A field that is added or overwritten.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    name: Arc<str>,
    /// Alternatives, of which at most one applies.
    values: Vec<Value>,
    overwrites: bool,
    /// Condition on fields of the name.
    if_present: Option<bool>,
}

/// Field names, each with the value that is set.
type Set = Vec<(Arc<str>, Template)>;

/// Field names, each with the values that are added.
type Added = Vec<(Arc<str>, Vec<Template>)>;

/// A step of changes, with its conditions on fields of the message and on fields of the request.
#[derive(Default)]
struct Step {
    of_message: Named,
    of_request: Named,
    remove: Vec<Arc<str>>,
    set: Set,
    add: Added,
}

impl Changes {
    /// Reads the changes of a route, a virtual host or a route configuration.
    ///
    /// # Errors
    /// The change that a route of a plan cannot have.
    pub fn of(node: &Node<'_>) -> Result<Changes, String> {
        let mut changes = Changes::default();
        let Changes { request, response } = &mut changes;
        request.remove = node.texts("request_headers_to_remove").map(Arc::from).collect();
        for option in node.nodes("request_headers_to_add") {
            let read = request.add(option, false);
            if option.part(read).map_err(|why| format!("request_headers_to_add: {why}"))?.is_none() {
                request.remove.extend(withheld(option));
            }
        }
        for option in node.nodes("response_headers_to_add") {
            let read = response.add(option, true);
            option.part(read).map_err(|why| format!("response_headers_to_add: {why}"))?;
        }
        response.remove = node.texts("response_headers_to_remove").map(Arc::from).collect();
        Ok(changes)
    }
}

/// The changes of these levels, the first to be applied first.
pub fn of_requests(levels: &[&Fields]) -> RequestHeaders {
    if let Some(Step { remove, set, add, .. }) = joined(levels) {
        return RequestHeaders { remove, set, add, ..RequestHeaders::default() };
    }
    let edits = levels.iter().flat_map(|level| level.steps(false)).map(|step| {
        let Step { of_message, of_request, remove, set, add, .. } = step;
        let mut when = Match::all();
        when.criteria.headers = of_message.into_iter().chain(of_request).collect();
        RequestEdit { when, remove, set, add, ..RequestEdit::default() }
    });
    RequestHeaders { edits: edits.collect(), ..RequestHeaders::default() }
}

/// The changes of these levels, the first to be applied first.
pub fn of_responses(levels: &[&Fields]) -> ResponseHeaders {
    if let Some(Step { remove, set, add, .. }) = joined(levels) {
        return ResponseHeaders { remove, set, add, ..ResponseHeaders::default() };
    }
    let edits = levels.iter().flat_map(|level| level.steps(true)).map(|step| {
        let Step { of_message, of_request, remove, set, add, .. } = step;
        let mut when = ResponseWhen { headers: of_message, ..ResponseWhen::default() };
        when.request.criteria.headers = of_request;
        ResponseEdit { when, remove, set, add, ..ResponseEdit::default() }
    });
    ResponseHeaders { edits: edits.collect(), ..ResponseHeaders::default() }
}

impl Fields {
    /// The removal of these fields, with no other change.
    pub fn without(names: &[Arc<str>]) -> Fields {
        Fields { remove: names.to_vec(), entries: Vec::new() }
    }

    fn add(&mut self, option: &Node<'_>, of_responses: bool) -> Result<(), String> {
        let header = option.node("header").ok_or("an entry has no header")?;
        let (name, format) = (header.text("key").unwrap_or_default(), header.text("value").unwrap_or_default());
        let appends = option.wrapped("append");
        let (overwrites, if_present) = match option.number("append_action") {
            0 => (appends == Some(0), None),
            1 => (false, Some(false)),
            2 => (true, None),
            3 => (true, Some(true)),
            _ => return Err(format!("{name:?}: append_action {}", option.word("append_action"))),
        };
        let values = values(format, of_responses).ok_or_else(|| format!("{name:?}: {format:?} has no counterpart"))?;
        if values.is_empty() && option.flag("keep_empty_value") {
            return Err(format!("{name:?}: a field without a value is not sent"));
        }
        // Envoy skips an empty value.
        if values.is_empty() {
            return Ok(());
        }
        let depends = |entry: &Entry| entry.if_present.is_some();
        let entry = Entry { name: name.into(), values, overwrites, if_present };
        let mut same = self.entries.iter().filter(|other| other.name.eq_ignore_ascii_case(name)).peekable();
        if same.peek().is_some() && (depends(&entry) || same.any(depends)) {
            return Err(format!("{name:?}: one of two changes of the field depends on whether it is there"));
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Fields of requests that values depend on.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().flat_map(|entry| &entry.values).flat_map(|value| &value.when).map(|(name, _)| &**name)
    }

    /// True if a field is removed, added or overwritten.
    pub fn changes(&self, name: &str) -> bool {
        self.remove.iter().chain(self.entries.iter().map(|entry| &entry.name)).any(|of| of.eq_ignore_ascii_case(name))
    }

    /// True if no change depends on a field.
    fn is_plain(&self) -> bool {
        self.entries.iter().all(|entry| {
            entry.if_present.is_none()
                && entry.values.iter().all(|value| value.when.is_empty() && value.template.variables().all(is_fixed))
        })
    }

    /// The changes as steps that are applied one after the other.
    fn steps(&self, of_responses: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.remove.is_empty() {
            steps.push(Step { remove: self.remove.clone(), ..Step::default() });
        }
        // Values are those before the changes of the level.
        let reads = |entry: &Entry, name: &str| {
            !of_responses
                && entry.values.iter().any(|value| value.when.iter().any(|(of, _)| of.eq_ignore_ascii_case(name)))
        };
        let mut left: Vec<&Entry> = self.entries.iter().collect();
        while !left.is_empty() {
            let is_free =
                |at: &usize| left.iter().enumerate().all(|(n, other)| n == *at || !reads(other, &left[*at].name));
            // Fields that overwrite are first, as in Envoy.
            let free: Vec<usize> = (0..left.len()).filter(is_free).collect();
            let next = free.iter().find(|at| left[**at].overwrites).or(free.first()).copied().unwrap_or(0);
            steps.extend(left.remove(next).steps(of_responses));
        }
        steps
    }
}

/// True for a variable that changes of fields do not change.
fn is_fixed(variable: &evenkeel_config::plan::Variable) -> bool {
    !matches!(variable, evenkeel_config::plan::Variable::Header(_))
}

impl Entry {
    fn steps(&self, of_responses: bool) -> Vec<Step> {
        let one = |value: &Value| {
            let mut step = Step { of_request: value.when.clone(), ..Step::default() };
            if let Some(is_there) = self.if_present {
                let side = if of_responses { &mut step.of_message } else { &mut step.of_request };
                // An alternative for requests without the field is none for those with it.
                add(side, &self.name.to_ascii_lowercase(), present(is_there)).ok()?;
            }
            match self.overwrites {
                true => step.set.push((self.name.clone(), value.template.clone())),
                false => step.add.push((self.name.clone(), vec![value.template.clone()])),
            }
            Some(step)
        };
        // The steps after it see the field that it changes, so the alternative without the field is last.
        let mut steps: Vec<Step> = self.values.iter().filter_map(one).collect();
        let of_own = |step: &Step| {
            let own = step.of_request.iter().find(|(name, _)| name.eq_ignore_ascii_case(&self.name));
            own.is_some_and(|(_, expected)| expected.present == Some(false))
        };
        steps.sort_by_key(|step| of_own(step));
        steps
    }
}

/// All changes as a single step; `None` if some depend on fields.
fn joined(levels: &[&Fields]) -> Option<Step> {
    let mut all = Step::default();
    for level in levels {
        if !level.is_plain() {
            return None;
        }
        let is = |name: &Arc<str>, other: &Arc<str>| name.eq_ignore_ascii_case(other);
        let entries = || level.entries.iter().flat_map(|entry| entry.values.iter().map(move |value| (entry, value)));
        let overwritten = |name: &Arc<str>| entries().any(|(entry, _)| entry.overwrites && is(&entry.name, name));
        let removed = |name: &Arc<str>| level.remove.iter().any(|other| is(name, other));
        // A field that is removed or overwritten later is not added before.
        all.set.retain(|(name, _)| !removed(name));
        all.add.retain(|(name, _)| !removed(name) && !overwritten(name));
        for (entry, value) in entries() {
            let template = value.template.clone();
            match all.set.iter_mut().find(|(name, _)| entry.overwrites && is(name, &entry.name)) {
                Some((_, before)) => *before = template,
                None if entry.overwrites => all.set.push((entry.name.clone(), template)),
                None => add_field(&mut all.add, &entry.name, template),
            }
        }
        let new: Vec<_> = level.remove.iter().filter(|name| !all.remove.contains(name)).cloned().collect();
        all.remove.extend(new);
    }
    Some(all)
}

/// Fields of requests that evenkeel always sets itself.
const OWN: [&str; 4] = ["host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

/// Name of a field that is removed, as it would be overwritten and its new value has no counterpart: the value of a client
/// must not pass for it.
fn withheld(option: &Node<'_>) -> Option<Arc<str>> {
    let overwrites = option.number("append_action") >= 2 || option.wrapped("append") == Some(0);
    let name = option.node("header").and_then(|header| header.text("key")).filter(|_| overwrites)?;
    let is_own = OWN.iter().any(|own| name.eq_ignore_ascii_case(own));
    if name.is_empty() || name.starts_with(':') || is_own {
        return None;
    }
    option.differs(format!("{name:?} of a client is removed"));
    Some(name.into())
}
