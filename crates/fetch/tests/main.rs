//! Requests to real sockets.

mod requests;
