//! Attributes of netlink: a length, a kind, bytes, and padding to four bytes.

/// Bit of an attribute's kind that says that it holds attributes.
const NESTED: u16 = 1 << 15;
/// Bits of an attribute's kind that are the kind: the others are [`NESTED`] and a bit for network byte order.
const KIND: u16 = (1 << 14) - 1;
/// Bytes of an attribute before its content.
const HEAD: usize = 4;

/// Returns the next multiple of 4.
pub(super) fn aligned(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// Content of a request: the header of its family, and attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload(Vec<u8>);

impl Payload {
    /// Begins with the header of a family: `nfgenmsg`, `genlmsghdr`, or none.
    pub fn new(header: &[u8]) -> Payload {
        let mut payload = Payload(header.to_vec());
        payload.pad();
        payload
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds the attributes of another message.
    pub fn append(&mut self, other: &Payload) {
        self.0.extend_from_slice(&other.0);
    }

    /// # Panics
    /// If the content is longer than 65,531 bytes.
    pub fn push(&mut self, kind: u16, content: &[u8]) -> &mut Payload {
        let len = u16::try_from(HEAD + content.len()).expect("attributes are written with bounded content");
        self.0.extend_from_slice(&len.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(content);
        self.pad();
        self
    }

    pub fn push_u8(&mut self, kind: u16, value: u8) -> &mut Payload {
        self.push(kind, &[value])
    }

    pub fn push_u16(&mut self, kind: u16, value: u16) -> &mut Payload {
        self.push(kind, &value.to_ne_bytes())
    }

    pub fn push_u16_be(&mut self, kind: u16, value: u16) -> &mut Payload {
        self.push(kind, &value.to_be_bytes())
    }

    pub fn push_u32(&mut self, kind: u16, value: u32) -> &mut Payload {
        self.push(kind, &value.to_ne_bytes())
    }

    pub fn push_u32_be(&mut self, kind: u16, value: u32) -> &mut Payload {
        self.push(kind, &value.to_be_bytes())
    }

    pub fn push_u64_be(&mut self, kind: u16, value: u64) -> &mut Payload {
        self.push(kind, &value.to_be_bytes())
    }

    /// Writes text with a zero byte at its end.
    ///
    /// # Panics
    /// Like [`push`](Self::push).
    pub fn push_text(&mut self, kind: u16, text: &str) -> &mut Payload {
        self.push(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Writes an attribute that holds those that `fill` writes.
    ///
    /// # Panics
    /// Like [`push`](Self::push).
    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Payload)) -> &mut Payload {
        let mut inner = Payload::default();
        fill(&mut inner);
        self.push(kind | NESTED, &inner.0)
    }

    fn pad(&mut self) {
        self.0.resize(aligned(self.0.len()), 0);
    }
}

/// Attributes in bytes of the kernel. Ends where they are malformed.
#[derive(Clone, Debug)]
pub struct Attributes<'b>(&'b [u8]);

impl<'b> Attributes<'b> {
    /// Reads attributes after a family's header of `header` bytes.
    pub fn after(header: usize, payload: &'b [u8]) -> Attributes<'b> {
        Attributes(payload.get(aligned(header)..).unwrap_or_default())
    }

    /// Returns the first attribute of a kind.
    pub fn first(&self, kind: u16) -> Option<Attribute<'b>> {
        self.clone().find(|attribute| attribute.kind == kind)
    }
}

impl<'b> Iterator for Attributes<'b> {
    type Item = Attribute<'b>;

    fn next(&mut self) -> Option<Attribute<'b>> {
        let (head, _) = self.0.split_first_chunk::<HEAD>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let Some(bytes) = self.0.get(HEAD..len) else {
            self.0 = &[];
            return None;
        };
        // The last attribute may lack its padding.
        self.0 = self.0.get(aligned(len)..).unwrap_or_default();
        Some(Attribute { kind: u16::from_ne_bytes([head[2], head[3]]) & KIND, bytes })
    }
}

/// Attribute of the kernel. Numbers are read only if the content has exactly their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'b> {
    pub kind: u16,
    pub bytes: &'b [u8],
}

impl<'b> Attribute<'b> {
    pub fn u8(&self) -> Option<u8> {
        Some(u8::from_ne_bytes(self.bytes.try_into().ok()?))
    }

    pub fn u16(&self) -> Option<u16> {
        Some(u16::from_ne_bytes(self.bytes.try_into().ok()?))
    }

    pub fn u16_be(&self) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes.try_into().ok()?))
    }

    pub fn u32(&self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes.try_into().ok()?))
    }

    pub fn u32_be(&self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes.try_into().ok()?))
    }

    pub fn u64(&self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes.try_into().ok()?))
    }

    pub fn u64_be(&self) -> Option<u64> {
        Some(u64::from_be_bytes(self.bytes.try_into().ok()?))
    }

    /// Returns the text up to its zero byte, or up to its end if it has none.
    pub fn text(&self) -> Option<&'b str> {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(self.bytes.len());
        std::str::from_utf8(&self.bytes[..end]).ok()
    }

    pub fn nested(&self) -> Attributes<'b> {
        Attributes(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_attribute_has_the_bytes_of_the_kernels_interface() {
        let mut payload = Payload::new(&[7, 1, 0, 0]);
        payload.push_u16_be(4, 80).push_text(6, "wlc");
        let expected: [&[u8]; 6] =
            [&[7, 1, 0, 0], &6u16.to_ne_bytes(), &4u16.to_ne_bytes(), &[0, 80, 0, 0], &8u16.to_ne_bytes(), &[6, 0]];
        assert_eq!(&payload.bytes()[..14], &expected.concat()[..14]);
        assert_eq!(&payload.bytes()[payload.bytes().len() - 4..], b"wlc\0");
    }

    #[test]
    fn values_that_were_written_are_read() {
        let mut payload = Payload::new(&[0; 4]);
        payload.push_u8(1, 200).push_u32(2, 1 << 20).nest(3, |inner| {
            inner.push_u16(1, 65_535).push_text(2, "mh").push_u32_be(3, 9);
        });
        let all = Attributes::after(4, payload.bytes());
        assert_eq!(all.first(1).and_then(|value| value.u8()), Some(200));
        assert_eq!(all.first(2).and_then(|value| value.u32()), Some(1 << 20));
        assert_eq!(all.first(2).and_then(|value| value.u16()), None);
        let inner = all.first(3).expect("was written").nested();
        assert_eq!(inner.first(1).and_then(|value| value.u16()), Some(65_535));
        assert_eq!(inner.first(2).and_then(|value| value.text()), Some("mh"));
        assert_eq!(inner.first(3).and_then(|value| value.u32_be()), Some(9));
        assert_eq!(all.count(), 3);
    }

    #[test]
    fn an_attribute_shorter_than_its_head_ends_them() {
        for len in 0..4u16 {
            let bytes = [len.to_ne_bytes(), [1, 0], [4, 0], [1, 0]].concat();
            assert_eq!(Attributes::after(0, &bytes).count(), 0, "length {len}");
        }
    }

    proptest! {
        #[test]
        fn contents_survive(contents in prop::collection::vec((0..KIND, prop::collection::vec(any::<u8>(), 0..70)), 0..20)) {
            let mut payload = Payload::new(&[]);
            for (kind, content) in &contents {
                payload.push(*kind, content);
            }
            let read: Vec<_> =
                Attributes::after(0, payload.bytes()).map(|attribute| (attribute.kind, attribute.bytes.to_vec())).collect();
            prop_assert_eq!(read, contents);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(header in 0usize..40, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for attribute in Attributes::after(header, &bytes) {
                let _ = (attribute.u8(), attribute.u16(), attribute.u32_be(), attribute.u64(), attribute.text());
                prop_assert!(attribute.nested().count() <= attribute.bytes.len());
            }
        }
    }
}
