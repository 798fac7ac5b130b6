//! Fields of responses that tell clients how to connect the next time: only with TLS ([`hsts`]), and with HTTP/3
//! ([`alt_svc`]).

// Order: alt_svc, hsts
pub mod alt_svc;
pub mod hsts;
