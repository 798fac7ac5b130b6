//! Responses made by OpenSSL, signed by an issuer or a delegated responder.

use super::authority::Authority;
use super::*;
use crate::inspect::now;
use proptest::prelude::*;

const DAY: i64 = 86_400;

/// A `tryLater` response in DER (RFC 6960 section 4.2.1).
const TRY_LATER: [u8; 5] = [0x30, 3, 0x0a, 1, 3];

fn refused(der: &[u8], chain: &[CertificateDer<'_>], now: i64, why: &str) {
    let refused = verify(der, chain, now).expect_err(why).why;
    assert!(refused.contains(why), "{why}: {refused}");
}

#[test]
fn a_response_is_good_for_its_certificate_until_its_next_update() {
    let Some(authority) = Authority::new() else { return };
    authority.issue("a", "leaf", 7);
    authority.issue("b", "leaf", 200);
    let (now, chain) = (now(), authority.chain(&["a", "ca"]));
    let good = authority.response("a", "ca", Some('V'), "-ndays 7");
    let until = verify(&good, &chain, now).expect("a good one");
    assert!((until - now - 7 * DAY).abs() < 600, "{until}");
    assert_eq!(verify(&good, &chain, until - EARLY - 1), Ok(until));
    for (der, at, why) in [
        (&good[..], until - EARLY, "it has expired"),
        (&good, until + DAY, "it has expired"),
        (&good, now - DAY, "it is not valid yet"),
        (&authority.response("a", "ca", Some('V'), ""), now, "it has no nextUpdate"),
        (&authority.response("a", "ca", Some('R'), "-ndays 7"), now, "the certificate is revoked"),
        (&authority.response("a", "ca", None, "-ndays 7"), now, "does not know the certificate"),
        (&authority.response("b", "ca", Some('V'), "-ndays 7"), now, "it is for a different certificate"),
        (&TRY_LATER, now, "the responder answered tryLater"),
        (&[0x30, 3, 0x0a, 1, 0], now, "it is not a basic OCSP response"),
        (b"0 good since Monday", now, "it is not an OCSP response"),
        (b"", now, "it is not an OCSP response"),
        (&good[..good.len() - 1], now, "it is not an OCSP response"),
        (&[&good[..], b"\n"].concat(), now, "it is not an OCSP response"),
    ] {
        refused(der, &chain, at, why);
    }
    for hash in ["-sha256", "-sha384", "-sha512"] {
        let by_hash = authority.response("a", "ca", Some('V'), &format!("-ndays 7 {hash}"));
        assert!(verify(&by_hash, &chain, now).is_ok(), "{hash}");
    }
}

#[test]
fn a_response_is_signed_by_the_issuer_or_by_a_responder_of_the_issuer() {
    let (Some(one), Some(other)) = (Authority::new(), Authority::new()) else { return };
    for authority in [&one, &other] {
        authority.issue("a", "leaf", 7);
        authority.issue("b", "leaf", 8);
        authority.issue("responder", "responder", 9);
    }
    let (now, chain) = (now(), one.chain(&["a", "ca"]));
    let delegated = one.response("a", "responder", Some('V'), "-ndays 7");
    assert!(verify(&delegated, &chain, now).is_ok());
    assert!(verify(&one.response("a", "responder", Some('V'), "-ndays 7 -resp_key_id"), &chain, now).is_ok());
    assert!(verify(&one.response("a", "ca", Some('V'), "-ndays 7 -resp_key_id"), &chain, now).is_ok());
    // The responder's certificate is valid for 30 days.
    let long = one.response("a", "responder", Some('V'), "-ndays 90");
    assert!(verify(&long, &chain, now + 29 * DAY).is_ok());
    for (der, at, why) in [
        (&long, now + 31 * DAY, "it is not signed by"),
        (&one.response("a", "b", Some('V'), "-ndays 7"), now, "it is not signed by"),
        // The other authority has the same name and serial numbers.
        (&other.response("a", "ca", Some('V'), "-ndays 7"), now, "of a different issuer"),
    ] {
        refused(der, &chain, at, why);
    }
    // The CertID is of the issuer, but key and certificates are of the other authority.
    for signer in ["ca", "responder"] {
        for file in ["pem", "key"] {
            std::fs::copy(other.path(&format!("{signer}.{file}")), one.path(&format!("forged.{file}")))
                .expect("a copy");
        }
        refused(&one.response("a", "forged", Some('V'), "-ndays 7"), &chain, now, "it is not signed by");
    }
}

#[test]
fn issuers_with_other_keys_are_verified() {
    for key in ["rsa:2048", "rsa:4096", "ec -pkeyopt ec_paramgen_curve:P-384"] {
        let Some(authority) = Authority::with_key(key) else { return };
        authority.issue("a", "leaf", 7);
        let der = authority.response("a", "ca", Some('V'), "-ndays 7");
        assert!(verify(&der, &authority.chain(&["a", "ca"]), now()).is_ok(), "{key}");
    }
}

#[test]
fn the_issuer_is_found_in_the_chain_or_in_the_response() {
    let Some(authority) = Authority::new() else { return };
    authority.issue("a", "leaf", 7);
    authority.issue("responder", "responder", 9);
    let (now, alone) = (now(), authority.chain(&["a"]));
    assert!(verify(&authority.response("a", "ca", Some('V'), "-ndays 7"), &alone, now).is_ok());
    for (signer, more) in [("ca", "-ndays 7 -resp_no_certs"), ("responder", "-ndays 7")] {
        let der = authority.response("a", signer, Some('V'), more);
        refused(&der, &alone, now, "the issuer's certificate");
        // Also with another certificate where the issuer's should be.
        refused(&der, &authority.chain(&["a", "responder"]), now, "the issuer's certificate");
    }
}

#[test]
fn no_changed_byte_of_what_is_signed_passes_and_none_panics() {
    let Some(authority) = Authority::new() else { return };
    authority.issue("a", "leaf", 7);
    authority.issue("responder", "responder", 9);
    let (now, chain) = (now(), authority.chain(&["a", "ca"]));
    let der = authority.response("a", "responder", Some('V'), "-ndays 7");
    let signed = response(&der).expect("a good one").signed.message;
    let start = der.windows(signed.len()).position(|window| window == signed).expect("it is part of it");
    for at in 0..der.len() {
        for bit in 0..8 {
            let mut changed = der.clone();
            changed[at] ^= 1 << bit;
            let verified = verify(&changed, &chain, now);
            assert!(verified.is_err() || !(start..start + signed.len()).contains(&at), "bit {bit} of byte {at}");
        }
        assert!(verify(&der[..at], &chain, now).is_err(), "{at} bytes");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (status(&content), signed(&content), response(&content), single(&content));
        // The same bytes nested in the outer elements of a response.
        let mut framed = content;
        for tag in [0x30, 4, 0x30, 0xa0, 0x30] {
            let length = u16::try_from(framed.len()).expect("short").to_be_bytes();
            framed.splice(0..0, [tag, 0x82, length[0], length[1]]);
            let _ = (status(&framed), signed(&framed), response(&framed), single(&framed));
        }
    }
}
