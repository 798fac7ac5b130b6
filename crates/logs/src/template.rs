//! Lines of values with literal text between them, such as an NGINX `log_format`.

use crate::fault::Fault;
use crate::field::Field;
use crate::request::{Demand, Request};

/// Values of a line in order.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Text before the first value.
    front: Vec<u8>,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    field: Field,
    /// Name in the format, for a demand.
    name: String,
    is_demand: bool,
    /// Length of the value, for those that text alike may follow.
    width: Option<usize>,
    /// Text between the value and the next.
    then: Vec<u8>,
}

impl Template {
    /// Adds literal text after the last value.
    pub fn text(&mut self, text: &str) {
        let to = self.parts.last_mut().map_or(&mut self.front, |part| &mut part.then);
        to.extend_from_slice(text.as_bytes());
    }

    /// Adds a value with its name in the format.
    ///
    /// # Errors
    /// If nothing separates it from the value before.
    pub fn value(&mut self, field: Field, name: &str) -> Result<(), String> {
        if let Some(before) = self.parts.last().filter(|before| before.then.is_empty() && before.width.is_none()) {
            return Err(format!("no text separates \"{name}\" from \"{}\" before it", before.name));
        }
        let part = Part { field, name: name.to_string(), is_demand: false, width: None, then: Vec::new() };
        self.parts.push(part);
        Ok(())
    }

    /// Gives the last value a fixed length in bytes.
    pub fn fix(&mut self, width: usize) {
        if let Some(part) = self.parts.last_mut() {
            part.width = Some(width);
        }
    }

    /// Takes the demand from the value of this name. False if there is none.
    pub fn demand(&mut self, name: &str) -> bool {
        self.parts.iter_mut().for_each(|part| part.is_demand = part.name.eq_ignore_ascii_case(name));
        self.parts.iter().any(|part| part.is_demand)
    }

    /// True if a line has such a value.
    pub fn has(&self, is_wanted: impl Fn(Field) -> bool) -> bool {
        self.parts.iter().any(|part| is_wanted(part.field))
    }

    /// Reads a line.
    ///
    /// # Errors
    /// If a text between the values is missing, or a value is malformed.
    pub fn read<'a>(&self, line: &'a [u8], request: &mut Request<'a>) -> Result<(), Fault> {
        let rest = self.read_start(line, request)?;
        if rest.trim_ascii().is_empty() { Ok(()) } else { Err(Fault::Longer) }
    }

    /// Reads the start of a line, and returns the rest.
    pub fn read_start<'a>(&self, line: &'a [u8], request: &mut Request<'a>) -> Result<&'a [u8], Fault> {
        let first = self.parts.first().map_or("value", |part| part.field.name());
        let mut rest = line.strip_prefix(&self.front[..]).ok_or(Fault::Lacks(first))?;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            let next = parts.peek().map_or("end of the line", |part| part.field.name());
            let end = part.end(rest).ok_or(Fault::Lacks(next))?;
            let (value, behind) = (&rest[..end], &rest[end..]);
            let is_cut = behind.is_empty() && part.then.trim_ascii().is_empty();
            rest = if is_cut { behind } else { behind.strip_prefix(&part.then[..]).ok_or(Fault::Lacks(next))? };
            part.field.set(value, 0, request)?;
            if part.is_demand {
                request.demand = Demand::read(value);
            }
        }
        Ok(rest)
    }
}

impl Part {
    /// Length of the value at the start of `rest`.
    fn end(&self, rest: &[u8]) -> Option<usize> {
        if let Some(width) = self.width {
            // A missing value is a single `-`.
            let is_there = rest.len() >= width && rest[width..].starts_with(&self.then);
            return Some(if is_there { width } else { rest.len().min(1) });
        }
        let Some(&first) = self.then.first() else { return Some(rest.len()) };
        for at in memchr::memchr_iter(first, rest) {
            if !rest[at..].starts_with(&self.then) {
                continue;
            }
            let is_inside = self.field.is_list() && first == b' ' && is_separator(&rest[..at], &rest[at..]);
            if !is_inside {
                return Some(at);
            }
        }
        // Editors and log daemons remove spaces at the end of a line.
        self.then.trim_ascii().is_empty().then_some(rest.len())
    }
}

/// True if the space between both texts belongs to `, ` or ` : ` of a list.
fn is_separator(before: &[u8], after: &[u8]) -> bool {
    before.ends_with(b",") || before.ends_with(b" :") || after.starts_with(b" : ")
}

impl<'a> Demand<'a> {
    /// Demand by the text of a value; `None` if it is missing.
    pub(crate) fn read(text: &'a [u8]) -> Option<Demand<'a>> {
        match text {
            b"" | b"-" | b"null" => None,
            text => Some(crate::number::float(text).map_or(Demand::Class(text), Demand::Amount)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND_NS;

    fn template(parts: &[(Field, &str)]) -> Template {
        let mut template = Template::default();
        for (field, then) in parts {
            template.value(*field, "v").unwrap();
            template.text(then);
        }
        template
    }

    #[test]
    fn values_end_at_the_text_behind_them() {
        let template = template(&[(Field::Client, " - "), (Field::RequestLine, "\" "), (Field::Status, "")]);
        let mut request = Request::default();
        template.read(b"10.0.0.1 - GET /a - b HTTP/1.1\" 200", &mut request).unwrap();
        assert_eq!(
            (request.client, request.path, request.status),
            (Some(&b"10.0.0.1"[..]), Some(&b"/a - b"[..]), Some(200))
        );
        assert_eq!(template.read(b"10.0.0.1", &mut request), Err(Fault::Lacks("request line")));
        assert_eq!(template.read(b"10.0.0.1 - GET", &mut request), Err(Fault::Lacks("status")));
        assert_eq!(template.read(b"10.0.0.1 - GET\" x", &mut request), Err(Fault::Malformed("status")));
    }

    #[test]
    fn lists_contain_the_space_that_ends_other_values() {
        let template = template(&[(Field::Endpoints, " "), (Field::Spans(SECOND_NS), " "), (Field::Status, "")]);
        let mut request = Request::default();
        template.read(b"a:1, b:2 : c:3 0.1, 0.2 : 0.3 200", &mut request).unwrap();
        let tries: Vec<_> =
            request.tries.kept().iter().map(|one| (one.endpoint.unwrap(), one.took.unwrap().ns)).collect();
        assert_eq!(tries, [(&b"a:1"[..], 100_000_000), (b"b:2", 200_000_000), (b"c:3", 300_000_000)]);
        assert_eq!(request.status, Some(200));
    }

    #[test]
    fn values_need_text_between_them() {
        let mut template = template(&[(Field::Client, "")]);
        assert!(template.value(Field::Status, "status").unwrap_err().contains("\"status\""));
        template.fix(2);
        assert!(template.value(Field::Status, "status").is_ok());
    }
}
