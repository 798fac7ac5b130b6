//! Addresses of sockets and pipes, in the spelling of evenkeel.

use crate::ledger::Ledger;
use crate::tree::Node;

/// The address of a socket, as evenkeel writes it.
pub(super) fn socket(node: &Node, ledger: &mut Ledger) -> Option<String> {
    if let Some(path) = node.take("pipe.path", ledger) {
        return Some(format!("unix:{path}"));
    }
    let socket = node.get("socket_address")?;
    let host = socket.take("address", ledger)?;
    let port = socket.take("port_value", ledger)?.parse::<u16>().ok()?;
    if let Some(protocol) = socket.get("protocol") {
        protocol.dropped("the protocol is that of the listener", ledger);
    }
    Some(if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}
