//! Whatever the path and the settings, no server finds more behind a route than the route that its reading chooses.

use super::super::route::{Refusal, Router};
use super::Choice;
use crate::peer::sender::Sender;
use evenkeel_config::Plan;
use evenkeel_config::plan::Scheme;
use evenkeel_wire::head::{Request, Table};
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn plan(listener: &str, routes: &str) -> Plan {
    let text = format!(
        "[listener.a]\nbind = ['127.0.0.1:1']\n{listener}\n[pool.p]\nendpoints = ['127.0.0.1:81']\n\
         [pool.q]\nendpoints = ['127.0.0.1:82']\n{routes}"
    );
    let outcome = evenkeel_config::parse_str("a.toml", &text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}

fn find(router: &Router, target: &str) -> Result<Choice, Refusal> {
    let mut none = Table::default();
    let request = Request { method: "GET", target, host: b"a", fields: none.fields() };
    router.find(&request, || Sender::new(Ipv4Addr::LOCALHOST.into(), Scheme::Http))
}

/// The route and the replaced path of a request, or "refused".
fn chosen(plan: &Plan, target: &str) -> String {
    match find(&Router::of_plan(plan)[0], target) {
        Ok(Choice { route, path }) => {
            let route = route.map_or("-", |id| &*plan.routes[id].name);
            path.map_or(route.to_owned(), |path| format!("{route} as {path}"))
        }
        Err(Refusal::Ambiguous(_)) => "refused".to_owned(),
        Err(refusal) => panic!("{target}: {refusal:?}"),
    }
}

const ROUTES: &str = "[[route]]\nname = 'open'\npool = 'p'\n\
    [[route]]\nname = 'admin'\npool = 'q'\nmatch = { prefix = '/admin' }\n";

/// Spellings of `/admin` that the route for it does not match as they are.
const SPELLINGS: [&str; 20] = [
    "//admin",
    "///admin/x",
    "/./admin",
    "/x/../admin",
    "/x//../admin",
    "/x/%2e%2e/admin",
    "/x/.%2E/admin",
    "/%61dmin",
    "/a%64min/x",
    "/%2561dmin",
    "/x/..%2fadmin",
    "/x/..%252fadmin",
    "/%2fadmin",
    "/admin%2fx",
    "/admin;a",
    "/x/..;/admin",
    "/;a/admin",
    "/\\admin",
    "/x/..%5cadmin",
    "/admin%00.png",
];

#[test]
fn spellings_of_a_path_are_refused_or_normalised_or_left_as_the_setting_states() {
    let [refuse, normalise, as_sent] = ["", "paths = 'normalise'", "paths = 'as_sent'"].map(|set| plan(set, ROUTES));
    for path in SPELLINGS {
        assert_eq!(chosen(&refuse, path), "refused", "{path}");
        assert_eq!(chosen(&as_sent, path), "open", "{path}");
        let normal = chosen(&normalise, path);
        assert!(normal == "refused" || normal.starts_with("admin as /admin"), "{path}: {normal}");
    }
    for (path, normal) in [
        ("//admin?x", "admin as /admin"),
        ("/x/%2e%2e/%61dmin", "admin as /admin"),
        ("/x/..%2fadmin", "refused"),
        ("/admin;a", "refused"),
    ] {
        assert_eq!(chosen(&normalise, path), normal, "{path}");
    }
    for plan in [&refuse, &normalise] {
        for (path, route) in [
            ("/admin/", "admin"),
            ("/admin//x;a/%2f", "admin"),
            ("/objects/a//b", "open"),
            ("/group%2Fproject", "open"),
            ("/a;v=1/b%20c", "open"),
            ("/administration/%61", "open"),
            ("*", "open"),
        ] {
            assert_eq!(chosen(plan, path), route, "{path} has one route");
        }
    }
}

#[test]
fn the_strictest_setting_of_all_readings_applies() {
    let plan = |listener: &str, open: &str, admin: &str| {
        let set = |paths: &str| if paths.is_empty() { String::new() } else { format!("paths = '{paths}'\n") };
        let routes = ROUTES.replace("[[route]]\nname = 'admin'", &format!("{}[[route]]\nname = 'admin'", set(open)));
        super::tests::plan(&set(listener), &format!("{routes}{}", set(admin)))
    };
    for (listener, open, admin, wanted) in [
        ("", "as_sent", "", "refused"),
        ("", "", "as_sent", "refused"),
        ("as_sent", "", "refuse", "refused"),
        ("as_sent", "refuse", "", "refused"),
        ("as_sent", "", "normalise", "admin as /admin"),
        ("normalise", "as_sent", "", "admin as /admin"),
        ("refuse", "as_sent", "as_sent", "open"),
        ("refuse", "normalise", "as_sent", "admin as /admin"),
    ] {
        assert_eq!(chosen(&plan(listener, open, admin), "//admin"), wanted, "{listener} {open} {admin}");
    }
}

#[test]
fn a_reading_that_no_route_matches_counts_with_the_setting_of_the_listener() {
    let public = "[[route]]\nname = 'public'\npool = 'p'\nmatch = { prefix = '/public' }\npaths = 'as_sent'\n";
    assert_eq!(chosen(&plan("", public), "/public/..%2fadmin"), "refused");
    assert_eq!(chosen(&plan("paths = 'normalise'", public), "/public/../admin"), "- as /admin");
    assert_eq!(chosen(&plan("paths = 'as_sent'", public), "/public/..%2fadmin"), "public");
    assert_eq!(chosen(&plan("", public), "/public/a%2fb"), "public");
}

/// A parameter is a segment. Endpoints that decode a slash in it read a path that no route matches, unless there is an
/// alternative for it.
#[test]
fn an_escaped_slash_in_a_parameter_needs_a_match_for_what_endpoints_read() {
    let users = "[[route]]\nname = 'users'\npool = 'p'\nmatch = ";
    assert_eq!(chosen(&plan("", &format!("{users}{{ path = '/users/{{id}}' }}\n")), "/users/a%2Fb"), "refused");
    for matching in [
        "{ any = [{ path = '/users/{id}' }, { path = '/users/{group}/{id}' }] }",
        "{ path = '/users/{*rest}' }",
        "{ prefix = '/users' }",
    ] {
        let plan = plan("", &format!("{users}{matching}\n"));
        for path in ["/users/a%2Fb", "/users/a%2fb", "/users/a%252Fb", "/users/a"] {
            assert_eq!(chosen(&plan, path), "users", "{matching} {path}");
        }
        assert_eq!(chosen(&plan, "/users/a%2F..%2F..%2Fadmin"), "refused", "{matching}");
    }
}

#[test]
fn case_is_ignored_by_all_that_a_route_matches_paths_with_if_that_is_set() {
    let routes = "[[route]]\nname = 'open'\npool = 'p'\n\
        [[route]]\nname = 'admin'\npool = 'q'\nmatch = { prefix = '/Admin/{id}' }\n\
        [[route]]\nname = 'exact'\npool = 'q'\nmatch = { path = '/%c3%84mter' }\n\
        [[route]]\nname = 'text'\npool = 'q'\nmatch = { starts_with = '/te' }\n\
        [[route]]\nname = 'end'\npool = 'q'\nmatch = { ends_with = '.Php' }\n\
        [[route]]\nname = 'regex'\npool = 'q'\nmatch = { regex = '/r/(.*)/Secret' }\n\
        [[route]]\nname = 'search'\npool = 'q'\norder = 1\nmatch = { search = '/Key$' }\n";
    let [exact, any_case] = ["", "ignore_case = true\n"].map(|listener| plan(listener, routes));
    for (path, wanted) in [
        ("/ADMIN/7", "admin"),
        ("/adm%C4%B1n/7/x", "admin"),
        ("//ADMIN/7", "refused"),
        ("/x/..%2FADMIN/7", "refused"),
        ("/%C3%A4MTER", "exact"),
        ("/TExt", "text"),
        ("/a/b.PHP", "end"),
        ("/R/x/%C5%BFECRET", "regex"),
        ("/a/%E2%84%AAEY", "search"),
        ("/Objects//a%2Fb", "open"),
    ] {
        assert_eq!(chosen(&any_case, path), wanted, "{path}");
        assert_eq!(chosen(&exact, path), "open", "{path}");
    }
    let normal = plan("ignore_case = true\npaths = 'normalise'\n", routes);
    assert_eq!(chosen(&normal, "//ADMIN/%61Bc"), "admin as /ADMIN/aBc", "case is kept");
}

#[test]
fn routes_that_differ_in_their_matches_only_count_as_one() {
    let routes = |filter: &str| {
        format!(
            "[[route]]\nname = 'all'\npool = 'p'\n[[route]]\nname = 'home'\npool = 'p'\nmatch = {{ path = '/' }}\n{filter}\n"
        )
    };
    assert_eq!(chosen(&plan("", &routes("")), "//"), "all");
    for filter in
        ["access = { allow = ['10.0.0.0/8'] }", "limits = [{ requests = '9/s' }]", "rewrite = { path = '/x' }"]
    {
        assert_eq!(chosen(&plan("", &routes(filter)), "//"), "refused", "{filter}");
    }
}

#[test]
fn patterns_with_escapes_match_readings_in_any_spelling() {
    let routes = "[[route]]\nname = 'all'\npool = 'p'\n\
        [[route]]\nname = 'cafe'\npool = 'q'\nmatch = { prefix = '/caf%c3%a9' }\n\
        [[route]]\nname = 'space'\npool = 'q'\nmatch = { path = '/a%20b' }\n";
    let plan = plan("", routes);
    for (path, route) in [
        ("/caf%c3%a9", "cafe"),
        ("/caf%C3%A9/x", "cafe"),
        ("/a%20b", "space"),
        ("/%61%20b", "refused"),
        ("/a%2520b", "refused"),
    ] {
        assert_eq!(chosen(&plan, path), route, "{path}");
    }
}

#[test]
fn a_path_with_too_many_readings_is_refused_by_the_strictest_setting_of_all_routes() {
    let many = format!("/{}", "%252f;a%255c..//./%2500x".repeat(20));
    let lax = "paths = 'as_sent'\n";
    let routes = |admin: &str| format!("{}{admin}", ROUTES.replace("'p'\n", &format!("'p'\n{lax}")));
    assert_eq!(chosen(&plan(lax, &routes("paths = 'refuse'\n")), &many), "refused");
    assert_eq!(chosen(&plan(lax, &routes("")), &many), "open");
}

/// Readings of a path as servers have them, written without the steps that are tested: NGINX's, Tomcat's, Express', Go's,
/// PHP's, and Node's where it parses a URL.
fn servers(path: &str) -> [(&'static str, String); 6] {
    let decode = |path: &str| {
        let (bytes, mut out, mut at) = (path.as_bytes(), Vec::new(), 0);
        while at < bytes.len() {
            let digits = bytes.get(at + 1..at + 3).filter(|two| two.iter().all(u8::is_ascii_hexdigit));
            let digits = digits.filter(|_| bytes[at] == b'%').and_then(|two| std::str::from_utf8(two).ok());
            out.push(digits.map_or(bytes[at], |two| u8::from_str_radix(two, 16).expect("two digits")));
            at += if digits.is_some() { 3 } else { 1 };
        }
        out.into_iter().map(char::from).collect::<String>()
    };
    let clean = |path: &str| {
        let mut segments = Vec::new();
        for segment in path.split('/') {
            match segment {
                "" | "." => {}
                ".." => drop(segments.pop()),
                segment => segments.push(segment),
            }
        }
        format!("/{}", segments.join("/"))
    };
    let bare: Vec<&str> = path.split('/').map(|segment| segment.split(';').next().unwrap_or_default()).collect();
    let decoded = decode(path);
    let host = path.strip_prefix("//").map(|rest| rest.find('/').map_or("/", |end| &rest[end..]));
    [
        ("NGINX", clean(&decoded)),
        ("Tomcat", clean(&decode(&bare.join("/")).replace('\\', "/"))),
        ("Express", path.replace('\\', "/")),
        ("Go", clean(&decoded)),
        ("Node", clean(&decode(host.unwrap_or(path)))),
        ("PHP", clean(&decode(&decoded)).split('\0').next().unwrap_or_default().to_owned()),
    ]
}

/// True if a server that folds case takes the characters for the same, as Java's `equalsIgnoreCase` does: by their upper cases, or
/// by the lower cases of these. Written without the tables that are tested.
fn are_alike(a: char, b: char) -> bool {
    let upper = |c: char| c.to_uppercase().next().filter(|_| c.to_uppercase().count() == 1).unwrap_or(c);
    let lower = |c: char| c.to_lowercase().next().filter(|_| c.to_lowercase().count() == 1).unwrap_or(c);
    a == b || upper(a) == upper(b) || lower(upper(a)) == lower(upper(b))
}

/// Characters that a server that folds case compares: bytes beyond ASCII are UTF-8.
fn characters(reading: &str) -> Vec<char> {
    let bytes: Vec<u8> = reading.chars().map(|byte| u8::try_from(byte).unwrap_or(b'?')).collect();
    String::from_utf8_lossy(&bytes).chars().collect()
}

/// Prefixes of routes. Those at even places are protected.
const PREFIXES: [&str; 4] = ["/admin", "/admin/pub", "/a/b", "/x"];

/// The place of the longest prefix of a path; `None` for the open route of all others.
fn longest(path: &str, ignore_case: bool) -> Option<usize> {
    let path = characters(path);
    let same = |a: char, b: char| if ignore_case { are_alike(a, b) } else { a == b };
    let takes = |prefix: &str| {
        path.len() >= prefix.len()
            && prefix.chars().zip(&path).all(|(a, b)| same(a, *b))
            && matches!(path[prefix.len()..], [] | ['/', ..])
    };
    (0..PREFIXES.len()).filter(|at| takes(PREFIXES[*at])).max_by_key(|at| PREFIXES[*at].len())
}

fn paths() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "/",
        "/",
        "//",
        "admin",
        "a",
        "b",
        "x",
        "pub",
        "/.",
        "/..",
        "..",
        "%2e",
        "%2F",
        "%2f",
        "%5C",
        "\\",
        ";",
        ";a=1",
        "%3b",
        "%25",
        "%252f",
        "%61",
        "%2561",
        "%00",
        "%3f",
        "%20",
        "%",
        "ADMIN",
        "aDm%49n",
        "adm%C4%B1n",
        "adm%25c4%25b1n",
        "Pub",
        "X",
        "%42",
        "%c4%b1",
    ]);
    prop::collection::vec(part, 0..9).prop_map(|parts| format!("/{}", parts.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_request_that_a_server_reads_as_protected_reaches_an_open_route(
        paths in prop::collection::vec(paths(), 30),
        listener in 0..3usize,
        settings in prop::collection::vec(0..4usize, PREFIXES.len() + 1),
        ignore_case in any::<bool>(),
    ) {
        let words = ["refuse", "normalise", "as_sent", ""];
        let set = |at: usize| if words[at].is_empty() { String::new() } else { format!("paths = '{}'\n", words[at]) };
        let mut routes = format!("[[route]]\nname = 'open'\npool = 'p'\n{}", set(settings[PREFIXES.len()]));
        for (at, prefix) in PREFIXES.iter().enumerate() {
            let access = if at % 2 == 0 { "access = { allow = ['10.0.0.0/8'] }\n" } else { "" };
            routes += &format!("[[route]]\nname = '{at}'\npool = 'p'\nmatch = {{ prefix = '{prefix}' }}\n{access}");
            routes += &set(settings[at]);
        }
        let plan = plan(&format!("{}ignore_case = {ignore_case}\n", set(listener)), &routes);
        let router = &Router::of_plan(&plan)[0];
        let setting = |at: Option<usize>| match settings[at.unwrap_or(PREFIXES.len())] {
            3 => listener,
            own => own,
        };
        for path in paths {
            let Ok(Choice { route, path: normal }) = find(router, &path) else { continue };
            let (forwarded, chosen) = (normal.as_deref().unwrap_or(&path), &*plan.routes[route.expect("a route for all")].name);
            for (server, reading) in servers(forwarded) {
                let wanted = longest(&reading, ignore_case);
                let is_protected = wanted.is_some_and(|at| at % 2 == 0) && setting(wanted) != 2;
                let name = wanted.map_or("open".to_owned(), |at| at.to_string());
                prop_assert!(!is_protected || chosen == name,
                    "{server} reads {path}, forwarded as {forwarded}, as {reading}: route {name} instead of {chosen}, {ignore_case}");
            }
        }
    }
}
