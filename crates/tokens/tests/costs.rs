//! Costs of verifications, for the guide: `cargo test --release -p evenkeel-tokens -- --ignored --nocapture costs`.

use crate::support::{Signer, now, set};
use crate::{Route, claims};
use serde_json::json;
use std::hint::black_box;
use std::time::Instant;

/// Tokens that are verified for a figure.
const TOKENS: u32 = 2_000;

#[test]
#[ignore = "prints times, which a busy machine makes longer"]
fn costs_of_a_verification_by_algorithm() {
    let names = ["RS256", "PS256", "ES256", "ES384", "EdDSA"];
    let signers: Vec<_> = names.iter().map(|name| Signer::new(name, name)).collect();
    let mut route =
        Route::new("costs", &set(&signers.iter().collect::<Vec<_>>()), "claims_to = { X-User = 'sub' }, cache = 0");
    let mut cached =
        Route::new("costs-cached", &set(&signers.iter().collect::<Vec<_>>()), "claims_to = { X-User = 'sub' }");
    for signer in &signers {
        let token = signer.token(&claims(json!({ "iss": "https://idp.example", "role": ["admin", "clerk"] })));
        let tampered = format!("{}A{}", &token[..token.len() - 20], &token[token.len() - 19..]);
        let us = |route: &mut Route, token: &str| {
            let (began, now_ms) = (Instant::now(), now() * 1000);
            (0..TOKENS).for_each(|_| _ = black_box(route.check.token(token.as_bytes(), now_ms)));
            began.elapsed().as_secs_f64() * 1e6 / f64::from(TOKENS)
        };
        let (valid, wrong, known) = (us(&mut route, &token), us(&mut route, &tampered), us(&mut cached, &token));
        println!(
            "{}: {valid:.1} us; with a wrong signature {wrong:.1} us; known {known:.2} us; {} bytes",
            signer.algorithm,
            token.len()
        );
    }
}
