//! What does the head of a message say, whatever the protocol? One table of fields over one buffer: routing, hash keys,
//! forwarding, sticky sessions, load reports and the access log read it, and never ask which protocol brought it.
//!
//! HTTP/1 points the rows at the bytes that came, so that what goes on as it came is copied in runs. A protocol that decodes
//! its fields fills a [`Table`].

use std::ops::Range;

/// Room for the rows of one head after the other.
pub type Room = Vec<Field>;

/// Where in its buffer a field is, and whether it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub(crate) name: u32,
    pub(crate) name_end: u32,
    pub(crate) value: u32,
    pub(crate) end: u32,
    /// Where the next field begins.
    pub(crate) next: u32,
    /// Whether no reader can misread it: its value, which is not empty, follows at most one space, and nothing follows the
    /// value.
    pub plain: bool,
    /// Whether it does not go on as it came.
    pub dropped: bool,
}

impl Field {
    /// All of it: in HTTP/1 its line, with the end of it.
    #[inline]
    pub fn line(&self) -> Range<usize> {
        self.name as usize..self.next as usize
    }

    /// Its name, as sent: case does not count.
    #[inline]
    pub fn name<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.name as usize..self.name_end as usize]
    }

    /// Its value, without the white space around it.
    #[inline]
    pub fn value<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        &bytes[self.value as usize..self.end as usize]
    }
}

/// The fields of a head, over the bytes they are in.
#[derive(Debug)]
pub struct Fields<'h, 'b> {
    /// The buffer.
    pub bytes: &'b [u8],
    /// One for each field, in order.
    pub rows: &'h mut [Field],
}

impl<'b> Fields<'_, 'b> {
    /// The first value of a field, by its name in any case.
    pub fn first(&self, name: &str) -> Option<&'b [u8]> {
        self.values(name).next()
    }

    /// Every value of a field, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        let named = move |f: &&Field| f.name(self.bytes).eq_ignore_ascii_case(name.as_bytes());
        self.rows.iter().filter(named).map(|f| f.value(self.bytes))
    }

    /// Leaves out every field of this name.
    pub fn leave_out(&mut self, name: &str) {
        for field in &mut *self.rows {
            field.dropped |= field.name(self.bytes).eq_ignore_ascii_case(name.as_bytes());
        }
    }

    /// Name and value of each field that goes on, in order.
    pub fn kept(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        self.rows.iter().filter(|field| !field.dropped).map(|field| (field.name(self.bytes), field.value(self.bytes)))
    }
}

/// Fields with a buffer of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    bytes: Vec<u8>,
    rows: Room,
}

impl Table {
    /// None yet, with room for so many bytes and fields.
    pub fn with_room(bytes: usize, fields: usize) -> Table {
        Table { bytes: Vec::with_capacity(bytes), rows: Room::with_capacity(fields) }
    }

    /// Adds a field. A head has less than 4 GiB.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        if self.rows.is_empty() {
            // What most heads need.
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

    /// Adds a field, its name in lower case.
    pub fn push_lower(&mut self, name: &[u8], value: &[u8]) {
        let at = self.bytes.len();
        self.push(name, value);
        self.bytes[at..at + name.len()].make_ascii_lowercase();
    }

    /// Adds the fields of lines that were checked before (`name: value`, each with its end), up to one that is empty.
    pub fn push_lines(&mut self, lines: &[u8]) {
        for line in lines.split_inclusive(|b| *b == b'\n') {
            let Some(colon) = memchr::memchr(b':', line) else { return };
            self.push(&line[..colon], line[colon + 1..].trim_ascii());
        }
    }

    /// The fields.
    pub fn fields(&mut self) -> Fields<'_, '_> {
        Fields { bytes: &self.bytes, rows: &mut self.rows }
    }

    /// Name and value of each field that goes on, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        self.rows.iter().filter(|field| !field.dropped).map(|field| (field.name(&self.bytes), field.value(&self.bytes)))
    }

    /// Bytes of all names and values.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
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

/// Changes to a request's head on its way to an endpoint, besides the fields that are left out. They become text when the head is
/// written.
#[derive(Debug, Default)]
pub struct Edits {
    lines: Vec<u8>,
    host: Option<Box<[u8]>>,
    target: Option<Box<str>>,
    is_length_open: bool,
}

impl Edits {
    /// None yet. `memory`: an empty vector for the fields that are added.
    pub fn new(memory: Vec<u8>) -> Edits {
        Edits { lines: memory, ..Edits::default() }
    }

    /// Adds a field. Neither name nor value has the end of a line in it.
    pub fn add(&mut self, name: &str, value: &[u8]) {
        [name.as_bytes(), b": ", value, b"\r\n"].into_iter().for_each(|part| self.lines.extend_from_slice(part));
    }

    /// The fields that are added so far, to which whole lines may be appended (`name: value`, each with its end).
    pub fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.lines
    }

    /// The fields that are added, each with the end of its line.
    pub fn added(&self) -> &[u8] {
        &self.lines
    }

    /// Puts a host in the place of that of the client.
    pub fn set_host(&mut self, host: &[u8]) {
        self.host = Some(host.into());
    }

    /// The host in the place of that of the client, if there is one.
    pub fn host(&self) -> Option<&[u8]> {
        self.host.as_deref()
    }

    /// Puts a path and query in the place of those of the client.
    pub fn set_target(&mut self, target: &str) {
        self.target = Some(target.into());
    }

    /// The path and query in the place of those of the client, if there are any.
    pub fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// Has no length of the body go on: another one follows than that of the client, which is not known yet.
    pub fn open_length(&mut self) {
        self.is_length_open = true;
    }

    /// True if no length of the body goes on.
    pub fn is_length_open(&self) -> bool {
        self.is_length_open
    }
}

/// What a request asks for.
#[derive(Debug)]
pub struct Request<'h, 'b> {
    /// As sent: methods are case-sensitive.
    pub method: &'b str,
    /// Path and query, or `*`.
    pub target: &'b str,
    /// Host and port as the client named them; empty if it did not (HTTP/1.0).
    pub host: &'b [u8],
    /// Its fields.
    pub fields: Fields<'h, 'b>,
}

impl<'b> Request<'_, 'b> {
    /// The path without the query.
    #[inline]
    pub fn path(&self) -> &'b str {
        match memchr::memchr(b'?', self.target.as_bytes()) {
            Some(at) => &self.target[..at],
            None => self.target,
        }
    }

    /// The query, without the question mark.
    pub fn query(&self) -> Option<&'b str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// The first value of a field.
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        self.fields.first(name)
    }

    /// Every value of a field, in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.fields.values(name)
    }

    /// Whether asking twice does no harm (RFC 9110 section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(self.method, "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE")
    }

    /// Whether the response has no body whatever its head says.
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
