//! Fields of a 2xx answer of `forward_auth` for the client, and answers of this proxy to gRPC calls.

use crate::filters::echo::{CLIENTS, ask, fields, secure};
use crate::filters::field;
use crate::support::endpoint::ok;
use crate::support::h2_client::H2Client;
use crate::support::{Endpoint, Proxy};

/// A service that renews the session of each request but one for `/none`.
fn service() -> Endpoint {
    Endpoint::answering(|request| {
        let lines = match request.field("x-forwarded-uri") {
            Some("/none") => "",
            _ => "Set-Cookie: s=1\r\nSet-Cookie: t=2\r\nX-Renewed: service\r\nX-Other: 1\r\n",
        };
        format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{lines}\r\n").into_bytes()
    })
}

fn endpoint() -> Endpoint {
    Endpoint::answering(|request| {
        let lines = match request.line().contains("/cached") {
            // Behind a service, only what says `public` is stored.
            true => "Cache-Control: public, max-age=60\r\nETag: \"a\"\r\n",
            false => "Set-Cookie: e=0\r\n",
        };
        format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Renewed: endpoint\r\n{lines}\r\nhi").into_bytes()
    })
}

fn proxy(endpoint: &Endpoint, service: &Endpoint) -> Proxy {
    let routes = format!(
        "[[route]]\npool = 'web'\ncache = true\n\
         forward_auth = {{ pool = 'auth', client_headers = ['Set-Cookie', 'X-Renewed'] }}\n\
         [pool.auth]\nendpoints = ['{}']\n{}",
        service.addr,
        secure("")
    );
    Proxy::with(&[endpoint.addr], "h2c = true", "", &routes)
}

#[tokio::test]
async fn the_client_gets_fields_of_the_service_with_any_response() {
    let (endpoint, service) = (endpoint(), service());
    let proxy = proxy(&endpoint, &service);
    for client in CLIENTS {
        let answer = ask(client, &proxy, "/", &[]).await;
        assert_eq!(fields(&answer, "set-cookie"), ["e=0", "s=1", "t=2"], "{client}");
        assert_eq!((fields(&answer, "x-renewed"), field(&answer, "x-other")), (vec!["service"], None), "{client}");
        let answer = ask(client, &proxy, "/none", &[]).await;
        assert_eq!((fields(&answer, "set-cookie"), fields(&answer, "x-renewed")), (vec!["e=0"], vec!["endpoint"]));
        for (tag, status) in [(&[][..], 200), (&[], 200), (&[("if-none-match", "\"a\"")], 304)] {
            let answer = ask(client, &proxy, "/cached", tag).await;
            assert_eq!((answer.0, fields(&answer, "set-cookie")), (status, vec!["s=1", "t=2"]), "{client}: {tag:?}");
            assert_eq!(fields(&answer, "x-renewed"), ["service"], "{client}: {tag:?}");
        }
    }
    let cached = endpoint.seen().iter().filter(|request| request.line().contains("/cached")).count();
    // The scheme is part of a key.
    assert_eq!(cached, 2, "the others were stored responses, without the cookies of another client");
}

#[test]
fn answers_of_this_side_end_calls_with_a_status_of_grpc() {
    let web = Endpoint::answering(|_| ok("page"));
    let service = Endpoint::answering(|request| match request.field("x-forwarded-uri") {
        Some("/auth/grpc") => {
            b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/grpc\r\nGrpc-Status: 7\r\nContent-Length: 0\r\n\r\n"
                .to_vec()
        }
        _ => b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 5\r\n\r\nlogin".to_vec(),
    });
    let users = std::env::temp_dir().join(format!("evenkeel-users-{}", web.addr.port()));
    std::fs::write(&users, "ann:$2y$04$bUeub1GoVcOIVEXKSXSHeO4dSoQQKHyFfJbSGubQcLL8CBIY8PQ5G\n").expect("a file");
    let routes = format!(
        "[[route]]\nmatch = {{ prefix = '/auth' }}\npool = 'web'\nforward_auth = {{ pool = 'auth' }}\n\
         [[route]]\nmatch = {{ prefix = '/basic' }}\npool = 'web'\nbasic_auth = {{ file = '{}' }}\n\
         [[route]]\nmatch = {{ prefix = '/respond' }}\nrespond = {{ status = 403, body = 'no' }}\n\
         [[route]]\nmatch = {{ prefix = '/fine' }}\nrespond = {{ status = 200, body = 'yes' }}\n\
         [[route]]\nmatch = {{ prefix = '/redirect' }}\nredirect = {{ host = 'b' }}\n\
         [[route]]\npool = 'web'\n[pool.auth]\nendpoints = ['{}']\n",
        users.display(),
        service.addr
    );
    let proxy = Proxy::with(&[web.addr], "h2c = true", "", &routes);
    let mut client = H2Client::connect(proxy.addr());
    for (n, (path, status, schemes)) in [
        ("/auth/x", "16", Some("Bearer")),
        ("/auth/grpc", "7", None),
        ("/basic", "16", Some("Basic realm=\"Restricted\"")),
        ("/respond", "7", None),
        ("/fine", "2", None),
        ("/redirect", "2", None),
    ]
    .into_iter()
    .enumerate()
    {
        let stream = 2 * n as u32 + 1;
        let head = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "a")];
        client.head(stream, &[&head[..], &[("content-type", "application/grpc")]].concat(), true);
        let answer = client.answer(stream);
        assert_eq!(answer.field("grpc-status").as_deref(), Some(status), "{path}: {}", answer.shown());
        assert_eq!(answer.field("content-type").as_deref(), Some("application/grpc"), "{path}");
        let got = answer.field("www-authenticate");
        assert_eq!(got.is_some(), schemes.is_some(), "{path}: {got:?}");
        assert!(schemes.is_none_or(|scheme| got.as_deref().is_some_and(|got| got.starts_with(&scheme[..5]))), "{path}");
    }
    std::fs::remove_file(users).expect("it is there");
}
