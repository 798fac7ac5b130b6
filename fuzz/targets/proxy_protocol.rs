//! PROXY protocol headers read the same however they are split: the first answer for any prefix is final, a
//! header ends within its bytes, and its contents can be written and read back.
#![no_main]

mod pieces;

use evenkeel_config::plan::ProxyVersion;
use evenkeel_wire::proxy_protocol::{Addresses, LEN_MAX, read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = pieces::whole(bytes, read);
    let Ok(Some(header)) = whole else { return };
    assert!(header.len <= bytes.len() && (15..=LEN_MAX).contains(&header.len));
    let canonical = |a: Addresses| [a.source, a.destination].map(|addr| (addr.ip().to_canonical(), addr.port()));
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let mut written = Vec::new();
        write(version, header.addresses, &mut written);
        let again = read(&written).expect("what is written is good").expect("and whole");
        assert_eq!(again.len, written.len());
        assert_eq!(again.addresses.map(canonical), header.addresses.map(canonical));
    }
});
