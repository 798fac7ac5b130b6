//! What do these bytes say, and how is that written? Protocols without I/O: bytes in, decisions out, no socket and no
//! clock, so that the live planes, tests and fuzzers drive the same code.
//!
//! 1. [`head`]: what a message asks for or says, whatever the protocol. [`http1`]: which messages are refused, where a body ends, and which fields go on.
//! 2. [`endpoint_head`]: a request's head as an endpoint is to have it.
//! 3. [`proxy_protocol`]: who the client is, as a proxy in front says ahead of its bytes.
//! 4. [`tls_hello`]: which server a client asks for, before anything is decrypted.
//! 5. [`orca`]: what an endpoint says of its own load.
//! 6. [`grpc`]: what a call says in fields of HTTP.
//! 7. [`trace_context`]: which trace a request belongs to.

pub mod endpoint_head;
pub mod grpc;
pub mod h2;
pub mod head;
pub mod http1;
pub mod orca;
pub mod proxy_protocol;
pub mod tls_hello;
pub mod trace_context;
