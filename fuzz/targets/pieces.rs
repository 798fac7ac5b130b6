//! Incremental readers: a reader that returns `None` until it has enough is called with every prefix.

use std::fmt::Debug;

/// Result of `read` for all bytes, which must be its first answer for any prefix.
pub fn whole<'b, T: PartialEq + Debug, E: PartialEq + Debug>(
    bytes: &'b [u8],
    read: impl Fn(&'b [u8]) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let whole = read(bytes);
    for len in 0..bytes.len() {
        match read(&bytes[..len]) {
            Ok(None) => {}
            answer => {
                assert_eq!(answer, whole, "after {len} bytes");
                break;
            }
        }
    }
    whole
}
