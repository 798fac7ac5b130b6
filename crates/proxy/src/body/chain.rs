//! Chain of the filters of a body. At most one buffer waits in front of each filter, even if a filter multiplies its
//! input: the sender is held back until the output was taken.

use super::filter::{BodyFilter, Ended, Pace};
use crate::body::fault::Unfit;
use crate::body::part::Part;
use bytes::Bytes;
use evenkeel_net::buffer::Buf;
use evenkeel_wire::head::Table;

/// Error for a filter that consumes nothing and produces nothing, as it would be called forever.
const STUCK: Unfit = Unfit { status: 500, why: "a filter took nothing of the body" };

/// Filters of a body. Parts are pushed at the front and pulled behind the last filter.
pub struct BodyChain {
    /// Filters in order, except that filters that may pause are last.
    links: Vec<Link>,
    is_done: bool,
}

struct Link {
    filter: Box<dyn BodyFilter>,
    waiting: Buf,
    /// Bytes that pass once a pause is over.
    paused: Option<Buf>,
    /// The trailers, once the end of the body waits behind the data.
    end: Option<Table>,
    /// True once the filter's `end` has returned [`Ended::Whole`].
    has_ended: bool,
}

/// Next part of a body behind all filters, or a pause before it.
#[derive(Debug)]
pub enum Pulled {
    Part(Part),
    /// Nothing more passes before this time in nanoseconds is over.
    Pause(u64),
}

impl BodyChain {
    /// Creates a chain of these filters; `None` if there are none.
    pub fn new(filters: impl Iterator<Item = Box<dyn BodyFilter>>) -> Option<Box<BodyChain>> {
        BodyChain::of(filters.map(Link::new).collect())
    }

    fn of(mut links: Vec<Link>) -> Option<Box<BodyChain>> {
        links.sort_by_key(|link| link.filter.may_pause());
        (!links.is_empty()).then(|| Box::new(BodyChain { links, is_done: false }))
    }

    /// Number of the filters that do not pause.
    fn at_once(&self) -> usize {
        self.links.iter().take_while(|link| !link.filter.may_pause()).count()
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
    pub fn pull(&mut self) -> Result<Option<Pulled>, Unfit> {
        let pulled = pull(&mut self.links)?;
        self.is_done |= matches!(pulled, Some(Pulled::Part(Part::End | Part::Trailers(_))));
        Ok(pulled)
    }

    /// Pulls the next part that filters hold back, as the sender pauses; `None` if there is no more. To be called once
    /// [`pull`](Self::pull) has returned `None`.
    ///
    /// # Errors
    /// The body does not pass.
    pub fn pull_held(&mut self) -> Result<Option<Pulled>, Unfit> {
        pull_held(&mut self.links)
    }

    /// Passes the beginning of a body through the filters that do not pause, as long as `takes` returns true for a
    /// part.
    ///
    /// # Errors
    /// The body does not pass.
    pub fn begin(
        &mut self,
        parts: impl Iterator<Item = Part>,
        mut takes: impl FnMut(&Part) -> bool,
    ) -> Result<(), Unfit> {
        let at_once = self.at_once();
        let Some((first, _)) = self.links[..at_once].split_first_mut() else {
            parts.for_each(|part| {
                takes(&part);
                self.is_done |= !matches!(part, Part::Data(_));
            });
            return Ok(());
        };
        parts.for_each(|part| first.push(part));
        while let Some(Pulled::Part(part)) = pull(&mut self.links[..at_once])? {
            self.is_done |= !matches!(part, Part::Data(_));
            if !takes(&part) || self.is_done {
                break;
            }
        }
        Ok(())
    }

    /// Passes a complete body through the filters that do not pause. Returns it with a chain of the others.
    ///
    /// # Errors
    /// The body does not pass.
    pub fn pass(mut self, mut body: Bytes) -> Result<(Bytes, Option<Box<BodyChain>>), Unfit> {
        let pausing = BodyChain::of(self.links.split_off(self.at_once()));
        if !self.links.is_empty() {
            let mut passed = Vec::new();
            let mut pieces = body.chunks(evenkeel_net::buffer::CAPACITY);
            while !self.is_done {
                match self.pull()? {
                    Some(Pulled::Part(Part::Data(buf))) => passed.extend_from_slice(buf.filled()),
                    // The body is sent with its length, so trailers are dropped.
                    Some(_) => {}
                    None => self.push(pieces.next().map_or(Part::End, |piece| Part::Data(Buf::holding(piece)))),
                }
            }
            body = passed.into();
        }
        Ok((body, pausing))
    }
}

/// Pulls the next part behind the last of these filters.
fn pull(links: &mut [Link]) -> Result<Option<Pulled>, Unfit> {
    let Some((link, before)) = links.split_last_mut() else { return Ok(None) };
    loop {
        if let Some(pulled) = link.pull()? {
            return Ok(Some(pulled));
        }
        match pull(before)? {
            Some(Pulled::Part(part)) => link.push(part),
            stop => return Ok(stop),
        }
    }
}

/// Pulls the next part that these filters hold back: each filter gets the held bytes of the filters before it.
fn pull_held(links: &mut [Link]) -> Result<Option<Pulled>, Unfit> {
    let Some((link, before)) = links.split_last_mut() else { return Ok(None) };
    loop {
        if let Some(pulled) = link.pull()? {
            return Ok(Some(pulled));
        }
        match pull_held(before)? {
            Some(Pulled::Part(part)) => link.push(part),
            Some(pause) => return Ok(Some(pause)),
            None => break,
        }
    }
    let mut to = Buf::take();
    link.filter.flush(&mut to)?;
    Ok((!to.is_empty()).then_some(Pulled::Part(Part::Data(to))))
}

impl Link {
    fn new(filter: Box<dyn BodyFilter>) -> Link {
        Link { filter, waiting: Buf::none(), paused: None, end: None, has_ended: false }
    }

    fn push(&mut self, part: Part) {
        match part {
            Part::Data(buf) => self.waiting = buf,
            Part::Trailers(trailers) => self.end = Some(trailers),
            Part::End => self.end = Some(Table::default()),
        }
    }

    /// Passes the waiting data, then the end, through the filter; `None` if that yields nothing.
    fn pull(&mut self) -> Result<Option<Pulled>, Unfit> {
        if let Some(passes) = self.paused.take() {
            return Ok(Some(Pulled::Part(Part::Data(passes))));
        }
        if self.waiting.is_empty() && self.end.is_none() {
            return Ok(None);
        }
        let mut to = Buf::take();
        while !self.waiting.is_empty() {
            let before = self.waiting.len();
            if let Pace::Pause(ns @ 1..) = self.filter.data(&mut self.waiting, &mut to)? {
                self.paused = (!to.is_empty()).then_some(to);
                return Ok(Some(Pulled::Pause(ns)));
            }
            if !to.is_empty() {
                return Ok(Some(Pulled::Part(Part::Data(to))));
            }
            if self.waiting.len() >= before {
                return Err(STUCK);
            }
        }
        while !self.has_ended {
            let Some(trailers) = &mut self.end else { return Ok(None) };
            self.has_ended = self.filter.end(&mut to, trailers)? == Ended::Whole;
            if !to.is_empty() {
                return Ok(Some(Pulled::Part(Part::Data(to))));
            }
            if !self.has_ended {
                return Err(STUCK);
            }
        }
        let end = self.end.take();
        Ok(end.map(|trailers| Pulled::Part(if trailers.is_empty() { Part::End } else { Part::Trailers(trailers) })))
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
        fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit> {
            while let (Some(&byte), true) = (from.filled().first(), to.spare().len() >= self.times) {
                if byte == b'!' {
                    return Err(LOUD);
                }
                assert!(to.extend(&vec![byte; self.times]));
                from.consume(1);
                self.came += 1;
            }
            Ok(Pace::On)
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
        fn data(&mut self, _: &mut Buf, _: &mut Buf) -> Result<Pace, Unfit> {
            Ok(Pace::On)
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
            while let Some(pulled) = chain.pull().expect("it passes") {
                assert!(ended.is_empty(), "nothing is behind the end");
                match pulled {
                    Pulled::Part(Part::Data(buf)) => passed.extend_from_slice(buf.filled()),
                    Pulled::Part(Part::Trailers(table)) => ended.push(table),
                    other => unreachable!("there are trailers, and no pauses: {other:?}"),
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
        while let Some(pulled) = chain.pull().expect("it passes") {
            if let Pulled::Part(Part::Data(buf)) = pulled {
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
        let pass = |chain: Box<BodyChain>, body: &'static [u8]| chain.pass(body.into()).map(|(body, _)| body);
        assert_eq!(pass(chain(&[2]), b"ab"), Ok("aabb<2>".into()));
        assert_eq!(pass(chain(&[1, 1]), b""), Ok("<0><3>".into()));
        assert_eq!(pass(chain(&[1]), b"hey!"), Err(LOUD));
        let stuck = BodyChain::new(std::iter::once(Box::new(Stuck) as _)).expect("there is one");
        assert_eq!(pass(stuck, b"a"), Err(STUCK));
    }

    /// Passes a byte at a time, each after a pause.
    struct Slow;

    impl BodyFilter for Slow {
        fn may_pause(&self) -> bool {
            true
        }

        fn data(&mut self, from: &mut Buf, to: &mut Buf) -> Result<Pace, Unfit> {
            assert!(to.extend(&from.filled()[..1]));
            from.consume(1);
            Ok(Pace::Pause(7))
        }
    }

    fn slow() -> Box<BodyChain> {
        let repeat = Repeat { times: 2, came: 0, left: Vec::new() };
        BodyChain::new([Box::new(Slow) as Box<dyn BodyFilter>, Box::new(repeat)].into_iter()).expect("there are some")
    }

    /// All that is pulled now, with `.` for each pause.
    fn pulled(chain: &mut BodyChain) -> String {
        let mut all = String::new();
        while let Some(pulled) = chain.pull().expect("it passes") {
            match pulled {
                Pulled::Pause(7) => all.push('.'),
                Pulled::Part(Part::Data(buf)) => all.push_str(std::str::from_utf8(buf.filled()).expect("ASCII")),
                Pulled::Part(_) => all.push('$'),
                other => unreachable!("{other:?}"),
            }
        }
        all
    }

    #[test]
    fn a_filter_that_pauses_is_the_last_one_and_its_bytes_pass_after_the_pause() {
        let mut chain = slow();
        chain.push(data(b"ab"));
        assert_eq!(pulled(&mut chain), ".a.a.b.b");
        chain.push(Part::End);
        assert_eq!(pulled(&mut chain), ".<.2.>$");
        assert!(chain.is_done());
    }

    #[test]
    fn what_comes_with_a_head_and_bodies_that_are_there_do_not_wait() {
        let mut chain = slow();
        let mut begun = Vec::new();
        let taken = chain.begin([data(b"ab")].into_iter(), |part| {
            if let Part::Data(buf) = part {
                begun.extend_from_slice(buf.filled());
            }
            true
        });
        assert_eq!((taken, &begun[..], chain.is_done()), (Ok(()), &b"aabb"[..], false));
        chain.push(data(b"c"));
        assert_eq!(pulled(&mut chain), ".c.c");
        let mut alone = BodyChain::new(std::iter::once(Box::new(Slow) as _)).expect("there is one");
        let mut parts = 0;
        let all = [data(b"ab"), Part::End].into_iter();
        assert_eq!(
            alone.begin(all, |_| {
                parts += 1;
                true
            }),
            Ok(())
        );
        assert_eq!((parts, alone.is_done()), (2, true));
        let (body, rest) = slow().pass("ab".into()).expect("it passes");
        let mut rest = rest.expect("one pauses");
        rest.push(Part::Data(Buf::holding(&body)));
        assert_eq!((&body[..], pulled(&mut rest)), (&b"aabb<2>"[..], ".a.a.b.b.<.2.>".into()));
    }
}
