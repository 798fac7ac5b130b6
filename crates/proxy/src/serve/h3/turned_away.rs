//! Clients that were turned away lately. The hello of a client may take several datagrams. Each of them gets a response, as
//! any of these may be lost, and the client counts once.

use evenkeel_net::quic::ConnectionId;
use std::collections::VecDeque;

/// Most clients that are remembered. The datagrams of a hello arrive together.
const REMEMBERED: usize = 64;

/// Clients that were turned away, by the id that they chose.
#[derive(Default)]
pub(super) struct TurnedAway(VecDeque<ConnectionId>);

impl TurnedAway {
    /// Notes a client. Returns false if it is known already.
    pub(super) fn note(&mut self, id: ConnectionId) -> bool {
        if self.0.contains(&id) {
            return false;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(id);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_counts_once_until_many_others_came() {
        let mut away = TurnedAway::default();
        let id = |n: u8| ConnectionId::new(&[n; 8]);
        assert!(away.note(id(0)) && !away.note(id(0)));
        assert!((1..REMEMBERED as u8).all(|n| away.note(id(n))));
        assert!(!away.note(id(0)), "still there");
        assert!(away.note(id(200)) && away.note(id(0)), "the first is forgotten first");
        assert_eq!(away.0.len(), REMEMBERED);
    }
}
