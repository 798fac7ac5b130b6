//! `evenkeel cache` and the paths of the API below `/v1/cache`.

mod disk;
mod traffic;
mod upgrade;

use crate::support::{Endpoint, Folder, Running, address, ask, ends, evenkeel, get, text};
use serde_json::Value;

struct Setup {
    folder: Folder,
    file: String,
    listen: String,
    admin: String,
    running: Running,
    endpoint: String,
    route: String,
}

impl Setup {
    fn new(name: &str, endpoint: &Endpoint, route: &str) -> Setup {
        Setup::before(name, &endpoint.addr, route)
    }

    fn before(name: &str, endpoint: &str, route: &str) -> Setup {
        let (folder, listen, admin) = (Folder::new(name), address(), address());
        folder.file("token", "a-token-that-may-write\n");
        let file = write(&folder, &listen, &admin, endpoint, route, "random");
        let running = Running::start(&["run", "-c", &file]);
        Setup { folder, file, listen, admin, running, endpoint: endpoint.into(), route: route.into() }
    }

    /// Writes the file anew, with another algorithm.
    fn write(&self, balance: &str) {
        write(&self.folder, &self.listen, &self.admin, &self.endpoint, &self.route, balance);
    }

    fn command(&self, words: &[&str]) -> String {
        ends(&[words, &["-c", &self.file]].concat(), 0, &[])
    }
}

fn write(folder: &Folder, listen: &str, admin: &str, endpoint: &str, route: &str, balance: &str) -> String {
    let toml = format!(
        "[admin]\nbind = 'unix:{}'\nhttp = {{ bind = '{admin}', write_token = '{}' }}\n\
         [listener.web]\nbind = ['{listen}']\n[pool.shop]\nendpoints = ['{endpoint}']\nbalance = '{balance}'\n\
         [[route]]\nname = 'shop'\npool = 'shop'\n{route}\n",
        folder.0.join("admin.sock").display(),
        folder.0.join("token").display(),
    );
    folder.file("evenkeel.toml", &toml)
}

#[test]
fn what_is_stored_is_shown_and_purged() {
    let endpoint = Endpoint::start("one");
    let setup = Setup::new("caching", &endpoint, "cache = { ttl = { 200 = '1m' } }");
    for _ in 0..3 {
        assert_eq!(get(&setup.listen, "/a").expect("an answer").0, 200);
    }
    let url = "http://test/a".to_owned();
    let said = setup.command(&["cache"]);
    assert!(said.contains("1 response under 1 key") && said.contains("shop   67%        "), "{said}");
    let said = setup.command(&["cache", "top", "--by", "size", "-n", "3"]);
    assert!(said.contains(&url), "{said}");
    let said = setup.command(&["cache", "show", &url]);
    assert!(said.contains("lifetime") && said.contains("1m00s by ttl of the route, by status"), "{said}");
    assert_eq!(setup.command(&["cache", "show", &format!("{url}b")]), format!("nothing is stored for {url}b\n"));
    let said = setup.command(&["cache", "purge", "--url", &url]);
    assert!(said.starts_with(&format!("url {url}: 1 response removed, ")), "{said}");
    assert!(setup.command(&["events"]).contains(&format!("purge of the cache: url {url} (uid ")));
    assert_eq!(get(&setup.listen, "/a").expect("an answer").0, 200);
    let json = setup.command(&["cache", "purge", "--prefix", &url, "--soft", "--json"]);
    let done: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&done["objects"], &done["soft"]), (&1.into(), &true.into()));
    assert!(setup.command(&["cache", "purge", "--all"]).starts_with("everything: 1 response removed, "));
    let cache: Value = serde_json::from_str(&setup.command(&["cache", "--json"])).expect("JSON");
    assert_eq!((&cache["objects"], &cache["purged"], &cache["made_stale"]), (&0.into(), &2.into(), &1.into()));
    assert_eq!((&cache["routes"][0]["hit"], &cache["routes"][0]["stored"]), (&2.into(), &2.into()));
    for (words, code, said) in [
        (&["cache", "purge"][..], 2, "--url <URL>"),
        (&["cache", "purge", "--all", "--tag", "a"], 2, "cannot be used with"),
        (&["cache", "purge", "--url", "/a"], 1, "\"/a\" is not a whole URL"),
        (&["cache", "top", "-n", "0"], 2, "1..=1000"),
    ] {
        let wrong = evenkeel(&[words, &["-c", &setup.file]].concat());
        let why = text(&wrong.stderr);
        assert!(wrong.status.code() == Some(code) && why.contains(said), "{words:?}: {why}");
    }
}

#[test]
fn over_tcp_only_callers_with_the_token_purge() {
    let endpoint = Endpoint::start("one");
    let setup = Setup::new("caching-tcp", &endpoint, "cache = true");
    let asked = |method: &str, path: &str, fields: &str, body: &str| {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{fields}", setup.admin);
        ask(&setup.admin, &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).expect("an answer")
    };
    let (json, token) = ("Content-Type: application/json\r\n", "Authorization: Bearer a-token-that-may-write\r\n");
    let all = r#"{"all":true}"#;
    for (fields, body, want) in [
        (json.to_owned(), all, "403"),
        (format!("{token}Content-Type: text/plain\r\n"), all, "415"),
        (format!("{json}{token}Origin: http://evil.example\r\n"), all, "403"),
        (format!("{json}{token}"), "{}", "400"),
        (format!("{json}{token}"), r#"{"all":true,"tag":"a"}"#, "400"),
        (format!("{json}{token}"), r#"{"every":true}"#, "400"),
        (format!("{json}{token}"), all, "200"),
    ] {
        let answer = asked("POST", "/v1/cache/purge", &fields, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {want} ")), "{fields}{body}: {answer}");
    }
    for (path, want) in [
        ("/v1/cache", "200"),
        ("/v1/cache/top", "200"),
        ("/v1/cache/top?by=size&n=1000", "200"),
        ("/v1/cache/top?n=1001", "400"),
        ("/v1/cache/top?by=age", "400"),
        ("/v1/cache/show?url=http:%2F%2Fa%2F", "200"),
        ("/v1/cache/show?url=%2Fa", "400"),
        ("/v1/cache/show", "400"),
        ("/ui/cache?url=http:%2F%2Fa%2F", "200"),
    ] {
        let answer = asked("GET", path, "", "");
        assert!(answer.starts_with(&format!("HTTP/1.1 {want} ")), "{path}: {answer}");
    }
    assert!(!asked("GET", "/ui/cache", "", "").contains("data-purge"), "without the token there is no form");
    assert!(asked("GET", "/ui/cache", token, "").contains("data-purge=\"/v1/cache/purge\""));
}

#[test]
fn without_a_cache_everything_says_so() {
    let endpoint = Endpoint::start("one");
    let setup = Setup::new("caching-none", &endpoint, "");
    let url = "http://a/";
    for words in [&["cache"][..], &["cache", "top"], &["cache", "show", url], &["cache", "purge", "--all"]] {
        let wrong = evenkeel(&[words, &["-c", &setup.file]].concat());
        let why = text(&wrong.stderr);
        assert!(wrong.status.code() == Some(1) && why.contains("no route has a cache"), "{words:?}: {why}");
    }
    let page = get(&setup.admin, "/ui/cache").expect("an answer").1;
    assert!(page.contains("No route has a cache"), "{page}");
}
