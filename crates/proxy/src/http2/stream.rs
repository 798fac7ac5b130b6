//! Handle of a stream, for its task: takes received parts and sends parts, one at a time. Dropping it resets the
//! stream, unless the message to the peer is complete.

use super::session::{BACKLOG_MAX, Last, Lost, Pending, Session, State};
use crate::body::part::{Gone, Part};
use bytes::Bytes;
use evenkeel_balance::slab::Key;
use evenkeel_net::event_loop::WakerSlot;
use evenkeel_wire::h2::{ErrorCode, Head, Malformed};
use evenkeel_wire::head::Table;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Stream as its task sees it.
pub struct StreamHandle {
    session: Rc<Session>,
    key: Key,
}

impl StreamHandle {
    pub(super) fn new(session: Rc<Session>, key: Key) -> StreamHandle {
        StreamHandle { session, key }
    }

    /// Runs `look`; if it finds nothing, registers the task to be woken at the stream's next event.
    fn poll<T>(&self, cx: &Context<'_>, look: impl FnOnce(&mut State, Key) -> Option<T>) -> Poll<T> {
        let waker = WakerSlot::of(cx);
        self.session.change(|state| match look(state, self.key) {
            Some(found) => Poll::Ready(found),
            None => {
                state.note(self.key, waker);
                Poll::Pending
            }
        })
    }

    pub fn lost(&self) -> Option<Lost> {
        self.session.change(|state| state.stream(self.key).lost)
    }

    /// The rule that the peer broke, if this ended the stream.
    pub fn broken(&self) -> Option<Malformed> {
        self.session.change(|state| state.stream(self.key).broken.clone())
    }

    /// True if more may arrive: the peer has not ended its message, and the stream was not ended early.
    pub fn is_receiving(&self) -> bool {
        self.session.change(|state| {
            let stream = state.stream(self.key);
            !stream.is_received && stream.lost.is_none()
        })
    }

    /// Ready once the stream was ended early, so that the peer can neither send nor receive.
    pub fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll(cx, |state, key| state.stream(key).lost.map(|_| ()))
    }

    /// Takes the next response head.
    pub fn poll_head(&self, cx: &Context<'_>) -> Poll<Result<Head, Gone>> {
        self.poll(cx, |state, key| {
            let stream = state.stream(key);
            stream.heads.pop_front().map(Ok).or(stream.lost.map(|_| Err(Gone)))
        })
    }

    /// Waits for a response head without taking it; `false` if the stream ended without a response.
    pub fn poll_answered(&self, cx: &Context<'_>) -> Poll<bool> {
        self.poll(cx, |state, key| {
            let stream = state.stream(key);
            (!stream.heads.is_empty()).then_some(true).or(stream.lost.map(|_| false))
        })
    }

    /// Takes the next part from the peer; must not be called after the end. Parts that are not taken hold the peer back
    /// by its window.
    pub fn poll_part(&self, cx: &Context<'_>) -> Poll<Result<Part, Gone>> {
        self.poll(cx, |state, key| {
            let stream = state.stream(key);
            let free = std::mem::take(&mut stream.in_hand);
            let popped = stream.arrived.pop();
            if let Some((_, flow)) = &popped {
                stream.in_hand = *flow;
            }
            if free > 0 {
                let id = stream.id;
                state.engine.consumed(id, free);
                if state.backlog() > 0 {
                    state.wake_driver();
                }
            }
            if let Some((buf, _)) = popped {
                return Some(Ok(Part::Data(buf)));
            }
            let stream = state.stream(key);
            if let Some(trailers) = stream.trailers.take() {
                return Some(Ok(Part::Trailers(trailers)));
            }
            stream.is_received.then_some(Ok(Part::End)).or(stream.lost.map(|_| Err(Gone)))
        })
    }

    /// Waits until there is room to send another part.
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<Result<(), Gone>> {
        self.poll(cx, |state, key| {
            let has_room = state.backlog() < BACKLOG_MAX;
            let stream = state.stream(key);
            if stream.lost.is_some() {
                return Some(Err(Gone));
            }
            if has_room && stream.pending.filled().is_empty() {
                return Some(Ok(()));
            }
            stream.wants_room = true;
            state.is_short |= !has_room;
            None
        })
    }

    /// Waits until there is room to send another part, and the window of the stream is open. It does not wait for the
    /// window of the connection: each update of that window would wake all streams.
    pub fn poll_open(&self, cx: &Context<'_>) -> Poll<Result<(), Gone>> {
        self.poll(cx, |state, key| {
            let has_room = state.backlog() < BACKLOG_MAX;
            let stream = state.stream(key);
            let (id, is_free) = (stream.id, stream.pending.filled().is_empty());
            if stream.lost.is_some() {
                return Some(Err(Gone));
            }
            if has_room && is_free && state.engine.has_window(id) {
                return Some(Ok(()));
            }
            state.stream(key).wants_room = true;
            state.is_short |= !has_room;
            None
        })
    }

    /// True if the last part is stuck: the peer's window is closed, or the connection's backlog is full.
    pub fn is_held_back(&self) -> bool {
        self.session.change(|state| {
            let stream = state.stream(self.key);
            let (id, left) = (stream.id, stream.pending.filled().len());
            left > 0 && (state.backlog() >= BACKLOG_MAX || state.engine.capacity(id) < left)
        })
    }

    /// Sends a response head. `ends`: neither body nor trailers follow.
    pub fn send_head<'f>(&self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, ends: bool) {
        self.session.change(|state| {
            let stream = state.stream(self.key);
            if stream.lost.is_some() {
                return;
            }
            stream.is_sent = ends;
            let id = stream.id;
            state.writer().send_head(id, fields, ends);
            state.wake_driver();
        });
    }

    /// Sends a part. Data needs room: see [`poll_room`](Self::poll_room).
    pub fn send(&self, part: Part) {
        self.session.change(|state| {
            let stream = state.stream(self.key);
            if stream.lost.is_some() {
                return;
            }
            match part {
                // Framed at the connection's turn: by then the end may be known, and needs no separate frame.
                Part::Data(buf) => {
                    stream.pending = Pending::Own(buf);
                    return state.make_ready(self.key);
                }
                Part::Trailers(trailers) => stream.last = Last::Trailers(trailers),
                Part::End if matches!(stream.last, Last::Open) => stream.last = Last::End,
                Part::End => {}
            }
            // Most responses are complete at this point: framing them now frees their buffer.
            if state.backlog() < BACKLOG_MAX {
                state.flush_stream(self.key);
            }
            if state.stream(self.key).is_sent {
                state.wake_driver();
            } else {
                state.make_ready(self.key);
            }
        });
    }

    /// Sends data that other streams may send too, without a copy for this stream. Needs room: see
    /// [`poll_room`](Self::poll_room).
    pub fn send_shared(&self, bytes: Bytes) {
        self.session.change(|state| {
            let stream = state.stream(self.key);
            if stream.lost.is_none() {
                stream.pending = Pending::Shared(bytes);
                state.make_ready(self.key);
            }
        });
    }

    /// Sets the urgency: 0 is the most urgent, 7 the least, 3 the default (RFC 9218).
    pub fn set_urgency(&self, urgency: u8) {
        self.session.change(|state| state.stream(self.key).urgency = urgency.min(7));
    }

    /// Ready once all that was sent fits into the peer's windows, or the stream has ended.
    pub fn poll_sent(&self, cx: &Context<'_>) -> Poll<()> {
        self.poll(cx, |state, key| {
            let stream = state.stream(key);
            let (id, left, is_over) =
                (stream.id, stream.pending.filled().len(), stream.is_sent || stream.lost.is_some());
            if is_over || left == 0 || state.engine.capacity(id) >= left {
                return Some(());
            }
            state.stream(key).wants_room = true;
            None
        })
    }

    /// Ends the stream of a request; resets it (CANCEL) unless both sides are complete. Returns the reason if it had
    /// been lost before.
    pub fn cancel(&self) -> Option<Lost> {
        self.session.change(|state| {
            let stream = state.stream(self.key);
            let lost = stream.lost;
            if !(stream.is_sent && stream.is_received) {
                state.reset(self.key, ErrorCode::Cancel);
            }
            lost
        })
    }

    /// Resets the stream with this code.
    pub fn reset(&self, code: ErrorCode) {
        self.session.change(|state| state.reset(self.key, code));
    }
}

impl State {
    fn reset(&mut self, key: Key, code: ErrorCode) {
        if self.stream(key).lost.is_none() {
            // Data sent before goes first.
            self.flush_stream(key);
            let id = self.stream(key).id;
            self.engine.reset(id, code);
            // Its task takes no more data: return it to the window.
            let flow = self.stream(key).arrived.clear();
            self.engine.consumed(id, flow);
            self.lose(key, Lost::Ended);
            self.wake_driver();
        }
    }

    /// Removes a stream without a handle once it was sent completely or lost.
    pub fn settle(&mut self, key: Key) {
        let stream = self.stream(key);
        if stream.is_released && stream.lost.is_none() && stream.is_sent && !stream.is_received {
            // The response is complete: the rest of the request is not needed (RFC 9113 section 8.1).
            self.reset(key, ErrorCode::NoError);
        }
        let stream = self.stream(key);
        if stream.is_released && (stream.lost.is_some() || stream.is_sent) {
            self.remove(key);
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.session.change(|state| {
            let stream = state.stream(self.key);
            stream.is_released = true;
            if stream.lost.is_none() && !stream.is_sent && matches!(stream.last, Last::Open) {
                // The task ended before the message was complete.
                state.reset(self.key, ErrorCode::InternalError);
            }
            state.settle(self.key);
        });
    }
}

/// Returns the fields of a response head, beginning with `:status`. `text` is memory for the digits of the status.
pub fn with_status<'f>(
    status: u16,
    text: &'f mut [u8; 3],
    fields: &'f Table,
) -> impl Iterator<Item = (&'f [u8], &'f [u8])> {
    *text = [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
    std::iter::once((&b":status"[..], &text[..])).chain(fields.iter())
}
