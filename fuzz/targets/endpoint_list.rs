//! The reader of endpoint lists on any text, in both formats: it does not panic, returns a list or errors
//! deterministically, and lets nothing through that a pool must not have.
#![no_main]

use evenkeel_config::endpoint_list;
use evenkeel_config::plan::Address;
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;

fuzz_target!(|text: &str| {
    for name in ["any.toml", "any.json"] {
        let read = endpoint_list(name, text);
        assert_eq!(read, endpoint_list(name, text));
        match read {
            Err(diagnostics) => assert!(!diagnostics.is_empty()),
            Ok(endpoints) => {
                let names: HashSet<_> = endpoints.iter().map(|e| &e.name).collect();
                let addrs: HashSet<_> = endpoints.iter().map(|e| &e.addr).collect();
                assert_eq!((names.len(), addrs.len()), (endpoints.len(), endpoints.len()));
                for endpoint in &endpoints {
                    assert!(matches!(endpoint.addr, Address::Ip(addr) if addr.port() > 0), "{endpoint:?}");
                    assert!(endpoint.priority < 16);
                }
            }
        }
    }
});
