//! Both directions of a connection after its handshake: data, and occasionally messages of TLS itself
//! (tickets, key updates, alerts).

use super::record::{self, ALERT, BODY_MAX, DATA, Fault, HANDSHAKE, Key, PLAIN_MAX};
use crate::buffer::Buf;
use crate::event_loop::budget::charge;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{Error, ExtractedSecrets, ProtocolVersion};

/// Records after which TLS 1.3 changes keys: below the 2^24.5 full records for which AES-GCM is safe (RFC
/// 8446 section 5.5).
const REKEY_AFTER: u64 = 1 << 23;

/// Most records that a key of TLS 1.2 seals, since it cannot be replaced.
const SEALED_MAX: u64 = 1 << 24;

/// Most consecutive records without data, with which a peer could keep us busy.
const EMPTY_MAX: u8 = 32;

/// Largest message after a handshake, in bytes: a ticket.
const MESSAGE_MAX: usize = 64 * 1024;

const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
const CLOSE_NOTIFY: u8 = 0;
const USER_CANCELED: u8 = 90;
const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// State of the peer's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Open,
    /// The peer has sent `close_notify`.
    Closed,
    /// The connection has ended without `close_notify`.
    Truncated,
    /// The peer violated the protocol, and was sent an alert.
    Failed(Fault),
    /// The peer has sent this fatal alert.
    Alerted(u8),
}

/// Remainder of the rustls connection, which derives new keys and stores tickets.
enum Kernel {
    Server(KernelConnection<ServerConnectionData>),
    Client(KernelConnection<ClientConnectionData>),
}

/// Both directions of a connection after its handshake.
pub struct Session {
    opening: Key,
    sealing: Key,
    kernel: Box<Kernel>,
    is_13: bool,
    /// Beginning of an incomplete message.
    partial: Vec<u8>,
    /// Consecutive records without data.
    empty: u8,
    /// True if a key update of ours is pending in `answer`.
    rekeyed: bool,
    /// Sealed records that are sent with the next data.
    answer: Vec<u8>,
    /// State of the peer's direction.
    pub end: End,
}

impl Session {
    /// Session of a server after its handshake. `answer` holds output that is still to be sent.
    pub fn server(
        (secrets, kernel): (ExtractedSecrets, KernelConnection<ServerConnectionData>),
        answer: Vec<u8>,
    ) -> Result<Session, Fault> {
        let is_13 = kernel.protocol_version() == ProtocolVersion::TLSv1_3;
        Session::new(is_13, secrets, Kernel::Server(kernel), answer)
    }

    /// Session of a client after its handshake. `answer` holds output that is still to be sent.
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

    /// Opens the complete records at the front of `wire` as long as `out` has room. If nothing else fits, the
    /// remainder of the last record goes to `rest`.
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
                // Usually a ticket or a key update; data may follow it.
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

    /// Opens a record that does not fit into `out`.
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

    /// Opens a record into the front of `out`, and returns the length of its data.
    fn open_one(&mut self, record: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let (kind, at) = self.opening.open(record, out)?;
        let plain = &out[at];
        // Nothing may come between the parts of a message (RFC 8446 section 5.1).
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

    /// Handles post-handshake messages. A record may hold several, and a message may span several.
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
            // A key change must be at a record boundary.
            if *kind == KEY_UPDATE && !behind.is_empty() {
                return Err(Fault::Unexpected);
            }
            self.message(*kind, message)?;
            left = behind;
        }
        self.partial = left.to_vec();
        Ok(())
    }

    /// True if a message of this kind and length is allowed. Others are refused before their bytes are
    /// stored.
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
                // A single answer suffices for all requests that arrive before it is sent.
                if asks && !self.rekeyed {
                    self.rekey()?;
                }
                Ok(())
            }
            _ => Err(Fault::Unexpected),
        }
    }

    /// Announces a new key to the peer, and switches to it.
    #[cold]
    fn rekey(&mut self) -> Result<(), Fault> {
        self.put_aside(HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, 0])?;
        self.sealing = Key::new(true, self.kernel.next(true).map_err(|_| Fault::Exhausted)?)?;
        self.rekeyed = true;
        Ok(())
    }

    /// Seals a message to be sent with the next data.
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

    /// Moves pending records to `out`, as far as they fit; true if none remain. Records are numbered, so
    /// nothing may be sealed after this while some remain. Tickets for a client with a long certificate chain
    /// fill several buffers.
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

    /// Seals data after pending records, as far as `out` has room, and returns the number of bytes; 0 if
    /// pending records fill it. `out` must be empty and without headroom.
    ///
    /// # Errors
    /// If the key is exhausted, or nothing may follow the sent records.
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

    /// Seals this side's `close_notify` after pending records. `false` if not all of that fits; the rest then
    /// belongs in the next buffer.
    #[must_use]
    pub fn seal_end(&mut self, out: &mut Buf) -> bool {
        const END: [u8; 2] = [WARNING, CLOSE_NOTIFY];
        if !self.take_answer(out) || out.spare().len() < END.len() + self.sealing.overhead() {
            return false;
        }
        // If the key is exhausted, the peer gets no `close_notify`.
        if let Ok(n) = self.sealing.seal(ALERT, &END, out.spare()) {
            out.fill(n);
        }
        true
    }

    /// False after a fatal alert of either side: nothing may follow it (RFC 8446 section 6.2).
    pub fn may_send(&self) -> bool {
        matches!(self.end, End::Open | End::Closed | End::Truncated)
    }

    /// True while a message is incomplete.
    pub fn is_within_message(&self) -> bool {
        !self.partial.is_empty()
    }

    /// True if the peer waits for pending records: the last message of a client's handshake.
    pub fn is_awaited(&self) -> bool {
        !self.answer.is_empty() && matches!(*self.kernel, Kernel::Client(_))
    }

    /// Moves pending records to `out`, to be sent without data; `false` if some remain.
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

    /// Most connections are idle most of the time. Each holds this, plus keys and rustls' state on the heap.
    #[test]
    fn an_idle_session_is_small() {
        assert!(size_of::<Session>() <= 256, "{}", size_of::<Session>());
    }
}
