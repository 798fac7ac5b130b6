//! Does it matter how bytes fall into reads? A reader that says `None` as long as it needs more is asked about each prefix.

use std::fmt::Debug;

/// What `read` says of the whole, which is what it said first of any prefix.
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
