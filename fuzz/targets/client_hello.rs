//! A ClientHello reads the same however it is split: the first answer for any prefix is final, and a server
//! name is a valid name.
#![no_main]

mod pieces;

use evenkeel_wire::tls_hello::{LEN_MAX, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = pieces::whole(bytes, read);
    assert!(bytes.len() < LEN_MAX || whole != Ok(None), "it waits for more than it takes");
    let Ok(Some(hello)) = whole else { return };
    if let Some(name) = hello.server_name {
        assert!(!name.is_empty() && !name.ends_with('.') && !name.bytes().any(|b| b.is_ascii_uppercase()), "{name}");
    }
    assert!(hello.alpn.iter().all(|protocol| !protocol.is_empty()));
});
