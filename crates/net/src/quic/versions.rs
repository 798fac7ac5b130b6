//! Agreement on a version (RFC 9368): the parameter by which both sides notice that someone has changed the version on the way,
//! and sessions that resume only in the version in which they began.

use super::v2::V2;
use quinn_proto::coding::Codec;
use quinn_proto::{TransportError, TransportErrorCode, VarInt};
use rustls::server::{ProducesTickets, StoresServerSessions};
use std::sync::Arc;

/// Number of version 1 (RFC 9000).
pub const V1: u32 = 1;

/// Versions that are spoken.
pub const ALL: [u32; 2] = [V1, V2];

/// Id of the transport parameter `version_information`.
const INFORMATION: u8 = 0x11;

/// Code of `VERSION_NEGOTIATION_ERROR`.
const NEGOTIATION_ERROR: u8 = 0x11;

/// Writes the parameter for a connection that uses `chosen`.
pub(super) fn write(chosen: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&[INFORMATION, (4 + 4 * ALL.len()) as u8]);
    out.extend_from_slice(&chosen.to_be_bytes());
    ALL.iter().for_each(|version| out.extend_from_slice(&version.to_be_bytes()));
}

/// Compares the parameter of a client, if it has sent it, with the version of its packets.
///
/// # Errors
/// The client has begun with another version, or its parameter is malformed.
pub(super) fn check(used: u32, parameters: &[u8]) -> Result<(), TransportError> {
    let malformed = || error(TransportErrorCode::TRANSPORT_PARAMETER_ERROR, "malformed version_information");
    let Some(information) = find(parameters).ok_or_else(malformed)? else { return Ok(()) };
    let (versions, rest) = information.as_chunks::<4>();
    let mut versions = versions.iter().map(|bytes| u32::from_be_bytes(*bytes));
    let chosen = versions.next().ok_or_else(malformed)?;
    let mut is_available = false;
    for version in versions {
        if version == 0 {
            return Err(malformed());
        }
        is_available |= version == chosen;
    }
    if !rest.is_empty() || chosen == 0 || !is_available {
        return Err(malformed());
    }
    if chosen != used {
        let code = TransportErrorCode::decode(&mut &[NEGOTIATION_ERROR][..]).expect("a whole number");
        return Err(error(code, "the client has begun with another version"));
    }
    Ok(())
}

fn error(code: TransportErrorCode, reason: &str) -> TransportError {
    TransportError { code, frame: None, reason: reason.to_owned() }
}

/// Finds the parameter. `None` if the parameters are malformed, or have it twice.
fn find(mut parameters: &[u8]) -> Option<Option<&[u8]>> {
    let mut found = None;
    while !parameters.is_empty() {
        let id = VarInt::decode(&mut parameters).ok()?.into_inner();
        let len = VarInt::decode(&mut parameters).ok()?.into_inner();
        let (value, rest) = parameters.split_at_checked(usize::try_from(len).ok()?)?;
        if id == u64::from(INFORMATION) && found.replace(value).is_some() {
            return None;
        }
        parameters = rest;
    }
    Some(found)
}

/// Configuration like `config` for connections of version 2, whose sessions do not resume in version 1, nor the reverse.
pub(super) fn of_v2(config: &rustls::ServerConfig) -> rustls::ServerConfig {
    let mut config = config.clone();
    config.ticketer = Arc::new(OfV2(config.ticketer));
    config.session_storage = Arc::new(OfV2(config.session_storage));
    config
}

/// Sessions of version 2. They have a byte more, with which a session of version 1 is not one that rustls reads.
#[derive(Debug)]
struct OfV2<T: ?Sized>(Arc<T>);

/// The last byte of a session of version 2.
const MARK: u8 = 2;

fn marked(session: &[u8]) -> Vec<u8> {
    [session, &[MARK]].concat()
}

fn unmarked(mut session: Vec<u8>) -> Option<Vec<u8>> {
    (session.pop() == Some(MARK)).then_some(session)
}

impl ProducesTickets for OfV2<dyn ProducesTickets> {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(&marked(plain))
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.0.decrypt(ticket).and_then(unmarked)
    }
}

impl StoresServerSessions for OfV2<dyn StoresServerSessions> {
    fn put(&self, key: Vec<u8>, session: Vec<u8>) -> bool {
        self.0.put(key, marked(&session))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key).and_then(unmarked)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key).and_then(unmarked)
    }

    fn can_cache(&self) -> bool {
        self.0.can_cache()
    }
}
