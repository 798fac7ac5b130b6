//! Secret keys, long enough not to be guessed. Messages never contain any part of a key.

use super::misfit::Misfit;
use crate::code::Code;

/// Shortest key, in bytes: as long as the 128-bit tag, or the key would be the weaker of the two.
const MIN: usize = 16;
const MAX: usize = 1024;

pub(super) fn read(text: &str) -> Result<String, Misfit> {
    if (MIN..=MAX).contains(&text.len()) {
        return Ok(text.to_string());
    }
    let message = format!("the secret has {} bytes, but needs {MIN} to {MAX}", text.len());
    let help = "make one with \"head -c 32 /dev/urandom | base64\", and keep it in the environment or in a secret_file";
    Err(Misfit::new(Code::OutOfRange, message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_16_bytes_and_shows_none() {
        assert!(read("0123456789abcdef").is_ok());
        let misfit = read("0123456789abcde").expect_err("15 bytes");
        assert!(!misfit.message.contains("abc") && !misfit.help.contains("abc"), "{misfit:?}");
        assert!(misfit.message.contains("15 bytes"));
    }
}
