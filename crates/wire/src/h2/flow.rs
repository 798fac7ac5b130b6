//! Flow control (RFC 9113 section 5.2): the window of a peer, which is reopened in large steps, with a WINDOW_UPDATE
//! for each half of it rather than for each part consumed.

/// Bytes that a side may still send, as the receiver counts them.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    size: u32,
    left: i64,
    /// Bytes consumed that the peer does not know of yet.
    freed: u32,
}

impl Window {
    /// Returns a window of this size. `left`: bytes that the peer believes it may send, which may be more at first.
    pub fn new(size: u32, left: u32) -> Window {
        Window { size, left: i64::from(left), freed: 0 }
    }

    /// Shrinks the window by `n`, as the peer now knows that it is smaller than it believed.
    pub fn shrink(&mut self, n: u32) {
        self.left -= i64::from(n);
    }

    /// Counts `n` received bytes; false if they are more than was allowed.
    #[inline]
    pub fn take(&mut self, n: usize) -> bool {
        self.left -= n as i64;
        self.left >= 0
    }

    /// Counts `n` consumed bytes. Returns the increment to send to the peer, if any is due.
    #[inline]
    pub fn free(&mut self, n: usize) -> Option<u32> {
        self.freed = self.freed.saturating_add(n as u32);
        if self.freed == 0 || self.freed < self.size / 2 {
            return None;
        }
        let opens = std::mem::take(&mut self.freed);
        self.left += i64::from(opens);
        Some(opens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_opens_when_half_of_it_was_taken() {
        let mut window = Window::new(100, 100);
        assert!(window.take(100) && !window.take(1));
        let mut window = Window::new(100, 100);
        assert!(window.take(60));
        assert_eq!([window.free(49), window.free(1), window.free(10)], [None, Some(50), None]);
        assert!(window.take(90) && !window.take(1));
    }

    #[test]
    fn a_peer_that_began_with_more_has_the_window_once_it_knows_it() {
        let mut window = Window::new(100, 1000);
        assert!(window.take(300));
        assert_eq!(window.free(300), Some(300));
        assert!(window.take(400));
        window.shrink(900);
        // The peer has sent more than it now may, and waits until that was consumed.
        assert_eq!(window.free(400), Some(400));
        assert!(window.take(100) && !window.take(1));
    }
}
