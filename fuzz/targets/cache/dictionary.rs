//! Dictionaries of structured fields: any bytes are refused, or read again the same once they are written out; and two
//! lines read as one line that joins them.
#![no_main]

use evenkeel_cache::syntax::directives::Directives;
use evenkeel_cache::syntax::structured::{Value, dictionary};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lines = || bytes.split(|b| *b == b'\n');
    let read = dictionary(lines());
    let joined = lines().collect::<Vec<_>>().join(&b", "[..]);
    assert_eq!(dictionary([&joined[..]].into_iter()), read);
    let targeted = Directives::of_targeted(lines());
    let Some(members) = read else { return assert_eq!(targeted, None) };
    let write = |(key, value): &(String, Value)| match value {
        Value::Integer(number) => Some(format!("{key}={number}")),
        Value::Text(text) => Some(format!("{key}=\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
        Value::Token(token) => Some(format!("{key}={token}")),
        Value::Boolean(is) => Some(format!("{key}=?{}", u8::from(*is))),
        Value::Other => None,
    };
    let Some(written) = members.iter().map(write).collect::<Option<Vec<_>>>() else { return };
    assert_eq!(dictionary([written.join(",").as_bytes()].into_iter()), Some(members));
});
