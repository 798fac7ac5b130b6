//! Maps are read from the configuration and from files, follow their files, and choose only pools that exist.

use super::*;
use evenkeel_config::plan::MapMatch;
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("evenkeel-maps-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    /// Writes a file by renaming it into place, so that no look sees a part of it.
    fn write(&self, text: &str) -> PathBuf {
        let (new, path) = (self.0.join("new"), self.0.join("a.map"));
        fs::write(&new, text).expect("the folder can be written");
        fs::rename(&new, &path).expect("the folder can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A plan with these maps and this pool of its route; `other` is a pool for HTTP, too, and `tcp` is not.
fn plan(maps: &str, pool: &str) -> Plan {
    let text = format!(
        "[listener.a]\nbind = ['127.0.0.1:1']\n[listener.b]\nbind = ['127.0.0.1:2']\nmode = 'tcp'\npool = 'tcp'\n\
         [pool.web]\nendpoints = ['127.0.0.1:3']\n[pool.other]\nendpoints = ['127.0.0.1:4']\n\
         [pool.tcp]\nendpoints = ['127.0.0.1:5']\n[[route]]\nname = 'r'\npool = '{pool}'\n{maps}"
    );
    let outcome = evenkeel_config::parse_str("plan", &text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}

fn find(maps: &Maps, name: &str, key: &str) -> Option<String> {
    let reader = maps.get(name).expect("it is there").reader();
    let value = reader.get().find(&mut key.as_bytes().to_vec(), &Cell::new(1 << 18));
    value.map(|value| String::from_utf8(value.to_vec()).expect("text"))
}

fn of_file(file: &Path, more: &str) -> String {
    format!("[map.m]\nfrom = '{{header.X}}'\nfile = '{}'\n{more}", file.display())
}

#[test]
fn a_file_is_read_again_once_it_has_changed_and_a_wrong_file_changes_nothing() {
    let folder = Folder::new("change");
    let file = folder.write("a 1\n");
    let plan = plan(&of_file(&file, ""), "web");
    let maps = Maps::next(&plan, None).expect("right");
    assert!(maps.has_files() && find(&maps, "m", "a").as_deref() == Some("1"));
    folder.write("a 2\nb 3\n");
    maps.look();
    assert_eq!(find(&maps, "m", "b"), None, "it may be written right now");
    maps.look();
    assert_eq!((find(&maps, "m", "a").as_deref(), find(&maps, "m", "b").as_deref()), (Some("2"), Some("3")));
    folder.write("a 2\nb\n");
    (0..3).for_each(|_| maps.look());
    let map = maps.get("m").expect("it is there");
    assert_eq!((find(&maps, "m", "b").as_deref(), map.is_behind(), map.rows()), (Some("3"), true, 2));
    assert_eq!(map.counts.failures.load(Ordering::Relaxed), 1);
    let errors = Maps::next(&plan, Some(&maps)).expect_err("a new plan reads the file anew");
    assert!(errors[0].to_string().contains("a.map:2: \"b\" has no value"), "{}", errors[0]);
    folder.write("c 4\n");
    (0..2).for_each(|_| maps.look());
    assert_eq!((find(&maps, "m", "b"), find(&maps, "m", "c").as_deref(), map.is_behind()), (None, Some("4"), false));
}

#[test]
fn a_plan_keeps_the_table_of_a_map_that_is_as_before() {
    let folder = Folder::new("keep");
    let file = folder.write("a 1\n");
    let (same, other) = (plan(&of_file(&file, ""), "web"), plan(&of_file(&file, "ignore_case = true"), "web"));
    let first = Maps::next(&same, None).expect("right");
    let second = Maps::next(&same, Some(&first)).expect("right");
    assert!(Arc::ptr_eq(first.get("m").expect("first"), second.get("m").expect("second")));
    let third = Maps::next(&other, Some(&second)).expect("right");
    assert!(!Arc::ptr_eq(second.get("m").expect("second"), third.get("m").expect("third")));
    assert!(find(&third, "m", "A").is_some() && find(&second, "m", "A").is_none());
    folder.write("a 2\n");
    let fourth = Maps::next(&other, Some(&third)).expect("right");
    assert_eq!(find(&fourth, "m", "a").as_deref(), Some("2"));
}

#[test]
fn a_value_that_is_no_pool_is_refused_where_the_map_chooses_pools() {
    let folder = Folder::new("pools");
    let file = folder.write("a web\nb other\n");
    let text =
        of_file(&file, "default = '{map.rest}'\n[map.rest]\nfrom = '{host}'\nrows = { x = 'other' }\ndefault = 'web'");
    let plan = plan(&text, "{map.m}");
    let maps = Maps::next(&plan, None).expect("right");
    for (wrong, value) in [("a web\nb gone\n", "gone"), ("a web\nb tcp\n", "tcp")] {
        folder.write(wrong);
        (0..2).for_each(|_| maps.look());
        assert_eq!(find(&maps, "m", "b").as_deref(), Some("other"));
        let errors = Maps::next(&plan, Some(&maps)).expect_err("wrong");
        let said = format!("a.map:2: \"{value}\" is not a pool that the map can choose");
        assert!(errors[0].to_string().contains(&said), "{}", errors[0]);
    }
}

#[test]
fn every_kind_of_rows_is_read() {
    let maps = "[map.n]\nfrom = '{client.ip}'\nmatch = 'network'\nrows = { '10.0.0.0/8' = 'in' }\n\
                [map.x]\nfrom = '{path}'\nmatch = 'regex'\nrows = { '/u/[0-9]+' = 'user', '.*' = 'rest' }\n\
                [map.h]\nfrom = '{host}'\nmatch = 'host'\nrows = { '*.example' = 'ours' }\n";
    let maps = Maps::next(&plan(maps, "web"), None).expect("right");
    assert!(!maps.has_files());
    assert_eq!(maps.get("n").expect("it is there").plan.of, MapMatch::Network);
    for (map, key, value) in
        [("n", "10.1.1.1", "in"), ("x", "/u/7", "user"), ("x", "/", "rest"), ("h", "A.Example", "ours")]
    {
        assert_eq!(find(&maps, map, key).as_deref(), Some(value), "{map}");
    }
}
