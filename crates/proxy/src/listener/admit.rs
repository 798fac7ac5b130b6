//! Admission of client connections: reads the PROXY protocol header and checks the limits, once per connection, before
//! its first request.

use super::client::Client;
use crate::observe::stats::Rejected;
use crate::peer::admission::TooMany;
use crate::peer::per_address::OpenConnection;
use evenkeel_net::buffer::Buf;
use evenkeel_net::deadline::Timer;
use evenkeel_net::transport::Transport;
use evenkeel_wire::proxy_protocol;
use std::pin::pin;

/// A rejected client. The rejection was counted.
pub struct Refused;

/// The required PROXY protocol header is missing or malformed.
struct Unannounced;

/// Identifies a client and admits it. Returns the bytes that arrived behind the PROXY protocol header, if any. `place`
/// receives the connection's place among the connections of its address, if these are limited.
///
/// # Errors
/// The client is rejected.
pub async fn admit(
    client: &mut Client<'_>,
    transport: &Transport,
    timer: &Timer,
    place: &mut Option<OpenConnection>,
) -> Result<Option<Buf>, Refused> {
    let listener = client.listener;
    let mut held = None;
    if listener.peek().compiled.admission.is_announcing(client.peer.ip) {
        // Boxed: done before the first request, so connections need no room for it.
        match Box::pin(announced(client, transport, timer)).await {
            Ok(rest) => held = rest,
            Err(Unannounced) => return Err(reject(client, Rejected::ProxyProtocol)),
        }
    }
    let opened = listener.peek().compiled.admission.open(client.peer.ip);
    match opened {
        Ok(opened) => *place = opened,
        Err(TooMany) => return Err(reject(client, Rejected::PerAddress)),
    }
    Ok(held)
}

/// Reads the PROXY protocol header that must come first. Returns the bytes behind it, if any.
async fn announced(client: &mut Client<'_>, transport: &Transport, timer: &Timer) -> Result<Option<Buf>, Unannounced> {
    let listener = client.listener;
    let mut partial: Vec<u8> = Vec::new();
    timer.set(timer.tick_after(listener.limits().1.client_header));
    loop {
        let read = timer.limit(pin!(client.read_after(transport, &partial))).await;
        let Ok(Some((n, mut buf))) = read else { return Err(Unannounced) };
        let Ok(header) = proxy_protocol::read(buf.filled()) else { return Err(Unannounced) };
        let Some(header) = header else {
            if n == 0 {
                return Err(Unannounced);
            }
            partial.clear();
            partial.extend_from_slice(buf.filled());
            continue;
        };
        buf.consume(header.len);
        if let Some(addresses) = header.addresses {
            client.peer.announce(addresses, |ip| listener.peek().compiled.admission.is_trusted(ip));
        }
        return Ok((!buf.is_empty()).then_some(buf));
    }
}

/// Counts a rejection. The connection is closed without a response: a client over its limits is not worth more work.
fn reject(client: &Client<'_>, why: Rejected) -> Refused {
    client.listener.stats.rejected[why as usize].add(1);
    Refused
}
