//! Decisions on tokens: signatures by every algorithm, keys that do not fit, and what tokens claim.

use crate::support::{Signer, b64, now, set};
use crate::{Route, claims};
use evenkeel_tokens::{KeySet, Refused};
use serde_json::{Value, json};

const ALL: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

#[test]
fn tokens_of_every_algorithm_are_verified_with_its_key_alone() {
    let signers: Vec<_> = ALL.iter().map(|algorithm| Signer::new(algorithm, algorithm)).collect();
    let mut route = Route::new("all", &set(&signers.iter().collect::<Vec<_>>()), "claims_to = { X-User = 'sub' }");
    for signer in &signers {
        let name = signer.algorithm;
        let token = signer.of("ann");
        assert_eq!(route.ask(&token), Ok("X-User: ann\r\n".to_string()), "{name}");
        // Each character of the signature, the claims and the header counts.
        for (at, c) in token.char_indices().filter(|(at, c)| at % 7 == 0 && *c != '.') {
            let other = if c == 'A' { 'B' } else { 'A' };
            let tampered = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            assert!(route.ask(&tampered).is_err(), "{name}: {at}");
        }
        assert_eq!(route.ask(&token[..token.rfind('.').expect("a token") + 1]), Err(Refused::Signature), "{name}");
        // Under another key's name, and under none.
        for other in &signers {
            let header = json!({ "alg": name, "kid": other.kid });
            let asked = route.ask(&signer.sign(&header.to_string(), &claims(json!({})).to_string()));
            match other.kid == name {
                true => assert!(asked.is_ok(), "{name}"),
                false => {
                    assert_eq!(asked, Err(Refused::UnknownKey), "{name} under {}: the key has another alg", other.kid)
                }
            }
        }
        let unnamed = signer.sign(&json!({ "alg": name }).to_string(), &claims(json!({})).to_string());
        assert!(route.ask(&unnamed).is_ok(), "{name}: one key fits");
    }
    let stranger = Signer::new("ES256", "ES256");
    assert_eq!(route.ask(&stranger.of("ann")), Err(Refused::Signature));
    assert_eq!(route.ask(&Signer::new("ES256", "new").of("ann")), Err(Refused::UnknownKey));
}

#[test]
fn a_public_key_is_no_secret_and_a_secret_is_used_where_it_is_listed_alone() {
    for algorithm in ["RS256", "ES256", "EdDSA"] {
        let signer = Signer::new(algorithm, "a");
        let mut route = Route::new(&format!("confused-{algorithm}"), &signer.set(), "");
        for secret in signer.public_bytes() {
            assert_eq!(route.ask(&signer.impostor(secret).of("ann")), Err(Refused::Algorithm));
        }
        // Nor where the route accepts HS256 by mistake of its keys: a file with public keys has none that fits.
        let mut route = Route::new(&format!("hmac-{algorithm}"), &signer.set(), "algorithms = ['HS256']");
        for secret in signer.public_bytes() {
            assert_eq!(route.ask(&signer.impostor(secret).of("ann")), Err(Refused::UnknownKey));
        }
        assert_eq!(route.ask(&signer.of("ann")), Err(Refused::Algorithm));
    }
    for algorithm in ["HS256", "HS384", "HS512"] {
        let signer = Signer::new(algorithm, "s");
        let mut route = Route::new(algorithm, &signer.set(), &format!("algorithms = ['{algorithm}']"));
        assert!(route.ask(&signer.of("ann")).is_ok());
        assert!(route.ask(&signer.impostor(vec![0; 64]).of("ann")).is_err());
        // Without being listed, a secret key is not used.
        let mut route = Route::new(&format!("unlisted-{algorithm}"), &signer.set(), "");
        assert_eq!(route.ask(&signer.of("ann")), Err(Refused::Algorithm));
    }
    let short = Signer::sized("HS512", "s", 48);
    assert!(KeySet::read(short.set().as_bytes(), true).expect_err("too short").contains("does not fit"));
    let secret = KeySet::read(Signer::new("HS256", "s").set().as_bytes(), false).expect_err("it was fetched");
    assert!(secret.contains("only a file may have"), "{secret}");
}

#[test]
fn unsigned_and_critical_tokens_are_refused() {
    let signer = Signer::new("EdDSA", "a");
    let mut route = Route::new("unsigned", &signer.set(), "");
    let body = claims(json!({})).to_string();
    for none in ["none", "None", "NONE", "nOnE"] {
        for signature in ["", "x", "c2ln"] {
            let token = format!("{}.{}.{signature}", b64(json!({ "alg": none }).to_string()), b64(&body));
            assert_eq!(route.ask(&token), Err(Refused::Algorithm), "{token}");
        }
    }
    for header in [
        json!({ "alg": "EdDSA", "crit": ["exp"], "exp": 1 }),
        json!({ "alg": "EdDSA", "crit": ["b64"], "b64": false }),
        json!({ "alg": "EdDSA", "crit": [] }),
    ] {
        assert!(matches!(route.ask(&signer.sign(&header.to_string(), &body)), Err(Refused::Malformed(_))), "{header}");
    }
    // Keys that the token itself brings are of no interest.
    let stranger = Signer::new("EdDSA", "a");
    for header in [
        json!({ "alg": "EdDSA", "kid": "a", "jwk": stranger.jwk() }),
        json!({ "alg": "EdDSA", "kid": "a", "jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/" }),
    ] {
        assert_eq!(route.ask(&stranger.sign(&header.to_string(), &body)), Err(Refused::Signature));
    }
}

#[test]
fn times_count_with_the_leeway() {
    let signer = Signer::new("EdDSA", "a");
    let mut route = Route::new("times", &signer.set(), "leeway = '30s'");
    let mut lax = Route::new("times-lax", &signer.set(), "leeway = '0s', require_exp = false");
    let now = now();
    let (expired, early) = (Err(Refused::Expired), Err(Refused::NotYet));
    for (given, strict_says, lax_says) in [
        (json!({ "exp": now + 1 }), Ok(()), Ok(())),
        (json!({ "exp": now }), Ok(()), expired),
        (json!({ "exp": now - 29 }), Ok(()), expired),
        (json!({ "exp": now - 30 }), expired, expired),
        (json!({ "exp": (now + 1) as f64 + 0.5 }), Ok(()), Ok(())),
        (json!({ "exp": -1 }), expired, expired),
        (json!({}), Err(Refused::Malformed("has no exp")), Ok(())),
        (json!({ "exp": null }), Err(Refused::Malformed("has no exp")), Ok(())),
        (json!({ "exp": now + 60, "nbf": now }), Ok(()), Ok(())),
        (json!({ "exp": now + 60, "nbf": now + 30 }), Ok(()), early),
        (json!({ "exp": now + 60, "nbf": now + 31 }), early, early),
    ] {
        let token = signer.token(&given);
        assert_eq!(route.ask_at(&token, now * 1000).map(drop), strict_says, "{given}");
        assert_eq!(lax.ask_at(&token, now * 1000).map(drop), lax_says, "{given}");
    }
    for wrong in [json!({ "exp": "9999999999" }), json!({ "exp": true }), json!({ "exp": 1e300 }), json!({ "exp": [] })]
    {
        assert!(matches!(lax.ask(&signer.token(&wrong)), Err(Refused::Malformed(_))), "{wrong}");
    }
    let twice = signer.sign(r#"{"alg":"EdDSA"}"#, &format!("{{\"exp\":{},\"exp\":1}}", now + 60));
    assert_eq!(route.ask(&twice), Err(Refused::Malformed("has a claim twice")));
    // A token that was verified is not valid for longer because it is remembered.
    let token = signer.token(&json!({ "exp": now + 60 }));
    assert!(route.ask_at(&token, now * 1000).is_ok());
    assert!(route.check.token(token.as_bytes(), (now + 89) * 1000).expect("in time").is_known);
    assert_eq!(route.ask_at(&token, (now + 90) * 1000), expired.map(|()| String::new()));
}

#[test]
fn issuer_audience_and_claims_are_those_of_the_route() {
    let signer = Signer::new("EdDSA", "a");
    let mut route = Route::new(
        "claims",
        &signer.set(),
        "issuer = 'https://idp', audience = ['api', 'web'], require = { role = ['admin', 'owner'], '/a/scope' = ['x'] }",
    );
    let good = json!({ "iss": "https://idp", "aud": "api", "role": "admin", "a": { "scope": "x" } });
    let with = |name: &str, value: Value| {
        let mut claims = claims(good.clone());
        claims[name] = value;
        claims
    };
    for (name, value, says) in [
        ("x", json!(1), Ok(())),
        ("iss", json!("https://idp/"), Err(Refused::Issuer)),
        ("iss", json!(["https://idp"]), Err(Refused::Issuer)),
        ("iss", json!(null), Err(Refused::Issuer)),
        ("aud", json!("web"), Ok(())),
        ("aud", json!(["other", "api"]), Ok(())),
        ("aud", json!("API"), Err(Refused::Audience)),
        ("aud", json!(["other"]), Err(Refused::Audience)),
        ("aud", json!([]), Err(Refused::Audience)),
        ("aud", json!([["api"]]), Err(Refused::Audience)),
        ("aud", json!(null), Err(Refused::Audience)),
        ("role", json!("owner"), Ok(())),
        ("role", json!(["user", "owner"]), Ok(())),
        ("role", json!("user"), Err(Refused::Claim)),
        ("role", json!("admin owner"), Err(Refused::Claim)),
        ("role", json!(null), Err(Refused::Claim)),
        ("a", json!({ "scope": ["y"] }), Err(Refused::Claim)),
        ("a", json!("x"), Err(Refused::Claim)),
    ] {
        assert_eq!(route.ask(&signer.token(&with(name, value.clone()))).map(drop), says, "{name} {value}");
    }
    // Without an audience of the route, a token that has one is for another.
    let mut none = Route::new("no-audience", &signer.set(), "");
    assert_eq!(none.ask(&signer.token(&claims(json!({ "aud": "api" })))), Err(Refused::Audience));
    assert!(none.ask(&signer.of("ann")).is_ok());
    let mut any = Route::new("any-audience", &signer.set(), "audience = ['*']");
    assert!(any.ask(&signer.token(&claims(json!({ "aud": "api" })))).is_ok() && any.ask(&signer.of("ann")).is_ok());
}

#[test]
fn claims_become_fields_and_keys_of_limits_unless_they_might_be_read_in_another_way() {
    let signer = Signer::new("EdDSA", "a");
    let to = "claims_to = { X-User = 'sub', X-Roles = 'roles', X-Mail = 'email' }";
    let mut route = Route::new("fields", &signer.set(), to);
    let given = json!({ "sub": "J\u{f6}rg", "roles": ["a", "b"], "email": "" });
    assert_eq!(route.ask(&signer.token(&claims(given))), Ok("X-User: J\u{f6}rg\r\nX-Roles: a,b\r\n".to_string()));
    for (name, value) in [
        ("sub", json!("a\r\nX-Admin: yes")),
        ("sub", json!("a\u{0}")),
        ("sub", json!(" a")),
        ("roles", json!(["a,b"])),
        ("roles", json!({ "a": 1 })),
    ] {
        assert_eq!(route.ask(&signer.token(&claims(json!({ name: value })))), Err(Refused::Unfit), "{name} {value}");
    }
    let token = signer.token(&claims(json!({ "roles": ["a", 1] })));
    let checked = route.check.token(token.as_bytes(), now() * 1000).expect("good");
    assert_eq!([checked.token.claim("sub"), checked.token.claim("roles")], [Some("ann"), Some("[\"a\",1]")]);
    assert_eq!(checked.token.claim("email"), None);
}

#[test]
fn keys_that_are_for_other_things_are_passed_over() {
    let signer = Signer::new("RS256", "a");
    let with = |name: &str, value: Value| {
        let mut jwk = signer.jwk();
        jwk[name] = value;
        json!({ "keys": [jwk] }).to_string()
    };
    for (keys, why) in [
        (with("use", json!("enc")), "is not for signatures (use)"),
        (with("key_ops", json!(["encrypt"])), "is not for verification (key_ops)"),
        (with("alg", json!("RSA-OAEP")), "has an alg that evenkeel does not know"),
        (with("alg", json!("ES256")), "has an alg that its kty, crv or length does not fit"),
        (with("kty", json!("XYZ")), "is of a kty that evenkeel does not know"),
        (with("n", json!("AQAB")), "of under 2048 or over 8192 bits"),
        (with("n", json!("!")), "is not well-formed"),
        (with("kid", json!(7)), "is not a JWK that evenkeel knows"),
        (json!({ "keys": [] }).to_string(), "it has no keys"),
        (json!({ "keys": {} }).to_string(), "no array \"keys\""),
        (signer.jwk().to_string(), "no array \"keys\""),
        ("{".to_string(), "it ends too early"),
        ("{\"keys\": [secret]}".to_string(), "line 1, column 11"),
        (String::new(), "it ends too early"),
        (format!("{{\"keys\":[],\"x\":\"{}\"}}", "a".repeat(256 * 1024)), "larger than 256 KiB"),
    ] {
        let error = KeySet::read(keys.as_bytes(), true).expect_err(why);
        assert!(error.contains(why) && !error.contains("secret]"), "{error}");
    }
    // One key of another kind does not cost the others.
    let text = json!({ "keys": [{ "kty": "EC", "crv": "secp256k1", "x": "", "y": "" }, signer.jwk()] }).to_string();
    let keys = KeySet::read(text.as_bytes(), true).expect("one is good");
    assert_eq!((keys.len(), keys.passed_over().len()), (1, 1));
    assert!(!format!("{keys:?}").contains("AQAB"));
}

#[test]
fn a_token_without_a_key_name_is_tried_with_few_keys() {
    let signers: Vec<_> = ["a", "b", "c", "d", "e"].iter().map(|kid| Signer::new("EdDSA", kid)).collect();
    let unnamed = |signer: &Signer| signer.sign(r#"{"alg":"EdDSA"}"#, &claims(json!({})).to_string());
    let mut route = Route::new("four", &set(&signers[..4].iter().collect::<Vec<_>>()), "");
    assert!(route.ask(&unnamed(&signers[3])).is_ok());
    assert_eq!(route.ask(&unnamed(&signers[4])), Err(Refused::Signature));
    let mut route = Route::new("five", &set(&signers.iter().collect::<Vec<_>>()), "");
    assert!(matches!(route.ask(&unnamed(&signers[3])), Err(Refused::Malformed(_))));
    assert!(route.ask(&signers[3].of("ann")).is_ok());
    // A set with a single key need not name it.
    let mut jwk = signers[0].jwk();
    jwk.as_object_mut().expect("an object").remove("kid");
    let mut route = Route::new("unnamed", &json!({ "keys": [jwk] }).to_string(), "");
    assert!(route.ask(&signers[0].of("ann")).is_ok());
}

#[test]
fn tokens_are_remembered_until_keys_change_and_a_wrong_file_changes_nothing() {
    let (first, second) = (Signer::new("EdDSA", "a"), Signer::new("EdDSA", "a"));
    let mut route = Route::new("changes", &first.set(), "");
    let (token, other) = (first.of("ann"), second.of("ann"));
    let known = |route: &mut Route, token: &str| {
        route.check.token(token.as_bytes(), now() * 1000).map(|checked| checked.is_known)
    };
    assert_eq!([known(&mut route, &token), known(&mut route, &token)], [Ok(false), Ok(true)]);
    assert_eq!(known(&mut route, &other), Err(Refused::Signature));
    route.file.write("{}");
    (0..3).for_each(|_| route.tokens.look());
    assert_eq!(known(&mut route, &token), Ok(true));
    route.file.write(&second.set());
    route.tokens.look();
    assert_eq!(known(&mut route, &token), Ok(true), "it may be half written");
    route.tokens.look();
    assert_eq!(known(&mut route, &token), Err(Refused::Signature), "its key is gone");
    assert_eq!(known(&mut route, &other), Ok(false));
    std::fs::remove_file(&route.file.0).expect("it is there");
    (0..3).for_each(|_| route.tokens.look());
    assert_eq!(known(&mut route, &other), Ok(true));
}
