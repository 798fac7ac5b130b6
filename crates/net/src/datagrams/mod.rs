//! UDP in batches, many datagrams per syscall. [`socket`] opens sockets, [`recv_batch`] receives,
//! [`send_batch`] sends, and [`message`] builds the headers that the kernel reads.

// Order: send_batch, message, recv_batch, socket
mod message;
pub mod recv_batch;
pub mod send_batch;
pub mod socket;
