//! Fields that no table may keep, as their values could be guessed from the sizes of blocks (RFC 7541 section 7.1).

/// True if a field must be sent as never indexed. `name`: in lower case.
pub fn is_secret(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"authorization" | b"proxy-authorization" => true,
        // A short value could be guessed byte by byte from the resulting size.
        b"cookie" | b"set-cookie" => value.len() < 20,
        _ => false,
    }
}
