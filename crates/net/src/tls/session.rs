//! What happens on both directions behind a handshake? Data, and now and then something of TLS itself: tickets for the next
//! handshake, new keys, alerts.

use super::record::{self, ALERT, BODY_MAX, DATA, Fault, HANDSHAKE, Key, PLAIN_MAX};
use crate::buffer::Buf;
use crate::event_loop::budget::charge;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{Error, ExtractedSecrets, ProtocolVersion};

/// Records after which TLS 1.3 takes a new key: below the 2^24.5 full ones for which AES-GCM is known to be good (RFC 8446
/// section 5.5).
const REKEY_AFTER: u64 = 1 << 23;

/// Records that one key of TLS 1.2 seals at most, which has no other one.
const SEALED_MAX: u64 = 1 << 24;

/// Records without data that may follow each other: peers could keep us busy with nothing.
const EMPTY_MAX: u8 = 32;

/// The longest message that comes behind a handshake: a ticket.
const MESSAGE_MAX: usize = 64 * 1024;

const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
const CLOSE_NOTIFY: u8 = 0;
const USER_CANCELED: u8 = 90;
const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// How the peer's direction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More may come.
    Open,
    /// The peer has said that all was sent.
    Closed,
    /// The connection has ended without that.
    Truncated,
    /// The peer broke the rules, and was told.
    Failed(Fault),
    /// The peer has given up, with this alert.
    Alerted(u8),
}

/// What stays of rustls: it makes new keys of old ones, and keeps tickets.
enum Kernel {
    Server(KernelConnection<ServerConnectionData>),
    Client(KernelConnection<ClientConnectionData>),
}

/// Both directions of a connection whose handshake is over.
pub struct Session {
    opening: Key,
    sealing: Key,
    kernel: Box<Kernel>,
    is_13: bool,
    /// The front of a message that came in part.
    partial: Vec<u8>,
    /// Records without data since the last with some.
    empty: u8,
    /// Whether a new key of ours waits in `answer`.
    rekeyed: bool,
    /// Records that are sealed, and go with the next data.
    answer: Vec<u8>,
    /// How the peer's direction stands.
    pub end: End,
}

impl Session {
    /// Behind the handshake of a server.
    pub fn server(
        (secrets, kernel): (ExtractedSecrets, KernelConnection<ServerConnectionData>),
        answer: Vec<u8>,
    ) -> Result<Session, Fault> {
        let is_13 = kernel.protocol_version() == ProtocolVersion::TLSv1_3;
        Session::new(is_13, secrets, Kernel::Server(kernel), answer)
    }

    /// Behind the handshake of a client.
    pub fn client(
        (secrets, kernel): (ExtractedSecrets, KernelConnection<ClientConnectionData>),
        answer: Vec<u8>,
    ) -> Result<Session, Fault> {
        let is_13 = kernel.protocol_version() == ProtocolVersion::TLSv1_3;
        Session::new(is_13, secrets, Kernel::Client(kernel), answer)
    }

    fn new(is_13: bool, secrets: ExtractedSecrets, kernel: Kernel, answer: Vec<u8>) -> Result<Session, Fault> {
        let (opening, sealing) = (Key::new(is_13, secrets.rx)?, Key::new(is_13, secrets.tx)?);
        Ok(Session {
            opening,
            sealing,
            kernel: Box::new(kernel),
            is_13,
            partial: Vec::new(),
            empty: 0,
            rekeyed: false,
            answer,
            end: End::Open,
        })
    }

    /// Opens the records at the front of `wire` that have come whole, for as long as `out` has room. What the last of them has
    /// more goes to `rest`, if nothing else fits.
    pub fn open(&mut self, wire: &mut Buf, out: &mut Buf, rest: &mut Buf) {
        out.widen(1);
        let before = out.len();
        while self.end == End::Open
            && let Some(end) = record::end(wire.filled())
        {
            if end > record::HEADER + BODY_MAX {
                return self.fail(Fault::Overflow);
            }
            if wire.len() < end {
                return;
            }
            let needs = self.opening.needs(end);
            if out.spare().len() < needs {
                if out.len() > before {
                    return;
                }
                self.open_beside(&wire.filled()[..end], out, rest);
                wire.consume(end);
                charge(1);
                if !rest.is_empty() {
                    return;
                }
                // A ticket or a new key, mostly: data may be behind it.
                continue;
            }
            let opened = self.open_one(&wire.filled()[..end], out.spare());
            wire.consume(end);
            charge(1);
            match opened {
                Ok(n) => out.fill(n),
                Err(fault) => return self.fail(fault),
            }
        }
    }

    /// Opens a record for which `out` has no room.
    #[cold]
    fn open_beside(&mut self, record: &[u8], out: &mut Buf, rest: &mut Buf) {
        let mut room = Buf::take();
        match self.open_one(record, room.spare()) {
            Ok(n) => room.fill(n),
            Err(fault) => return self.fail(fault),
        }
        let n = out.extend_some(room.filled());
        room.consume(n);
        if !room.is_empty() {
            *rest = room;
        }
    }

    /// Opens a record to the front of `out`: how many bytes of data it has.
    fn open_one(&mut self, record: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let (kind, at) = self.opening.open(record, out)?;
        let plain = &out[at];
        // Nothing may come within a message (RFC 8446 section 5.1).
        if kind != HANDSHAKE && !self.partial.is_empty() {
            return Err(Fault::Unexpected);
        }
        if kind == DATA && !plain.is_empty() {
            self.empty = 0;
            return Ok(plain.len());
        }
        self.empty += 1;
        if self.empty > EMPTY_MAX {
            return Err(Fault::Unexpected);
        }
        match kind {
            DATA => Ok(()),
            ALERT => self.alert(plain),
            HANDSHAKE if plain.is_empty() => Err(Fault::Unexpected),
            HANDSHAKE => self.messages(plain),
            _ => Err(Fault::Unexpected),
        }
        .map(|()| 0)
    }

    #[cold]
    fn alert(&mut self, plain: &[u8]) -> Result<(), Fault> {
        let &[level, alert] = plain else { return Err(Fault::Malformed) };
        match alert {
            CLOSE_NOTIFY => self.end = End::Closed,
            USER_CANCELED if level == WARNING => {}
            _ if level == WARNING && !self.is_13 => {}
            _ => self.end = End::Alerted(alert),
        }
        Ok(())
    }

    /// Messages of a handshake that come behind it. Several may be in a record, and one in several.
    #[cold]
    fn messages(&mut self, plain: &[u8]) -> Result<(), Fault> {
        if !self.is_13 {
            return Err(Fault::Renegotiation);
        }
        if self.partial.len() + plain.len() > MESSAGE_MAX {
            return Err(Fault::Overflow);
        }
        self.partial.extend_from_slice(plain);
        let all = std::mem::take(&mut self.partial);
        let mut left = &all[..];
        while let [kind, a, b, c, behind @ ..] = left {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if !self.takes(*kind, len) {
                return Err(Fault::Unexpected);
            }
            if len > MESSAGE_MAX {
                return Err(Fault::Overflow);
            }
            let Some((message, behind)) = behind.split_at_checked(len) else { break };
            // A new key begins with a new record.
            if *kind == KEY_UPDATE && !behind.is_empty() {
                return Err(Fault::Unexpected);
            }
            self.message(*kind, message)?;
            left = behind;
        }
        self.partial = left.to_vec();
        Ok(())
    }

    /// True if a message of this kind and length may come: one that may not is refused before its bytes are kept.
    fn takes(&self, kind: u8, len: usize) -> bool {
        match (kind, &*self.kernel) {
            (KEY_UPDATE, _) => len == 1,
            (NEW_SESSION_TICKET, Kernel::Client(_)) => true,
            _ => false,
        }
    }

    fn message(&mut self, kind: u8, message: &[u8]) -> Result<(), Fault> {
        match (kind, &mut *self.kernel) {
            (NEW_SESSION_TICKET, Kernel::Client(kernel)) => {
                kernel.handle_new_session_ticket(message).map_err(|_| Fault::Malformed)
            }
            (KEY_UPDATE, kernel) => {
                let asks = match message {
                    [0] => false,
                    [1] => true,
                    _ => return Err(Fault::Illegal),
                };
                self.opening = Key::new(true, kernel.next(false).map_err(|_| Fault::Malformed)?)?;
                // One answer is enough for however many that come before it leaves.
                if asks && !self.rekeyed {
                    self.rekey()?;
                }
                Ok(())
            }
            _ => Err(Fault::Unexpected),
        }
    }

    /// Tells the peer that a new key follows, and takes it.
    #[cold]
    fn rekey(&mut self) -> Result<(), Fault> {
        self.put_aside(HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 0])?;
        self.sealing = Key::new(true, self.kernel.next(true).map_err(|_| Fault::Exhausted)?)?;
        self.rekeyed = true;
        Ok(())
    }

    /// Seals what goes with the next data.
    fn put_aside(&mut self, kind: u8, plain: &[u8]) -> Result<(), Fault> {
        let at = self.answer.len();
        self.answer.resize(at + plain.len() + self.sealing.overhead(), 0);
        let sealed = self.sealing.seal(kind, plain, &mut self.answer[at..]);
        sealed.inspect_err(|_| self.answer.truncate(at)).map(|_| ())
    }

    #[cold]
    fn fail(&mut self, fault: Fault) {
        self.end = End::Failed(fault);
        let _ = self.put_aside(ALERT, &[FATAL, fault.alert()]);
    }

    /// Takes what waits for the next data into `out`, as much as it has room for: true if nothing waits any more. Records are
    /// numbered, so none may be sealed behind this while a part of it is still to be sent. Tickets of a client with a long
    /// chain of certificates fill several buffers.
    #[must_use]
    fn take_answer(&mut self, out: &mut Buf) -> bool {
        if !self.answer.is_empty() {
            let taken = out.extend_some(&self.answer);
            if taken < self.answer.len() {
                self.answer.drain(..taken);
                return false;
            }
            self.answer = Vec::new();
            self.rekeyed = false;
        }
        true
    }

    /// Seals data, behind what waits for it, as much as `out` has room for. Returns how much, 0 if what waits has taken all of it.
    /// `out` is empty and whole.
    ///
    /// # Errors
    /// The key must not be used any more, or nothing may follow what was sent.
    pub fn seal(&mut self, data: &[u8], out: &mut Buf) -> Result<usize, Fault> {
        if self.sealing.used() >= REKEY_AFTER {
            match self.is_13 {
                true => self.rekey()?,
                false if self.sealing.used() >= SEALED_MAX => return Err(Fault::Exhausted),
                false => {}
            }
        }
        if !self.take_answer(out) {
            return Ok(0);
        }
        let mut taken = 0;
        while taken < data.len() {
            let room = out.spare().len().saturating_sub(self.sealing.overhead());
            let n = (data.len() - taken).min(PLAIN_MAX).min(room);
            if n == 0 {
                break;
            }
            let sealed = self.sealing.seal(DATA, &data[taken..taken + n], out.spare())?;
            out.fill(sealed);
            taken += n;
        }
        Ok(taken)
    }

    /// Seals the `close_notify` of this side, behind what waits to be sent; `false` if `out` has no room for all of that, and
    /// then the rest belongs into the next buffer.
    #[must_use]
    pub fn seal_end(&mut self, out: &mut Buf) -> bool {
        const END: [u8; 2] = [WARNING, CLOSE_NOTIFY];
        if !self.take_answer(out) || out.spare().len() < END.len() + self.sealing.overhead() {
            return false;
        }
        // If the key may seal nothing more, the peer gets no `close_notify`.
        if let Ok(n) = self.sealing.seal(ALERT, &END, out.spare()) {
            out.fill(n);
        }
        true
    }

    /// False behind a fatal alert of either side: nothing may follow it (RFC 8446 section 6.2).
    pub fn may_send(&self) -> bool {
        matches!(self.end, End::Open | End::Closed | End::Truncated)
    }

    /// True while a message of TLS has come in part only.
    pub fn is_within_message(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Whether the peer waits for what waits here: the last words of a client's handshake.
    pub fn is_awaited(&self) -> bool {
        !self.answer.is_empty() && matches!(*self.kernel, Kernel::Client(_))
    }

    /// Takes what waits, to be sent alone; `false` if more is left.
    #[must_use]
    pub fn seal_nothing(&mut self, out: &mut Buf) -> bool {
        self.take_answer(out)
    }
}

impl Kernel {
    fn next(&mut self, sending: bool) -> Result<(u64, rustls::ConnectionTrafficSecrets), Error> {
        match (self, sending) {
            (Kernel::Server(kernel), true) => kernel.update_tx_secret(),
            (Kernel::Server(kernel), false) => kernel.update_rx_secret(),
            (Kernel::Client(kernel), true) => kernel.update_tx_secret(),
            (Kernel::Client(kernel), false) => kernel.update_rx_secret(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most connections are idle most of the time: each holds this and what the keys and rustls have on the heap.
    #[test]
    fn an_idle_session_is_small() {
        assert!(size_of::<Session>() <= 256, "{}", size_of::<Session>());
    }
}
