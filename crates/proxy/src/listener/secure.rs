//! TLS handshakes with clients: with a timeout, limited in number, counted, and logged if they fail.

use super::client::Client;
use super::handshakes::{Full, Places};
use crate::observe::access_log::{Line, quoted};
use crate::observe::end::Cause as Side;
use crate::observe::summary::Summary;
use crate::observe::timing::Timing;
use crate::peer::address_text::AddressText;
use evenkeel_balance::{Clock, Instant};
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::{Elapsed, Timer};
use evenkeel_net::tls::{Cause, HandshakeError, Info, Note, TlsStream};
use evenkeel_tls::identity::Identity;
use evenkeel_tls::proof::Proof;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Performs the TLS handshake with a client. `early` holds the bytes that were already read.
///
/// # Errors
/// The reason of the failure, which was counted and logged. Not logged here: plain HTTP requests, whose response is
/// logged, and clients that sent nothing. The connection is still plain.
pub async fn secure<'t>(
    client: &Client<'_>,
    tls: &'t TlsStream,
    timer: &Timer,
    early: Option<Buf>,
) -> Result<&'t Info, HandshakeError> {
    let began = client.core.clock.now();
    let stats = &client.listener.stats.tls;
    let shaken = shake(client, tls, timer, early).await;
    match &shaken {
        Ok(info) => stats.shaken[usize::from(info.resumed)].add(1),
        Err(error) => {
            stats.failed[error.cause as usize].add(1);
            // A client that connects and sends nothing probes whether the port is open: no handshake began.
            let is_look = matches!(error.cause, Cause::Closed | Cause::Displaced) && !error.heard;
            if error.cause != Cause::PlainHttp && !is_look {
                log(client, began, error);
            }
        }
    }
    shaken
}

async fn shake<'t, 'c>(
    client: &'c Client<'_>,
    tls: &'t TlsStream,
    timer: &Timer,
    early: Option<Buf>,
) -> Result<&'t Info, HandshakeError> {
    let compiled = client.listener.peek().compiled.clone();
    // The plan may have changed since the client connected, and TLS may be off now.
    let Some(settings) = &compiled.tls else { return Err(HandshakeError::new(Cause::Internal)) };
    let (listener, ip) = (client.listener, client.peer.ip);
    let counts = &listener.stats.tls;
    let take = |places: &'c Places, most, count| {
        places.take(ip, most, client.core.clock.now(), count).map_err(|Full| HandshakeError::new(Cause::TooMany))
    };
    // Until its ClientHello is complete, a client costs next to nothing; from then on, a key exchange and a signature.
    let place = RefCell::new(take(&listener.hellos, settings.hellos_max(), &counts.waiting)?);
    let begins = || {
        let begun = take(&listener.handshakes, settings.plan.handshakes, &counts.active)?;
        drop(place.replace(begun));
        Ok(())
    };
    timer.set(timer.tick_after(settings.plan.handshake_timeout));
    let asks = settings.plan.client_auth.is_some();
    let proof = asks.then(Proof::default);
    let note = |info: &Info| if asks { of_certificate(info) } else { Note::default() };
    let mut accepted = pin!(tls.accept(settings.config(), early, begins, note));
    let shaken = poll_fn(|cx| {
        if place.borrow().is_displaced() {
            return Poll::Ready(Err(HandshakeError::new(Cause::Displaced)));
        }
        let polled = match &proof {
            Some(proof) => proof.within(|| accepted.as_mut().poll(cx)),
            None => accepted.as_mut().poll(cx),
        };
        if polled.is_pending() {
            place.borrow().watch(cx);
        }
        polled
    });
    match timer.limit(pin!(shaken)).await {
        Ok(shaken) => shaken,
        Err(Elapsed) => Err(HandshakeError::new(Cause::Timeout)),
    }
}

/// Builds the fields about the client's certificate, for endpoints and the access log. A certificate in `info` was
/// verified, unless the handshake has noted that it is invalid: then nothing in it is proven, and no field has it.
pub fn of_certificate(info: &Info) -> Note {
    let invalid = Proof::invalid();
    let identity = info.peer_certificates.first().filter(|_| invalid.is_none()).and_then(Identity::of);
    let verified = match invalid {
        Some(why) => &*format!("FAILED:{why}"),
        None if identity.is_some() => "SUCCESS",
        None => "NONE",
    };
    let mut fields = format!("X-Client-Cert-Verified: {verified}\r\n").into_bytes();
    let mut log = b",\"client_cert\":".to_vec();
    quoted(&mut log, verified.as_bytes());
    let Some(identity) = identity else { return Note { fields: fields.into(), log: log.into() } };
    for (field, member, value) in [
        ("Subject", "subject", &identity.subject),
        ("Issuer", "issuer", &identity.issuer),
        ("Serial", "serial", &identity.serial),
        ("Fingerprint", "fingerprint", &identity.fingerprint),
    ] {
        fields.extend_from_slice(format!("X-Client-Cert-{field}: {value}\r\n").as_bytes());
        log.extend_from_slice(format!(",\"client_cert_{member}\":").as_bytes());
        quoted(&mut log, value.as_bytes());
    }
    Note { fields: fields.into(), log: log.into() }
}

/// Writes an access-log line for a failed handshake.
#[cold]
fn log(client: &Client<'_>, began: Instant, error: &HandshakeError) {
    let core = client.core;
    let mut log = core.log.borrow_mut();
    let Some(log) = log.as_mut() else { return };
    let rules = client.listener.rules();
    let mut asked = core.scratch();
    log.layout.keep_name(error.server_name.as_deref(), &mut asked);
    let peer = client.peer.announced_by().map(AddressText::of);
    let side = match error.cause {
        Cause::Timeout => Side::ClientSlow,
        Cause::TooMany | Cause::Displaced | Cause::Internal => Side::Proxy,
        _ => Side::Client,
    };
    let timing = Timing { total_ns: core.clock.now().since(began), ..Timing::new(began) };
    let summary = Summary { timing, cause: side, ..Summary::default() };
    let taken = rules.named(client.listener, rules.unrouted());
    let (id, reason) = (core.next_request_id(), error.to_string());
    let line = Line {
        client_port: client.peer.port,
        peer: peer.as_ref().map(AddressText::as_bytes),
        asked: &asked,
        reason: Some(&reason),
        ..Line::new("TLS", &id, client.peer.ip_text(), taken, summary)
    };
    log.add(&line, &core.clock);
    core.give_back(asked);
}
