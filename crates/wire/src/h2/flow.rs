//! How much may a peer send before something of it was taken? A window (RFC 9113 section 5.2), which opens again in large steps: a
//! frame for each half of it, and not for each part that was taken.

/// What one side may still send, as the other sees it.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    size: u32,
    left: i64,
    /// Taken, and the peer was not told.
    freed: u32,
}

impl Window {
    /// A window of this size. `left`: what the peer believes that it may send, which may be more for a moment.
    pub fn new(size: u32, left: u32) -> Window {
        Window { size, left: i64::from(left), freed: 0 }
    }

    /// The peer knows now that the window is smaller by so much than it believed.
    pub fn shrink(&mut self, n: u32) {
        self.left -= i64::from(n);
    }

    /// So much has come; `false` if that is more than was allowed.
    #[inline]
    pub fn take(&mut self, n: usize) -> bool {
        self.left -= n as i64;
        self.left >= 0
    }

    /// So much was taken; how far the window opens, if the peer is to be told.
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
        // It has sent more than it may now, and waits until that was taken.
        assert_eq!(window.free(400), Some(400));
        assert!(window.take(100) && !window.take(1));
    }
}
