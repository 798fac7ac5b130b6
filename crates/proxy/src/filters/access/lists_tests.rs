//! Lists decide by the longest network, and follow their files.

use super::*;
use std::fs;
use std::path::PathBuf;

/// A folder of a test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("evenkeel-access-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    /// Writes a file by renaming it into place, so that no look sees a part of it.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let (new, path) = (self.0.join("new"), self.0.join(name));
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

fn plan(access: &[&str]) -> Plan {
    let mut text = "[listener.a]\nbind = ['127.0.0.1:1']\n[pool.p]\nendpoints = ['127.0.0.1:2']\n".to_string();
    for (at, access) in access.iter().enumerate() {
        text +=
            &format!("[[route]]\nname = 'r{at}'\nmatch = {{ path = '/{at}' }}\npool = 'p'\naccess = {{ {access} }}\n");
    }
    let outcome = evenkeel_config::parse_str("plan", &text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}

fn lists(access: &[&str]) -> Arc<AccessLists> {
    AccessLists::next(&plan(access), None).expect("good lists")
}

#[track_caller]
fn allows(list: &AccessList, clients: &[(&str, bool)]) {
    let reader = list.reader();
    for (client, allowed) in clients {
        assert_eq!(reader.get().allows(client.parse().expect(client)), *allowed, "{client}");
    }
}

#[test]
fn the_longest_network_decides_and_others_are_refused_only_where_some_are_allowed() {
    let lists = lists(&[
        "allow = ['10.0.0.0/8', '10.1.2.0/24'], deny = ['10.1.0.0/16']",
        "deny = ['10.0.0.0/8', '2001:db8::/32']",
        "deny = ['0.0.0.0/0', '::/0'], allow = ['192.0.2.1']",
    ]);
    let of = |route| lists.of(route).expect("it has a list");
    allows(
        of("r0"),
        &[("10.9.0.1", true), ("10.1.0.1", false), ("10.1.2.3", true), ("192.0.2.1", false), ("::1", false)],
    );
    allows(of("r0"), &[("::ffff:10.9.0.1", true), ("::ffff:10.1.0.1", false)]);
    allows(of("r1"), &[("10.9.0.1", false), ("192.0.2.1", true), ("2001:db8::1", false), ("2001:db9::1", true)]);
    allows(of("r2"), &[("192.0.2.1", true), ("192.0.2.2", false), ("2001:db9::1", false)]);
    assert!(lists.of("r3").is_none() && !lists.has_files());
}

#[test]
fn routes_with_equal_lists_share_one() {
    let lists = lists(&["allow = ['10.0.0.0/8']", "allow = ['10.0.0.0/8']", "allow = ['10.0.0.0/8'], status = 404"]);
    let of = |route| lists.of(route).expect("it has a list");
    assert!(Arc::ptr_eq(of("r0"), of("r1")) && !Arc::ptr_eq(of("r0"), of("r2")));
    assert_eq!((of("r0").status, of("r2").status), (403, 404));
}

#[test]
fn a_file_is_read_again_once_it_has_changed_and_stays() {
    let folder = Folder::new("change");
    let file = folder.write("bad.txt", "10.0.0.0/8 # first\n");
    let lists = lists(&[&format!("deny_files = ['{}']", file.display())]);
    let list = lists.of("r0").expect("it has a list");
    let mut reader = list.reader();
    assert!(lists.has_files());
    lists.look();
    assert!(!reader.refresh(), "nothing has changed");
    folder.write("bad.txt", "192.0.2.0/24\n2001:db8::/32\n");
    lists.look();
    assert!(!reader.refresh(), "it may be written right now");
    lists.look();
    assert!(reader.refresh());
    allows(list, &[("10.0.0.1", true), ("192.0.2.7", false), ("2001:db8::1", false)]);
    // A wrong file changes nothing, and neither does a deleted file.
    folder.write("bad.txt", "192.0.2.0/24\nnonsense\n");
    (0..3).for_each(|_| lists.look());
    fs::remove_file(&file).expect("it is there");
    (0..3).for_each(|_| lists.look());
    assert!(!reader.refresh());
    folder.write("bad.txt", "");
    (0..2).for_each(|_| lists.look());
    assert!(reader.refresh() && reader.get().allows([192, 0, 2, 7].into()));
}

#[test]
fn errors_name_the_route_the_file_and_the_line() {
    let folder = Folder::new("wrong");
    let file = folder.write("a.txt", "10.0.0.0/8\n\n10.0.0.0/99\n");
    let (file, none) = (file.display(), folder.0.join("none.txt"));
    let wrong = plan(&[&format!("allow_files = ['{file}']"), &format!("deny_files = ['{}']", none.display())]);
    let errors = |plan: &Plan| -> Vec<String> {
        let errors = AccessLists::next(plan, None).expect_err("it is wrong");
        errors.iter().map(ToString::to_string).collect()
    };
    let both = errors(&wrong);
    assert!(
        both[0].starts_with(&format!("access of route \"r0\": {file}:3: \"10.0.0.0/99\" is not a network")),
        "{both:?}"
    );
    assert!(both[1].contains("r1") && both[1].contains("none.txt: No such file"), "{both:?}");
    let pipe = plan(&["deny_files = ['/dev/null']"]);
    assert!(errors(&pipe)[0].contains("not a regular file"));
}

/// `cargo test -p evenkeel-proxy --lib access::lists::tests::measures -- --ignored --nocapture`
#[test]
#[ignore = "measures, and asserts nothing"]
fn measures_a_file_of_a_million_networks() {
    let folder = Folder::new("million");
    for (kind, line) in [
        ("IPv4", (|n| format!("{}\n", std::net::Ipv4Addr::from_bits(n))) as fn(u32) -> String),
        ("IPv6", |n| format!("2001:db8:{:x}:{:x}::/64\n", n >> 16, n & 0xffff)),
    ] {
        let text: String = (0..1_000_000_u32).map(|n| line(n.wrapping_mul(0x9e37_79b1))).collect();
        let plan = plan(&[&format!("deny_files = ['{}']", folder.write("list", &text).display())]);
        let began = std::time::Instant::now();
        let lists = AccessLists::next(&plan, None).expect("a good list");
        let took = began.elapsed();
        let memory = lists.of("r0").expect("it has a list").reader().get().networks.memory();
        println!("{kind}: {} bytes of text in {took:?}, {memory} bytes of memory", text.len());
    }
}
