//! Requests that are written as each program writes them, and read back.
