//! End of requests and sessions: the side that ended it, and the phase in which it ended. The letters of the access
//! log, the labels of the metrics and the reference page are generated from these tables.

macro_rules! answers {
    ($(#[$doc:meta])* $of:ident: $($name:ident $letter:literal $label:literal $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $of { $(#[doc = $text] $name,)* }

        impl $of {
            /// All variants, in the order of their counters.
            pub const ALL: &[$of] = &[$($of::$name,)*];

            /// Labels of the metrics, in the same order.
            pub const LABELS: [&str; [$($letter,)*].len()] = [$($label,)*];

            pub fn label(self) -> &'static str {
                match self { $($of::$name => $label,)* }
            }

            /// Letter in the access log.
            pub fn letter(self) -> u8 {
                match self { $($of::$name => $letter,)* }
            }

            /// Meaning, for the reference page.
            pub fn text(self) -> &'static str {
                match self { $($of::$name => $text,)* }
            }
        }

        impl Default for $of {
            fn default() -> $of {
                $of::ALL[0]
            }
        }
    };
}

answers! {
    /// Side that ended a request or session; the first letter of its end, as in HAProxy's log.
    Cause:
    Normal b'-' "normal" "normal end",
    Client b'C' "client" "the client closed or reset the connection",
    ClientSlow b'c' "client_slow" "the client was too slow",
    Endpoint b'S' "endpoint" "the endpoint refused, reset or violated the protocol",
    EndpointSlow b's' "endpoint_slow" "the endpoint was too slow",
    Proxy b'P' "proxy" "evenkeel refused it, or the drain timeout expired",
    Idle b'I' "idle" "neither side sent anything for `timeouts.idle`, although both could",
}

answers! {
    /// Phase of a request; the second letter of its end.
    Phase:
    Request b'R' "request" "reading the request, or the ClientHello of a session",
    Queue b'Q' "queue" "waiting in the queue for an endpoint",
    Connect b'C' "connect" "connecting to the endpoint",
    Head b'H' "head" "waiting for the response head",
    Data b'D' "data" "relaying the response body, an upgraded connection or a session",
    Done b'-' "done" "everything was sent",
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_letter_and_every_label_means_one_thing() {
        let causes: HashSet<u8> = Cause::ALL.iter().map(|c| c.letter()).collect();
        let phases: HashSet<u8> = Phase::ALL.iter().map(|p| p.letter()).collect();
        assert_eq!((causes.len(), phases.len()), (Cause::ALL.len(), Phase::ALL.len()));
        assert_eq!(Cause::LABELS.iter().collect::<HashSet<_>>().len(), Cause::ALL.len());
        assert!(Cause::ALL.iter().enumerate().all(|(i, cause)| *cause as usize == i));
    }
}
