//! Each kind of table finds what a search through all rows finds.

use super::*;

const STEPS: u32 = 256 << 10;

fn rows<'t>(all: &[(&'t str, &'t str)]) -> Vec<MapRow<'t>> {
    let row = |(at, (key, value)): (usize, &(&'t str, &'t str))| MapRow {
        key: key.as_bytes().into(),
        value: value.as_bytes().into(),
        line: at + 1,
    };
    all.iter().enumerate().map(row).collect()
}

fn table(of: MapMatch, all: &[(&str, &str)]) -> MapTable {
    MapTable::new(of, false, rows(all), 32 << 10).unwrap_or_else(|faults| panic!("{}", faults.in_file("rows")))
}

fn find(table: &MapTable, key: &str) -> Option<String> {
    let found = table.find(&mut key.as_bytes().to_vec(), &Cell::new(STEPS));
    found.map(|value| String::from_utf8(value.to_vec()).expect("text"))
}

/// Deterministic numbers for texts.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// A text of few letters, so that many texts begin with others.
    fn text(&mut self, alphabet: &[u8], longest: usize) -> String {
        let len = 1 + self.below(longest);
        (0..len).map(|_| alphabet[self.below(alphabet.len())] as char).collect()
    }
}

/// Row that a search through all rows finds.
fn naive<'r>(of: MapMatch, rows: &'r [(String, String)], key: &str) -> Option<&'r str> {
    let longest = |fits: &dyn Fn(&str) -> bool| {
        let fitting = rows.iter().filter(|(row, _)| fits(row)).max_by_key(|(row, _)| row.len());
        fitting.map(|(_, value)| &**value)
    };
    match of {
        MapMatch::Exact => longest(&|row| row == key),
        MapMatch::Host => longest(&|row| match row.strip_prefix('*') {
            Some(domain) => key.len() > domain.len() && key.ends_with(domain),
            None => row == key,
        }),
        MapMatch::Prefix => longest(&|row| key.starts_with(row)),
        MapMatch::Suffix => longest(&|row| key.ends_with(row)),
        _ => unreachable!("not of texts"),
    }
}

#[test]
fn texts_are_found_as_by_a_search_through_all_rows() {
    let mut numbers = Numbers(1);
    for round in 0..400 {
        for of in [MapMatch::Exact, MapMatch::Host, MapMatch::Prefix, MapMatch::Suffix] {
            let (alphabet, longest): (&[u8], _) = if round % 2 == 0 { (b"ab", 12) } else { (b"abcdefgh/", 30) };
            let mut key = || match of {
                MapMatch::Host => {
                    let labels: Vec<String> = (0..1 + numbers.below(3)).map(|_| numbers.text(b"ab", 2)).collect();
                    labels.join(".")
                }
                _ => numbers.text(alphabet, longest),
            };
            let mut all: Vec<(String, String)> = (0..round % 80)
                .map(|n| {
                    let star = if of == MapMatch::Host && n % 3 == 0 { "*." } else { "" };
                    (format!("{star}{}", key()), format!("v{n}"))
                })
                .collect();
            all.sort();
            all.dedup_by(|a, b| a.0 == b.0);
            let borrowed: Vec<(&str, &str)> = all.iter().map(|(key, value)| (&**key, &**value)).collect();
            let table = table(of, &borrowed);
            let asked: Vec<String> =
                (0..50).map(|_| key()).chain(all.iter().map(|(key, _)| key.replace('*', "a"))).collect();
            for key in asked.iter().map(String::as_str).chain(["", "."]) {
                assert_eq!(find(&table, key).as_deref(), naive(of, &all, key), "{of:?} {key} in {all:?}");
            }
        }
    }
}

#[test]
fn the_first_expression_that_matches_wins() {
    let mut numbers = Numbers(2);
    for _ in 0..60 {
        let part = |numbers: &mut Numbers| match numbers.below(4) {
            0 => "[ab]+".to_owned(),
            1 => ".*".to_owned(),
            2 => "(?:a|bc)*".to_owned(),
            _ => numbers.text(b"abc", 3),
        };
        let all: Vec<String> = (0..1 + numbers.below(12))
            .map(|_| (0..1 + numbers.below(3)).map(|_| part(&mut numbers)).collect())
            .collect();
        let mut distinct = Vec::new();
        all.into_iter().for_each(|text: String| {
            if !distinct.contains(&text) {
                distinct.push(text)
            }
        });
        let values: Vec<String> = (0..distinct.len()).map(|n| format!("v{n}")).collect();
        let borrowed: Vec<(&str, &str)> = distinct.iter().zip(&values).map(|(a, b)| (&**a, &**b)).collect();
        let table = table(MapMatch::Regex, &borrowed);
        let single: Vec<_> = distinct.iter().map(|text| crate::form::compile_regex(text).expect("right")).collect();
        for _ in 0..100 {
            let key = numbers.text(b"abc", 6);
            let first = single.iter().position(|one| one.is_match(key.as_bytes())).map(|at| values[at].clone());
            assert_eq!(find(&table, &key), first, "{key} in {distinct:?}");
        }
    }
}

#[test]
fn networks_and_ranges_take_addresses_and_numbers() {
    let networks = table(MapMatch::Network, &[("10.0.0.0/8", "a"), ("10.1.0.0/16", "b"), ("2001:db8::/32", "c")]);
    for (key, value) in [
        ("10.2.3.4", Some("a")),
        ("10.1.3.4", Some("b")),
        ("::ffff:10.1.3.4", Some("b")),
        ("2001:db8::1", Some("c")),
        ("192.0.2.1", None),
        ("10.1", None),
        ("", None),
    ] {
        assert_eq!(find(&networks, key).as_deref(), value, "{key}");
    }
    assert_eq!(networks.find_address([10, 1, 0, 1].into()), Some(&b"b"[..]));
    let ranges = table(MapMatch::Range, &[("80", "a"), ("8000-8999", "b"), ("9000..=9010", "c"), ("0-9", "d")]);
    for (key, value) in [
        ("80", Some("a")),
        ("8000", Some("b")),
        ("8999", Some("b")),
        ("9000", Some("c")),
        ("9011", None),
        ("081", None),
        ("7", Some("d")),
        ("007", Some("d")),
        ("-7", None),
        ("+7", None),
        ("7x", None),
        ("", None),
        ("99999999999999999999999", None),
    ] {
        assert_eq!(find(&ranges, key).as_deref(), value, "{key}");
    }
}

#[test]
fn case_is_ignored_on_request_and_for_hosts() {
    let ignoring = |of, key: &str| MapTable::new(of, true, rows(&[(key, "v")]), 32 << 10).expect("right");
    for (of, key) in
        [(MapMatch::Exact, "AbC"), (MapMatch::Prefix, "A"), (MapMatch::Suffix, "BC"), (MapMatch::Regex, "A.*")]
    {
        assert_eq!(find(&ignoring(of, key), "aBc").as_deref(), Some("v"), "{of:?}");
        assert_eq!(find(&table(of, &[(key, "v")]), "aBc"), None, "{of:?}");
    }
    let hosts = table(MapMatch::Host, &[("A.Example", "v"), ("*.example", "w")]);
    assert_eq!(find(&hosts, "a.EXAMPLE.").as_deref(), Some("v"));
    assert_eq!(find(&hosts, "x.y.example").as_deref(), Some("w"));
    assert_eq!(find(&hosts, "example"), None);
    assert_eq!(find(&hosts, ".example"), None, "it has no label below the domain");
}

#[test]
fn wrong_rows_are_named_by_their_lines_and_equal_rows_are_not() {
    let faults =
        |of, all: &[(&str, &str)]| MapTable::new(of, false, rows(all), 1 << 10).expect_err("wrong").in_file("m");
    for (of, all, part) in [
        (MapMatch::Exact, &[("a", "1"), ("b", "2"), ("a", "3")][..], "m:3: \"a\" has another value in row 1"),
        (MapMatch::Prefix, &[("b", "1"), ("a", "2"), ("b", "3")], "m:3: \"b\" has another value in row 1"),
        (MapMatch::Exact, &[("a", "x\ty")], "m:1: its value has a control character"),
        (MapMatch::Network, &[("10.0.0.0/8", "1"), ("10.0.0.1/8", "2")], "m:2: \"10.0.0.1/8\" is not a network"),
        (MapMatch::Network, &[("10.0.0.0/8", "1"), ("10.0.0.0/8", "2")], "m:2: \"10.0.0.0/8\" has another value"),
        (MapMatch::Range, &[("1-5", "1"), ("5-6", "2")], "m:2: \"5-6\" overlaps \"1-5\" of row 1"),
        (MapMatch::Range, &[("1-9", "1"), ("2-3", "2"), ("5", "3")], "m:3: \"5\" overlaps \"1-9\" of row 1"),
        (MapMatch::Range, &[("9-1", "1")], "m:1: \"9-1\" is neither a number nor a range"),
        (MapMatch::Regex, &[("a", "1"), ("(", "2")], "m:2: \"(\" is not a regular expression"),
        (MapMatch::Regex, &[("\\w+", "1")], "KiB, and 1 KiB are allowed"),
        (MapMatch::Host, &[("a b", "1")], "m:1: \"a b\" is not a host"),
    ] {
        let said = faults(of, all);
        assert!(said.contains(part), "{of:?}: {said}");
    }
    let many: Vec<(String, String)> = (0..50).map(|n| (format!("x{n}"), String::new())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert!(faults(MapMatch::Range, &many).ends_with("m: and 40 more rows"));
    table(MapMatch::Exact, &[("a", "1"), ("a", "1")]);
    table(MapMatch::Range, &[("1-5", "1"), ("1-5", "1")]);
}

#[test]
fn files_have_two_columns_by_white_space_or_by_commas() {
    let read = |name: &str, text: &str| {
        let all = file_rows(name, text.as_bytes()).map_err(|faults| faults.in_file(name))?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        Ok::<_, String>(
            all.iter().map(|row| format!("{}: {}={}", row.line, text(&row.key), text(&row.value))).collect::<Vec<_>>(),
        )
    };
    let map = "\u{feff}# tenants\r\na.example  pool a \r\n\n\tb,c\tx,y\n#\n";
    assert_eq!(read("t.map", map), Ok(vec!["2: a.example=pool a".into(), "4: b,c=x,y".into()]));
    let csv = "a, b\n\"a,\"\"b\" , \"c d\"\n#x\ne,\n";
    assert_eq!(read("t.CSV", csv), Ok(vec!["1: a=b".into(), "2: a,\"b=c d".into(), "4: e=".into()]));
    let said = read("t.map", "a b\nc\n").expect_err("no value");
    assert!(said.starts_with("t.map:2: \"c\" has no value; write a key, a space and a value"), "{said}");
    for wrong in ["a", "a,b,c", "\"a,b", "\"a\"b,c"] {
        assert!(read("t.csv", wrong).expect_err(wrong).starts_with("t.csv:1: "), "{wrong}");
    }
}

#[test]
fn a_search_with_too_few_steps_finds_nothing() {
    let table = table(MapMatch::Regex, &[("a*", "v")]);
    let left = Cell::new(4);
    assert_eq!(table.find(&mut b"aaa".to_vec(), &left), None);
    assert_eq!(left.get(), 0);
}

/// The states of usual expressions fit into the memory for them. Without it, a lookup takes a step for each state.
#[test]
fn lookups_among_a_thousand_expressions_take_a_step_for_some_bytes() {
    let all: Vec<_> = (0..1000).map(|n| (format!("^k{n:04}/[a-z]+$"), format!("v{n}"))).collect();
    let all: Vec<(&str, &str)> = all.iter().map(|(key, value)| (&**key, &**value)).collect();
    let table = table(MapMatch::Regex, &all);
    for n in (0..2000).map(|n| n * 7919 % 1000) {
        let left = Cell::new(STEPS);
        let found = table.find(&mut format!("k{n:04}/item").into_bytes(), &left);
        assert_eq!(found, Some(format!("v{n}").as_bytes()));
        assert!(STEPS - left.get() < 100, "k{n:04}: {} steps", STEPS - left.get());
    }
}

/// `cargo test -p evenkeel-config --lib maps::tests::measures -- --ignored --nocapture`
#[test]
#[ignore = "measures, and asserts nothing"]
fn measures_a_million_rows_and_ten_thousand() {
    for count in [10_000_u32, 1_000_000] {
        for of in [MapMatch::Exact, MapMatch::Host, MapMatch::Prefix, MapMatch::Suffix, MapMatch::Network] {
            let key = |n: u32| match of {
                MapMatch::Network => std::net::Ipv4Addr::from_bits(n.wrapping_mul(0x9e37_79b1)).to_string(),
                MapMatch::Prefix => format!("/v1/accounts/{n}/"),
                _ => format!("tenant-{n}.customers.example"),
            };
            let text: String = (0..count).map(|n| format!("{} pool-{}\n", key(n), n % 100)).collect();
            let began = std::time::Instant::now();
            let rows = file_rows("a.map", text.as_bytes()).expect("right");
            let table = MapTable::new(of, false, rows, 32 << 10).expect("right");
            let took = began.elapsed();
            let asked: Vec<Vec<u8>> =
                (0..4096_u32).map(|n| key(n.wrapping_mul(2_654_435) % count).into_bytes()).collect();
            let (mut buffer, left, mut found) = (Vec::new(), Cell::new(STEPS), 0);
            let began = std::time::Instant::now();
            for _ in 0..50 {
                for one in &asked {
                    buffer.clear();
                    buffer.extend_from_slice(one);
                    found += usize::from(table.find(&mut buffer, &left).is_some());
                }
            }
            let each = began.elapsed().as_nanos() / (50 * 4096);
            assert_eq!(found, 50 * 4096);
            println!(
                "{of:?}: {count} rows, {} KiB of text in {took:?}, {} KiB, {each} ns",
                text.len() >> 10,
                table.memory() >> 10
            );
        }
    }
}
