//! How do bytes move on this machine? All I/O of the data path, and its unsafe code. Read the files in this order:
//!
//! 1. [`event_loop`]: tasks, sockets and alarms of one thread. [`boxed`]: futures that are made where they stay.
//! 2. [`transport`]: what carries the bytes of a connection (`tokio_io`: with tokio's traits, behind the feature
//!    `tokio-io`); [`stream`]: a TCP socket that meets the event loop only when it would block; [`tls`]: one whose bytes are sealed; [`dial`] and [`listen`] open them,
//!    [`accept_pause`] waits for descriptors, and [`inherit`] passes sockets from one process to the next. [`splice`] moves what need not be read.
//! 3. [`datagrams`]: many by one syscall, each way.
//! 4. [`buffer`], [`clock`], [`deadline`]: bytes, the time and timers of one thread.
//! 5. [`counter`], [`total`]: numbers that one thread, or several, write and others read. [`log_writer`], `line_file` and `line_socket`: lines
//!    on their way to a file, or to a logger.
//! 6. [`workers`]: the threads of a plane, as they are started, updated, watched and ended.

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
pub mod splice;
pub mod stream;
pub mod tls;
#[cfg(feature = "tokio-io")]
mod tokio_io;
pub mod total;
pub mod transport;
pub mod workers;
