//! Is a ClientHello read the same however it comes in? Whatever bytes: the first answer of any prefix is the answer, and
//! what it names can be a name.
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
