//! Changed files are used if they are valid, and ignored otherwise.

use super::*;
use rcgen::{CertificateParams, KeyPair};
use std::fs;
use std::path::Path;

fn write_pair(folder: &Path, name: &str) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_string()]).expect("a name");
    fs::write(folder.join("c.pem"), params.self_signed(&key).expect("a certificate").pem()).expect("a file");
    fs::write(folder.join("k.pem"), key.serialize_pem()).expect("a file");
}

fn plan(folder: &Path, more: &str) -> Plan {
    let at = folder.display();
    let text = format!(
        "[listener.web]\nbind = [\"127.0.0.1:1\"]\ntls = {{ certificates = [{{ cert = \"{at}/c.pem\", key = \"{at}/k.pem\" }}]{more} }}\n\
         [pool.web]\nendpoints = [\"127.0.0.1:2\"]\ntls = {{ ca = \"{at}/c.pem\" }}\n"
    );
    evenkeel_config::parse_str("test", &text, &|_| None).plan.expect("a good file")
}

fn name(store: &Store) -> String {
    let expiries = store.shown.expiries.read().expect("nothing panics with it");
    expiries["web"][0].name.clone()
}

#[test]
fn new_files_are_used_and_wrong_ones_are_not() {
    let folder = std::env::temp_dir().join(format!("evenkeel-store-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    write_pair(&folder, "one.example");
    let store = Store::default().next(&plan(&folder, "")).expect("good files");
    let handle = store.listeners().next().expect("one").2.clone();
    let first = handle.get();
    store.look();
    assert!(Arc::ptr_eq(&first, &handle.get()), "nothing has changed");
    write_pair(&folder, "two.example");
    store.look();
    let second = handle.get();
    assert!(!Arc::ptr_eq(&first, &second));
    let ticket = first.ticketer.encrypt(b"session").expect("sealed");
    assert!(second.ticketer.decrypt(&ticket).is_some(), "sessions go on");
    assert_eq!(name(&store), "two.example");
    fs::write(folder.join("k.pem"), "rubbish").expect("a file");
    store.look();
    assert!(Arc::ptr_eq(&second, &handle.get()));
    let counts = (store.shown.reloads.load(Relaxed), store.shown.refused.load(Relaxed));
    assert_eq!(counts, (2, 1), "the certificate of the pool's authority changed with it");
    assert!(store.next(&plan(&folder, "")).is_err_and(|problems| problems[0].to_string().contains("listener \"web\"")));
    // An unchanged plan keeps the handle; a changed plan does not.
    write_pair(&folder, "three.example");
    store.look();
    let next = store.next(&plan(&folder, "")).expect("good files");
    assert!(Arc::ptr_eq(next.listeners().next().expect("one").2, &handle));
    let other = next.next(&plan(&folder, ", min_version = \"1.3\"")).expect("good files");
    assert!(!Arc::ptr_eq(other.listeners().next().expect("one").2, &handle));
    fs::remove_dir_all(&folder).expect("own files");
}

#[test]
fn texts_of_the_configuration_serve_as_files_do_and_change_with_the_plan() {
    let folder = std::env::temp_dir().join(format!("evenkeel-texts-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let texts = |name: &str| {
        write_pair(&folder, name);
        ["c.pem", "k.pem"].map(|file| fs::read_to_string(folder.join(file)).expect("it was written"))
    };
    let plan = |[cert, key]: &[String; 2], ca: &str| {
        let text = format!(
            "[listener.web]\nbind = [\"127.0.0.1:1\"]\ntls = {{ certificates = [{{ cert = '''\n{cert}''', key = '''\n{key}''' }}], \
             client_auth = {{ ca = '''\n{cert}''' }} }}\n\
             [pool.web]\nendpoints = [\"127.0.0.1:2\"]\ntls = {{ ca = '''\n{ca}''', cert = '''\n{cert}''', key = '''\n{key}''' }}\n"
        );
        evenkeel_config::parse_str("test", &text, &|_| None).plan.expect("a good file")
    };
    let (one, two) = (texts("one.example"), texts("two.example"));
    fs::remove_dir_all(&folder).expect("own files");
    let store = Store::default().next(&plan(&one, &one[0])).expect("good texts");
    let handle = store.listeners().next().expect("one").2.clone();
    let first = handle.get();
    store.look();
    assert!(Arc::ptr_eq(&first, &handle.get()) && name(&store) == "one.example");
    let same = store.next(&plan(&one, &one[0])).expect("good texts");
    assert!(Arc::ptr_eq(same.listeners().next().expect("one").2, &handle));
    let next = same.next(&plan(&two, &one[0])).expect("good texts");
    assert!(!Arc::ptr_eq(next.listeners().next().expect("one").2, &handle) && name(&next) == "two.example");
    // A certificate with the key of another, and a text without a certificate.
    let [mixed, none] = [([one[0].clone(), two[1].clone()], &one[0]), (one.clone(), &one[1])].map(|(pair, ca)| {
        let problems = next.next(&plan(&pair, ca)).expect_err("wrong texts");
        problems.iter().map(ToString::to_string).collect::<String>()
    });
    assert!(
        mixed.contains("the key in the configuration does not match the certificate in the configuration"),
        "{mixed}"
    );
    assert!(none.contains("pool \"web\": the certificate in the configuration has no certificate"), "{none}");
    assert!(
        [&one[1], &two[1]].iter().all(|key| !format!("{mixed}{none}").contains(key.lines().nth(1).expect("base64")))
    );
}

#[test]
fn a_certificate_that_expires_soon_is_reported_once_a_day() {
    let folder = std::env::temp_dir().join(format!("evenkeel-expires-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    write_pair(&folder, "one.example");
    let store = Store::default().next(&plan(&folder, "")).expect("good files");
    let until = store.shown.expiries.read().expect("nothing panics with it")["web"][0].not_after;
    let soon = SOON.as_secs() as i64;
    assert_eq!(
        [until - soon, until - soon + 1, until, until + 1].map(|now| store.shown.expiring(now).len()),
        [0, 1, 1, 1]
    );
    let warned = |store: &Store, now| store.shown.to_warn_of(now).len();
    assert_eq!([until - soon, until - 100, until - 99, until - 101 + DAY].map(|now| warned(&store, now)), [0, 1, 0, 0]);
    let next = store.next(&plan(&folder, "")).expect("good files");
    assert!(Arc::ptr_eq(&store.shown, &next.shown), "the store of another plan knows of the warnings");
    assert_eq!(warned(&next, until - 100 + DAY), 1);
    fs::remove_dir_all(&folder).expect("own files");
}

#[test]
fn what_an_authority_has_issued_is_used_once_it_is_there_and_is_not_lost_with_its_file() {
    let folder = std::env::temp_dir().join(format!("evenkeel-issued-{}", std::process::id()));
    let text = format!(
        "[acme]\nstate = \"{}\"\ndirectory = \"https://ca.inside/directory\"\n\
         [listener.web]\nbind = [\"127.0.0.1:443\"]\ntls = {{ certificates = [{{ acme = [\"one.example\"] }}] }}\n\
         [pool.web]\nendpoints = [\"127.0.0.1:2\"]\n",
        folder.display()
    );
    let plan = evenkeel_config::parse_str("test", &text, &|_| None).plan.expect("a good file");
    let file = plan.acme.file(&["one.example".to_string()]);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    let key = KeyPair::generate().expect("a key");
    let issued = CertificateParams::new(vec!["one.example".to_string()]).and_then(|params| params.self_signed(&key));
    let issued = issued.expect("a certificate").pem() + &key.serialize_pem();
    // An unusable issued certificate does not prevent the start.
    fs::write(&file, "rubbish").expect("a file");
    let store = Store::default().next(&plan).expect("something stands in");
    let handle = store.listeners().next().expect("one").2.clone();
    let standing_in = handle.get();
    let known = || store.shown.expiries.read().expect("nothing panics with it")["web"].len();
    assert_eq!(known(), 0, "what stands in is not told of");
    fs::write(&file, &issued).expect("a file");
    store.look();
    let used = handle.get();
    assert!(!Arc::ptr_eq(&standing_in, &used) && known() == 1);
    for broken in [Some("rubbish"), None] {
        match broken {
            Some(text) => fs::write(&file, text),
            None => fs::remove_file(&file),
        }
        .expect("it can be changed");
        store.look();
        assert!(Arc::ptr_eq(&used, &handle.get()), "{broken:?}");
    }
    fs::write(&file, &issued).expect("a file");
    store.look();
    assert!(!Arc::ptr_eq(&used, &handle.get()), "it goes on");
    fs::remove_dir_all(&folder).expect("own files");
}

#[test]
fn every_listener_with_http_answers_authorities_for_the_names_of_all() {
    let text = |challenge: &str| {
        format!(
            "[acme]\nstate = \"/nonexistent\"\nchallenge = \"{challenge}\"\n[listener.plain]\nbind = [\"127.0.0.1:80\"]\n\
             [listener.web]\nbind = [\"127.0.0.1:443\"]\ntls = {{ self_signed = true }}\n\
             [listener.db]\nbind = [\"127.0.0.1:5433\"]\nmode = \"tcp\"\npool = \"web\"\n\
             tls = {{ certificates = [{{ acme = [\"db.example.com\"] }}] }}\n\
             [[route]]\npool = \"web\"\n[pool.web]\nendpoints = [\"127.0.0.1:2\"]\n"
        )
    };
    for (challenge, answers) in [("tls-alpn-01", true), ("http-01", false)] {
        let plan = evenkeel_config::parse_str("test", &text(challenge), &|_| None).plan.expect("a good file");
        let store = Store::default().next(&plan).expect("nothing to read");
        for (name, _, current) in store.listeners() {
            let is_asked = current.get().alpn_protocols.iter().any(|protocol| protocol == b"acme-tls/1");
            assert_eq!(is_asked, answers && &**name == "web", "{name} by {challenge}");
        }
    }
}
