//! Entries of a JSON list from a registry. Each entry is read separately, so that a bad entry is named and left out.

use crate::kept::List;
use evenkeel_config::endpoint_list;
pub use evenkeel_config::entry::{address, is_name, quoted, zone};
use evenkeel_config::plan::{Address, Endpoint};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::net::SocketAddr;

/// Reads an array of entries. `read` returns the endpoint of an entry, `None` for an entry to skip, or the reason why
/// the entry is left out.
///
/// # Errors
/// The text is not an array.
pub fn entries<T: DeserializeOwned>(
    text: &[u8],
    read: impl FnMut(T) -> Result<Option<Endpoint>, String>,
) -> Result<List, String> {
    let all: Vec<&RawValue> =
        serde_json::from_slice(text).map_err(|error| format!("it gave no JSON array: {error}"))?;
    Ok(each(&all, read))
}

/// Reads entries that are known to be JSON.
pub fn each<T: DeserializeOwned>(
    all: &[&RawValue],
    mut read: impl FnMut(T) -> Result<Option<Endpoint>, String>,
) -> List {
    let mut list = List::default();
    for raw in all {
        let read = serde_json::from_str(raw.get()).map_err(|error| error.to_string()).and_then(&mut read);
        match read {
            Ok(Some(endpoint)) => list.endpoints.push(endpoint),
            Ok(None) => {}
            Err(why) => list.skipped.push(format!("{}: {why}", quoted(raw.get()))),
        }
    }
    list
}

/// Endpoint at an address, by a name that stays when the address changes; by its address if no endpoint can have that name.
pub fn endpoint(name: &str, addr: SocketAddr) -> Endpoint {
    let named = if is_name(name) { name.into() } else { addr.to_string().into() };
    Endpoint { name: named, addr: Address::Ip(addr), ..Endpoint::at(addr) }
}

/// Endpoint of an entry in the format of a pool's `endpoints`.
///
/// # Errors
/// The first reason that the configuration would report.
pub fn of_pool(entry: &Value) -> Result<Endpoint, String> {
    let text = Value::Array(vec![entry.clone()]).to_string();
    let one = endpoint_list("the list.json", &text);
    let one = one.map_err(|wrong| wrong.first().map_or_else(String::new, |first| first.message.clone()))?;
    one.into_iter().next().ok_or_else(|| "this is not an endpoint".to_owned())
}

/// Weight of an endpoint.
///
/// # Errors
/// The weight is larger than endpoints can have.
pub fn weight(weight: u64) -> Result<u16, String> {
    u16::try_from(weight).map_err(|_| format!("weight {weight} is not from 0 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Entry {
        host: String,
        port: u64,
    }

    #[test]
    fn bad_entries_are_named_and_the_others_count() {
        let text = br#"[{"host":"10.0.0.1","port":1},{"host":"10.0.0.1","port":0},{"host":"a.inside","port":1},
            {"host":"::","port":1},{"host":"","port":1},{"port":1},7,{"host":"fd00::1","port":65535},{"host":"10.0.0.1","port":65536}]"#;
        let read = |entry: Entry| Ok(Some(endpoint("", address(&entry.host, entry.port)?)));
        let list = entries(text, read).expect("an array");
        let names: Vec<&str> = list.endpoints.iter().map(|e| &*e.name).collect();
        assert_eq!(names, ["10.0.0.1:1", "[fd00::1]:65535"]);
        let reasons = [
            "0 is not a port",
            "\"a.inside\" is not an IP address",
            ":: is not the address of one machine",
            "it has no address",
            "missing field `host`",
            "expected struct Entry",
            "65536 is not a port",
        ];
        assert_eq!(list.skipped.len(), reasons.len());
        for (why, reason) in list.skipped.iter().zip(reasons) {
            assert!(why.contains(reason), "{why}: {reason}");
        }
        for text in ["", "{}", "null", "[", "[1,]"] {
            assert!(entries(text.as_bytes(), |_: u8| Ok(None)).is_err(), "{text}");
        }
    }

    #[test]
    fn names_that_endpoints_cannot_have_become_addresses() {
        let addr = "10.0.0.1:1".parse().expect("an address");
        for (name, named) in
            [("a", "a"), ("", "10.0.0.1:1"), ("a b", "10.0.0.1:1"), (&"a".repeat(129)[..], "10.0.0.1:1")]
        {
            assert_eq!(&*endpoint(name, addr).name, named);
        }
    }
}
