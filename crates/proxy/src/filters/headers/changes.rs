//! Changes to the fields of a head, in their order: remove, rename, set, add. Fields as they came and lines that other
//! filters have added are treated alike.

use crate::filters::template::lines::{each, is_like, retain};
use crate::filters::template::source::Source;
use crate::filters::template::value::{Unfit, VALUE_MAX, Value};
use evenkeel_config::plan::{Template, steers};
use evenkeel_wire::head::Fields;
use evenkeel_wire::http1::fields::append;
use std::sync::Arc;

/// Most bytes of all values that are set and added in a head, names included.
const TOTAL_MAX: usize = 2 * VALUE_MAX;

/// Fields that a route or a pool removes, renames, sets and adds.
pub struct Changes {
    remove: Box<[Removed]>,
    /// Pairs of the old and the new name.
    rename: Box<[(Arc<str>, Arc<str>)]>,
    set: Box<[(Arc<str>, Value)]>,
    add: Box<[(Arc<str>, Value)]>,
}

/// Values by the names of fields.
type Templates = [(Arc<str>, Template)];

/// The keys of a table that changes fields.
pub struct Keys<'k> {
    pub remove: &'k [Arc<str>],
    pub rename: &'k [(Arc<str>, Arc<str>)],
    pub set: &'k Templates,
    pub add: &'k [(Arc<str>, Vec<Template>)],
}

/// A name to remove, or the beginning of names.
enum Removed {
    Name(Box<str>),
    Begin(Box<str>),
}

impl Removed {
    fn of(pattern: &str) -> Removed {
        match pattern.strip_suffix('*') {
            Some(begin) => Removed::Begin(begin.into()),
            None => Removed::Name(pattern.into()),
        }
    }

    fn takes(&self, name: &[u8]) -> bool {
        match self {
            Removed::Name(removed) => is_like(name, removed.as_bytes()),
            // Names that no filter may change may have the same beginning.
            Removed::Begin(begin) => {
                name.get(..begin.len()).is_some_and(|start| is_like(start, begin.as_bytes())) && !steers(name)
            }
        }
    }
}

/// Error for a value that is too long to be sent: the value of this field alone, or together with the values before it.
#[derive(Debug)]
pub struct TooLong(pub Arc<str>);

impl Changes {
    /// Prepares the keys of a table. `value` prepares a template.
    pub fn new(keys: &Keys<'_>, mut value: impl FnMut(&Template) -> Value) -> Changes {
        let mut value = |name: &Arc<str>, template: &Template| (name.clone(), value(template));
        let added = keys.add.iter().flat_map(|(name, all)| all.iter().map(move |template| (name, template)));
        Changes {
            remove: keys.remove.iter().map(|pattern| Removed::of(pattern)).collect(),
            rename: keys.rename.into(),
            set: keys.set.iter().map(|(name, template)| value(name, template)).collect(),
            add: added.map(|(name, template)| value(name, template)).collect(),
        }
    }

    /// True if a head stays as it is.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.rename.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// Appends the lines of the fields that are set and added. A value gives no line if it is empty, or if a variable
    /// in it has a control character.
    ///
    /// # Errors
    /// A value is too long. Its field and all fields behind it get no line.
    pub fn render(&self, from: &Source<'_, '_, '_, '_>, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let start = out.len();
        for (name, value) in self.set.iter().chain(&self.add) {
            let line = out.len();
            append(&[name.as_bytes(), b": "], out);
            let text = out.len();
            match value.render(from, out) {
                Ok(()) if out[text..].trim_ascii().is_empty() => out.truncate(line),
                Ok(()) => out.extend_from_slice(b"\r\n"),
                Err(Unfit::Control) => out.truncate(line),
                Err(Unfit::TooLong) => {
                    out.truncate(line);
                    return Err(TooLong(name.clone()));
                }
            }
            if out.len() - start > TOTAL_MAX {
                out.truncate(line);
                return Err(TooLong(name.clone()));
            }
        }
        Ok(())
    }

    /// Applies the changes to fields and to `lines` that are added already, then adds `rendered`, the lines of the
    /// fields that are set and added. `memory` is empty before and after.
    pub fn apply(&self, fields: &mut Fields<'_, '_>, lines: &mut Vec<u8>, rendered: &[u8], memory: &mut Vec<u8>) {
        let removed = |name: &[u8]| self.remove.iter().any(|removed| removed.takes(name));
        let set = |name: &[u8]| self.set.iter().any(|(set, _)| is_like(name, set.as_bytes()));
        let renamed = |name: &[u8]| self.rename.iter().find(|(old, _)| name.eq_ignore_ascii_case(old.as_bytes()));
        let bytes = fields.bytes;
        // Fields with their new names are set aside, so that none is renamed twice.
        let mut keeps = |name: &[u8], value: &[u8]| {
            if removed(name) {
                return false;
            }
            if let Some((_, new)) = renamed(name) {
                append(&[new.as_bytes(), b": ", value, b"\r\n"], memory);
                return false;
            }
            true
        };
        for row in fields.rows.iter_mut().filter(|row| !row.dropped) {
            row.dropped = !keeps(row.name(bytes), row.value(bytes));
        }
        retain(lines, &mut keeps);
        let replaced = |name: &[u8]| set(name) || each(memory).any(|(new, _)| is_like(name, new));
        for row in fields.rows.iter_mut().filter(|row| !row.dropped) {
            row.dropped = replaced(row.name(bytes));
        }
        retain(lines, |name, _| !replaced(name));
        retain(memory, |name, _| !set(name));
        append(&[memory, rendered], lines);
        memory.clear();
    }
}

/// Numbers of names by operation, in a few words. `all`: changes, each with true if it has a condition.
pub fn summary<'c>(all: impl Iterator<Item = (bool, &'c Changes)>) -> String {
    let (mut counts, mut conditions) = ([0; 4], 0);
    for (has_condition, changes) in all {
        let lens = [changes.remove.len(), changes.rename.len(), changes.set.len(), changes.add.len()];
        counts.iter_mut().zip(lens).for_each(|(count, len)| *count += len);
        conditions += usize::from(has_condition);
    }
    let counts = counts.iter().zip(["removed", "renamed", "set", "added"]).filter(|(count, _)| **count > 0);
    let words = counts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ");
    let conditions = match conditions {
        0 => String::new(),
        1 => "; 1 change has a condition".to_owned(),
        several => format!("; {several} changes have conditions"),
    };
    format!("names of fields: {words}{conditions}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::template::maps::Maps;
    use evenkeel_wire::head::Table;

    /// Fields and lines after the changes, with the rendered lines given.
    fn changed(changes: &Changes, came: &[(&str, &str)], lines: &str, rendered: &str) -> Vec<String> {
        let mut table: Table = came.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let (mut lines, mut memory) = (lines.as_bytes().to_vec(), Vec::new());
        changes.apply(&mut table.fields(), &mut lines, rendered.as_bytes(), &mut memory);
        assert!(memory.is_empty());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII");
        let all = table.iter().chain(each(&lines)).map(|(name, value)| format!("{}: {}", text(name), text(value)));
        all.collect()
    }

    fn changes(remove: &[&str], rename: &[(&str, &str)], set: &[&str]) -> Changes {
        let remove: Vec<Arc<str>> = remove.iter().map(|name| (*name).into()).collect();
        let rename: Vec<(Arc<str>, Arc<str>)> =
            rename.iter().map(|(old, new)| ((*old).into(), (*new).into())).collect();
        let set: Vec<(Arc<str>, Template)> = set.iter().map(|name| ((*name).into(), Template::literal(""))).collect();
        let keys = Keys { remove: &remove, rename: &rename, set: &set, add: &[] };
        Changes::new(&keys, |template| Value::of_response(template, "", &mut Vec::new(), &Maps::default()))
    }

    #[test]
    fn fields_and_lines_are_removed_by_name_and_by_the_beginning_of_names_but_for_those_that_steer() {
        let all = changes(&["x-debug", "X-Internal-*", "T*"], &[], &[]);
        let came =
            [("X_Debug", "1"), ("x-internal_a", "2"), ("X_Internal_", "3"), ("X-Internal", "4"), ("Trailer", "x")];
        let kept = changed(&all, &came, "X-INTERNAL-Z: 5\r\nTransfer-Encoding: chunked\r\nTest: 6\r\nA: 7\r\n", "");
        assert_eq!(kept, ["X-Internal: 4", "Trailer: x", "Transfer-Encoding: chunked", "A: 7"]);
    }

    #[test]
    fn a_renamed_field_replaces_those_of_its_new_name_and_two_may_swap_theirs() {
        let swap = changes(&[], &[("a", "B"), ("b", "A")], &[]);
        assert_eq!(
            changed(&swap, &[("A", "1"), ("B", "2"), ("C", "3")], "a: 4\r\n", ""),
            ["C: 3", "B: 1", "A: 2", "B: 4"]
        );
        let one = changes(&[], &[("X-Old", "X-New")], &[]);
        assert_eq!(changed(&one, &[("x_new", "of the client"), ("X-Old", "1")], "", ""), ["X-New: 1"]);
        assert_eq!(changed(&one, &[("x-new", "of the client")], "", ""), ["x-new: of the client"]);
    }

    #[test]
    fn a_set_field_replaces_all_of_its_name_also_where_its_value_is_empty() {
        let set = changes(&[], &[("X-Old", "X-Real-IP")], &["X-Real-IP"]);
        let came = [("x-real-ip", "spoofed"), ("X_REAL-IP", "for CGI"), ("X-Old", "1"), ("A", "1")];
        assert_eq!(changed(&set, &came, "X-Real-Ip: line\r\n", "X-Real-IP: 2\r\n"), ["A: 1", "X-Real-IP: 2"]);
        assert_eq!(changed(&set, &came, "X-Real-Ip: line\r\n", ""), ["A: 1"]);
        assert_eq!(summary([(false, &set)].into_iter()), "names of fields: 1 renamed, 1 set");
        let all = [(false, &set), (true, &set)].into_iter();
        assert_eq!(summary(all), "names of fields: 2 renamed, 2 set; 1 change has a condition");
    }
}
