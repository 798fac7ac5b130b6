//! `underscores` of listeners: fields of requests with `_` in their names, over all protocols of clients and endpoints.

use crate::filters::echo::{CLIENTS, Echoes, ask, got};

const ROUTES: &str = "[[route]]\npool = 'web'\n\
                      [[route]]\nmatch = { header = { X_User = 'ann' } }\nrespond = 204\n";

/// Statuses of a request with a field whose name has an underscore, and its values at the endpoint.
async fn all(listener: &str) -> Vec<(u16, Vec<String>)> {
    let echoes = Echoes::start();
    let mut all = Vec::new();
    for (_, proxy) in echoes.proxies_with(listener, ROUTES) {
        for client in CLIENTS {
            for name in ["x_user", "x_other"] {
                let answer = ask(client, &proxy, "/", &[("x-user", "bob"), (name, "ann"), ("x-last", "1")]).await;
                let names = ["x-user", "x_user", "x_other", "x-last"];
                all.push((answer.0, names.iter().flat_map(|name| got(&answer, name)).map(str::to_owned).collect()));
            }
        }
    }
    all
}

fn values(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_field_with_an_underscore_is_matched_and_forwarded_if_it_is_kept() {
    for outcomes in all("").await.chunks(2) {
        assert_eq!(outcomes, [(204, values(&[])), (200, values(&["bob", "ann", "1"]))]);
    }
}

#[tokio::test]
async fn a_field_with_an_underscore_is_neither_matched_nor_forwarded_if_it_is_dropped() {
    for outcome in all("underscores = 'drop'").await {
        assert_eq!(outcome, (200, values(&["bob", "1"])));
    }
}

#[tokio::test]
async fn a_request_with_an_underscore_in_the_name_of_a_field_is_refused() {
    for outcome in all("underscores = 'refuse'").await {
        assert_eq!(outcome, (400, values(&[])));
    }
}
