//! Why did a flow of datagrams end, and why did a datagram go nowhere?

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
    /// Why a flow ended.
    FlowEnd:
    Idle "idle" "No datagram came for as long as it may be idle.",
    Answered "answered" "Each datagram had its answers.",
    Evicted "evicted" "There were too many flows, and it was idle longest.",
    Closed "closed" "Its listener left, or the process ended.",
}

reasons! {
    /// Why a datagram went nowhere.
    LostDatagram:
    NoEndpoint "no_endpoint" "The pool had no endpoint for a new flow.",
    Unreachable "unreachable" "The endpoints that were tried cannot be reached.",
    Connections "connections" "There are too many flows, and none to evict.",
    PerAddress "connections_per_address" "The client's address has as many flows as it may.",
    Rate "requests_per_address" "The client's address begins more flows than it may.",
    Draining "draining" "The process ends, and takes no new flow.",
    NoSocket "no_socket" "No descriptor or port was left for its flow.",
    Refused "refused" "The endpoint's machine refused it, as nothing listens at its port.",
    Unsent "unsent" "The kernel did not take it: too long for its way, or no room.",
}
