//! How do datagrams come and go? Many by one syscall. [`socket`] opens what they pass through, a [`recv_batch`] takes what
//! has come, and a [`send_batch`] says where it goes on; a [`message`] is what the kernel reads of that beside the bytes.

mod message;
pub mod recv_batch;
pub mod send_batch;
pub mod socket;
