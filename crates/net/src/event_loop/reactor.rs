//! Readiness of a worker's descriptors, by a single epoll. A socket is a slot of 48 bytes in a table; closing it
//! ends the watch without a syscall.

use super::budget::poll_proceed;
use super::remote_waker::RemoteWaker;
use super::waker_slot::WakerSlot;
use evenkeel_balance::slab::{Key, SlotTable};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::task::{Context, Poll};

/// Most events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// Key of the descriptor with which other threads wake this thread, where sockets have the key of their slot.
const REMOTE: Key = Key::NONE;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

// State of a socket, as bits.
const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
/// The peer sends nothing after the bytes that wait to be read.
const READ_CLOSED: u8 = 4;
/// Nothing can be sent any more.
const WRITE_CLOSED: u8 = 8;
/// Urgent data has arrived at some time. The kernel ends a read at it, so a short read does not mean that
/// nothing is left.
const URGENT: u8 = 16;

thread_local! {
    static REACTOR: Reactor = const { Reactor { epoll: OnceCell::new(), slots: RefCell::new(SlotTable::new()) } };
}

/// Epoll and the watched sockets of a thread.
struct Reactor {
    epoll: OnceCell<OwnedFd>,
    slots: RefCell<SlotTable<Slot>>,
}

#[derive(Default)]
struct Slot {
    known: u8,
    reader: Option<WakerSlot>,
    writer: Option<WakerSlot>,
}

/// A watched socket. Bound to the thread that created it.
#[derive(Debug)]
pub struct Watched {
    slot: u32,
    /// True once epoll reports writability, which is rarely needed because sockets usually are writable.
    tells_writable: Cell<bool>,
    of_its_thread: PhantomData<*const ()>,
}

/// State of a reader: ready, waiting with its waker noted, or waiting without.
enum Waits {
    Not,
    Noted,
    Unnoted,
}

/// Watches the descriptor that other threads write to when they wake a task of this thread.
///
/// # Errors
/// If no epoll can be created.
pub fn watch_remote(remote: &RemoteWaker) -> io::Result<()> {
    REACTOR.with(|reactor| {
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(reactor.epoll()?, &remote.signal, EventData::new_u64(REMOTE.to_bits()), flags).map_err(Into::into)
    })
}

/// Polls the kernel for events and wakes the tasks that wait for them. With `wait`, sleeps until there is an
/// event. Returns true if another thread has raised its signal.
///
/// # Errors
/// If there is no epoll.
pub fn look(wait: bool) -> io::Result<bool> {
    REACTOR.with(|reactor| reactor.look(wait))
}

/// Ends the watch of a descriptor that stays open.
pub fn forget(fd: impl AsFd) {
    // During thread teardown the table and the epoll may be gone.
    let _ = REACTOR.try_with(|reactor| reactor.epoll.get().map(|epoll| epoll::delete(epoll, fd)));
}

impl Reactor {
    fn epoll(&self) -> io::Result<&OwnedFd> {
        match self.epoll.get() {
            Some(epoll) => Ok(epoll),
            None => {
                let epoll = epoll::create(CreateFlags::CLOEXEC)?;
                Ok(self.epoll.get_or_init(|| epoll))
            }
        }
    }

    fn look(&self, wait: bool) -> io::Result<bool> {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        let events = loop {
            match epoll::wait(self.epoll()?, &mut room[..], if wait { None } else { Some(&NOW) }) {
                Ok((events, _)) => break events,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        let mut is_notified = false;
        // Foreign wakers run code that may open or close sockets, so they are woken after the table was
        // borrowed.
        let mut others = Vec::new();
        let mut slots = self.slots.borrow_mut();
        for event in &*events {
            let (flags, data) = (event.flags, event.data);
            let key = Key::from_bits(data.u64());
            is_notified |= key == REMOTE;
            // A stale event of a closed socket must not affect the next socket in its slot.
            let Some(slot) = slots.get_mut(key) else { continue };
            let known = meaning(flags);
            slot.known |= known;
            if known & (READABLE | READ_CLOSED) != 0
                && let Some(reader) = slot.reader.take()
            {
                reader.wake_task_or_leave(&mut others);
            }
            if known & (WRITABLE | WRITE_CLOSED) != 0
                && let Some(writer) = slot.writer.take()
            {
                writer.wake_task_or_leave(&mut others);
            }
        }
        drop(slots);
        others.iter().for_each(WakerSlot::wake);
        Ok(is_notified)
    }
}

/// Converts the kernel's flags. After an error, the next read or write returns it.
fn meaning(flags: EventFlags) -> u8 {
    let has = |flag| flags.intersects(flag);
    let mut known = 0;
    if has(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
        known |= READABLE;
    }
    if has(EventFlags::PRI) {
        known |= URGENT;
    }
    if has(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
        known |= WRITABLE;
    }
    if has(EventFlags::RDHUP | EventFlags::HUP) {
        known |= READ_CLOSED;
    }
    if has(EventFlags::HUP | EventFlags::ERR) {
        known |= WRITE_CLOSED;
    }
    known
}

fn read_flags() -> EventFlags {
    // Miri does not support urgent data.
    let urgent = if cfg!(miri) { EventFlags::empty() } else { EventFlags::PRI };
    EventFlags::IN | urgent | EventFlags::RDHUP | EventFlags::ET
}

impl Watched {
    /// Watches a socket until it is closed, which must happen after this is dropped.
    ///
    /// # Errors
    /// Errors of `epoll_ctl(2)`.
    pub fn new(socket: &impl AsFd) -> io::Result<Watched> {
        REACTOR.with(|reactor| {
            let (key, _) = reactor.slots.borrow_mut().occupy();
            // From here on dropping it vacates the slot.
            let watched = Watched { slot: key.slot(), tells_writable: Cell::new(false), of_its_thread: PhantomData };
            epoll::add(reactor.epoll()?, socket, EventData::new_u64(key.to_bits()), read_flags())?;
            Ok(watched)
        })
    }

    /// Waits until a read may succeed.
    #[inline]
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waits = self.with(|slot| {
            if slot.known & (READABLE | READ_CLOSED) != 0 {
                return Waits::Not;
            }
            if WakerSlot::note_task(&mut slot.reader, cx) { Waits::Noted } else { Waits::Unnoted }
        });
        match waits {
            Waits::Not => poll_proceed(cx),
            Waits::Noted => Poll::Pending,
            Waits::Unnoted => self.wait(cx, |slot| &mut slot.reader),
        }
    }

    /// Waits until a write to `socket` may succeed. `socket` must be the watched socket.
    ///
    /// # Errors
    /// Errors of `epoll_ctl(2)`.
    pub fn poll_writable(&self, socket: &OwnedFd, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.known() & (WRITABLE | WRITE_CLOSED) != 0 {
            return poll_proceed(cx).map(Ok);
        }
        let _ = self.wait(cx, |slot| &mut slot.writer);
        // The first wait registers for writability, which is reported at once if there is room by now.
        if !self.tells_writable.replace(true) {
            REACTOR.with(|reactor| {
                let data = EventData::new_u64(reactor.slots.borrow().key(self.slot).to_bits());
                epoll::modify(reactor.epoll()?, socket, data, read_flags() | EventFlags::OUT).map_err(io::Error::from)
            })?;
        }
        Poll::Pending
    }

    /// Waits until nothing can be sent any more.
    pub fn poll_write_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.known() & WRITE_CLOSED != 0 {
            return Poll::Ready(());
        }
        self.wait(cx, |slot| &mut slot.writer)
    }

    /// Stores the waker of `cx`, replacing the previous waker.
    #[inline]
    fn wait(&self, cx: &Context<'_>, waker: impl FnOnce(&mut Slot) -> &mut Option<WakerSlot>) -> Poll<()> {
        // Outside the borrow: cloning or dropping a foreign waker may open or close sockets.
        let new = WakerSlot::of(cx);
        let old = self.with(|slot| waker(slot).replace(new));
        drop(old);
        Poll::Pending
    }

    /// Notes that a read has found nothing.
    #[inline]
    pub fn note_empty(&self) {
        self.with(|slot| slot.known &= !READABLE);
    }

    /// Notes that a read returned less than it had room for, so nothing is left. Does not clear the mark of a
    /// closed peer.
    #[inline]
    pub fn note_short(&self) {
        self.with(|slot| {
            if slot.known & URGENT == 0 {
                slot.known &= !READABLE;
            }
        });
    }

    /// Notes that a write has found no room.
    #[inline]
    pub fn note_full(&self) {
        self.with(|slot| slot.known &= !WRITABLE);
    }

    /// True if a read may succeed.
    #[inline]
    pub fn is_readable(&self) -> bool {
        self.known() & (READABLE | READ_CLOSED) != 0
    }

    /// True if the peer is known to send nothing after the bytes that wait to be read.
    pub fn is_read_closed(&self) -> bool {
        self.known() & READ_CLOSED != 0
    }

    /// True if a short read took the last bytes of the peer, and its end was not a reset.
    pub fn is_at_end(&self) -> bool {
        self.known() & (READ_CLOSED | WRITE_CLOSED | URGENT) == READ_CLOSED
    }

    #[inline]
    fn known(&self) -> u8 {
        self.with(|slot| slot.known)
    }

    /// Applies `f` to the slot. `f` must not run foreign code.
    #[inline]
    fn with<T>(&self, f: impl FnOnce(&mut Slot) -> T) -> T {
        REACTOR.with(|reactor| f(reactor.slots.borrow_mut().at_mut(self.slot)))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // During thread teardown the table may be gone.
        let _ = REACTOR.try_with(|reactor| {
            let mut slots = reactor.slots.borrow_mut();
            let gone = std::mem::take(slots.at_mut(self.slot));
            slots.vacate(self.slot);
            drop(slots);
            // Outside the borrow: a foreign waker may own the last handle of a socket.
            drop(gone);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::spawn;
    use super::*;
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use tokio::sync::oneshot;

    fn run(future: impl Future<Output = ()>) {
        super::super::run(future).unwrap();
    }

    fn pair() -> (UnixStream, OwnedFd) {
        let (peer, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (peer, ours.into())
    }

    async fn readable(watched: &Watched) {
        poll_fn(|cx| watched.poll_readable(cx)).await;
    }

    #[test]
    fn a_task_is_woken_by_what_comes_each_time_and_by_the_end() {
        run(async {
            let (mut peer, ours) = pair();
            let watched = Watched::new(&ours).unwrap();
            for _ in 0..3 {
                peer.write_all(b"x").unwrap();
                readable(&watched).await;
                assert_eq!(rustix::io::read(&ours, &mut [0; 8]), Ok(1));
                watched.note_short();
                assert!(!watched.is_readable() && !watched.is_read_closed());
            }
            drop(peer);
            readable(&watched).await;
            assert!(watched.is_read_closed());
            watched.note_empty();
            assert!(watched.is_readable(), "an end stays to be read");
        });
    }

    #[test]
    fn a_task_that_goes_on_reading_gives_way_in_time() {
        run(async {
            let (mut peer, ours) = pair();
            let watched = Watched::new(&ours).unwrap();
            peer.write_all(b"x").unwrap();
            readable(&watched).await;
            // Like after reads that filled their buffers: the mark stays, although the loop does not poll the
            // kernel in between.
            let reads =
                poll_fn(|cx| Poll::Ready((0..1000).take_while(|_| watched.poll_readable(cx).is_ready()).count()));
            assert!((1..1000).contains(&reads.await));
        });
    }

    #[test]
    fn a_task_is_woken_when_there_is_room_again() {
        run(async {
            let (mut peer, ours) = pair();
            let watched = Watched::new(&ours).unwrap();
            let mut written = 0;
            while let Ok(n) = rustix::io::write(&ours, &[0; 4096]) {
                written += n;
            }
            let (emptied, peer_again) = oneshot::channel();
            spawn(async move {
                let mut taken = vec![0; written];
                peer.read_exact(&mut taken).unwrap();
                emptied.send(peer).unwrap();
            });
            poll_fn(|cx| watched.poll_writable(&ours, cx)).await.unwrap();
            let _peer = peer_again.await.unwrap();
            assert!(rustix::io::write(&ours, &[0; 4096]).is_ok());
        });
    }

    /// While a process is being spawned it holds every descriptor, so closing ours does not end the watch.
    #[test]
    fn a_socket_is_told_nothing_of_the_one_before_in_its_slot() {
        run(async {
            let (mut peer, ours) = pair();
            let gone = Watched::new(&ours).unwrap();
            let slot = gone.slot;
            let held = ours.try_clone().unwrap();
            drop(gone);
            drop(ours);
            let (mut next_peer, next) = pair();
            let watched = Watched::new(&next).unwrap();
            assert_eq!(watched.slot, slot);
            peer.write_all(b"x").unwrap();
            let (mut third_peer, third) = pair();
            let sign = Watched::new(&third).unwrap();
            third_peer.write_all(b"x").unwrap();
            readable(&sign).await;
            assert!(!watched.is_readable());
            next_peer.write_all(b"x").unwrap();
            readable(&watched).await;
            drop(held);
        });
    }
}
