//! Where do results go? To standard output; everything else is on standard error.

use crate::failure::Failure;
use std::io::Write;

/// Prints to standard output. A reader that has seen enough (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::running(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
