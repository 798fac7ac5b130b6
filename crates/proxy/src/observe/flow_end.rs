//! Reasons for the end of a UDP flow, and for dropping a datagram.

macro_rules! reasons {
    ($(#[$doc:meta])* $of:ident: $($name:ident $label:literal $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $of { $(#[doc = $text] $name,)* }

        impl $of {
            /// Labels of the metrics, in the order of the counters.
            pub const LABELS: [&str; [$($label,)*].len()] = [$($label,)*];
        }
    };
}

reasons! {
    /// Reason for the end of a flow.
    FlowEnd:
    Idle "idle" "No datagram arrived within the idle timeout.",
    Answered "answered" "Every datagram had its responses.",
    Evicted "evicted" "There were too many flows, and it had been idle longest.",
    Closed "closed" "Its listener was removed, or the process ended.",
}

reasons! {
    /// Reason for dropping a datagram.
    LostDatagram:
    NoEndpoint "no_endpoint" "The pool had no eligible endpoint for a new flow.",
    Unreachable "unreachable" "The endpoints that were tried cannot be reached.",
    Connections "connections" "There are too many flows, and none can be evicted.",
    PerAddress "connections_per_address" "The client's address is at its limit of flows.",
    Rate "requests_per_address" "The client's address exceeds its rate of new flows.",
    Draining "draining" "The process is shutting down and accepts no new flows.",
    NoSocket "no_socket" "No file descriptor or port was free for the flow.",
    Refused "refused" "The endpoint's host refused it: nothing listens on its port.",
    Unsent "unsent" "The kernel rejected it: larger than the path MTU, or no buffer space.",
}
