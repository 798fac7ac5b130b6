//! Keys that are fetched: rotation, servers that fail, hang or never end, and plans that change.

use crate::issuer::{Answer, Issuer, tls, wait_until};
use crate::support::{Signer, now, set};
use crate::{File, plan};
use evenkeel_tokens::{Check, Pace, Refused, Tokens, follow};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A pace for tests, in which nothing but what tokens ask for is fetched again.
fn pace() -> Pace {
    let (ms, long) = (Duration::from_millis, Duration::from_secs(3600));
    Pace { patience: Duration::from_secs(10), floor: ms(20), lifetime: ms(20)..=long, retry: ms(20)..=ms(40) }
}

/// Routes whose keys are fetched in this test.
struct Following {
    tokens: watch::Sender<Arc<Tokens>>,
}

impl Following {
    fn start(jwt: &[&str], pace: Pace) -> Following {
        let first = Tokens::default().next(&plan(jwt)).expect("good");
        let (tokens, watched) = watch::channel(Arc::new(first));
        tokio::spawn(follow(watched, pace));
        Following { tokens }
    }

    fn check(&self, route: &str) -> Check {
        Check::new(self.tokens.borrow().of(route).expect("a route").clone())
    }

    /// Counts of the first source: successes and failures.
    fn text(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(evenkeel_tokens::Metrics::new(self.tokens.subscribe())));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("it can be written");
        text
    }

    fn count(&self, result: &str) -> u64 {
        let text = self.text();
        let line = text.lines().find(|line| {
            line.starts_with("evenkeel_jwt_key_fetches_total") && line.contains(&format!("result=\"{result}\""))
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }
}

fn says(check: &mut Check, token: &str) -> Result<(), Refused> {
    check.token(token.as_bytes(), now() * 1000).map(drop)
}

fn plain(body: String) -> Answer {
    Answer::Plain(200, "", body)
}

#[tokio::test]
async fn a_token_with_a_new_key_has_the_set_fetched_and_one_with_an_old_key_is_refused_then() {
    let (first, second) = (Signer::new("EdDSA", "1"), Signer::new("EdDSA", "2"));
    let issuer = Issuer::start(None, plain(first.set())).await;
    let jwt = format!("keys = 'http://127.0.0.1:{}/jwks.json?tenant=a'", issuer.port);
    let following = Following::start(&[&jwt, &jwt], pace());
    let mut check = following.check("r0");
    wait_until("the keys are there", || says(&mut check, &first.of("ann")).is_ok()).await;
    assert_eq!(issuer.requests(), 1, "both routes share the set");
    assert_eq!(says(&mut following.check("r1"), &first.of("ann")), Ok(()));
    // While both keys are published, both are valid.
    issuer.answer(plain(set(&[&first, &second])));
    assert_eq!(says(&mut check, &second.of("ann")), Err(Refused::UnknownKey));
    wait_until("the new key is there", || says(&mut check, &second.of("ann")).is_ok()).await;
    assert_eq!(says(&mut check, &first.of("ann")), Ok(()));
    issuer.answer(plain(second.set()));
    assert_eq!(says(&mut check, &Signer::new("EdDSA", "3").of("ann")), Err(Refused::UnknownKey));
    wait_until("the old key is gone", || says(&mut check, &first.of("ann")) == Err(Refused::UnknownKey)).await;
    assert_eq!(says(&mut check, &second.of("ann")), Ok(()));
    // Tokens with made-up keys cause few fetches, however many they are.
    let (before, began) = (issuer.requests(), std::time::Instant::now());
    let stranger = Signer::new("EdDSA", "4").of("ann");
    for _ in 0..20_000 {
        assert_eq!(says(&mut check, &stranger), Err(Refused::UnknownKey));
        tokio::task::yield_now().await;
    }
    let most = 2 + began.elapsed().as_millis() as usize / 20;
    assert!(issuer.requests() - before <= most, "{} of {most}", issuer.requests() - before);
    assert_eq!(following.count("failure"), 0);
}

#[tokio::test]
async fn no_token_is_valid_before_the_first_keys_and_failures_keep_the_last() {
    let signer = Signer::new("ES256", "1");
    let issuer = Issuer::start(None, Answer::Plain(500, "", signer.set())).await;
    let jwt = format!("keys = 'http://localhost:{}/jwks.json?tenant=a'", issuer.port);
    let following = Following::start(&[&jwt], pace());
    let mut check = following.check("r0");
    wait_until("it failed twice", || following.count("failure") >= 2).await;
    assert_eq!(says(&mut check, &signer.of("ann")), Err(Refused::NoKeys));
    // Its lifetime is stated as so short that it is fetched again and again.
    issuer.answer(Answer::Plain(200, "Cache-Control: max-age=0\r\n", signer.set()));
    wait_until("the keys are there", || says(&mut check, &signer.of("ann")).is_ok()).await;
    let text = following.text();
    assert!(text.contains("evenkeel_jwt_keys{url=\"http://localhost"), "{text}");
    assert!(!text.contains("last_success_timestamp_seconds 0"), "{text}");
    for wrong in [
        Answer::Plain(404, "", signer.set()),
        Answer::Plain(302, "Location: /other\r\n", String::new()),
        plain("<html>".to_string()),
        plain("{\"keys\":[]}".to_string()),
        plain(Signer::new("HS256", "1").set()),
        Answer::Plain(204, "", String::new()),
        plain(" ".repeat(256 * 1024 + 1)),
        Answer::Endless,
    ] {
        let before = following.count("failure");
        issuer.answer(wrong);
        wait_until("it failed", || following.count("failure") >= before + 2).await;
        assert_eq!(says(&mut check, &signer.of("ann")), Ok(()));
    }
}

#[tokio::test]
async fn a_server_that_hangs_or_is_not_there_is_given_up() {
    let signer = Signer::new("ES256", "1");
    let issuer = Issuer::start(None, Answer::Hang).await;
    let jwt = format!("keys = 'http://127.0.0.1:{}/jwks.json?tenant=a'", issuer.port);
    // A port that was free a moment ago; if another takes it, it has no keys either.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let other = format!("keys = 'http://{gone}/jwks.json'");
    let following = Following::start(&[&jwt, &other], Pace { patience: Duration::from_millis(50), ..pace() });
    wait_until("it was given up", || following.count("failure") >= 1).await;
    issuer.answer(plain(signer.set()));
    let mut check = following.check("r0");
    wait_until("the keys are there", || says(&mut check, &signer.of("ann")).is_ok()).await;
    assert_eq!(says(&mut following.check("r1"), &signer.of("ann")), Err(Refused::NoKeys));
}

#[tokio::test]
async fn keys_over_tls_come_from_a_server_that_is_trusted() {
    let signer = Signer::new("RS256", "1");
    let (acceptor, certificate) = tls();
    let issuer = Issuer::start(Some(acceptor), plain(signer.set())).await;
    let ca = File::new("ca", &certificate);
    let (_, stranger) = tls();
    let wrong = File::new("stranger", &stranger);
    let jwt = |host: &str, ca: &File| {
        format!("keys = 'https://{host}:{}/jwks.json?tenant=a', ca = '{}'", issuer.port, ca.0.display())
    };
    let each = [jwt("localhost", &ca), jwt("localhost", &wrong)];
    let following = Following::start(&each.each_ref().map(|jwt| &**jwt), pace());
    let mut check = following.check("r0");
    wait_until("the keys are there", || says(&mut check, &signer.of("ann")).is_ok()).await;
    wait_until("the other failed", || {
        following.text().lines().any(|line| line.contains("failure") && !line.ends_with(" 0"))
    })
    .await;
    assert_eq!(says(&mut following.check("r1"), &signer.of("ann")), Err(Refused::NoKeys));
    assert_eq!(issuer.requests(), 1);
}

#[tokio::test]
async fn a_plan_that_keeps_the_place_keeps_its_keys_and_one_that_leaves_it_ends_its_fetches() {
    let signer = Signer::new("EdDSA", "1");
    let issuer = Issuer::start(None, Answer::Plain(200, "Cache-Control: no-store\r\n", signer.set())).await;
    let jwt = format!("keys = 'http://127.0.0.1:{}/jwks.json?tenant=a'", issuer.port);
    let following = Following::start(&[&jwt], pace());
    let mut check = following.check("r0");
    wait_until("the keys are there", || says(&mut check, &signer.of("ann")).is_ok()).await;
    let next = |rules: &[&str]| {
        let before = following.tokens.borrow().clone();
        following.tokens.send_replace(Arc::new(before.next(&plan(rules)).expect("good")));
    };
    issuer.answer(Answer::Plain(500, "", String::new()));
    next(&[&format!("{jwt}, issuer = 'https://idp'")]);
    assert_eq!(says(&mut following.check("r0"), &signer.of("ann")), Err(Refused::Issuer), "the keys are there at once");
    next(&[]);
    let ended = Arc::downgrade(check.verifier().source());
    drop(check);
    wait_until("nothing holds the place", || ended.strong_count() == 0).await;
}
