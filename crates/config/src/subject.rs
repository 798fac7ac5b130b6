//! Identity of the listeners, routes and pools that findings are about. [`Written`] knows which bytes of a plan's text
//! were written for which of them, so that no name has to be read back from a path or a message.

use std::ops::Range;

/// A listener, route or pool of a plan, by its position within its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Listener(usize),
    Route(usize),
    Pool(usize),
}

/// Ranges of bytes in the text of a plan, in ascending order, each written for a subject.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(Vec<(Range<usize>, Subject)>);

impl Written {
    /// Adds a range behind those before it.
    pub fn add(&mut self, range: Range<usize>, subject: Subject) {
        self.0.push((range, subject));
    }

    /// Moves the ranges for a text in which `old` is replaced by `len` bytes.
    pub fn replaced(&mut self, old: &Range<usize>, len: usize) {
        let moved = |at: usize| if at >= old.end { at - old.len() + len } else { at };
        for (range, _) in &mut self.0 {
            *range = moved(range.start)..moved(range.end);
        }
    }

    /// Subject that a range of bytes belongs to; `None` if it belongs to none or to several.
    pub fn subject(&self, bytes: Range<usize>) -> Option<Subject> {
        // An error at a position has an empty range.
        let end = bytes.end.max(bytes.start + 1);
        let first = self.0.partition_point(|(range, _)| range.end <= bytes.start);
        let mut met = self.0[first..].iter().take_while(|(range, _)| range.start < end);
        let (_, subject) = met.next()?;
        met.next().is_none().then_some(*subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_belongs_to_the_only_subject_that_it_meets() {
        let mut written = Written::default();
        written.add(10..20, Subject::Listener(0));
        written.add(30..40, Subject::Pool(0));
        for (range, subject) in [
            (0..9, None),
            (0..10, None),
            (8..11, Some(Subject::Listener(0))),
            (19..19, Some(Subject::Listener(0))),
            (20..30, None),
            (15..31, None),
            (35..90, Some(Subject::Pool(0))),
            (40..41, None),
        ] {
            assert_eq!(written.subject(range.clone()), subject, "{range:?}");
        }
        written.replaced(&(12..14), 7);
        assert_eq!(written.subject(24..25), Some(Subject::Listener(0)));
        assert_eq!((written.subject(34..35), written.subject(44..45)), (None, Some(Subject::Pool(0))));
    }
}
