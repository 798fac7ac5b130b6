//! Clients with long certificate chains, all of which each ticket contains.

use crate::support::pki::{Pki, config};
use crate::support::tls::{TlsClient, V12, V13};
use crate::support::{Endpoint, Proxy};
use rcgen::{CustomExtension, PKCS_ECDSA_P256_SHA256};

#[test]
fn a_client_with_a_long_chain_is_answered() {
    let (pki, endpoint) = (Pki::new(), Endpoint::saying("hello"));
    let server = pki.issue("a.test");
    let tls = format!("tls = {{ certificates = [{}], client_auth = {{ ca = {:?} }} }}", server.entry(), pki.ca());
    let proxy = Proxy::start(&config(&tls, &endpoint, ""));
    // Two of the smallest fit into a buffer, one of the next, and none of the largest.
    for size in [1_000, 9_000, 16_000, 17_500, 20_000, 28_000] {
        let shop = pki.issue_with("shop.test", &PKCS_ECDSA_P256_SHA256, |params| {
            let content = [&[4, 0x82][..], &(size as u16).to_be_bytes(), &vec![7; size]].concat();
            params.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], content)];
        });
        for versions in [V12, V13] {
            let client = pki.client(versions, Some(&shop));
            for _ in 0..2 {
                let mut client = TlsClient::connect(proxy.addr(), client.clone(), "a.test").expect("a handshake");
                for _ in 0..3 {
                    assert_eq!(client.get("/").body_text(), "hello", "{size} bytes");
                }
            }
        }
    }
    assert_eq!(endpoint.seen().len(), 6 * 2 * 2 * 3);
}
