//! The examples of the guides to fields and to rewrites do what the guides state.

use super::echo::{CLIENTS, Echoes, ask, fields, got};
use super::field;

/// The example at the head of a guide, without its listener and its pool.
fn routes(page: &str) -> String {
    let path = format!("{}/../../docs/guide/{page}", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(path).expect("the guide is there");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let from = example.find("[[route]]").expect("a route");
    let to = example.find("[pool.shop]").expect("a pool");
    example[from..to].replace("pool = \"shop\"", "pool = \"web\"")
}

#[tokio::test]
async fn the_example_of_the_guide_to_fields_changes_both_ways() {
    let echoes = Echoes::start();
    for ((endpoint, proxy), addr) in echoes.proxies(&routes("headers.md")).into_iter().zip(echoes.addrs()) {
        for client in CLIENTS {
            let sent = [("x-debug", "1"), ("x-internal-user", "root"), ("x-client", "app"), ("x-real-ip", "6.6.6.6")];
            let answer = ask(client, &proxy, "/shop/cart", &sent).await;
            let at = format!("{client}, {endpoint}: {answer:?}");
            assert_eq!((got(&answer, "x-debug"), got(&answer, "x-internal-user")), (vec![], vec![]), "{at}");
            assert_eq!((got(&answer, "x-client-name"), got(&answer, "x-client")), (vec!["app"], vec![]), "{at}");
            assert_eq!((got(&answer, "x-real-ip"), got(&answer, "x-tag")), (vec!["127.0.0.1"], vec!["shop"]), "{at}");
            assert_eq!(got(&answer, "x-start").len(), 1, "{at}");
            assert_eq!((field(&answer, "server"), field(&answer, "x-powered-by")), (None, None), "{at}");
            assert_eq!(field(&answer, "x-frame-options"), Some("SAMEORIGIN"), "{at}");
            assert_eq!(field(&answer, "cache-control"), Some("no-store"), "{at}");
            assert_eq!(field(&answer, "x-served-by"), Some(&*addr.to_string()), "{at}");
            assert!(fields(&answer, "set-cookie")[0].ends_with("; Secure; HttpOnly; SameSite=Lax"), "{at}");
        }
    }
}

#[tokio::test]
async fn the_example_of_the_guide_to_rewrites_gives_the_paths_that_it_names() {
    let echoes = Echoes::start();
    for ((endpoint, proxy), addr) in echoes.proxies(&routes("rewrites.md")).into_iter().zip(echoes.addrs()) {
        for client in CLIENTS {
            let addr = addr.to_string();
            for (path, target, host) in [
                ("/shop/cart", "/cart", "a"),
                ("/api/items", "/v2/items", "a"),
                ("/items/7", "/catalog/7/view", &*addr),
                ("/blog/2026/hello", "/posts/hello?year=2026", "a"),
            ] {
                let answer = ask(client, &proxy, path, &[]).await;
                let at = format!("{client}, {endpoint}: {answer:?}");
                assert_eq!((got(&answer, "target"), got(&answer, "host")), (vec![target], vec![host]), "{at}");
            }
        }
    }
}
