//! The head of a message, in any protocol: a table of fields over a buffer. Routing, hash keys, forwarding, sticky
//! sessions, load reports and the access log read it without knowing the protocol of the message.
//!
//! HTTP/1 points the rows at the bytes received, so that unchanged lines are copied in runs. Protocols that decode
//! their fields fill a [`Table`].

use std::ops::Range;

/// Memory for the rows of a head, reused from head to head.
pub type Room = Vec<Field>;

/// Position of a field in its buffer, and true if it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub(crate) name: u32,
    pub(crate) name_end: u32,
    pub(crate) value: u32,
    pub(crate) end: u32,
    /// Start of the next field, or end of the head.
    pub(crate) next: u32,
    /// True if no reader can misread the field: its value is not empty and follows at most one space, and nothing
    /// follows the value.
    pub plain: bool,
    /// True if the field is not forwarded as it came.
    pub dropped: bool,
}

impl Field {
    /// Range of the whole field. In HTTP/1 its line, with the line end.
    #[inline]
    pub fn line(&self) -> Range<usize> {
        self.name as usize..self.next as usize
    }

    /// Name as sent; compare without regard to case.
    #[inline]
    pub fn name<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.name as usize..self.name_end as usize]
    }

    /// Value without surrounding white space.
    #[inline]
    pub fn value<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.value as usize..self.end as usize]
    }
}

/// Fields of a head, over the buffer that they point into.
#[derive(Debug)]
pub struct Fields<'h, 'b> {
    pub bytes: &'b [u8],
    /// A row for each field, in order.
    pub rows: &'h mut [Field],
}

impl<'b> Fields<'_, 'b> {
    /// First value of a field, by its name in any case.
    pub fn first(&self, name: &str) -> Option<&'b [u8]> {
        self.values(name).next()
    }

    /// All values of a field, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        let named = move |f: &&Field| f.name(self.bytes).eq_ignore_ascii_case(name.as_bytes());
        self.rows.iter().filter(named).map(|f| f.value(self.bytes))
    }

    /// Drops every field of this name.
    pub fn leave_out(&mut self, name: &str) {
        for field in &mut *self.rows {
            field.dropped |= field.name(self.bytes).eq_ignore_ascii_case(name.as_bytes());
        }
    }

    /// Drops the fields that have a byte in their names, and takes their names away: no reader finds them.
    pub fn hide_with(&mut self, byte: u8) {
        for field in &mut *self.rows {
            if field.name(self.bytes).contains(&byte) {
                field.dropped = true;
                field.name_end = field.name;
            }
        }
    }

    /// Name and value of each field that is forwarded, in order.
    pub fn kept(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        self.rows.iter().filter(|field| !field.dropped).map(|field| (field.name(self.bytes), field.value(self.bytes)))
    }
}

/// Fields in a separate buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    bytes: Vec<u8>,
    rows: Room,
}

impl Table {
    /// Returns an empty table with room for this many bytes and fields.
    pub fn with_room(bytes: usize, fields: usize) -> Table {
        Table { bytes: Vec::with_capacity(bytes), rows: Room::with_capacity(fields) }
    }

    /// Returns an empty table whose fields follow other bytes in their buffer.
    pub(crate) fn behind(bytes: Vec<u8>) -> Table {
        Table { bytes, rows: Room::new() }
    }

    /// Returns the buffer and the rows.
    pub(crate) fn into_memory(self) -> (Vec<u8>, Room) {
        (self.bytes, self.rows)
    }

    /// Adds a field. A head must be smaller than 4 GiB.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        if self.rows.is_empty() {
            // Enough for most heads.
            self.bytes.reserve(512);
            self.rows.reserve(16);
        }
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        let name_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        let end = self.bytes.len() as u32;
        self.rows.push(Field { name: at, name_end, value: name_end, end, next: end, plain: true, dropped: false });
    }

    /// Adds a field with its name in lower case.
    pub fn push_lower(&mut self, name: &[u8], value: &[u8]) {
        let at = self.bytes.len();
        self.push(name, value);
        self.bytes[at..at + name.len()].make_ascii_lowercase();
    }

    /// Adds the fields of validated lines (`name: value`, each with its line end), up to an empty line.
    pub fn push_lines(&mut self, lines: &[u8]) {
        for line in lines.split_inclusive(|b| *b == b'\n') {
            let Some(colon) = memchr::memchr(b':', line) else { return };
            self.push(&line[..colon], line[colon + 1..].trim_ascii());
        }
    }

    pub fn fields(&mut self) -> Fields<'_, '_> {
        Fields { bytes: &self.bytes, rows: &mut self.rows }
    }

    /// Name and value of each field that is forwarded, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        self.rows.iter().filter(|field| !field.dropped).map(|field| (field.name(&self.bytes), field.value(&self.bytes)))
    }

    /// Number of bytes in all names and values.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// True if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl<'a> FromIterator<(&'a [u8], &'a [u8])> for Table {
    fn from_iter<T: IntoIterator<Item = (&'a [u8], &'a [u8])>>(fields: T) -> Table {
        let mut table = Table::default();
        fields.into_iter().for_each(|(name, value)| table.push(name, value));
        table
    }
}

/// Changes to a request's head on its way to an endpoint, apart from the fields that are dropped. Applied when the head
/// is written.
#[derive(Debug, Default)]
pub struct Edits {
    lines: Vec<u8>,
    host: Option<Box<[u8]>>,
    target: Option<Box<str>>,
    is_length_open: bool,
}

impl Edits {
    /// Returns edits without any change. `memory`: an empty vector for the added fields.
    pub fn new(memory: Vec<u8>) -> Edits {
        Edits { lines: memory, ..Edits::default() }
    }

    /// Adds a field. Neither name nor value may contain a line end.
    pub fn add(&mut self, name: &str, value: &[u8]) {
        [name.as_bytes(), b": ", value, b"\r\n"].into_iter().for_each(|part| self.lines.extend_from_slice(part));
    }

    /// Added fields so far, to which whole lines may be appended (`name: value`, each with its line end).
    pub fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.lines
    }

    /// Added fields, each with its line end.
    pub fn added(&self) -> &[u8] {
        &self.lines
    }

    /// Replaces the client's host.
    pub fn set_host(&mut self, host: &[u8]) {
        self.host = Some(host.into());
    }

    /// Replacement of the client's host, if any.
    pub fn host(&self) -> Option<&[u8]> {
        self.host.as_deref()
    }

    /// Replaces the client's path and query.
    pub fn set_target(&mut self, target: &str) {
        self.target = Some(target.into());
    }

    /// Replacement of the client's path and query, if any.
    pub fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// Removes the length of the body: another body than the client's follows, whose length is not known yet.
    pub fn open_length(&mut self) {
        self.is_length_open = true;
    }

    /// True if the length of the body is not forwarded.
    pub fn is_length_open(&self) -> bool {
        self.is_length_open
    }
}

/// The request line and fields of a message.
#[derive(Debug)]
pub struct Request<'h, 'b> {
    /// Method as sent; case-sensitive.
    pub method: &'b str,
    /// Path and query, or `*`.
    pub target: &'b str,
    /// Host and port as the client named them; empty if it named none (HTTP/1.0).
    pub host: &'b [u8],
    pub fields: Fields<'h, 'b>,
}

impl<'b> Request<'_, 'b> {
    /// Path of the target, without the query.
    #[inline]
    pub fn path(&self) -> &'b str {
        match memchr::memchr(b'?', self.target.as_bytes()) {
            Some(at) => &self.target[..at],
            None => self.target,
        }
    }

    /// Query without the question mark; `None` if there is no question mark.
    pub fn query(&self) -> Option<&'b str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// First value of a field, by its name in any case.
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        self.fields.first(name)
    }

    /// All values of a field, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.fields.values(name)
    }

    /// True if the method is idempotent (RFC 9110 section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(self.method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE")
    }

    /// True if the method is HEAD, so that the response has no body whatever its head states.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_back_its_fields_in_order_and_by_name_in_any_case() {
        let mut table: Table = [(&b"host"[..], &b"a"[..]), (b"x-y", b""), (b"X-Y", b"2")].into_iter().collect();
        assert_eq!(table.iter().map(|(name, _)| name).collect::<Vec<_>>(), [&b"host"[..], b"x-y", b"X-Y"]);
        let mut fields = table.fields();
        assert_eq!(fields.first("Host"), Some(&b"a"[..]));
        assert_eq!(fields.values("x-Y").collect::<Vec<_>>(), [&b""[..], b"2"]);
        fields.leave_out("x-y");
        assert_eq!(fields.kept().collect::<Vec<_>>(), [(&b"host"[..], &b"a"[..])]);
        table.push_lower(b"X-Y", b"A");
        assert_eq!(table.iter().collect::<Vec<_>>(), [(&b"host"[..], &b"a"[..]), (b"x-y", b"A")]);
        assert!(!table.is_empty() && Table::default().is_empty());
        assert_eq!(table.iter().next_back(), Some((&b"x-y"[..], &b"A"[..])));
    }

    #[test]
    fn edits_are_lines_and_what_stands_in_the_place_of_others() {
        let mut edits = Edits::new(Vec::new());
        edits.add("X-A", b"1");
        edits.lines().extend_from_slice(b"X-B: 2\r\n");
        assert_eq!((edits.added(), edits.host(), edits.target()), (&b"X-A: 1\r\nX-B: 2\r\n"[..], None, None));
        edits.set_host(b"b");
        edits.set_target("/p");
        assert_eq!((edits.host(), edits.target()), (Some(&b"b"[..]), Some("/p")));
    }

    #[test]
    fn lines_become_fields_up_to_the_empty_one() {
        let mut table = Table::default();
        table.push_lines(b"a: 1\r\nB:\r\nc:  2 \r\n\r\nd: 4\r\n");
        assert_eq!(table.iter().collect::<Vec<_>>(), [(&b"a"[..], &b"1"[..]), (b"B", b""), (b"c", b"2")]);
    }
}
