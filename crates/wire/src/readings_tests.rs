//! Every server's reading of a path is among its readings, and most paths have one.

use super::*;
use proptest::prelude::*;

/// All readings of a path; `None` if there are too many.
fn all(path: &str) -> Option<Vec<String>> {
    let (mut readings, mut all) = (Readings::of(path), Vec::new());
    while let Some(reading) = readings.read_next().ok()? {
        all.push(String::from_utf8_lossy(reading).into_owned());
    }
    Some(all)
}

#[test]
fn usual_paths_have_a_single_reading() {
    for path in ["/", "/a", "/a/b.html", "/a.b/c", "*", "/a%20b", "/caf%C3%A9", "/a~b", "/a:b@c,d=e+f"] {
        assert!(!has_several(path), "{path}");
        assert_eq!(all(path), Some(vec![path.to_owned()]), "{path}");
    }
    // A second look shows that these have a single reading, too.
    for path in ["/.well-known/x", "/..a", "/a/...", "/%", "/100%", "/%zz"] {
        assert_eq!(all(path), Some(vec![path.to_owned()]), "{path}");
    }
}

#[test]
fn each_known_spelling_has_the_reading_of_the_path_that_it_hides() {
    for path in [
        "//admin",
        "///admin",
        "/./admin",
        "/x/../admin",
        "/x//../admin",
        "/%61dmin",
        "/%2561dmin",
        "/%252561dmin",
        "/x/..%2fadmin",
        "/x/%2e%2e/admin",
        "/x/%252e%252e%252fadmin",
        "/%2fadmin",
        "/%2Fadmin",
        "/admin;a",
        "/admin;a=b/",
        "/admin%3ba",
        "/;a/admin",
        "/x/..;/admin",
        "/x/..;a=b/admin",
        "/admin%2f",
        "/admin%2f..%2fadmin",
        "/\\admin",
        "/%5cadmin",
        "/x\\..\\admin",
        "/x%5c..%5cadmin",
        "/x/..%5cadmin",
        "/admin%00.png",
        "/admin%3fx",
        "/admin%23x",
        "/admin;%2f..%2f..%2fx",
        "//host/admin",
        "/\\host/admin",
    ] {
        assert!(has_several(path), "{path}");
        let all = all(path).unwrap_or_else(|| panic!("{path} has too many"));
        assert_eq!(all[0], path, "the first reading is the path as sent");
        assert!(all.iter().any(|reading| reading.trim_end_matches('/') == "/admin"), "{path}: {all:?}");
    }
}

#[test]
fn the_normal_form_is_that_of_rfc_3986_with_slashes_merged() {
    for (path, normal) in [
        ("/", "/"),
        ("*", ""),
        ("/a/./b/../c", "/a/c"),
        ("/a/.", "/a/"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/../../a", "/a"),
        ("//a///b//", "/a/b/"),
        ("/x//../a", "/a"),
        ("/%7euser/%41%2d", "/~user/A-"),
        ("/a%2fb%c3%a9", "/a%2Fb%C3%A9"),
        ("/%2e%2e/a/%2E", "/a/"),
        ("/%2561", "/%2561"),
        ("/a;v=1/b", "/a;v=1/b"),
        ("/%", "/%"),
        // No escape comes of the characters around it.
        ("/%%44b", "/%%44b"),
        ("/%4%31/%61", "/%4%31/a"),
        ("/x/%%32e%%32E/a", "/x/%%32e%%32E/a"),
    ] {
        assert_eq!(normalised(path), normal, "{path}");
        assert_eq!(normalised(&normalised(path)), normal, "{path}: a normal form is its own");
    }
}

#[test]
fn a_path_made_to_have_many_readings_has_too_many_at_a_bounded_cost() {
    let long = "/%252f;a%255c..//./%2500x".repeat(300);
    let mut readings = Readings::of(&long);
    while let Ok(Some(_)) = readings.read_next() {}
    assert!(all(&long).is_none());
    assert!(readings.bytes.len() <= readings.bytes_max + 3 * long.len());
    // A long path of a usual client has not.
    assert_eq!(all(&format!("/a%2Fb{}", "/c%20d".repeat(1000))).expect("few").len(), 2);
    assert_eq!(all(&format!("/b//{}", "key".repeat(3000))).expect("few").len(), 2);
}

/// Bytes as the text that readings have for them.
fn text(decoded: &[u8]) -> String {
    let one = |byte: &u8| if stays(*byte) { format!("%{byte:02X}") } else { char::from(*byte).to_string() };
    decoded.iter().map(one).collect()
}

fn hex(bytes: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(bytes.get(..2)?).ok()?, 16).ok().filter(|_| bytes[0] != b'+')
}

fn decode_all(path: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < path.len() {
        let byte = if path[at] == b'%' { hex(&path[at + 1..]) } else { None };
        out.push(byte.unwrap_or(path[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    out
}

/// A path of segments without empty ones, `.` and `..`.
fn clean(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in path.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_folder = matches!(path.rsplit(|byte| *byte == b'/').next(), Some(b"" | b"." | b".."));
    let joined = segments.join(&b"/"[..]);
    let end: &[u8] = if is_folder && !segments.is_empty() { b"/" } else { b"" };
    [b"/", &joined[..], end].concat()
}

/// Readers as servers have them, written without the steps that they are compared with.
fn readers(path: &str) -> Vec<(&'static str, String)> {
    let raw = path.as_bytes();
    let decoded = decode_all(raw);
    let swapped = |path: &[u8]| path.iter().map(|b| if *b == b'\\' { b'/' } else { *b }).collect::<Vec<u8>>();
    let segments = raw.split(|byte| *byte == b'/');
    let bare = segments.map(|segment| segment.split(|byte| *byte == b';').next().unwrap_or_default());
    let bare = bare.collect::<Vec<_>>().join(&b"/"[..]);
    let until_nul = |path: &[u8]| path.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    vec![
        ("NGINX", text(&clean(&decoded))),
        ("Tomcat", text(&clean(&swapped(&decode_all(&bare))))),
        ("Express", path.to_owned()),
        ("Express behind url.parse", String::from_utf8(swapped(raw)).expect("ASCII")),
        ("Go's URL.Path", text(&decoded)),
        ("Go's ServeMux", text(&clean(&decoded))),
        ("PHP", text(&until_nul(&decoded))),
        ("Node's URL", text(&decode_all(&of_url(raw)))),
        ("an application behind NGINX that decodes again", text(&clean(&decode_all(&clean(&decoded))))),
    ]
}

/// The path of a target that is parsed as a reference, without dots resolved.
fn of_url(target: &[u8]) -> Vec<u8> {
    match target {
        [b'/', b'/', host @ ..] => {
            let end = host.iter().position(|byte| *byte == b'/');
            end.map_or(b"/".to_vec(), |end| host[end..].to_vec())
        }
        target => target.to_vec(),
    }
}

fn paths() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "/", "//", "a", "admin", ".", "..", "%2e", "%2E", "%2f", "%2F", "%5c", "\\", ";", ";a=1", "%3b", "%25",
        "%252f", "%61", "%2561", "%00", "%3f", "%20", "%c3", "%", "%2", "x",
    ]);
    prop::collection::vec(part, 0..8).prop_map(|parts| format!("/{}", parts.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn what_a_server_reads_is_a_reading(path in paths()) {
        let Some(all) = all(&path) else { return Ok(()) };
        prop_assert!(has_several(&path) || all.len() == 1, "{path}: {all:?}");
        prop_assert!(all.len() <= READINGS_MAX && all.contains(&normalised(&path)));
        for (reader, reading) in readers(&path) {
            prop_assert!(all.contains(&reading), "{reader} reads {path} as {reading}: {all:?}");
        }
    }

    #[test]
    fn steps_in_any_order_make_readings(path in paths(), steps in prop::collection::vec(0..=STEPS.len(), 0..6)) {
        let Some(all) = all(&path) else { return Ok(()) };
        let (mut reading, mut decodings) = (path.clone().into_bytes(), 0);
        for step in steps {
            let mut made = Vec::new();
            match STEPS.get(step) {
                Some((_, step)) => step(&reading, &mut made),
                None if decodings == DECODED_MAX => continue,
                None => decode(&reading, &mut made),
            }
            decodings += u8::from(step == STEPS.len());
            reading = made;
        }
        let reading = String::from_utf8(reading).expect("ASCII");
        prop_assert!(all.contains(&reading), "{path}: {reading} {all:?}");
    }

    #[test]
    fn a_sole_other_reading_is_the_only_one(path in "/(a|b|/|%6[12Ff]|%2[Ee]|%7e|%[cC]3|%2f|%4){0,5}") {
        if let Some(other) = sole_other(&path) {
            let other = String::from_utf8(other).expect("ASCII");
            let mut all = all(&path).expect("two are not too many");
            prop_assert!(all.contains(&other), "{} {:?}", other, all);
            all.retain(|reading| *reading != path && *reading != other);
            prop_assert!(all.is_empty(), "{} {:?}", other, all);
        }
    }

    #[test]
    fn the_quick_look_sees_every_feature(path in paths(), before in 0..40usize, behind in 0..40usize) {
        let path = format!("/{}{path}{}", "a".repeat(before), "b".repeat(behind));
        prop_assert_eq!(has_features(path.as_bytes()), features(path.as_bytes()) != 0, "{}", path);
    }

    #[test]
    fn any_text_is_read_without_panic(path in "\\PC*") {
        let _ = (has_several(&path), normalised(&path), all(&path));
    }
}
