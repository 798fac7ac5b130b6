//! Only the client that a trusted proxy names is believed.

use super::*;
use evenkeel_wire::http1::{Limits, Request, Room};

/// Reads `fields` as sent by 10.0.0.1, with 10.0.0.0/8 and fd00::/8 trusted. Returns the client, `X-Forwarded-For`,
/// `Forwarded`, scheme, host and the number of malformed values.
fn believed(fields: &str) -> (String, String, Option<String>, Option<String>, Option<String>, u64) {
    let head = format!("GET / HTTP/1.1\r\nHost: h:80\r\n{fields}\r\n");
    let mut room = Room::new();
    let request =
        Request::read(head.as_bytes(), &mut room, &Limits::default()).expect("a good head").expect("a whole one");
    let network = |ip: &str, prefix| Cidr::around(ip.parse().expect(ip), prefix).expect("it fits");
    let trusted = [network("10.0.0.0", 8), network("fd00::", 8)];
    let origin = believe(&request, &trusted, "10.0.0.1".parse().expect("an address"), "http");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let owned = |text: &str| text.to_string();
    (
        origin.client.to_string(),
        origin.list,
        origin.forwarded.map(text),
        origin.scheme.map(owned),
        origin.host.map(|host| text(host.to_vec())),
        origin.malformed,
    )
}

#[track_caller]
fn list(value: &str, client: &str, goes_on: &str, malformed: u64) {
    let got = believed(&format!("X-Forwarded-For: {value}\r\n"));
    assert_eq!((&*got.0, &*got.1, got.5), (client, goes_on, malformed), "{value:?}");
    assert_eq!(got.2, None);
}

#[test]
fn the_client_is_the_first_from_the_right_that_is_not_trusted() {
    list("192.0.2.1", "192.0.2.1", "192.0.2.1, 10.0.0.1", 0);
    list("198.51.100.9, 192.0.2.1", "192.0.2.1", "198.51.100.9, 192.0.2.1, 10.0.0.1", 0);
    list("198.51.100.9,192.0.2.1 ,  10.9.9.9", "192.0.2.1", "198.51.100.9, 192.0.2.1, 10.9.9.9, 10.0.0.1", 0);
    list("192.0.2.1, fd00::7", "192.0.2.1", "192.0.2.1, fd00::7, 10.0.0.1", 0);
    list("10.7.7.7, 10.9.9.9", "10.7.7.7", "10.7.7.7, 10.9.9.9, 10.0.0.1", 0);
    list("192.0.2.1\r\nX-Forwarded-For: 10.9.9.9", "192.0.2.1", "192.0.2.1, 10.9.9.9, 10.0.0.1", 0);
    list("::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1, 10.0.0.1", 0);
    list("192.0.2.1:4711, [2001:db8::1]:80", "2001:db8::1", "192.0.2.1, 2001:db8::1, 10.0.0.1", 0);
    list("", "10.0.0.1", "10.0.0.1", 0);
    assert_eq!(believed("").0, "10.0.0.1");
}

#[test]
fn zones_of_addresses_are_left_out() {
    list("fe80::1%eth0", "fe80::1", "fe80::1, 10.0.0.1", 0);
    list("192.0.2.1, fe80::1%25eth0.100, fd00::7%2", "fe80::1", "192.0.2.1, fe80::1, fd00::7, 10.0.0.1", 0);
    list("[fe80::1%eth0]:443", "fe80::1", "fe80::1, 10.0.0.1", 0);
    list("[fe80::1%eth0]", "fe80::1", "fe80::1, 10.0.0.1", 0);
    for junk in
        ["fe80::1%", "192.0.2.1%eth0", "fe80::1%eth 0", "%eth0", "[fe80::1%]:443", "fe80::1%a]b", "fe80::1%\u{e9}"]
    {
        list(junk, "10.0.0.1", "10.0.0.1", 1);
    }
    let ours = ", for=10.0.0.1;proto=http;host=\"h:80\"";
    let goes_on = |value: &str, without: &str| {
        forwarded(value, "fe80::1", Some(&format!("{without}{ours}")), (None, None));
    };
    goes_on("for=\"[fe80::1%25eth0]:80\"", "for=\"[fe80::1]:80\"");
    goes_on("For=\"[fe80::1%eth0]\" ; By=\"[fe80::2%eth1]\"", "For=\"[fe80::1]\";By=\"[fe80::2]\"");
    goes_on("for=[fe80::1%eth0],for=10.9.9.9", "for=[fe80::1], for=10.9.9.9");
    goes_on("for=fe80::1%eth0;ext=\"a:b%c\"", "for=fe80::1;ext=\"a:b%c\"");
    // Text outside of a zone stays.
    goes_on("for=fe80::1;ext=a%b", "for=fe80::1;ext=a%b");
}

#[test]
fn what_comes_before_something_malformed_is_dropped() {
    list("192.0.2.1, junk, 10.9.9.9", "10.9.9.9", "10.9.9.9, 10.0.0.1", 1);
    list("junk, 192.0.2.1", "192.0.2.1", "192.0.2.1, 10.0.0.1", 1);
    list("192.0.2.1, junk", "10.0.0.1", "10.0.0.1", 1);
    list("unknown", "10.0.0.1", "10.0.0.1", 1);
    list("192.0.2.1, 1.2.3.4.5, 300.1.1.1", "10.0.0.1", "10.0.0.1", 1);
}

#[track_caller]
fn forwarded(value: &str, client: &str, goes_on: Option<&str>, said: (Option<&str>, Option<&str>)) {
    let got = believed(&format!("Forwarded: {value}\r\n"));
    assert_eq!((&*got.0, got.2.as_deref()), (client, goes_on), "{value:?}");
    assert_eq!((got.3.as_deref(), got.4.as_deref()), said, "{value:?}");
    assert_eq!(got.5, u64::from(goes_on.is_none()));
}

#[test]
fn forwarded_is_read_like_the_list_and_extended_with_our_element() {
    let ours = ", for=10.0.0.1;proto=http;host=\"h:80\"";
    let plain = "for=192.0.2.1;proto=https;host=example.com";
    forwarded(plain, "192.0.2.1", Some(&format!("{plain}{ours}")), (Some("https"), Some("example.com")));
    let two = "For=\"[2001:db8::1]:47\"; Proto=HTTPS ;by=_x, for=10.9.9.9;proto=http";
    forwarded(two, "2001:db8::1", Some(&format!("{two}{ours}")), (Some("https"), None));
    let spoofed = "for=198.51.100.9;proto=https, for=192.0.2.1;proto=http";
    forwarded(spoofed, "192.0.2.1", Some(&format!("{spoofed}{ours}")), (Some("http"), None));
    let hidden = "for=_hidden;by=\"a,b;c\", for=10.9.9.9;ext=\"q\"";
    forwarded(hidden, "10.9.9.9", Some(&format!("{hidden}{ours}")), (None, None));
    forwarded("for=unknown", "10.0.0.1", Some(&format!("for=unknown{ours}")), (None, None));
    for malformed in
        ["for", "for=", "for=a;for=b", "for=1.2.3.4,", "for=\"1.2.3.4", "for=a b", "=x", "host=\"a/b\"", "for=\"a\\b\""]
    {
        forwarded(malformed, "10.0.0.1", None, (None, None));
    }
    assert_eq!(believed("Forwarded: for=192.0.2.1, for=10.9.9.9\r\n").1, "192.0.2.1, 10.9.9.9, 10.0.0.1");
}

/// A proxy that writes only one of the two fields forwards the client's own value of the other.
#[test]
fn of_two_fields_that_disagree_the_list_counts() {
    let got = believed("X-Forwarded-For: 192.0.2.1\r\nForwarded: for=198.51.100.9;proto=https\r\n");
    assert_eq!((&*got.0, got.2, got.3, got.5), ("192.0.2.1", None, None, 1));
    let got = believed("X-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.1;proto=https\r\n");
    assert_eq!((&*got.0, got.2.is_some(), got.3.as_deref(), got.5), ("192.0.2.1", true, Some("https"), 0));
}

#[test]
fn scheme_and_host_are_kept_if_they_make_sense() {
    let said = |fields: &str| {
        let got = believed(fields);
        (got.3, got.4, got.5)
    };
    let some = |text: &str| Some(text.to_string());
    assert_eq!(
        said("X-Forwarded-Proto: HTTPS\r\nX-Forwarded-Host: example.com:8443\r\n"),
        (some("https"), some("example.com:8443"), 0)
    );
    assert_eq!(said("X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: a/b\r\n"), (None, None, 2));
    assert_eq!(said("X-Forwarded-Proto: https\r\nX-Forwarded-Proto: https\r\n"), (None, None, 1));
    assert_eq!(said("X-Forwarded-Proto: https, http\r\n"), (None, None, 1));
}
