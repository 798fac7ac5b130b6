//! Parsers and writers of protocols without I/O: bytes in, decisions out, no socket and no clock, so that the live
//! planes, tests and fuzzers drive the same code.
//!
//! 1. [`head`]: heads of messages, in any protocol. [`http1`]: which messages are refused, where a body ends, and
//!    which fields are forwarded. [`h2`]: connections of HTTP/2. [`h3`]: connections of HTTP/3.
//! 2. [`endpoint_head`]: request heads as sent to an endpoint.
//! 3. [`proxy_protocol`]: the client's address, which a proxy in front sends ahead of the client's bytes.
//! 4. [`tls_hello`]: the server name that a client asks for, read before anything is decrypted.
//! 5. [`orca`]: reports of an endpoint's load.
//! 6. [`grpc`]: the HTTP fields of gRPC calls.
//! 7. [`trace_context`]: the trace that a request belongs to.
//! 8. [`priority`]: the order in which a client wants its responses.
//! 9. [`host`]: hosts without their ports. [`readings`]: the texts that servers may take a path for. [`folding`]: paths
//!    without regard to case. [`path`]: checks of a path that this side has made. [`prefixes`]: prefixes that it removed, put back into links.

// Order: endpoint_head, proxy_protocol, tls_hello, h2, h3, multiplexed, priority, folding, readings, http1, grpc, orca, trace_context, prefixes, path, host, head
pub mod endpoint_head;
pub mod folding;
pub mod grpc;
pub mod h2;
pub mod h3;
pub mod head;
pub mod host;
pub mod http1;
mod multiplexed;
pub mod orca;
pub mod path;
pub mod prefixes;
pub mod priority;
pub mod proxy_protocol;
pub mod readings;
pub mod tls_hello;
pub mod trace_context;
