//! The command line: its errors and exit codes, and its completion in a shell.

mod arguments;
mod completion;
