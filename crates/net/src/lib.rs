//! I/O of the data path on this machine, and its unsafe code. Read the modules in this order:
//!
//! 1. [`event_loop`]: tasks, sockets and alarms of a thread. [`boxed`]: futures that are built in place.
//! 2. [`transport`]: the byte stream of a connection (`tokio_io`: with tokio's traits, behind the feature `tokio-io`);
//!    [`stream`]: a TCP socket that involves the event loop only when it would block; [`tls`]: an encrypted socket.
//!    [`dial`] and [`listen`] open them, [`accept_pause`] waits for descriptors, and [`inherit`] passes sockets from
//!    a process to its successor. [`splice`] moves bytes that need not be read, out of [`memory::pages`] without a
//!    copy.
//! 3. [`datagrams`]: many per syscall, in both directions.
//! 4. [`buffer`], [`clock`], [`deadline`]: buffers, time and timers of a thread.
//! 5. [`counter`], [`total`]: numbers that a thread, or several, write and others read. [`log_writer`], `line_file`
//!    and `line_socket`: lines on their way to a file or a logger.
//! 6. [`workers`]: the threads of a plane: start, update, supervision and end. [`memory`]: its return to the kernel.

// Order: workers, inherit, dial, quic, listen, accept_pause, datagrams, tokio_io, splice, memory, transport, tls, stream,
// log_writer, line_socket, line_file, total, counter, deadline, buffer, event_loop, boxed, clock
pub mod accept_pause;
pub mod boxed;
pub mod buffer;
pub mod clock;
pub mod counter;
pub mod datagrams;
pub mod deadline;
pub mod dial;
pub mod event_loop;
pub mod inherit;
mod line_file;
mod line_socket;
pub mod listen;
pub mod log_writer;
pub mod memory;
pub mod quic;
pub mod splice;
pub mod stream;
pub mod tls;
#[cfg(feature = "tokio-io")]
mod tokio_io;
pub mod total;
pub mod transport;
pub mod workers;
