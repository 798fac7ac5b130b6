//! Listeners for HTTP/3. Envoy has them beside the listener over TCP with the same address; here one listener serves both.

use crate::ledger::Ledger;
use crate::tree::Node as Table;
use evenkeel_config::plan::{Http3, Listener, Mode};

/// Address and port of a listener.
fn address(table: &Table) -> Option<(&str, &str)> {
    let text = |path: &str| table.at(path).and_then(Table::text);
    Some((text("address.socket_address.address")?, text("address.socket_address.port_value")?))
}

fn is_quic(table: &Table) -> bool {
    table.at("udp_listener_config.quic_options").is_some()
}

/// Takes out listeners for HTTP/3 that have a listener over TCP at their address. Returns them.
pub(super) fn of<'t>(listeners: &mut Vec<(String, &'t Table)>) -> Vec<&'t Table> {
    let over_tcp: Vec<_> = listeners.iter().filter(|(_, table)| !is_quic(table)).map(|(_, table)| *table).collect();
    let mut taken = Vec::new();
    listeners.retain(|(_, table)| {
        let twin = is_quic(table) && over_tcp.iter().any(|other| address(other) == address(table));
        if twin {
            taken.push(*table);
        }
        !twin
    });
    taken
}

/// Has a listener serve HTTP/3 if one of `over_quic` has its address.
pub(super) fn add(table: &Table, over_quic: &[&Table], listener: &mut Listener, ledger: &mut Ledger) {
    let Some(twin) = over_quic.iter().find(|twin| address(twin) == address(table)) else { return };
    let can = listener.mode == Mode::Http && listener.tls.is_some() && listener.accept_proxy_protocol.is_empty();
    let (reason, todo) = match can {
        true => (
            "clients of HTTP/3 have the routes and settings of the listener over TCP at the address, whose responses have Alt-Svc",
            "a listener with another address, if they should differ",
        ),
        false => {
            ("HTTP/3 needs a listener for HTTP with TLS, without the PROXY protocol", "http3 of a listener with TLS")
        }
    };
    twin.carried(ledger);
    ledger.changes(twin.line, reason, todo);
    listener.http3 = can.then(Http3::default);
}
