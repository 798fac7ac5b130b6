//! DNS messages: any bytes are parsed or refused, and parsed parts equal the input.
#![no_main]

use evenkeel_dns::query::{Name, Query, Reject};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match Query::parse(bytes, &mut Name::room()) {
        Ok(query) => {
            assert_eq!(query.header, &bytes[..12]);
            assert!(bytes[12..].starts_with(query.question));
            let name = query.name.as_slice();
            assert_eq!(name.len() + 4, query.question.len());
            assert!(name.eq_ignore_ascii_case(&query.question[..name.len()]));
            assert!(!name.iter().any(u8::is_ascii_uppercase));
        }
        Err(Reject::Drop) => assert!(bytes.len() < 12 || bytes[2] & 0x80 != 0),
        Err(Reject::Code(_)) => assert!(bytes.len() >= 12),
    }
});
