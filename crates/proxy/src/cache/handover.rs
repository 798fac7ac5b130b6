//! Handover of stored responses at an upgrade, over a socket between both processes.
//!
//! The old process sends its responses once the new process serves, requested responses first. Both report their purges
//! to each other until the old process has finished its requests, and confirm them, so that neither serves a response
//! that was purged in the other. A response that was purged after it was read from the old store arrives behind the
//! purge, and the new process refuses it: its store holds purges from its start on. If the socket fails, the old
//! process can no longer learn of purges, and serves nothing more from its cache.
//!
//! Two threads on each side move the bytes. Only the end of the old process waits for them, for a limited time.

use super::partner::{Link, Side};
use super::stream::{self, Failed};
use super::{Entry, SharedCache};
use evenkeel_cache::moment::Moment;
use evenkeel_cache::record::{Broken, Kind, PurgeRecord, ResponseRecord, Scope};
use evenkeel_cache::store::{Cursor, Held, Inserted, Item, KeyRef, Restored, Sequence};
use evenkeel_cache::stored::Stored;
use evenkeel_net::memory::pages;
use std::io::{self, BufReader, ErrorKind, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant as Time};

/// Time in which all responses have to be sent. More memory than that takes is not handed over.
const GIVE_MAX: Duration = Duration::from_secs(30);

/// Time for which the other process may read nothing.
const STALL_MAX: Duration = Duration::from_secs(5);

/// Places of the store that each step visits.
const STEP: usize = 64;

/// Parts of the process that a handover uses.
pub struct Context {
    /// Cache of the plan that runs.
    pub cache: Box<dyn Fn() -> Arc<SharedCache> + Send + Sync>,
}

/// Responses that were taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub responses: u64,
    /// Bytes of their fields and bodies.
    pub bytes: u64,
    /// Responses that arrived and were not stored: fetched here meanwhile, purged, too large, or used less than others.
    pub left_out: u64,
    /// Reason why some of them did not arrive.
    pub cut: Option<Cut>,
}

/// Reason why a handover has ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The other process has closed the connection, or it failed.
    Closed,
    /// The records cannot be read.
    Broken(Broken),
}

/// A handover that this process gives.
pub struct Giving {
    link: Arc<Link>,
    stream: UnixStream,
    context: Arc<Context>,
}

impl Context {
    fn moment(&self) -> Moment {
        (self.cache)().clock.now()
    }

    /// Serves nothing more from the cache: purges of the process that has taken over cannot be learned of.
    fn retire(&self) {
        (self.cache)().retire();
    }
}

impl Giving {
    /// Begins to exchange purges with the process at the other end.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(stream: UnixStream, context: Context) -> io::Result<Giving> {
        let context = Arc::new(context);
        let link = connect(Side::Gives, &stream, &context, |_| ())?;
        Ok(Giving { link, stream, context })
    }

    /// The other process serves: responses are sent from now on.
    pub fn serves(&self) {
        // The other process has it from now on, with its purges.
        (self.context.cache)().let_go();
        let is_lost = self.link.change(|state| {
            state.serves = true;
            state.has_ended
        });
        if is_lost {
            self.context.retire();
        }
    }

    /// True once everything is sent, or the connection is lost.
    pub fn is_given(&self) -> bool {
        let state = self.link.state();
        state.is_given || state.has_ended
    }
}

impl Drop for Giving {
    fn drop(&mut self) {
        end(&self.link, &self.stream);
    }
}

/// Begins to take the responses of the process at the other end. `done` is called once, after the last response.
///
/// # Errors
/// The socket cannot be used, or no thread can be made.
pub fn take(stream: &UnixStream, context: Context, done: impl FnOnce(Taken) + Send + 'static) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    connect(Side::Takes, stream, &Arc::new(context), done).map(|_| ())
}

fn connect(
    side: Side,
    stream: &UnixStream,
    context: &Arc<Context>,
    done: impl FnOnce(Taken) + Send + 'static,
) -> io::Result<Arc<Link>> {
    stream.set_write_timeout(Some(STALL_MAX))?;
    let (link, read, mut written) = (Link::new(side), stream.try_clone()?, stream.try_clone()?);
    let cache = (context.cache)();
    // Before the other process can learn of a purge: its responses were stored before that point. Held, so that finished
    // purges are not forgotten: a forgotten purge would refuse all responses that began before it.
    let (held, began) = ((side == Side::Takes).then(|| cache.store.hold()), cache.store.begin());
    cache.partner.set(link.clone());
    let (reader, writer) = ((link.clone(), context.clone()), (link.clone(), context.clone()));
    let receive = move || {
        let (link, context) = reader;
        let receiver = Receiver { link: &link, context: &context, cache: &cache, began, held, taken: Taken::default() };
        receiver.run(BufReader::new(&read), done);
        end(&link, &read);
    };
    thread::Builder::new().name("handover-in".into()).spawn(receive)?;
    let send = move || {
        let (link, context) = writer;
        if send(&link, &context, &mut written).is_err() {
            tracing::warn!("handover of stored responses is incomplete: the other process stopped reading");
        }
        end(&link, &written);
        // If the other process does not serve, this process continues.
        let is_replaced = link.side == Side::Gives && link.state().serves;
        if is_replaced {
            context.retire();
        }
    };
    if let Err(error) = thread::Builder::new().name("handover-out".into()).spawn(send) {
        end(&link, stream);
        return Err(error);
    }
    Ok(link)
}

/// Ends both threads of a connection.
fn end(link: &Link, stream: &UnixStream) {
    link.end();
    let _ = stream.shutdown(Shutdown::Both);
}

/// Sends purges, confirmations and responses until the connection ends.
fn send(link: &Link, context: &Context, out: &mut UnixStream) -> io::Result<()> {
    let mut responses = (link.side == Side::Gives).then(Responses::default);
    loop {
        let mut state = link.wait(None, |state| {
            let has_responses = responses.is_some() && state.serves;
            has_responses || state.to_confirm.is_some() || !state.purges.is_empty()
        });
        let (purges, confirms) = (std::mem::take(&mut state.purges), state.to_confirm.take());
        let (has_ended, serves) = (state.has_ended, state.serves);
        drop(state);
        if has_ended {
            return Ok(());
        }
        for (number, purge) in purges {
            stream::write(out, Kind::Purge, number, &purge.write(), &[])?;
        }
        if let Some(number) = confirms {
            stream::write(out, Kind::Done, number, &[], &[])?;
        }
        if let Some(giving) = responses.as_mut().filter(|_| serves) {
            match giving.next(&(context.cache)()) {
                Some(item) => giving.send(&item, out)?,
                None => {
                    stream::write(out, Kind::End, giving.sent, &[], &[])?;
                    tracing::info!(responses = giving.sent, "stored responses handed over");
                    responses = None;
                    link.change(|state| state.is_given = true);
                }
            }
        }
    }
}

/// Walk through the responses that are given: those first that were asked for.
#[derive(Default)]
struct Responses {
    began: Option<Time>,
    is_second_walk: bool,
    at: Option<Cursor>,
    /// Responses of the last step, the next response at the end.
    items: Vec<Item<Stored>>,
    sent: u64,
}

impl Responses {
    /// Next response. `None` at the end, or when the time is over.
    fn next(&mut self, cache: &SharedCache) -> Option<Item<Stored>> {
        let began = match self.began {
            Some(began) => began,
            None => {
                self.at = Some(Cursor::default());
                *self.began.insert(Time::now())
            }
        };
        loop {
            if began.elapsed() > GIVE_MAX {
                return None;
            }
            if let Some(item) = self.items.pop() {
                return Some(item);
            }
            let at = match self.at {
                Some(at) => at,
                None if !self.is_second_walk => {
                    self.is_second_walk = true;
                    Cursor::default()
                }
                None => return None,
            };
            (self.items, self.at) = cache.store.walk(at, STEP);
            self.items.retain(|item| (item.hits == 0) == self.is_second_walk);
            self.items.reverse();
        }
    }

    fn send(&mut self, item: &Item<Stored>, out: &mut UnixStream) -> io::Result<()> {
        let head = ResponseRecord::write(&item.key, item.url_len, item.object.head(), item.stale_from, item.hits);
        match stream::write(out, Kind::Response, 0, &head, item.object.body()) {
            // Too large for a record.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            written => {
                written?;
                self.sent += 1;
            }
        }
        Ok(())
    }
}

/// Receiving side of a connection.
struct Receiver<'l> {
    link: &'l Link,
    context: &'l Context,
    /// Cache that responses are stored in.
    cache: &'l Arc<SharedCache>,
    /// Point in the order of purges before the first response arrived.
    began: Sequence,
    /// Held until all responses have arrived, if this process takes any.
    held: Option<Held>,
    taken: Taken,
}

impl Receiver<'_> {
    /// Receives until the connection ends.
    fn run(mut self, mut from: impl Read, done: impl FnOnce(Taken)) {
        let mut done = Some(done);
        let cut = loop {
            let (frame, head) = match stream::read(&mut from) {
                Ok(record) => record,
                Err(Failed::Broken(broken)) => break Cut::Broken(broken),
                Err(Failed::Closed) => break Cut::Closed,
            };
            match frame.kind {
                Kind::Purge => match PurgeRecord::read(&head) {
                    Ok(purge) => {
                        let cache = (self.context.cache)();
                        if let (Some(disk), Some(ticket)) = (&cache.disk, cache.purge_here(&purge).written)
                            && !matches!(purge.scope, Scope::Url(_))
                        {
                            // Purges of URLs come with each change of a page, and are written quickly.
                            let _ = super::disk::wait(disk, &ticket);
                        }
                        self.link.change(|state| state.to_confirm = Some(frame.number));
                    }
                    Err(broken) => break Cut::Broken(broken),
                },
                Kind::Done => self.link.confirm(frame.number),
                Kind::Response if self.held.is_some() => {
                    let (record, body) = match (
                        ResponseRecord::read(&head),
                        stream::read_body(&mut from, &frame, self.cache.plan.object_max),
                    ) {
                        (Ok(record), Ok(body)) => (record, body),
                        (Err(broken), _) | (_, Err(Failed::Broken(broken))) => break Cut::Broken(broken),
                        (_, Err(Failed::Closed)) => break Cut::Closed,
                    };
                    self.store(record, body);
                }
                Kind::End if self.held.is_some() => {
                    self.held = None;
                    if let Some(done) = done.take() {
                        done(self.taken);
                    }
                }
                Kind::Response | Kind::End | Kind::Dropped | Kind::Segment | Kind::Clock => {
                    break Cut::Broken(Broken::Frame);
                }
            }
        };
        if let Some(done) = done {
            done(Taken { cut: Some(cut), ..self.taken });
        }
    }

    fn store(&mut self, record: ResponseRecord, body: Option<Vec<u8>>) {
        let (cache, began) = (self.cache, self.began);
        let ResponseRecord { key, url_len, stored, stale_from, hits } = record;
        let now = self.context.moment();
        // After a reload with another size, purges of this store do not apply to the next store.
        let is_current = Arc::ptr_eq(cache, &(self.context.cache)());
        let body = body.filter(|_| is_current && stored.terms.received <= now);
        let Some(body) = body else {
            self.taken.left_out += 1;
            return;
        };
        let object: Arc<Entry> = Entry::new(stored, pages::shared(body)).into();
        let bytes = (object.head().lines().len() + object.body().len()) as u64;
        let varying = object.head().varying();
        let restored = Restored { object: object.clone(), stale_from, hits };
        match cache.store.restore(KeyRef::new(&key, url_len), restored, began, now, |other| other.varying() == varying)
        {
            Inserted::Added | Inserted::Replaced => {
                self.taken.responses += 1;
                self.taken.bytes += bytes;
            }
            Inserted::Refused(_) => self.taken.left_out += 1,
        }
    }
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
