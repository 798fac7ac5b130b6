//! A head as a list of lines: the naive reading that fuzzers compare with. Shares no code with the engine,
//! and is written for clarity instead of speed.
// Each target uses a part of it.
#![allow(dead_code)]

/// Lines of a head, without their endings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub first: Vec<u8>,
    pub fields: Vec<Vec<u8>>,
}

impl Head {
    /// Splits a head that ends in an empty line, and checks what holds for every head.
    pub fn split(bytes: &[u8]) -> Head {
        let text = bytes.strip_suffix(b"\r\n\r\n").expect("a head ends in an empty line");
        let mut lines: Vec<Vec<u8>> = vec![vec![]];
        let mut rest = text;
        while let Some((&b, behind)) = rest.split_first() {
            if rest.starts_with(b"\r\n") {
                lines.push(vec![]);
                rest = &rest[2..];
                continue;
            }
            assert!(!matches!(b, 0..=8 | 10..=31 | 127), "a control byte within a line: {}", bytes.escape_ascii());
            lines.last_mut().expect("there is one").push(b);
            rest = behind;
        }
        let mut lines = lines.into_iter();
        let first = lines.next().expect("there is one");
        let fields: Vec<Vec<u8>> = lines.collect();
        for line in &fields {
            let name = line.split(|b| *b == b':').next().expect("there is one");
            assert!(name.len() < line.len(), "a field without a colon: {}", bytes.escape_ascii());
            assert!(!name.is_empty() && name.iter().all(|b| is_token(*b)), "a name: {}", name.escape_ascii());
        }
        Head { first, fields }
    }

    /// Values of all fields with this name.
    pub fn values(&self, name: &str) -> Vec<&[u8]> {
        self.fields.iter().filter(|line| name_of(line) == name).map(|line| value_of(line)).collect()
    }

    /// True if the comma-separated values of a field contain this token.
    pub fn lists(&self, name: &str, token: &str) -> bool {
        self.values(name).into_iter().any(|value| tokens(value).iter().any(|t| t == token))
    }

    /// Names listed by `Connection`, except those that a proxy handles itself.
    pub fn nominated(&self) -> Vec<String> {
        let kept = ["host", "content-length", "transfer-encoding", "expect"];
        let all = self.values("connection").into_iter().flat_map(tokens);
        all.filter(|t| !kept.contains(&t.as_str())).collect()
    }

    /// All fields except those with these names.
    pub fn without(&self, names: &[String]) -> Vec<Vec<u8>> {
        self.fields.iter().filter(|line| !names.contains(&name_of(line))).cloned().collect()
    }

    /// True if the field of this name, of which there is at most one, has a value after one space or none.
    pub fn is_plain(&self, name: &str) -> bool {
        let line = self.fields.iter().find(|line| name_of(line) == name);
        line.is_some_and(|line| {
            let (rest, value) = (&line[name.len()..], value_of(line));
            !value.is_empty() && (rest == [b":", value].concat() || rest == [b": ", value].concat())
        })
    }

    /// The fields without a framing field in unusual spelling, and that field in its usual spelling.
    pub fn plain_framing(&self) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let (mut fields, mut anew) = (self.fields.clone(), None);
        fields.retain(|line| {
            let (name, value) = (name_of(line), value_of(line));
            let digits = value.iter().position(|b| *b != b'0').map_or(&b"0"[..], |at| &value[at..]);
            let (title, want) = match name.as_str() {
                "content-length" => ("Content-Length: ", digits),
                "transfer-encoding" => ("Transfer-Encoding: ", &b"chunked"[..]),
                _ => return true,
            };
            let rest = &line[name.len()..];
            if rest == [b":", want].concat() || rest == [b": ", want].concat() {
                return true;
            }
            anew = Some([title.as_bytes(), want].concat());
            false
        });
        (fields, anew)
    }

    /// True if a server that ignores a body without meaning, and every body before a switch of protocols, would take
    /// the body behind this head for its next request.
    pub fn hides_a_request(&self) -> bool {
        let method = self.first.split(|b| *b == b' ').next().unwrap_or_default();
        let has_body =
            self.has("transfer-encoding") || self.values("content-length").iter().any(|value| value != b"0");
        let is_ignored = matches!(method, b"GET" | b"HEAD" | b"DELETE" | b"TRACE")
            || self.has("upgrade") && self.lists("connection", "upgrade");
        has_body && is_ignored && !self.lists("connection", "close")
    }

    pub fn has(&self, name: &str) -> bool {
        !self.values(name).is_empty()
    }

    pub fn join(first: &[u8], fields: &[Vec<u8>]) -> Vec<u8> {
        let mut out = [first, b"\r\n"].concat();
        for line in fields {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out
    }
}

/// Name of a field line, in lower case.
pub fn name_of(line: &[u8]) -> String {
    let name = line.split(|b| *b == b':').next().expect("there is one");
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

/// True if a lower-case name, with `-` for `_`, is one that a proxy sets or interprets itself.
pub fn is_lookalike(name: &str) -> bool {
    let ours = "content-length transfer-encoding x-forwarded-for x-forwarded-proto x-forwarded-host keep-alive \
                proxy-connection http2-settings cdn-loop client-cert client-cert-chain x-client-cert-issuer \
                x-client-cert-serial x-client-cert-subject x-client-cert-verified x-client-cert-fingerprint";
    name.contains('_') && ours.split(' ').any(|o| o == name.replace('_', "-"))
}

/// Value of a field line, without surrounding spaces and tabs.
pub fn value_of(line: &[u8]) -> &[u8] {
    let at = line.iter().position(|b| *b == b':').map_or(line.len(), |at| at + 1);
    trim(&line[at..])
}

/// Elements of a comma-separated list, in lower case.
pub fn tokens(value: &[u8]) -> Vec<String> {
    let element = |e: &[u8]| String::from_utf8_lossy(trim(e)).to_ascii_lowercase();
    value.split(|b| *b == b',').map(element).filter(|e| !e.is_empty()).collect()
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

pub fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// Three ways to split bytes, derived from the bytes themselves, so that an input is just a message.
pub fn cuts(bytes: &[u8]) -> [Vec<usize>; 3] {
    let mut hash =
        bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    [1, 4, 16].map(|n| {
        let next = |_| {
            hash = hash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (hash >> 33) as usize
        };
        (0..n).map(next).collect()
    })
}
