//! Responses of HTTP/3 as a client reads them, with the frames of RFC 9114 and as much of QPACK as a status of 200 takes:
//! the client has no dynamic table, so a proxy can refer to the static one only.

const DATA: u64 = 0;
const HEADERS: u64 = 1;

/// Field line `:status: 200` of the static table (RFC 9204 appendix A).
const STATUS_200: u8 = 0xc0 | 25;

/// Response that is being received.
#[derive(Default)]
pub struct Response {
    /// Start of a frame whose rest has not arrived.
    kept: Vec<u8>,
    /// Number of bytes that are left of a DATA frame.
    left: u64,
    is_good: bool,
    len: u64,
    /// Body, if it is compared with the expected one.
    pub body: Option<Vec<u8>>,
}

impl Response {
    /// A response whose body is kept, or only counted.
    pub fn new(keeps_body: bool) -> Response {
        Response { body: keeps_body.then(Vec::new), ..Response::default() }
    }

    /// Length of the body of a 200 that is complete; `None` if it is anything else.
    pub fn complete(&self) -> Option<u64> {
        (self.is_good && self.left == 0 && self.kept.is_empty()).then_some(self.len)
    }

    /// Reads bytes of the stream.
    pub fn read(&mut self, bytes: &[u8]) {
        let joined;
        let mut rest = bytes;
        if !self.kept.is_empty() {
            self.kept.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.kept);
            rest = &joined;
        }
        while !rest.is_empty() {
            if self.left > 0 {
                let (data, behind) = rest.split_at(rest.len().min(usize::try_from(self.left).unwrap_or(usize::MAX)));
                self.left -= data.len() as u64;
                self.len += data.len() as u64;
                if let Some(body) = &mut self.body {
                    body.extend_from_slice(data);
                }
                rest = behind;
                continue;
            }
            let Some(behind) = self.frame(rest) else {
                self.kept = rest.to_vec();
                return;
            };
            rest = behind;
        }
    }

    /// Reads a frame, of DATA only the front, and returns the bytes behind it; `None` if some are missing.
    fn frame<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (kind, rest) = integer(bytes)?;
        let (len, rest) = integer(rest)?;
        if kind == DATA {
            self.left = len;
            return Some(rest);
        }
        let (payload, behind) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        if kind == HEADERS && self.len == 0 {
            // Two bytes before the field lines: the state of the dynamic table, of which there is none.
            self.is_good |= payload.get(2) == Some(&STATUS_200);
        }
        Some(behind)
    }
}

/// Splits an integer of QUIC from the bytes behind it (RFC 9000 section 16).
fn integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let len = 1 << (bytes.first()? >> 6);
    let (number, behind) = bytes.split_at_checked(len)?;
    let first = u64::from(number[0] & 0x3f);
    Some((number[1..].iter().fold(first, |sum, byte| sum << 8 | u64::from(*byte)), behind))
}

/// Identifier of the last GOAWAY in what a proxy has sent on a stream in one direction; `None` if there is none, or if it is
/// not the control stream.
pub fn goes_away(bytes: &[u8]) -> Option<u64> {
    const GOAWAY: u64 = 7;
    let (0, mut rest) = integer(bytes)? else { return None };
    let mut last = None;
    while let Some((kind, behind)) = integer(rest) {
        let Some((len, behind)) = integer(behind) else { break };
        let Some((payload, behind)) = behind.split_at_checked(usize::try_from(len).ok()?) else { break };
        if kind == GOAWAY {
            last = integer(payload).map(|(id, _)| id).or(last);
        }
        rest = behind;
    }
    last
}

/// Bytes of the control stream of a client, without settings.
pub const CONTROL: &[u8] = &[0, 4, 0];

/// Bytes of a GET on its stream: literals with names of the static table.
pub fn get(path: &str) -> Vec<u8> {
    let mut block = vec![0, 0, 0xc0 | 17, 0xc0 | 23];
    for (name, value) in [(1, path), (0, "lab.test")] {
        block.extend([0x50 | name, value.len() as u8]);
        block.extend_from_slice(value.as_bytes());
    }
    let mut bytes = vec![HEADERS as u8, block.len() as u8];
    bytes.append(&mut block);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_however_its_bytes_are_cut() {
        // HEADERS, DATA with a length of two bytes, a frame of an unknown type, DATA.
        let mut bytes = vec![1, 3, 0, 0, STATUS_200, 0, 0x40, 100];
        bytes.extend([7; 100]);
        bytes.extend([0x21, 2, 9, 9, 0, 3, 7, 7, 7]);
        for step in 1..bytes.len() {
            let mut response = Response::new(true);
            bytes.chunks(step).for_each(|part| response.read(part));
            assert_eq!(response.complete(), Some(103));
            assert_eq!(response.body.as_deref(), Some(&[7; 103][..]));
            let mut cut = Response::new(false);
            cut.read(&bytes[..bytes.len() - 1]);
            assert_eq!(cut.complete(), None);
        }
    }

    #[test]
    fn the_last_announcement_of_an_end_counts() {
        let control = [0, 4, 2, 6, 0x10, 7, 2, 0x41, 0, 7, 1, 8];
        assert_eq!(goes_away(&control), Some(8));
        assert_eq!(goes_away(&control[..11]), Some(256), "cut");
        assert_eq!(goes_away(&control[..6]), None);
        assert_eq!(goes_away(&[2, 7, 1, 8]), None, "a stream of QPACK");
    }

    #[test]
    fn other_statuses_are_no_response() {
        let mut response = Response::new(false);
        response.read(&[1, 3, 0, 0, 0xc0 | 27]);
        assert_eq!(response.complete(), None);
    }
}
