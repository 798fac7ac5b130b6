//! Do datagrams get there and back, whatever happens to their flow?

mod flows;
mod peers;
mod quic;
