//! Lengths of bodies: the data of a message must be as long as its head states.

use super::head::Head;

/// Fault of a body whose length differs from the length in its head.
pub const NOT_AS_STATED: &str = "the body length differs from Content-Length";

/// Kind of a request, on which the body of its response depends (RFC 9110 section 6.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The fields of the response state the length of the body.
    Usual,
    /// The response has no body, whatever its fields state.
    Head,
    /// If the request succeeds, a tunnel follows.
    Connect,
}

impl Asked {
    /// Takes a field of the request into account.
    pub fn look(&mut self, field: (&[u8], &[u8])) {
        match field {
            (b":method", b"HEAD") => *self = Asked::Head,
            (b":method", b"CONNECT") => *self = Asked::Connect,
            _ => {}
        }
    }
}

/// Bytes of a body that are still to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest(Option<u64>);

impl Rest {
    /// Returns the length that the head of a request states.
    pub fn of_request(head: &Head) -> Rest {
        Rest(head.content_length)
    }

    /// Returns the length of the body that follows the final head of a response.
    pub fn of_response(asked: Asked, head: &Head) -> Rest {
        Rest(match (asked, head.status) {
            (Asked::Head, _) | (_, 204 | 304) => Some(0),
            (Asked::Connect, 200..300) => None,
            _ => head.content_length,
        })
    }

    /// Counts `n` bytes of data; false if the body is longer than stated or, if it ends with these, shorter.
    #[inline]
    pub fn take(&mut self, n: u64, ends: bool) -> bool {
        let Some(left) = &mut self.0 else { return true };
        match left.checked_sub(n) {
            Some(less) if less == 0 || !ends => {
                *left = less;
                true
            }
            _ => false,
        }
    }

    /// True if nothing has to follow.
    pub fn may_end(self) -> bool {
        self.0.is_none_or(|left| left == 0)
    }
}
