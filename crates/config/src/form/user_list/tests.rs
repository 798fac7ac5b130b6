//! Good lines are read, and each wrong line is named without its text.

use super::*;

const BCRYPT: &str = "$2y$05$......................21jzCB1r6pN6rp5O2Ev0ejjTAboskKm";
const ARGON2: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";

#[track_caller]
fn refuses(text: &str, part: &str) {
    let said = user_list("f", text.as_bytes()).expect_err(text);
    assert!(said.contains(part), "{part}: {said}");
}

#[test]
fn reads_users_with_each_kind_of_hash() {
    let sha256 = format!("$5$rounds=5000$saltstring${}", "a".repeat(43));
    let sha512 = format!("$6$saltstring${}", "a".repeat(86));
    let text = format!("# staff\r\nann:{BCRYPT}\r\nbö b:{ARGON2}\ncy:{sha256}\ndi:{sha512}");
    let users = user_list("f", text.as_bytes()).expect("all are good");
    assert_eq!(users.len(), 4);
    assert_eq!(users[&b"ann"[..]], BCRYPT);
    assert_eq!(users["bö b".as_bytes()], ARGON2);
    assert_eq!((&*users[&b"cy"[..]], &*users[&b"di"[..]]), (&*sha256, &*sha512));
}

#[test]
fn weak_hashes_are_refused_with_the_command_for_a_better_one() {
    for (hash, part) in [
        ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "f:1: {SHA} is"),
        ("$apr1$abc$def", "f:1: MD5 is"),
        ("$1$abc$def", "f:1: MD5 is"),
        ("rqXexS6ZhobKA", "f:1: the hash is not of bcrypt"),
        ("secret", "f:1: the hash is not of bcrypt"),
        ("$argon2i$v=19$m=8,t=1,p=1$a$b", "f:1: the hash is not of bcrypt"),
    ] {
        refuses(&format!("ann:{hash}"), part);
        refuses(&format!("ann:{hash}"), "htpasswd -B");
    }
}

#[test]
fn malformed_lines_are_named_and_never_repeated() {
    let good = format!("ann:{BCRYPT}\n");
    for (line, part) in [
        ("", "f:2: the line is empty"),
        (" ", "f:2: the line is empty"),
        ("hunter2", "f:2: the line has no colon"),
        (":hunter2", "f:2: a name has"),
        ("a\tb:hunter2", "f:2: a name has"),
        ("bob:", "f:2: the hash is not"),
        ("bob:$2y$05$hunter2", "f:2: the hash is malformed"),
        ("bob:$2y$31$......................21jzCB1r6pN6rp5O2Ev0ejjTAboskKm", "f:2: the cost 31"),
        ("bob:$6$rounds=999999999$a$b", "f:2: the rounds are not"),
        ("bob:$6$rounds=+5000$a$b", "f:2: the rounds are not"),
        ("bob:$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$hunter2", "f:2: a password would cost"),
        ("bob:$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$hunter2", "f:2: the hash is malformed"),
    ] {
        let said = user_list("f", format!("{good}{line}\n").as_bytes()).expect_err(line);
        assert!(said.starts_with(part) && !said.contains("hunter2"), "{part}: {said}");
    }
    refuses(&format!("{good}bob:{BCRYPT}\n# x\n{good}"), "f:4: the name is on line 1 already");
    refuses("", "f:1: the line is empty");
    refuses("# none", "f has no users");
    let many = user_list("f", "x\n".repeat(50).as_bytes()).expect_err("all are wrong");
    assert!(many.lines().count() == 11 && many.ends_with("f: and 40 more lines"), "{many}");
    assert_eq!(user_list("f", &vec![b'#'; USER_LIST_MAX + 1]), Err("f is larger than 1 MiB".to_string()));
}
