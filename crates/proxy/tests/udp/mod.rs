//! UDP: flows, DNS and other programs, and QUIC.

mod flows;
mod peers;
mod quic;
mod splits;
