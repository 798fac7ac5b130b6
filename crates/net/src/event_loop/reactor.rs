//! Which of a worker's descriptors can be read or written? An epoll knows. A socket is a slot of 48 bytes in a table;
//! closing it ends the watch, without a syscall of its own.

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

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// The descriptor by which other threads wake this one, where sockets have the key of their slot.
const REMOTE: Key = Key::NONE;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

// What is known of a socket, as bits.
const READABLE: u8 = 1;
const WRITABLE: u8 = 2;
/// The peer sends no more than what waits to be read.
const READ_CLOSED: u8 = 4;
/// Nothing can be sent any more.
const WRITE_CLOSED: u8 = 8;
/// Urgent data has come once: the kernel ends a read there, so a short one does not say that nothing is left.
const URGENT: u8 = 16;

thread_local! {
    static REACTOR: Reactor = const { Reactor { epoll: OnceCell::new(), slots: RefCell::new(SlotTable::new()) } };
}

/// The sockets of a thread.
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

/// A socket that is watched, of the thread that made this.
#[derive(Debug)]
pub struct Watched {
    slot: u32,
    /// Whether the kernel was asked to tell when it can be written: mostly it always can.
    tells_writable: Cell<bool>,
    of_its_thread: PhantomData<*const ()>,
}

/// State of a reader: it need not wait, or it waits and its waker was noted or not.
enum Waits {
    Not,
    Noted,
    Unnoted,
}

/// Watches what other threads write to when they wake a task of this one.
///
/// # Errors
/// The kernel has no epoll to give.
pub fn watch_remote(remote: &RemoteWaker) -> io::Result<()> {
    REACTOR.with(|reactor| {
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(reactor.epoll()?, &remote.signal, EventData::new_u64(REMOTE.to_bits()), flags).map_err(Into::into)
    })
}

/// Asks the kernel what there is, and wakes what waits for it. With `wait`, sleeps until there is something. Returns whether
/// another thread has notified this one.
///
/// # Errors
/// There is no epoll.
pub fn look(wait: bool) -> io::Result<bool> {
    REACTOR.with(|reactor| reactor.look(wait))
}

/// Ends the watch of a descriptor that stays open.
pub fn forget(fd: impl AsFd) {
    // At the end of its thread the table may be gone first, and the epoll with it.
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
        // Wakers of others run code that may open or close sockets, so they come after the table was borrowed.
        let mut others = Vec::new();
        let mut slots = self.slots.borrow_mut();
        for event in &*events {
            let (flags, data) = (event.flags, event.data);
            let key = Key::from_bits(data.u64());
            is_notified |= key == REMOTE;
            // An event of a socket that is gone says nothing about the next in its slot.
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

/// What the kernel's flags say. After an error, the next read or write returns it.
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
    // Miri knows no urgent data.
    let urgent = if cfg!(miri) { EventFlags::empty() } else { EventFlags::PRI };
    EventFlags::IN | urgent | EventFlags::RDHUP | EventFlags::ET
}

impl Watched {
    /// Watches a socket until it is closed, which must come after this is dropped.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`.
    pub fn new(socket: &impl AsFd) -> io::Result<Watched> {
        REACTOR.with(|reactor| {
            let (key, _) = reactor.slots.borrow_mut().occupy();
            // From here on dropping gives the slot back.
            let watched = Watched { slot: key.slot(), tells_writable: Cell::new(false), of_its_thread: PhantomData };
            epoll::add(reactor.epoll()?, socket, EventData::new_u64(key.to_bits()), read_flags())?;
            Ok(watched)
        })
    }

    /// Waits until something may be read.
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

    /// Waits until something may be written to `socket`, which is the one that is watched.
    ///
    /// # Errors
    /// As `epoll_ctl(2)`.
    pub fn poll_writable(&self, socket: &OwnedFd, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.known() & (WRITABLE | WRITE_CLOSED) != 0 {
            return poll_proceed(cx).map(Ok);
        }
        let _ = self.wait(cx, |slot| &mut slot.writer);
        // The first to wait has the kernel tell; it does so at once if there is room by now.
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

    /// Keeps the waker of `cx`, in the place of the one before.
    #[inline]
    fn wait(&self, cx: &Context<'_>, waker: impl FnOnce(&mut Slot) -> &mut Option<WakerSlot>) -> Poll<()> {
        // Outside of the borrow: cloning or dropping a waker of others may open or close sockets.
        let new = WakerSlot::of(cx);
        let old = self.with(|slot| waker(slot).replace(new));
        drop(old);
        Poll::Pending
    }

    /// A read has found nothing.
    #[inline]
    pub fn note_empty(&self) {
        self.with(|slot| slot.known &= !READABLE);
    }

    /// A read has brought less than it had room for, so that was all. The mark of a closed peer survives this.
    #[inline]
    pub fn note_short(&self) {
        self.with(|slot| {
            if slot.known & URGENT == 0 {
                slot.known &= !READABLE;
            }
        });
    }

    /// A write has found no room.
    #[inline]
    pub fn note_full(&self) {
        self.with(|slot| slot.known &= !WRITABLE);
    }

    /// Whether something may be there to read.
    #[inline]
    pub fn is_readable(&self) -> bool {
        self.known() & (READABLE | READ_CLOSED) != 0
    }

    /// Whether the peer is known to send no more than what waits to be read.
    pub fn is_read_closed(&self) -> bool {
        self.known() & READ_CLOSED != 0
    }

    /// Whether a short read took the last that the peer sends, whose end is not a reset.
    pub fn is_at_end(&self) -> bool {
        self.known() & (READ_CLOSED | WRITE_CLOSED | URGENT) == READ_CLOSED
    }

    #[inline]
    fn known(&self) -> u8 {
        self.with(|slot| slot.known)
    }

    /// Does something with the slot that runs no code of others.
    #[inline]
    fn with<T>(&self, f: impl FnOnce(&mut Slot) -> T) -> T {
        REACTOR.with(|reactor| f(reactor.slots.borrow_mut().at_mut(self.slot)))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // At the end of its thread the table may be gone first.
        let _ = REACTOR.try_with(|reactor| {
            let mut slots = reactor.slots.borrow_mut();
            let gone = std::mem::take(slots.at_mut(self.slot));
            slots.vacate(self.slot);
            drop(slots);
            // Outside of the borrow: a waker of others may be the last to hold a socket.
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
            // As after reads that filled their buffers: the mark stays, and no turn of the event loop comes between.
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

    /// A process that is being started holds every descriptor for a moment, so that closing ours does not end the watch.
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
