//! Messages between HTTP/2 clients and HTTP/1 endpoints, as the other side reads them.

use super::{before, client};
use crate::support::endpoint::{ok, status};
use crate::support::h2_client::{DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PADDED, block, get};
use crate::support::{Endpoint, Proxy, noise, text, wait_until};

#[test]
fn a_get_arrives_as_http_1_would_send_it_and_its_answer_comes_back() {
    let endpoint =
        Endpoint::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Mixed-Case: Yes\r\n\r\nhello".to_vec());
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let fields =
        [&get("/a?b=c")[..], &[("user-agent", "test"), ("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers")]]
            .concat();
    client.head(1, &fields, true);
    let answer = client.answer(1);
    assert_eq!((answer.status(), answer.body_text().as_str()), (200, "hello"));
    assert_eq!(answer.field("x-mixed-case").as_deref(), Some("Yes"));
    assert_eq!(answer.field("content-length").as_deref(), Some("5"));
    let seen = endpoint.seen();
    assert_eq!(seen[0].line(), "GET /a?b=c HTTP/1.1");
    assert_eq!(seen[0].field("host"), Some("a"));
    assert_eq!(seen[0].field("cookie"), Some("a=1; b=2"));
    assert_eq!(seen[0].field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(seen[0].field("transfer-encoding").or(seen[0].field("te")), None, "{}", seen[0].head);
    client.ends();
    wait_until("it is counted", || proxy.ended(200) == 1);
    assert_eq!(proxy.listener(|l| l.http2.connections.get()), 1);
    assert_eq!(proxy.listener(|l| l.http2.streams.get()), 1);
}

#[test]
fn http_1_is_served_at_the_same_port_and_without_h2c_a_preface_is_refused() {
    let endpoint = Endpoint::saying("hello");
    let proxy = before(&[endpoint.addr]);
    assert_eq!(proxy.client().get("/").status(), 200);
    let without = super::Proxy::before(&[endpoint.addr]);
    let mut client = without.client();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(client.response().status(), 505);
}

#[test]
fn bodies_pass_both_ways_with_a_length_and_without() {
    let content = noise(100_000);
    let sent = content.clone();
    let endpoint = Endpoint::answering(move |request| {
        assert!(request.body == sent, "{} bytes", request.body.len());
        if request.field("content-length").is_some() {
            return [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len()).as_bytes(), &sent].concat();
        }
        let half = sent.len() / 2;
        [
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{half:x}\r\n").as_bytes(),
            &sent[..half],
            format!("\r\n{half:x}\r\n").as_bytes(),
            &sent[half..],
            b"\r\n0\r\n\r\n",
        ]
        .concat()
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let length = content.len().to_string();
    for (at, has_length) in [true, false, true].into_iter().enumerate() {
        let stream = 2 * at as u32 + 1;
        let mut fields = vec![(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
        fields.extend(has_length.then_some(("content-length", &*length)));
        client.head(stream, &fields, false);
        // As the windows allow.
        let (mut window, mut left) = (65535, &content[..]);
        while !left.is_empty() {
            let n = left.len().min(16384).min(window);
            if n == 0 {
                let update = client.next(crate::support::h2_client::WINDOW_UPDATE).expect("it goes on");
                if update.stream == stream {
                    window += u32::from_be_bytes(update.payload.try_into().expect("4 bytes")) as usize;
                }
                continue;
            }
            client.send(&Frame::new(DATA, if n == left.len() { END_STREAM } else { 0 }, stream, &left[..n]));
            (window, left) = (window - n, &left[n..]);
        }
        let answer = client.answer(stream);
        assert_eq!(answer.status(), 200);
        assert!(answer.body == content);
        let (line, want) = if has_length { ("content-length", &*length) } else { ("transfer-encoding", "chunked") };
        assert_eq!(endpoint.seen()[at].field(line), Some(want));
    }
}

#[test]
fn trailers_pass_both_ways() {
    let endpoint = Endpoint::answering(|request| {
        assert!(text(&request.wire).ends_with("0\nx-sum: 7\n\n"), "{}", text(&request.wire));
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-After\r\n\r\n2\r\nhi\r\n0\r\nX-After: yes\r\n\r\n"
            .to_vec()
    });
    let kept = "[defaults.route]\nrequest_trailers = ['X-Sum']";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", kept);
    let mut client = client(&proxy);
    client.head(1, &[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")], false);
    client.send(&Frame::new(DATA, 0, 1, "body"));
    client.send(&Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, block(&[("x-sum", "7"), ("x-other", "1")])));
    let answer = client.answer(1);
    assert_eq!((answer.status(), answer.body_text().as_str()), (200, "hi"));
    assert_eq!(answer.heads.last().expect("trailers"), &[("x-after".to_string(), "yes".to_string())]);
}

#[test]
fn answers_without_a_body_end_with_their_head() {
    let endpoint = Endpoint::answering(|request| match request.line().split(' ').nth(1) {
        Some("/204") => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        Some("/304") => b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n".to_vec(),
        Some("/empty") => ok(""),
        _ => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n".to_vec(),
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    for (at, (method, path, want)) in
        [("GET", "/204", 204), ("GET", "/304", 304), ("HEAD", "/", 200), ("GET", "/empty", 200)].into_iter().enumerate()
    {
        let stream = 2 * at as u32 + 1;
        client.head(stream, &[(":method", method), (":scheme", "http"), (":path", path), (":authority", "a")], true);
        let head = client.next(HEADERS).expect("a head");
        assert_eq!((head.stream, head.flags & END_STREAM), (stream, END_STREAM), "{method} {path}: {want}");
    }
    wait_until("all are counted", || proxy.ended(200) == 2 && proxy.ended(204) == 1 && proxy.ended(304) == 1);
    assert_eq!(endpoint.accepted(), 1, "the endpoint's connection is kept");
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let endpoint = Endpoint::start(|conn| {
        let head = conn.head();
        assert!(head.contains("Expect: 100-continue\r\n"), "{head}");
        conn.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(conn.bytes(4), b"body");
        conn.send(ok("done"));
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a"),
        ("content-length", "4"),
        ("expect", "100-continue"),
    ];
    client.head(1, &fields, false);
    let hints = client.next(HEADERS).expect("103");
    assert_eq!(hints.flags & END_STREAM, 0);
    client.next(HEADERS).expect("100");
    client.send(&Frame::new(DATA, END_STREAM, 1, "body"));
    assert_eq!(client.answer(1).body_text(), "done");
}

#[test]
fn an_answer_before_the_request_is_whole_ends_the_request_without_an_error() {
    let endpoint = Endpoint::start(|conn| {
        conn.head();
        conn.send(status("403 Forbidden", "no"));
        conn.rest();
    });
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    client.head(1, &[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")], false);
    client.send(&Frame::new(DATA, 0, 1, "part"));
    let mut frames = Vec::new();
    while frames.last().is_none_or(|f: &Frame| f.kind != crate::support::h2_client::RST_STREAM) {
        frames.push(client.frame().expect("it goes on"));
    }
    assert_eq!(frames.last().expect("there is one").code(), 0);
    assert!(frames.iter().any(|f| f.kind == DATA && f.flags & END_STREAM != 0), "the answer is whole: {frames:?}");
    // The connection stays open.
    client.get(3, "/");
    assert_eq!(client.answer(3).status(), 403);
}

#[test]
fn padding_is_not_content() {
    let endpoint = Endpoint::answering(|request| ok(&request.body_text()));
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let fields =
        [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("content-length", "2")];
    let mut head = vec![3];
    head.extend(block(&fields));
    head.extend([0; 3]);
    client.send(&Frame::new(HEADERS, END_HEADERS | PADDED, 1, head));
    client.send(&Frame::new(DATA, PADDED, 1, [&[4][..], b"h", &[0; 4]].concat()));
    client.send(&Frame::new(DATA, PADDED, 1, [0]));
    client.send(&Frame::new(DATA, PADDED | END_STREAM, 1, [&[0][..], b"i"].concat()));
    assert_eq!(client.answer(1).body_text(), "hi");
}

#[test]
fn many_requests_at_once_each_get_their_own_answer() {
    let endpoint = Endpoint::answering(|request| ok(request.line()));
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    for round in 0..3 {
        let streams: Vec<u32> = (0..100).map(|n| 200 * round + 2 * n + 1).collect();
        let all: Vec<u8> = streams
            .iter()
            .flat_map(|s| Frame::new(HEADERS, END_HEADERS | END_STREAM, *s, block(&get(&format!("/{s}")))).bytes())
            .collect();
        client.send_bytes(&all);
        for (stream, answer) in streams.iter().zip(client.answers(&streams)) {
            assert_eq!(answer.body_text(), format!("GET /{stream} HTTP/1.1"));
        }
    }
    client.ends();
    wait_until("all are counted", || proxy.ended(200) == 300);
}

#[test]
fn responses_of_the_proxy_itself_are_sent_as_http_2() {
    let endpoint = Endpoint::silent();
    let proxy = super::Proxy::with(
        &[endpoint.addr],
        "h2c = true",
        "limits = { requests_per_endpoint = 1 }\nqueue = { max = 0 }",
        "",
    );
    let mut client = client(&proxy);
    client.get(1, "/");
    wait_until("it is under way", || proxy.in_flight() == 1);
    client.get(3, "/");
    let answer = client.answer(3);
    assert_eq!(answer.status(), 503, "{answer:?}");
    assert_eq!(answer.field("content-length").map(|n| n.parse::<usize>()), Some(Ok(answer.body.len())));
}

#[test]
fn the_log_and_the_limits_are_those_of_every_request() {
    let log = crate::support::log::Log::new();
    let endpoint = Endpoint::answering(|_| ok("hello"));
    let listener = "h2c = true\nlimits = { requests_per_address = 0.001, burst_per_address = 2 }";
    let proxy = super::Proxy::with(&[endpoint.addr], listener, "", &log.config());
    let mut client = client(&proxy);
    for (stream, status) in [(1, 200), (3, 200), (5, 429)] {
        client.get(stream, "/x?y");
        let answer = client.answer(stream);
        assert_eq!(answer.status(), status);
        assert_eq!(answer.field("retry-after").is_some(), status == 429);
    }
    client.ends();
    let lines = log.lines(proxy);
    let said: Vec<_> = lines.iter().map(|line| (line["proto"].as_str(), line["status"].as_u64())).collect();
    assert_eq!(said, [(Some("HTTP/2"), Some(200)), (Some("HTTP/2"), Some(200)), (Some("HTTP/2"), Some(429))]);
    assert!(
        lines.iter().all(|line| line["bytes_in"].as_u64() > Some(0) && line["bytes_out"].as_u64() > Some(5)),
        "{lines:?}"
    );
}

/// Browsers send each cookie as a field of its own, and a site may set more cookies than a head may have fields.
#[test]
fn a_cookie_in_many_crumbs_passes_as_one_field() {
    let endpoint = Endpoint::answering(|_| ok("hello"));
    let proxy = before(&[endpoint.addr]);
    let mut client = client(&proxy);
    let crumbs: Vec<String> = (0..300).map(|n| format!("name{n}=value")).collect();
    let mut fields = get("/").to_vec();
    fields.extend(crumbs.iter().map(|crumb| ("cookie", &**crumb)));
    client.head(1, &fields, true);
    assert_eq!(client.answer(1).status(), 200);
    assert_eq!(endpoint.seen()[0].field("cookie"), Some(&*crumbs.join("; ")));
}

/// The reason for a refusal is logged, as with HTTP/1.1.
#[test]
fn what_is_refused_for_its_head_is_logged_and_counted() {
    let log = crate::support::log::Log::new();
    // This endpoint gets the start of the body that ends too early.
    let endpoint = Endpoint::start(|conn| drop(conn.rest()));
    let proxy = super::Proxy::with(&[endpoint.addr], "h2c = true\nlimits = { headers = \"16KiB\" }", "", &log.config());
    let mut client = client(&proxy);
    let many: Vec<String> = (0..101).map(|n| format!("x-{n}")).collect();
    let many: Vec<(&str, &str)> = get("/many").into_iter().chain(many.iter().map(|name| (&**name, "1"))).collect();
    client.head(1, &many, true);
    assert_eq!(client.answer(1).status(), 431);
    let large = "x".repeat(17_000);
    let fields = [&get("/large")[..], &[("x", &*large)]].concat();
    // In two frames, as it exceeds the frame size.
    let block = block(&fields);
    client.send(&Frame::new(HEADERS, END_STREAM, 3, &block[..16_000]));
    client.send(&Frame::new(crate::support::h2_client::CONTINUATION, END_HEADERS, 3, &block[16_000..]));
    assert_eq!(client.answer(3).status(), 431);
    client.head(5, &[&get("/reset")[..], &[("x-bad", "a\0b")]].concat(), true);
    assert_eq!(client.answer(5).reset, Some(1));
    client.head(7, &[&get("/length")[..], &[("content-length", "5")]].concat(), true);
    assert_eq!(client.answer(7).reset, Some(1));
    // A fault after the head.
    let post =
        [(":method", "POST"), (":scheme", "http"), (":path", "/body"), (":authority", "a"), ("content-length", "5")];
    client.head(9, &post, false);
    client.send(&Frame::new(DATA, END_STREAM, 9, "no"));
    assert_eq!(client.answer(9).reset, Some(1));
    client.ends();
    wait_until("all are counted", || proxy.listener(|l| l.malformed.get()) == 5);
    assert_eq!(proxy.ended(431), 2);
    let mut said: Vec<String> = log
        .lines(proxy)
        .iter()
        .map(|line| {
            let [proto, path, reason] = ["proto", "path", "reason"].map(|key| line[key].as_str().unwrap_or("none"));
            format!("{proto} {path} {} {reason}", line["status"])
        })
        .collect();
    said.sort();
    assert_eq!(
        said,
        [
            "HTTP/2 /body 0 the body length differs from Content-Length",
            "HTTP/2 /large 431 the head is over the size limit",
            "HTTP/2 /length 0 the body length differs from Content-Length",
            "HTTP/2 /many 431 the head has too many fields",
            "HTTP/2 /reset 0 a value has a control character (field \"x-bad\")",
        ]
    );
}

#[test]
fn blanks_around_values_are_dropped_as_http_1_drops_them() {
    let endpoint = Endpoint::answering(|request| {
        assert!(text(&request.wire).ends_with("x-sum: 7\n\n"), "{}", text(&request.wire));
        ok("hello")
    });
    let kept = "[defaults.route]\nrequest_trailers = ['X-Sum']";
    let proxy = Proxy::with(&[endpoint.addr], "h2c = true", "", kept);
    let mut client = client(&proxy);
    let head = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a"), ("x-a", " 1\t")];
    client.head(1, &head, false);
    client.send(&Frame::new(DATA, 0, 1, "body"));
    client.send(&Frame::new(HEADERS, END_HEADERS | END_STREAM, 1, block(&[("x-sum", "7 ")])));
    assert_eq!(client.answer(1).body_text(), "hello");
    assert_eq!(endpoint.seen()[0].field("x-a"), Some("1"));
}
