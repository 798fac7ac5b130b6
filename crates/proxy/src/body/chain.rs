//! Chain of the filters of one body. At most one buffer waits in front of each filter, even if a filter multiplies its
//! input: the sender is held back until the output was taken.

use super::filter::{BodyFilter, Ended};
use crate::body::fault::Unfit;
use crate::body::part::Part;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

/// Error for a filter that consumes nothing and produces nothing, as it would be called forever.
const STUCK: Unfit = Unfit { status: 500, why: "a filter took nothing of the body" };

/// Filters of one body. Parts are pushed at the front and pulled behind the last filter.
pub struct BodyChain {
    links: Box<[Link]>,
    is_done: bool,
}

struct Link {
    filter: Box<dyn BodyFilter>,
    waiting: Buf,
    /// The trailers, once the end of the body waits behind the data.
    end: Option<Table>,
    /// True once the filter's `end` has returned [`Ended::Whole`].
    has_ended: bool,
}

impl BodyChain {
    /// Creates a chain of these filters; `None` if there are none.
    pub fn new(filters: impl Iterator<Item = Box<dyn BodyFilter>>) -> Option<Box<BodyChain>> {
        let links: Box<[Link]> =
            filters.map(|filter| Link { filter, waiting: Buf::none(), end: None, has_ended: false }).collect();
        (!links.is_empty()).then(|| Box::new(BodyChain { links, is_done: false }))
    }

    /// True if no filter changes the length of the body.
    pub fn keeps_length(&self) -> bool {
        self.links.iter().all(|link| link.filter.keeps_length())
    }

    /// True once the end of the body was pulled.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Pushes a part. Data may only be pushed after [`pull`](Self::pull) returned `None`; the end at any time.
    pub fn push(&mut self, part: Part) {
        if let [first, ..] = &mut *self.links {
            first.push(part);
        }
    }

    /// Pulls the next part; `None` if more has to be pushed first. Trailers are an end too.
    ///
    /// # Errors
    /// The body does not pass.
    pub fn pull(&mut self) -> Result<Option<Part>, Unfit> {
        let part = pull(&mut self.links)?;
        self.is_done |= matches!(part, Some(Part::End | Part::Trailers(_)));
        Ok(part)
    }

    /// Pulls the next part of what filters hold back, as the sender pauses; `None` if there is no more. To be called once
    /// [`pull`](Self::pull) has returned `None`.
    ///
    /// # Errors
    /// The body does not pass.
    pub fn pull_held(&mut self) -> Result<Option<Part>, Unfit> {
        pull_held(&mut self.links)
    }

    /// Passes a complete body through the chain.
    ///
    /// # Errors
    /// The body does not pass.
    pub fn pass(&mut self, body: &[u8]) -> Result<Vec<u8>, Unfit> {
        let mut passed = Vec::new();
        let mut pieces = body.chunks(evenkeel_net::buffer::CAPACITY);
        while !self.is_done {
            match self.pull()? {
                Some(Part::Data(buf)) => passed.extend_from_slice(buf.filled()),
                // The body is sent with its length, so trailers are dropped.
                Some(_) => {}
                None => self.push(pieces.next().map_or(Part::End, |piece| Part::Data(Buf::holding(piece)))),
            }
        }
        Ok(passed)
    }
}

/// Pulls the next part behind the last of these filters.
fn pull(links: &mut [Link]) -> Result<Option<Part>, Unfit> {
    let Some((link, before)) = links.split_last_mut() else { return Ok(None) };
    loop {
        if let Some(part) = link.pull()? {
            return Ok(Some(part));
        }
        match pull(before)? {
            Some(part) => link.push(part),
            None => return Ok(None),
        }
    }
}

/// Pulls the next part of what these filters hold back: a filter gives what those before it have given.
fn pull_held(links: &mut [Link]) -> Result<Option<Part>, Unfit> {
    let Some((link, before)) = links.split_last_mut() else { return Ok(None) };
    loop {
        if let Some(part) = link.pull()? {
            return Ok(Some(part));
        }
        match pull_held(before)? {
            Some(part) => link.push(part),
            None => break,
        }
    }
    let mut to = Buf::take();
    link.filter.pause(&mut to)?;
    Ok((!to.is_empty()).then_some(Part::Data(to)))
}

impl Link {
    fn push(&mut self, part: Part) {
        match part {
            Part::Data(buf) => self.waiting = buf,
            Part::Trailers(trailers) => self.end = Some(trailers),
            Part::End => self.end = Some(Table::default()),
        }
    }

    /// Passes the waiting data, then the end, through the filter; `None` if that yields nothing.
    fn pull(&mut self) -> Result<Option<Part>, Unfit> {
        if self.waiting.is_empty() && self.end.is_none() {
            return Ok(None);
        }
        let mut to = Buf::take();
        while !self.waiting.is_empty() {
            let before = self.waiting.len();
            self.filter.data(&mut self.waiting, &mut to)?;
            if !to.is_empty() {
                return Ok(Some(Part::Data(to)));
            }
            if self.waiting.len() >= before {
                return Err(STUCK);
            }
        }
        while !self.has_ended {
            let Some(trailers) = &mut self.end else { return Ok(None) };
            self.has_ended = self.filter.end(&mut to, trailers)? == Ended::Whole;
            if !to.is_empty() {
                return Ok(Some(Part::Data(to)));
            }
            if !self.has_ended {
                return Err(STUCK);
            }
        }
        Ok(self.end.take().map(|trailers| if trailers.is_empty() { Part::End } else { Part::Trailers(trailers) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOUD: Unfit = Unfit { status: 422, why: "loud" };

    /// Repeats each byte `times` times, and appends the number of bytes received.
    struct Repeat {
        times: usize,
        came: usize,
        left: Vec<u8>,
    }

    impl BodyFilter for Repeat {
        fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<(), Unfit> {
            while let (Some(&byte), true) = (from.filled().first(), to.spare().len() >= self.times) {
                if byte == b'!' {
                    return Err(LOUD);
                }
                assert!(to.extend(&vec![byte; self.times]));
                from.consume(1);
                self.came += 1;
            }
            Ok(())
        }

        fn end(&mut self, to: &mut Buf, trailers: &mut Table) -> Result<Ended, Unfit> {
            if self.left.is_empty() {
                self.left = format!("<{}>", self.came).into_bytes();
                trailers.push(b"came", self.came.to_string().as_bytes());
            }
            // A byte at a time, as if there were room for no more.
            let byte = self.left.remove(0);
            assert!(to.extend(&[byte]));
            Ok(if self.left.is_empty() { Ended::Whole } else { Ended::More })
        }
    }

    /// A filter that never consumes its input.
    struct Stuck;

    impl BodyFilter for Stuck {
        fn data(&mut self, _: &mut Buf, _: &mut Buf) -> Result<(), Unfit> {
            Ok(())
        }
    }

    fn chain(times: &[usize]) -> Box<BodyChain> {
        let filters = times.iter().map(|&times| Box::new(Repeat { times, came: 0, left: Vec::new() }) as _);
        BodyChain::new(filters).expect("there are some")
    }

    fn data(text: &[u8]) -> Part {
        Part::Data(Buf::holding(text))
    }

    #[test]
    fn a_body_passes_one_filter_after_the_other_to_its_end() {
        let mut chain = chain(&[2, 1]);
        assert!(!chain.keeps_length() && chain.pull().expect("it passes").is_none());
        chain.push(data(b"ab"));
        let mut passed = Vec::new();
        let mut ended = Vec::new();
        for pushed in [Some(data(b"c")), Some(Part::Trailers([(&b"t"[..], &b"1"[..])].into_iter().collect())), None] {
            while let Some(part) = chain.pull().expect("it passes") {
                assert!(ended.is_empty(), "nothing is behind the end");
                match part {
                    Part::Data(buf) => passed.extend_from_slice(buf.filled()),
                    Part::Trailers(table) => ended.push(table),
                    Part::End => unreachable!("there are trailers"),
                }
            }
            assert_eq!(chain.is_done(), pushed.is_none());
            pushed.into_iter().for_each(|part| chain.push(part));
        }
        assert_eq!(String::from_utf8(passed).expect("text"), "aabbcc<3><9>");
        let fields: Vec<_> = ended[0].iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        let want = [("t", "1"), ("came", "3"), ("came", "9")];
        assert_eq!(fields, want.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())));
    }

    #[test]
    fn data_and_end_may_wait_together_and_a_piece_become_many() {
        let mut chain = chain(&[7, 7]);
        let text = vec![b'x'; 30_000];
        chain.push(data(&text));
        chain.push(Part::End);
        let (mut len, mut pieces) = (0, 0);
        while let Some(part) = chain.pull().expect("it passes") {
            if let Part::Data(buf) = part {
                assert!(buf.len() <= evenkeel_net::buffer::CAPACITY);
                (len, pieces) = (len + buf.len(), pieces + 1);
            }
        }
        let once = 7 * text.len() + "<30000>".len();
        assert_eq!(len, 7 * once + format!("<{once}>").len());
        assert!(chain.is_done() && pieces > 40, "{pieces}");
    }

    #[test]
    fn a_body_passes_whole_or_not_at_all() {
        assert_eq!(chain(&[2]).pass(b"ab"), Ok(b"aabb<2>".to_vec()));
        assert_eq!(chain(&[1, 1]).pass(b""), Ok(b"<0><3>".to_vec()));
        assert_eq!(chain(&[1]).pass(b"hey!"), Err(LOUD));
        let mut stuck = BodyChain::new(std::iter::once(Box::new(Stuck) as _)).expect("there is one");
        assert_eq!(stuck.pass(b"a"), Err(STUCK));
    }
}
