//! Matches that are joined, and conditions that exclude each other.

use super::*;

fn path(test: Test) -> Match {
    Match::of([Cond::new(Key::Path, test)])
}

#[test]
fn a_list_and_a_text_of_one_field_are_not_excluded_together() {
    let field = |test| Match::of([Cond::new(Key::Header("X-Key".to_string()), test).negate()]);
    let list = field(Test::OneOf(vec!["s".to_string()]));
    assert_eq!(list.and(&field(Test::Begins("v".to_string()))), Err(Apart::Unwritable));
    assert!(list.and(&field(Test::OneOf(vec!["t".to_string()]))).is_ok());
    let absent = field(Test::Present);
    assert_eq!((list.and(&absent), absent.and(&list)), (Ok(absent.clone()), Ok(absent.clone())));
    let present = Match::of([Cond::one_of(Key::Header("X-Key".to_string()), ["s"])]);
    assert_eq!((present.and(&absent), absent.and(&present)), (Err(Apart::Never), Err(Apart::Never)));
    let ends = field(Test::Ends("min".to_string()));
    let is = Match::of(ends.conds.iter().cloned().map(Cond::negate));
    assert!(absent.is_apart(&is) && is.is_apart(&absent) && absent.implies(&ends) && !ends.implies(&absent));
}

#[test]
fn conditions_are_joined_or_found_impossible() {
    let api = path(Test::Begins("/api".into()));
    let v1 = path(Test::Begins("/api/v1".into()));
    assert_eq!(api.and(&v1), Ok(v1.clone()));
    assert_eq!(v1.and(&api), Ok(v1));
    assert_eq!(api.and(&path(Test::Begins("/img".into()))), Err(Apart::Never));
    assert_eq!(path(Test::OneOf(vec!["/x".into()])).and(&api), Err(Apart::Never));
    let hosts = |hosts: &[&str]| Match::of([Cond::one_of(Key::Host, hosts.iter().copied())]);
    assert_eq!(hosts(&["a.b", "c"]).and(&hosts(&["*.b"])), Ok(hosts(&["a.b"])));
    assert_eq!(hosts(&["a"]).and(&hosts(&["c"])), Err(Apart::Never));
    let not = Match::of([Cond::one_of(Key::Host, ["a"]).negate()]);
    assert_eq!(hosts(&["a"]).and(&not), Err(Apart::Never));
}

#[test]
fn several_negated_paths_become_one_expression() {
    let both = Match::of([
        Cond::new(Key::Path, Test::Ends(".php".into())).negate(),
        Cond::new(Key::Path, Test::Below("/x".into())).negate(),
    ]);
    let table = both.table();
    let Some(Value::Table(not)) = table.get("not") else { panic!("{table:?}") };
    assert_eq!(not.get("regex"), Some(&".*\\.php|/x(/.*)?".into()));
}
