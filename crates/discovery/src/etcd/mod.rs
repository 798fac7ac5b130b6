//! etcd: members of a cluster, and keys that are followed there. Each pool has a separate watch; all watches share a
//! connection. Not `etcd-client`, whose build needs `protoc`.
//!
//! 1. [`members`]: the connection to a member, and the token of a user.
//! 2. [`keys`]: turns the keys of a pool into endpoints, without I/O.
//! 3. [`messages`]: the part of etcd's API that is used.

// Order: members, keys, messages
#[cfg(test)]
mod hostile;
pub mod keys;
pub mod members;
mod messages;
